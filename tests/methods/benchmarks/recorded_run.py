"""A run of a benchmark on a made-up copy of its files, answered by a made-up file. No test in here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import execute

QUICK = ("analysis.permutations=999", "analysis.bootstrap=0", "report=none", "tracking=none")


def benchmark_run(root: Path, experiment: str, answers: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """Return the results of `experiment` in `root`, where `answers` maps item ids to {question: answer}.

    An answer is a text, or a mapping from the options to their probabilities.
    """
    rows = [
        {"image": item, "question": question, **({"text": given} if isinstance(given, str) else {"p": dict(given)})}
        for item, of_item in answers.items()
        for question, given in of_item.items()
    ]
    file = root / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    columns = "{probabilities: p}" if any("p" in row for row in rows) else "{text: text}"
    given = [
        f"experiment={experiment}", "model=recorded", "model.name=made_up", f"engine.answers={file}",
        f"engine.columns={columns}", f"paths.root={root}", f"paths.state={root / 'state'}", *QUICK, *words,
    ]  # fmt: skip
    results: dict[str, Any] = execute(given, root / "outputs" / "one").results
    return results


def published(results: Mapping[str, Any]) -> dict[tuple[str, str], float | None]:
    """Return (part, score) -> the number by the published rule."""
    return {(row["part"], row["score"]): row["published"] for row in results["benchmark"]["rows"]}


def verdicts(results: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Return (probe, scorer, cut) -> verdict of the disparities, or of the comparison within sets."""
    rows = results["disparities"] or results["matched"]["rows"]
    return {(row["probe"], row["scorer"], row["cut"]): row["verdict"] for row in rows}
