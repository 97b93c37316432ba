"""The plan: every stimulus once, a row for each row of the people table, stimuli of one file together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fp2.ask.plan import Plan, make_plan
from fp2.data.stimuli import Stimulus
from fp2.tables import Question

QUESTIONS = (Question("a", "a", "What?"), Question("b", "b", "Who?"))
PEOPLE = pd.DataFrame({"image_id": ["i0", "i1", "i2"], "subject_id": ["s0", "s1", "s2"]})


def shown(variant: str, error: int | None = None) -> list[Stimulus]:
    return [
        Stimulus(f"i{k}", f"s{k}", Path(f"i{k}.png"), f"{k}", variant=variant, error="no box" if k == error else None)
        for k in range(3)
    ]


def plan_of(*, by_file: bool) -> Plan:
    variants = [(PEOPLE, "original", shown("original")), (PEOPLE, "masked", shown("masked", error=1))]
    return make_plan(variants, QUESTIONS, by_file=by_file)


@pytest.mark.parametrize("by_file", [False, True])
def test_every_row_has_its_stimulus_or_the_reason_why_not(by_file: bool) -> None:
    plan = plan_of(by_file=by_file)
    assert [(row.image_id, row.variant) for row in plan.rows] == [
        (f"i{k}", variant) for variant in ("original", "masked") for k in range(3)
    ]
    for row in plan.rows:
        if (row.image_id, row.variant) == ("i1", "masked"):
            assert (row.task, row.error) == (-1, "no box")
        else:
            task = plan.tasks[row.task]
            assert (task.image_id, task.variant, task.path.name) == (row.image_id, row.variant, f"{row.image_id}.png")
    assert (plan.n_planned, plan.n_not_shown) == (12, 1)


def test_stimuli_of_one_file_follow_each_other_where_that_is_asked_for() -> None:
    order = {by_file: [task.path.name for task in plan_of(by_file=by_file).tasks] for by_file in (False, True)}
    assert order[False] == ["i0.png", "i1.png", "i2.png", "i0.png", "i2.png"]
    assert order[True] == ["i0.png", "i0.png", "i1.png", "i2.png", "i2.png"]


def test_one_stimulus_for_several_rows_is_asked_about_once() -> None:
    same = [Stimulus("grey", "nobody", Path("grey.png"), "g", variant="grey")] * 3
    plan = make_plan([(PEOPLE, "grey", same)], QUESTIONS)
    assert len(plan.tasks) == 1
    assert [row.task for row in plan.rows] == [0, 0, 0]
    assert [row.image_id for row in plan.rows] == ["i0", "i1", "i2"]
