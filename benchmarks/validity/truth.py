"""The program itself, from pictures to verdicts, on two models of which every effect is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.validity.summary import Row, judge

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("planted", "peeps_vlm")


def compare_runs(work: Path) -> list[Row]:
    """Run both models with the defaults and compare each with its truth table (24 cells, valence)."""
    return [row for model in MODELS for row in _rows(model, _disparities(work, model))]


def _disparities(work: Path, model: str) -> list[dict[str, Any]]:
    """Run, or read a finished run's results again."""
    kept = work / f"run-{model}.json"
    if not kept.exists():
        env = {**os.environ, "FP2_ROOT": str((work / "runs").resolve()), "COLUMNS": "110"}
        done = subprocess.run(
            [sys.executable, "launch.py", f"model={model}", "scorer=valence", "report=none", "tracking=none"],
            env=env, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        path = re.search(r"^results +(\S+)$", done.stdout, re.MULTILINE)
        if done.returncode or path is None:
            raise RuntimeError(f"the run of {model} failed: {done.stderr[-2000:]}")
        kept.write_text(Path(path.group(1)).read_text(encoding="utf-8"), encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8"))["disparities"]
    return found


def _rows(model: str, disparities: list[dict[str, Any]]) -> list[Row]:
    from fp2.models.planted import load_planted

    found = {(row["probe"], row["cut"]): row for row in disparities if row["scorer"] == "valence"}
    effects = load_planted().expected_effects()
    planted = [(e, found[e.probe, e.attribute]) for e in effects if e.planted]
    zeros = [found[e.probe, e.attribute] for e in effects if not e.planted]
    off = [abs(row["raw"] - e.disparity) for e, row in planted]
    claim = "The program recovers what was planted"

    def row(quantity: str, hits: list[bool], least: float) -> Row:
        share = sum(hits) / len(hits)
        return Row(
            claim, f"model={model}", quantity, share, 0.0, len(hits), f"at least {least:.0%}", judge(share, 0, least, 1)
        )

    return [
        row("planted effects called biased", [r["verdict"] == "biased" for _, r in planted], 1.0),
        row("worst group named", [r["worst_group"] == e.worst for e, r in planted], 1.0),
        row("planted gap inside the interval", [r["ci_low"] <= e.disparity <= r["ci_high"] for e, r in planted], 0.9),
        row("planted zeros not called biased", [r["verdict"] != "biased" for r in zeros], 1.0),
        Row(
            claim, f"model={model}", "mean |raw - planted|", sum(off) / len(off), 0.0, len(off), "printed, no bound", ""
        ),
    ]
