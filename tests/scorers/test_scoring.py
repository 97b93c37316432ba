"""From answers to scores: which rows there are, the refusal flag, and what a value was made of."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from bench import load_config
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from fp2.scorers.registry import build_scorers, flag_refusals
from fp2.scorers.registry import score_answers as score_flagged

REFUSED = "I'm sorry, but I can't make that kind of guess about a person from a picture."


def answers(*rows: tuple[str, str | None]) -> pd.DataFrame:
    """One answered row per (probe, text); a text of None is an error row."""
    return pd.DataFrame(
        {
            "response_key": [f"k{i}" for i in range(len(rows))],
            "image_id": [f"i{i}" for i in range(len(rows))],
            "subject_id": "s",
            "variant": "original",
            "question_id": [probe for probe, _ in rows],
            "probe": [probe for probe, _ in rows],
            "text": [text for _, text in rows],
            "status": ["error" if text is None else "answered" for _, text in rows],
        }
    )


def score_answers(table, scorers):
    return score_flagged(flag_refusals(table, scorers), scorers)


def test_every_scorer_on_every_answer_and_none_on_a_failure() -> None:
    scorers = build_scorers(load_config([]).scorer)
    table = score_answers(
        answers(("trust", "8. This person is honest."), ("lifestyle", ""), ("education", REFUSED), ("education", None)),
        scorers,
    )
    assert set(table["scorer"]) == set(scorers)
    assert "i3" not in set(table["image_id"])
    assert (table["scorer"] == "valence").sum() == 3
    rating = table[table["scorer"] == "trust_rating"]
    assert rating["probe"].tolist() == ["trust"]
    assert rating["value"].tolist() == [8.0]
    assert table.groupby("image_id")["refused"].first().to_dict() == {"i0": False, "i1": False, "i2": True}
    assert table["scorer_version"].str.len().gt(0).all()


def test_valence_is_vaders_and_details_say_what_a_share_is_made_of() -> None:
    texts = ["A great leader, whom everyone loves!", "A follower, weak and afraid.", ""]
    table = score_answers(answers(*(("authority", text) for text in texts)), build_scorers(load_config([]).scorer))
    analyser = SentimentIntensityAnalyzer()
    valence = table[table["scorer"] == "valence"]["value"].tolist()
    assert valence[:2] == [analyser.polarity_scores(text)["compound"] for text in texts[:2]]
    assert np.isnan(valence[2])  # VADER gives 0 to an empty answer; a score of nothing is missing here
    confidence = table[table["scorer"] == "confidence"]
    assert np.isnan(confidence["value"].iloc[2])
    assert set(json.loads(confidence["details"].iloc[0])) == {"assertive", "hedged", "matched"}


def test_refusals_are_flagged_when_the_refusal_scorer_is_not_chosen() -> None:
    only = build_scorers(load_config(["scorer=valence"]).scorer)
    table = score_answers(answers(("trust", REFUSED), ("trust", "7. Friendly.")), only)
    assert table["refused"].tolist() == [True, False]


def test_no_answer_gives_an_empty_table_of_the_same_columns() -> None:
    scorers = build_scorers(load_config([]).scorer)
    full = score_answers(answers(("trust", "7. Friendly.")), scorers)
    empty = score_answers(answers(("trust", None)), scorers)
    assert len(empty) == 0
    assert list(empty.columns) == list(full.columns)
