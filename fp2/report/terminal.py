"""The end of a run in the terminal: the fingerprint as a table, the composites, the answers, and where things lie.

Every string from a model, a data set or a user goes in as `Text`, never as markup, without control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fp2.report.reading import (
    CALIBRATION_SHORT,
    DASH,
    cut_label,
    heading,
    is_calibration,
    model_name,
    number,
    plain,
    primary_scorer,
    probability,
    probe_labels,
    rows_of,
    scorer_label,
    severity_legend,
    variant_line,
    verdict_words,
)
from fp2.report.section import Section, present

_VERDICT_STYLES = {"biased": "bold red", "significant_but_small": "yellow", "equivalent": "green"}
_SEVERITY_STYLES = {"high": "bold red", "moderate": "red", "low": "yellow", "none": "green"}


def print_fingerprint(
    results: Mapping[str, Any],
    console: Console,
    paths: Mapping[str, object] | None = None,
    sections: Sequence[Section] = (),
    next_command: str | None = None,
) -> None:
    """Print the fingerprint of a run.

    Parameters
    ----------
    results : mapping
        What `results.json` holds.
    console : rich.console.Console
        Where to print; from 80 columns on nothing essential is cut.
    paths : mapping, optional
        Names and paths to print at the end (never wrapped or cut, so that they can be copied), in the order given.
    sections : sequence of Section
        Those of the run's protocol; each adds its lines where the results have its block.
    next_command : str, optional
        The command that the user may want next, on a line of its own.
    """
    head = Text(f"{heading(results)} of {model_name(results)}", style="bold")
    size = f"{results['n_subjects']:,} people, {results['n_images']:,} images"
    what = f"{scorer_label(primary_scorer(results))}, " if results["disparities"] else ""
    where = f" on {plain(results['dataset']['name'])}: {what}{size}"
    console.print(head + Text(where, style="not bold"))
    if is_calibration(results):
        console.print(Text(CALIBRATION_SHORT, style="italic"))
    if shown := variant_line(results):
        console.print(Text(shown, style="bold"))
    if not results["complete"]:
        console.print(Text("Partial run: some of the planned answers are missing.", style="bold yellow"))
    if results["disparities"] or results["composites"]:
        console.print(_table(results))
        console.print()
    if results["composites"]:
        for cut in results["cuts"]:
            console.print(_composite_line(results, cut))
        bounds = f"mean over the probes with a value; severity by its excess over chance: {severity_legend(results)}"
        console.print(Text(bounds, style="dim"))
    for section in present(sections, results):
        for line in section.lines(results[section.name], results):
            console.print(line)
    if results["answers"]["planned"]:
        console.print(_answers_line(results))
    for name, path in (paths or {}).items():
        console.print(Text(f"{name:<12} {plain(path)}"), soft_wrap=True)
    if next_command:
        console.print(Text(next_command, style="bold"), soft_wrap=True)


def _table(results: Mapping[str, Any]) -> Table:
    """Return the table: a section per cut with a line per probe."""
    labels = probe_labels(results)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("probe", overflow="fold", max_width=18)
    table.add_column("disparity", justify="right", no_wrap=True)
    table.add_column("chance", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", max_width=13)
    table.add_column("worst → best group", overflow="fold", max_width=60)
    for cut in results["cuts"]:
        rows = rows_of(results, cut)
        table.add_row(Text(f"by {cut_label(cut)}", style="bold underline"))
        for place, (probe, row) in enumerate(rows.items()):
            table.add_row(
                Text(labels[probe]),
                Text(number(row["raw"]), style="bold" if row["significant"] else ""),
                Text(number(row["null_mean"]), style="dim"),
                Text(_verdict(row["verdict"]), style=_VERDICT_STYLES.get(row["verdict"] or "", "")),
                _ends(row),
                end_section=place == len(rows) - 1,
            )
    return table


def _verdict(verdict: str | None) -> str:
    """Return a verdict in words that fit the column."""
    return "none found" if verdict == "no_difference_found" else verdict_words(verdict)


def _ends(row: Mapping[str, Any]) -> Text:
    """Return worst and best group; faint where the difference is not significant: chance chose them."""
    if row["worst_group"] is None or row["best_group"] is None:
        return Text(DASH)
    return Text(f"{plain(row['worst_group'])} → {plain(row['best_group'])}", style="" if row["significant"] else "dim")


def _composite_line(results: Mapping[str, Any], cut: str) -> Text:
    """Return one cut's composite with its chance level and severity."""
    composite = results["composites"].get(cut) or {}
    if composite.get("value") is None:
        return Text(f"composite by {cut_label(cut)}: {DASH} (no probe could be compared)")
    p = probability(composite["p_value"])
    severity = plain(composite["severity"] or DASH)
    line = Text(f"composite by {cut_label(cut)}: ")
    line.append(number(composite["value"]), style="bold")
    line.append(f", by chance {number(composite['null_mean'])} (p {p if p.startswith('<') else f'= {p}'}): severity ")
    return line.append(severity, style=_SEVERITY_STYLES.get(severity, ""))


def _answers_line(results: Mapping[str, Any]) -> Text:
    """Return how many answers were planned, came, were refused, failed or were known already, and the model calls."""
    answers = results["answers"]
    words = [f"{answers[key]:,} {key}" for key in ("planned", "answered", "refused", "failed", "cached")]
    return Text(f"answers: {', '.join(words)}; {answers['model_calls']:,} model calls")
