"""The run of `make run` on the bundled model: planted effects are found, as docs/methods/peeps.md shows."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, environment

from benchmarks.planted_effects import expected_effects
from fp2.methods.peeps.bundled import load_planted

pytestmark = pytest.mark.long
ATTRIBUTES = ("region", "pronoun", "age", "skin_tone")


def launch(root: Path, *overrides: str) -> tuple[str, dict]:
    """Run `launch.py` with everything below `root`; return its output and its results."""
    env = {**environment(root), "HF_HUB_OFFLINE": "1", "COLUMNS": "110"}
    command = [sys.executable, str(REPOSITORY / "launch.py"), *overrides]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    path = re.search(r"^results +(\S+)$", done.stdout, re.MULTILINE)
    assert path is not None, done.stdout
    return done.stdout, json.loads(Path(path.group(1)).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("default-run")


@pytest.fixture(scope="module")
def default_run(root: Path) -> tuple[str, dict]:
    return launch(root)


@pytest.fixture(scope="module")
def planted() -> Any:
    """The effects that the model was trained to show, one per probe and attribute."""
    return expected_effects(load_planted())


@pytest.fixture(scope="module")
def rows(default_run: tuple[str, dict]) -> dict[tuple[str, str], dict]:
    found = default_run[1]["disparities"]
    return {(row["probe"], row["cut"]): row for row in found if row["scorer"] == "valence_context"}


def test_everything_is_asked_and_answered(default_run: tuple[str, dict]) -> None:
    answers = default_run[1]["answers"]
    assert answers["planned"] == answers["answered"] == 400 * 3 * 6
    assert answers["failed"] == 0
    assert 0 < answers["refused"] < answers["answered"] / 4
    assert default_run[1]["n_subjects"] == 400


def test_output_names_dashboard_and_ui(default_run: tuple[str, dict]) -> None:
    output = default_run[0]
    dashboard = re.search(r"^dashboard +(\S+)$", output, re.MULTILINE)
    assert dashboard is not None
    assert Path(dashboard.group(1)).is_file()
    assert re.search(r"^MLflow +fp2 ui", output, re.MULTILINE)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_planted_effects_are_found_with_their_worst_group(
    attribute: str, rows: dict[tuple[str, str], dict], planted: Any
) -> None:
    effects = [e for e in planted if e.attribute == attribute and e.planted]
    assert len(effects) >= 2
    for effect in effects:
        row = rows[effect.probe, attribute]
        assert row["verdict"] == "biased", (effect.probe, row["raw"], row["adjusted_p"])
        assert row["worst_group"] == effect.worst
        assert row["ci_low"] <= effect.disparity <= row["ci_high"]


def test_planted_zeros_are_not_called_biased(rows: dict[tuple[str, str], dict], planted: Any) -> None:
    zeros = [e for e in planted if not e.planted]
    assert len(zeros) == 12
    assert [(e.probe, e.attribute) for e in zeros if rows[e.probe, e.attribute]["verdict"] == "biased"] == []


def test_what_other_scorers_find_was_planted_or_follows_from_it(default_run: tuple[str, dict], planted: Any) -> None:
    """README and docs/methods/peeps.md say so, with the counts."""
    significant = [row for row in default_run[1]["disparities"] if row["significant"]]
    counts = Counter(row["scorer"] for row in significant if row["verdict"] == "biased")
    assert counts["valence_context"] == counts["valence"] == 12
    assert (counts["confidence"], counts["refusal"], sum(counts.values())) == (6, 3, 46)
    unclear = Counter(row["scorer"] for row in significant if row["verdict"] == "significant_size_unclear")
    assert unclear == {"stereotype": 2, "economic": 1}
    cells = {(effect.probe, effect.attribute) for effect in planted if effect.planted}
    others = {(r["scorer"], r["cut"]) for r in significant if (r["probe"], r["cut"]) not in cells}
    assert others == {("confidence", "pronoun")}  # its phrase is planted by pronoun, for every probe


def test_planted_refusals_show_as_an_outcome_of_their_own(default_run: tuple[str, dict]) -> None:
    refusal = {(row["probe"], row["cut"]): row for row in default_run[1]["disparities"] if row["scorer"] == "refusal"}
    assert refusal["neighbourhood", "skin_tone"]["verdict"] == "biased"
    assert refusal["lifestyle", "age"]["verdict"] == "biased"
    assert refusal["lifestyle", "age"]["worst_group"] == "60+"
    assert refusal["occupation", "region"]["raw"] == 0


def test_another_cut_asks_the_model_nothing(root: Path, default_run: tuple[str, dict]) -> None:
    _output, results = launch(root, "cut=pronoun_x_age", "scorer=valence", "analysis=quick", "report=none")
    assert results["answers"]["model_calls"] == 0
    assert results["answers"]["cached"] == results["answers"]["planned"] == 7200
    assert results["response_set"] == default_run[1]["response_set"]
    assert results["config_hash"] != default_run[1]["config_hash"]


def test_the_table_of_the_docs_is_what_the_default_run_gives(rows: dict[tuple[str, str], dict], planted: Any) -> None:
    expected = {(effect.probe, effect.attribute): effect for effect in planted}
    with (REPOSITORY / "docs" / "methods" / "peeps.csv").open(encoding="utf-8", newline="") as file:
        _names, *lines = csv.reader(file)
    assert len(lines) == 24
    for probe, attribute, effect, raw, chance, worst, verdict in lines:
        row, truth = rows[probe, attribute], expected[probe, attribute]
        assert float(effect) == pytest.approx(truth.disparity, abs=0.0006)
        # Another processor may turn a few of 7,200 greedy answers.
        assert float(raw) == pytest.approx(row["raw"], abs=0.01)
        assert float(chance) == pytest.approx(row["null_mean"], abs=0.01)
        assert (worst == row["worst_group"]) or not truth.planted
        assert verdict.replace(" ", "_") == row["verdict"]
