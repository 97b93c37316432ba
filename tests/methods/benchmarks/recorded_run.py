"""A run of a benchmark on a made-up copy of its files, answered by a made-up file or the simulator. No test in here."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench import execute
from PIL import Image

_BUFFER = io.BytesIO()
Image.new("RGB", (2, 2)).save(_BUFFER, "PNG")
PIXEL = _BUFFER.getvalue()
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
    model = ("model=recorded", "model.name=made_up", f"engine.answers={file}", f"engine.columns={columns}")
    return _run(root, experiment, *model, *words)


def simulated_run(
    root: Path, experiment: str, images: Iterable[str], truth: Mapping[str, Any], *words: str
) -> dict[str, Any]:
    """Return the results of `experiment` with the simulator; a file is made for each of `images`."""
    (root / "truth.yaml").write_text(json.dumps(truth))
    for file in map(Path, images):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(PIXEL)
    return _run(root, experiment, "model=planted", f"model.truth={root / 'truth.yaml'}", *words)


def _run(root: Path, experiment: str, *words: str) -> dict[str, Any]:
    given = [f"experiment={experiment}", f"paths.root={root}", f"paths.state={root / 'state'}", *QUICK, *words]
    results: dict[str, Any] = execute(given, root / "outputs" / "one").results
    return results


def ours(results: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return (part, score) -> the verdict of our test beside it."""
    return {(row["part"], row["score"]): row["ours"]["verdict"] for row in results["benchmark"]["rows"] if row["ours"]}


def published(results: Mapping[str, Any]) -> dict[tuple[str, str], float | None]:
    """Return (part, score) -> the number by the published rule."""
    return {(row["part"], row["score"]): row["published"] for row in results["benchmark"]["rows"]}


def verdicts(results: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Return (probe, scorer, cut) -> verdict of the disparities, or of the comparison within sets."""
    rows = results["disparities"] or results["matched"]["rows"]
    return {(row["probe"], row["scorer"], row["cut"]): row["verdict"] for row in rows}
