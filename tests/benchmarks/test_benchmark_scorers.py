"""The comparison with labelled answers: known counts, bad files, and no scorer that falls behind what it reached."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import REPOSITORY
from sklearn.metrics import f1_score, precision_recall_fscore_support

from benchmarks.scorers.__main__ import GOLD, main
from benchmarks.scorers.measure import MAPPED, agreement, f1, read_gold
from fp2.compose import load_config
from fp2.scorers.confidence import Confidence
from fp2.scorers.lexicon import agreement_of
from fp2.scorers.registry import build_scorers

FLOORS = {"refusal": 0.95, "valence_context": 0.86, "stereotype": 0.83, "confidence": 0.9, "economic": 0.8}
"""F1 on the 567 held answers, which nothing was fitted to; a change that makes them worse is noticed."""


def row(number: int, text: str, **labels: Any) -> dict[str, Any]:
    usual = {"refusal": 0, "valence": 0, "stereotype": 0, "confidence": 0, "economic": None}
    return {"id": f"x{number}", "probe": "occupation", "text": text, **usual, **labels}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def test_f1_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    read, true = rng.integers(-1, 2, 300).astype(float), rng.integers(-1, 2, 300).astype(float)
    assert f1(read, true, (-1, 0, 1)) == pytest.approx(f1_score(true, read, average="macro"))


def test_precision_recall_and_coverage_of_known_answers(tmp_path: Path) -> None:
    texts = ["Maybe a nurse.", "A nurse.", "Certainly a nurse.", "Perhaps, no doubt.", "I cannot say."]
    labels = [-1, 0, 1, -1, None]
    rows = [row(i, text, confidence=label) for i, (text, label) in enumerate(zip(texts, labels, strict=True))]
    rows[4]["refusal"] = 1
    found = agreement("confidence", Confidence(), read_gold(write(tmp_path / "a.jsonl", rows)))
    assert (found.n, found.coverage.hits, found.coverage.n) == (4, 3, 4)
    want = precision_recall_fscore_support([-1, 0, 1, -1], [-1, 0, 1, 1], labels=[-1, 0, 1])
    for place, value in enumerate((-1, 0, 1)):
        precision, recall = found.classes[value]
        assert (precision.value, recall.value) == (want[0][place], want[1][place])
    assert found.f1[0] == pytest.approx(want[2].mean())
    assert found.wrong == [3]


def test_a_missing_value_is_a_miss_and_a_value_too_many_a_false_alarm() -> None:
    nan = float("nan")
    read = MAPPED["economic"].read(np.array([1.0, nan, 0.0, nan, 0.5]))
    np.testing.assert_array_equal(read, [1, nan, 0, nan, 1])
    true = np.array([1.0, 1.0, 0.0, nan, nan])
    assert f1(read, true, (1,)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("line", "says"), [("{", "not a labelled answer"), ('{"id": 1}', "not a labelled answer"), ("", "no answer")]
)
def test_a_file_that_is_no_gold_set_is_one_line(
    tmp_path: Path, line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line, encoding="utf-8")
    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "\n" not in error.strip()


def test_a_label_outside_its_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is no label of economic"):
        read_gold(write(tmp_path / "a.jsonl", [row(1, "x", economic=3)]))


@pytest.mark.thorough
@pytest.mark.parametrize("held", sorted(GOLD.glob("held*.jsonl")), ids=lambda path: path.stem)
def test_the_scorers_reach_on_the_held_answers_what_the_page_says(
    held: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(held)]) == 0
    printed = capsys.readouterr().out.splitlines()
    found = json.loads(printed[-1])[held.stem]
    assert set(found) == set(MAPPED)
    for name, floor in FLOORS.items():
        assert held.stem != "held5" or found[name]["f1"] >= floor, name
    stated = json.loads((REPOSITORY / "docs" / "scorers.json").read_text(encoding="utf-8"))[held.stem]
    assert {name: one["f1"] for name, one in stated.items()} == pytest.approx(
        {name: one["f1"] for name, one in found.items()}, abs=0.001
    )
    if held.stem != "held5":
        return
    page = (REPOSITORY / "docs" / "scorers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \(([\d.]+) to ([\d.]+)\) \| (\d+) % \|$", page, re.M)
    assert {name: tuple(numbers) for name, *numbers in rows} == {
        name: (*(f"{one[key]:.2f}" for key in ("f1", "f1_low", "f1_high")), f"{100 * one['coverage']:.0f}")
        for name, one in found.items()
    }
    scorers = build_scorers(load_config([]).scorer)
    records = {name: agreement_of(scorers[name].lexicon) or {} for name in MAPPED}
    for key in ("n", "r", "same"):
        recorded = {name: record[key] for name, record in records.items()}
        assert recorded == {name: round(found[name][key], 2) for name in MAPPED}, key
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for record in (records["valence_context"], records["valence"]):
        assert f"r = {record['r']:.2f}, {100 * record['same']:.0f} %" in readme
