"""The sample of answers: by probe, group and refusal; small groups are not named, no id is in it."""

from __future__ import annotations

import pandas as pd

from fp2.ask.answers import RowAnswers, RunTables
from fp2.cuts import Cut
from fp2.report.samples import MOST_RUNS, sample_answers, sample_side_by_side

CUT = Cut("region", ("region",))


def tables(n: int = 40) -> RunTables:
    """People of two groups of 12 or more and one of 4; every fifth answer a refusal."""
    regions = ["N" if i < 20 else "S" if i < n - 4 else "W" for i in range(n)]
    people = pd.DataFrame(
        {
            "image_id": [f"i{i}" for i in range(n)],
            "subject_id": [f"s{i}" for i in range(n)],
            "set_id": None,
            "attr_region": [[region] for region in regions],
        }
    )
    frame = pd.DataFrame(
        {
            "response_key": [f"{(i * 7919) % 1009:04d}" for i in range(n)],
            "image_id": people["image_id"],
            "subject_id": people["subject_id"],
            "variant": "original",
            "question_id": "trust",
            "probe": "trust",
            "text": [f"text {i}" for i in range(n)],
            "status": "answered",
            "refused": [i % 5 == 0 for i in range(n)],
        }
    )
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
    assert all(row["image"].startswith("i") for row in rows)
    assert not any("s1" in str(row.values()) for row in rows)


def test_the_sample_does_not_depend_on_the_order_of_rows() -> None:
    one = tables()
    shuffled = RunTables(one.people, RowAnswers(one.answers.frame.sample(frac=1, random_state=1)), one.scores)
    assert sample_answers(one, [CUT], "valence", 2, 10) == sample_answers(shuffled, [CUT], "valence", 2, 10)


def test_none_is_asked_for_and_a_run_without_texts() -> None:
    assert sample_answers(tables(), [CUT], "valence", 0, 10) == []
    people = tables().people
    assert sample_answers(RunTables(people, RowAnswers.none(), None), [CUT], "valence", 3, 10) == []


def answered(one: RunTables, words: str) -> RunTables:
    frame = one.answers.frame.assign(text=[f"{words} {i}" for i in range(len(one.answers.frame))])
    return RunTables(one.people, RowAnswers(frame), one.scores)


def test_answers_of_several_runs_are_to_the_same_question_about_the_same_image() -> None:
    first, second = answered(tables(), "a"), answered(tables(), "b")
    fewer = RunTables(second.people, RowAnswers(second.answers.frame.iloc[5:]), second.scores)
    found = sample_side_by_side([(first, [CUT], "valence"), (fewer, [CUT], "valence")], ["trust"], 3, 10)
    assert found["runs"] == [0, 1]
    pairs = [[answer["text"] for answer in row["answers"]] for row in found["rows"]]
    assert all(a.split()[1] == b.split()[1] and (a[0], b[0]) == ("a", "b") for a, b in pairs)
    assert all(int(a.split()[1]) >= 5 for a, _ in pairs)
    groups = pd.DataFrame(
        [{"group": row["groups"]["region"], "no": row["answers"][0]["refused"]} for row in found["rows"]]
    )
    assert groups.value_counts().to_dict() == {("N", False): 3, ("N", True): 3, ("S", False): 3, ("S", True): 3}
    assert not any("i1" in str(row) or "s1" in str(row) for row in found["rows"])  # no ids


def test_runs_that_share_no_question_are_not_side_by_side() -> None:
    first = (tables(), [CUT], "valence")
    others = tables()
    elsewhere = others.answers.frame.assign(image_id=[f"x{i}" for i in range(40)])
    strangers = (RunTables(others.people, RowAnswers(elsewhere), others.scores), [CUT], "valence")
    assert sample_side_by_side([first, strangers], ["trust"], 3, 10) == {"runs": [], "rows": []}
    assert sample_side_by_side([first, first], ["other"], 3, 10)["rows"] == []
    assert len(sample_side_by_side([first] * (MOST_RUNS + 3), ["trust"], 3, 10)["runs"]) == MOST_RUNS
