"""Scores as one column per probe and scorer: several questions of a probe, of which some were refused."""

from __future__ import annotations

import pandas as pd
import pytest

from fp2.scorers.outcomes import outcome_columns, value_ranges
from fp2.tables import sample_id


def scores(refused: set[tuple[str, str]]) -> pd.DataFrame:
    """Three images that agree on two questions of different means."""
    lines = [(image, question) for image in "abc" for question in ("easy", "hard")]
    return pd.DataFrame(
        {
            "image_id": [image for image, _ in lines],
            "subject_id": [image for image, _ in lines],
            "probe": "trust",
            "scorer": "valence",
            "question_id": [question for _, question in lines],
            "value": [0.9 if question == "easy" else -0.3 for _, question in lines],
            "refused": [line in refused for line in lines],
        }
    )


def test_a_refused_question_changes_no_score_of_an_image_that_agrees_with_the_others() -> None:
    wide = outcome_columns(scores({("a", "easy"), ("b", "hard")}))
    assert wide["trust", "valence"].tolist() == pytest.approx([0.3] * 3)
    complete = outcome_columns(scores(set()))
    assert complete["trust", "valence"].tolist() == pytest.approx([0.3] * 3)


def test_samples_are_averaged_within_their_question_whatever_is_missing() -> None:
    """One image refused a sample of the hard question: it weighs as much as the easy one all the same."""
    table = scores(set())
    again = table.assign(
        question_id=table["question_id"].map(lambda name: sample_id(name, 1)), value=table["value"] + 0.2
    )
    both = pd.concat([table, again], ignore_index=True)
    both.loc[(both["image_id"] == "a") & (both["question_id"] == sample_id("hard", 1)), "refused"] = True
    assert outcome_columns(both)["trust", "valence"].tolist() == pytest.approx([0.35, 0.4, 0.4])


def test_an_adjusted_score_may_leave_its_scale_and_widens_it() -> None:
    table = scores({("a", "hard")})
    table.loc[table["image_id"] == "a", "value"] = 1.0
    values = outcome_columns(table).to_numpy()
    assert values.max() == pytest.approx(0.4)
    table.loc[table["question_id"] == "hard", "value"] = 1.0
    table.loc[(table["question_id"] == "easy") & (table["image_id"] != "a"), "value"] = -1.0
    values = outcome_columns(table).to_numpy()
    assert values.max() == pytest.approx(2.0)
    assert value_ranges(values, [(-1.0, 1.0)]) == [(-1.0, pytest.approx(2.0))]
