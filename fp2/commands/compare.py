"""`fp2 compare A B`: the distance between the fingerprints of two runs, on shared subjects or on two samples."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2.artifacts import as_user_error
from fp2.commands.side_by_side import side_by_side, write_side_by_side
from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.progress import Terminal

MOST_PROBES = 8
STANDARD_OUTPUT = Path("-")
READING = (
    "Distance: root mean square difference of the two runs' group means, each centred within its probe. It is above 0 "
    "under the null hypothesis too: compare it with its null mean. p: {test}, "
    "Holm-corrected over the cuts of a scorer, for single probes over its probes x cuts."
)
TESTS = {
    "shared": "group labels are permuted across subjects",
    "independent": "subjects exchange the run within their groups, once the runs' mean difference is removed",
}


def compare_runs(
    first: str, second: str, overrides: Sequence[str], json_path: Path | None = None, figure: Path | None = None
) -> None:
    """Compare two runs (MLflow ids, or folders with a run's files), print the result, and write the requested files.

    `json_path` may be "-": JSON is then printed in place of the tables.

    Raises
    ------
    Fp2Error
        If a run cannot be read, or the two have no cut, scorer or probe in common.
    """
    from fp2.progress import Progress
    from fp2.runs.compare import compare, settings_of
    from fp2.runs.reader import read_run

    config = load_config(overrides)
    if (tables := side_by_side([first, second], config)) is not None:
        write_side_by_side(tables, json_path, figure)
        return
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="fp2-compare-") as scratch:
        runs = [read_run(word, config, Path(scratch)) for word in (first, second)]
        settings = settings_of(config, runs)
        with progress.counter("Comparing") as report:
            block = compare(runs[0], runs[1], settings, _Steps(report).start)
    if json_path == STANDARD_OUTPUT:
        print(json.dumps(block, indent=1, ensure_ascii=False, allow_nan=False))
        json_path = None
    else:
        _print(block, settings.alpha, Terminal())
    _write(block, json_path, figure)


class _Steps:
    """A progress bar whose length is known only when the work begins."""

    def __init__(self, report: Any) -> None:
        self._report, self._done, self._total = report, 0, 0

    def start(self, total: int) -> Any:
        """Set the length; return a function that advances by one."""
        self._total = total
        return self._step

    def _step(self) -> None:
        self._done += 1
        self._report(self._done, self._total)


def _print(block: Mapping[str, Any], alpha: float, console: Terminal) -> None:
    from fp2.report.reading import CALIBRATION_SHORT, cut_label, plain, scorer_label

    first, second, shared = block["first"], block["second"], block["shared"]
    console.print(Text(f"{plain(first['name'])} against {plain(second['name'])}", style="bold"))
    if block["samples"] == "independent":
        sizes = f"{shared['n_subjects_first']:,} and {shared['n_subjects_second']:,} subjects, none shared"
        console.print(sizes, highlight=False)
    else:
        console.print(f"{shared['n_subjects']:,} subjects and {shared['n_images']:,} images shared", highlight=False)
    if first["calibration"] or second["calibration"]:
        console.print(Text(CALIBRATION_SHORT, style="italic"))
    headline = [row for row in block["distances"] if row["scorer"] == block["primary"]]
    others = [row for row in block["distances"] if row["scorer"] != block["primary"]]
    telling = [row for row in others if row["distance"] is not None and (row["null_mean"] or row["distance"])]
    console.print(_distances(headline, f"fingerprint distance: {block['primary']}", alpha))
    if headline:
        console.print(_probes(headline, block["probes"], alpha))
    if telling:
        console.print(_distances(telling, "other scorers", alpha, scorer=True))
    if len(telling) < len(others):
        quiet = sorted({f"{scorer_label(r['scorer'])} by {cut_label(r['cut'])}" for r in others if r not in telling})
        console.print(Text(f"Not compared, or without any difference: {', '.join(quiet)}.", style="dim"))
    console.print(Text(READING.format(test=TESTS[block["samples"]]), style="dim"))
    for line in block["notes"]:
        console.print(Text(line, style="yellow"))


def _new(title: str, left: Sequence[str], right: Sequence[str], last: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(last, overflow="fold")
    return table


def _distances(rows: Sequence[Mapping[str, Any]], title: str, alpha: float, scorer: bool = False) -> Table:
    """Return one row per cut: distance, interval, null mean, p; with the scorer, or the correlation of the profiles."""
    from fp2.report.reading import DASH, cut_label, number, probability, scorer_label

    left = ("scorer", "cut") if scorer else ("cut",)
    right = ("distance", "95 %", "null mean", "p", *(() if scorer else ("corr.",)))
    table = _new(title, left, right, "difference")
    for row in rows:
        known = row["ci_low"] is not None
        table.add_row(
            *([Text(scorer_label(row["scorer"]))] if scorer else []),
            Text(cut_label(row["cut"])),
            Text(number(row["distance"]), style="bold" if _differs(row, alpha) else ""),
            f"{number(row['ci_low'])}–{number(row['ci_high'])}" if known else DASH,
            number(row["null_mean"]),
            probability(row["adjusted_p"]),
            *(() if scorer else (number(row["correlation"], 2),)),
            Text(_reading(row, alpha)),
        )
    return table


def _probes(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], alpha: float) -> Table:
    """Return the probes in which the runs differ most, relative to the null mean."""
    from fp2.report.reading import cut_label, number, plain, probability

    table = _new("where they differ most", ("probe", "cut"), ("distance", "null mean", "p"), "difference")
    entries = [(row["cut"], entry) for row in rows for entry in row["by_probe"]]
    entries.sort(key=lambda item: (item[1]["adjusted_p"], (item[1]["null_mean"] or 0.0) - item[1]["distance"]))
    for cut, entry in entries[:MOST_PROBES]:
        table.add_row(
            Text(plain(labels.get(entry["probe"], entry["probe"]))),
            Text(cut_label(cut)),
            Text(number(entry["distance"]), style="bold" if _differs(entry, alpha) else ""),
            number(entry["null_mean"]),
            probability(entry["adjusted_p"]),
            "found" if _differs(entry, alpha) else "none found",
        )
    return table


def _differs(row: Mapping[str, Any], alpha: float) -> bool:
    return row["adjusted_p"] is not None and row["adjusted_p"] <= alpha


def _reading(row: Mapping[str, Any], alpha: float) -> str:
    if row["distance"] is None:
        return "too few"
    return "found" if _differs(row, alpha) else "none found"


def _write(block: Mapping[str, Any], json_path: Path | None, figure: Path | None) -> None:
    if json_path is not None:
        with as_user_error(json_path.parent):
            json_path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(block, indent=1, ensure_ascii=False, allow_nan=False)
            json_path.write_text(text + "\n", encoding="utf-8")
        print(f"{'json':<12} {json_path}")
    if figure is None:
        return
    if not block["profiles"]:
        raise Fp2Error("no two groups have enough shared subjects to draw", where=str(figure))
    from fp2.report.figures.runs import profile_figure

    with as_user_error(figure.parent):
        profile_figure(block, figure)
    print(f"{'figure':<12} {figure}")
