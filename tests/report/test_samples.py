"""The sample of answers: by probe, group and refusal; small groups are not named, no id is in it."""

from __future__ import annotations

import pandas as pd

from fp2.ask.answers import RowAnswers, RunTables
from fp2.cuts import Cut
from fp2.report.samples import sample_answers

CUT = Cut("region", ("region",))


def tables(n: int = 40) -> RunTables:
    """People of two groups of 12 or more and one of 4; every fifth answer a refusal."""
    regions = ["N" if i < 20 else "S" if i < n - 4 else "W" for i in range(n)]
    people = pd.DataFrame({
        "image_id": [f"i{i}" for i in range(n)], "subject_id": [f"s{i}" for i in range(n)], "set_id": None,
        "attr_region": [[region] for region in regions],
    })  # fmt: skip
    frame = pd.DataFrame({
        "response_key": [f"{(i * 7919) % 1009:04d}" for i in range(n)], "image_id": people["image_id"],
        "subject_id": people["subject_id"], "variant": "original", "question_id": "trust", "probe": "trust",
        "text": [f"text {i}" for i in range(n)], "status": "answered", "refused": [i % 5 == 0 for i in range(n)],
    })  # fmt: skip
    scores = pd.DataFrame({"response_key": frame["response_key"], "scorer": "valence", "value": range(n)})
    return RunTables(people, RowAnswers(frame), scores)


def test_each_group_has_answers_and_refusals_and_the_small_one_no_name() -> None:
    rows = sample_answers(tables(), [CUT], "valence", 3, 10)
    counts = pd.DataFrame([{**row, "group": row["groups"]["region"]} for row in rows]).value_counts(
        ["group", "refused"]
    )
    assert counts.to_dict() == {("N", False): 3, ("N", True): 3, ("S", False): 3, ("S", True): 3}
    assert all(row["groups"]["region"] != "W" for row in rows)
    assert all(row["value"] == int(row["text"].split()[1]) for row in rows)
    assert not any("i1" in str(row.values()) or "s1" in str(row.values()) for row in rows)


def test_the_sample_does_not_depend_on_the_order_of_rows() -> None:
    one = tables()
    shuffled = RunTables(one.people, RowAnswers(one.answers.frame.sample(frac=1, random_state=1)), one.scores)
    assert sample_answers(one, [CUT], "valence", 2, 10) == sample_answers(shuffled, [CUT], "valence", 2, 10)


def test_none_is_asked_for_and_a_run_without_texts() -> None:
    assert sample_answers(tables(), [CUT], "valence", 0, 10) == []
    people = tables().people
    assert sample_answers(RunTables(people, RowAnswers.none(), None), [CUT], "valence", 3, 10) == []
