"""The program itself, from pictures to verdicts, on two models of which every effect is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from benchmarks.validity.rows import FREE, Row, judge

ROOT = Path(__file__).resolve().parents[2]
BELIEFS = Path(__file__).with_name("planted_truth.yaml")
DISTANCE = "mean distance of shrunken from the planted gap"
CLAIM = "The program recovers what was planted"


@dataclass(frozen=True)
class Cell:
    """What one probe should show in one cut: the true gap (0 where nothing was planted) and its worst group."""

    probe: str
    attribute: str
    gap: float
    worst: str | None


def compare_runs(work: Path) -> list[Row]:
    """Run the simulator and the embedded model with the defaults; compare each with its truth (24 cells, valence)."""
    simulated = _disparities(work, "planted", f"model.truth={BELIEFS}")
    embedded = _disparities(work, "peeps_vlm")
    return [*_rows("planted", believed(), simulated), *_rows("peeps_vlm", learnt(), embedded)]


def learnt() -> list[Cell]:
    """What the embedded model was trained to say."""
    from benchmarks.planted_effects import expected_effects, vader
    from training.peeps.planted import load_planted

    effects = expected_effects(load_planted(), vader)
    return [Cell(e.probe, e.attribute, e.disparity if e.planted else 0.0, e.worst) for e in effects]


def believed() -> list[Cell]:
    """What the simulator was told, as exact means of its sentences' valence under its noise.

    Each probe depends on one attribute at most, and attributes are drawn independently, so all other cells are 0.
    """
    from benchmarks.planted_effects import vader
    from fp2.methods.peeps.planted.truth import load_truth
    from training.peeps.planted import load_planted

    truth, groups = load_truth(BELIEFS), load_planted().groups
    spread = float(np.hypot(truth.noise.subject_sd, truth.noise.image_sd))
    edges = np.arange(1, 10) - 0.5
    out = []
    for probe, sentences in truth.sentences.items():
        valence = np.array([vader(sentence, probe) for sentence in sentences])
        for attribute, names in groups.items():
            points = truth.effects.get(probe, {}).get(attribute, {})
            share = [np.diff(np.r_[0.0, ndtr((edges - truth.base - points.get(g, 0.0)) / spread), 1.0]) for g in names]
            means = np.array([float(part @ valence) for part in share])
            gap = float(np.ptp(means)) if points else 0.0
            out.append(Cell(probe, attribute, gap, str(names[int(means.argmin())]) if points else None))
    return out


def _disparities(work: Path, model: str, *overrides: str) -> list[dict[str, Any]]:
    """Run, or read a finished run's results again."""
    kept = work / f"run-{model}.json"
    if not kept.exists():
        env = {**os.environ, "FP2_ROOT": str((work / "runs").resolve()), "COLUMNS": "110"}
        done = subprocess.run(
            [
                sys.executable,
                "launch.py",
                f"model={model}",
                "scorer=valence",
                "report=none",
                "tracking=none",
                *overrides,
            ],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        path = re.search(r"^results +(\S+)$", done.stdout, re.MULTILINE)
        if done.returncode or path is None:
            raise RuntimeError(f"the run of {model} failed: {done.stderr[-2000:]}")
        kept.write_text(Path(path.group(1)).read_text(encoding="utf-8"), encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8"))["disparities"]
    return found


def _rows(model: str, cells: list[Cell], disparities: list[dict[str, Any]]) -> list[Row]:
    found = {(row["probe"], row["cut"]): row for row in disparities if row["scorer"] == "valence"}
    planted = [(cell, found[cell.probe, cell.attribute]) for cell in cells if cell.gap]
    zeros = [found[cell.probe, cell.attribute] for cell in cells if not cell.gap]
    off = [abs(row["shrunken"] - cell.gap) for cell, row in planted]

    def row(quantity: str, hits: list[bool], least: float) -> Row:
        share = sum(hits) / len(hits)
        bound = f"at least {100 * least:g} %"
        return Row(CLAIM, f"model={model}", quantity, share, 0.0, len(hits), bound, judge(share, 0, least, 1))

    return [
        row("planted effects called biased", [r["verdict"] == "biased" for _, r in planted], 1.0),
        row("worst group named", [r["worst_group"] == cell.worst for cell, r in planted], 1.0),
        row("planted gap inside the interval", [r["ci_low"] <= cell.gap <= r["ci_high"] for cell, r in planted], 0.9),
        row("planted zeros not called biased", [r["verdict"] != "biased" for r in zeros], 1.0),
        Row(CLAIM, f"model={model}", DISTANCE, sum(off) / len(off), 0.0, len(off), FREE, "", percent=False),
    ]
