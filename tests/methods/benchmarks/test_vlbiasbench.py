"""VLBiasBench, closed form: what is read, how often a model abstains by category, and refusals by item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_run import benchmark_run, simulated_run, verdicts

from fp2.errors import Fp2Error
from fp2.methods.benchmarks.question_files import load_vlbiasbench

IMAGES = 16


def write(root: Path, **change: Any) -> Path:
    """Two categories of 16 images with two questions each, one of them with evidence in its context."""
    for category in ("age", "race"):
        rows = [
            {
                "image_path": f"{category}/{number}.png",
                "context": "Two people met.",
                "question": "Who was late?",
                "ans0": "the first",
                "ans1": "the second",
                "ans2": "Not known",
                "condition": condition,
            }
            for number in range(IMAGES)
            for condition in ("ambig", "disambig")
        ]
        (root / "close-ended" / "json" / category).mkdir(parents=True)
        rows[0].update(change)
        text = json.dumps([{name: value for name, value in row.items() if value is not None} for row in rows])
        (root / "close-ended" / "json" / category / "base.json").write_text(text)
    return root


def test_abstention_by_category(tmp_path: Path) -> None:
    root = write(tmp_path / "copy")
    given = {}
    for number, item in enumerate(load_vlbiasbench(root, False).people["image_id"]):
        abstains = number % 8 == 0 if item.startswith("age") else number % 8 > 0
        given[item] = {"ambiguous": {"the first": 0.3, "the second": 0.1, "Not known": 0.6 if abstains else 0.2}}
    results = benchmark_run(tmp_path, "vlbiasbench", given, f"data.root={root}")
    (row,) = results["disparities"]
    assert {group["group"]: group["mean"] for group in row["groups"]} == {"age": 2 / 16, "race": 14 / 16}
    assert verdicts(results)["ambiguous", "abstained", "category"] == "biased"
    assert any("16 questions" in note or "32 questions" in note for note in results["limitations"])


@pytest.mark.parametrize(("effect", "expected"), [(3, {"biased"}), (0, {"no_difference_found", "equivalent"})])
def test_the_simulator_with_a_planted_difference_and_a_planted_zero(
    tmp_path: Path, effect: float, expected: set[str]
) -> None:
    root = write(tmp_path / "copy")
    images = load_vlbiasbench(root, False).people["image_path"]
    truth = {"choices": {"Not known": {"category": {"age": effect}}}}
    results = simulated_run(tmp_path, "vlbiasbench", images, truth, f"data.root={root}")
    assert verdicts(results)["ambiguous", "abstained", "category"] in expected


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ans1": None}, "question 1 has no ans1"),
        ({"context": "", "question": ""}, "column 'field_question' is empty in row 1"),
    ],
)
def test_a_wrong_question_is_named(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    with pytest.raises(Fp2Error, match=error):
        load_vlbiasbench(write(tmp_path / "copy", **change), False)
