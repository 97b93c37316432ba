"""The benchmarks of drafts and of precisions, in small: texts are as prescribed, and changes are counted."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY
from tolerances import epsilons


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(REPOSITORY / "benchmarks"), *sys.path])


def test_the_best_with_drafts_is_compared_with_the_best_without() -> None:
    import drafted_generation

    found = {1: {"seconds": {"plain": 9.0, "drafted": 4.0}}, 4: {"seconds": {"plain": 6.0, "drafted": 5.0}}}
    assert drafted_generation.best(found) == {
        "together": {"plain": 4, "drafted": 1},
        "seconds": {"plain": 6.0, "drafted": 4.0},
        "ratio": 1.5,
    }


def test_changes_of_precision_are_counted() -> None:
    import low_precision

    def run(p_yes: list[float], significant: list[bool], p: list[list[float]]) -> Any:
        answers = pd.DataFrame({"image_id": ["b", "a"], "template": "T1", "trait": "kind", "p_yes": p_yes})
        tests = {"region": {"significant": significant, "p_value": p}}
        return SimpleNamespace(answers=answers, results={"gras": {"units": {"images": {"tests": tests}}}})

    found = low_precision.compare(
        run([0.2, 0.45], [True, False], [[0.01, 0.04], [0.06, 0.9]]),
        run([0.3, 0.55], [True, True], [[0.01, 0.06], [0.04, 0.03]]),
    )
    assert found["largest_change"] == pytest.approx(0.1)
    assert (found["answers"], found["crossed_one_half"]) == (2, 0.5)
    assert list(found["cells"].values()) == [2, 1, 1, 0]
    assert list(found["tests"].values()) == [4, 2, 2, 1]


def test_several_images_in_a_pass_and_a_thread_in_advance_change_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    import image_passes

    assert image_passes.main(["--images", "3", "--large", "2", "--turns", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"several_images", "beside"}
    assert all(one["largest_change"] < epsilons(64) and one["ratio"] > 0 for one in found.values())
