"""`fp2 compare A B ...`: the distances between the fingerprints of runs, on shared subjects or on two samples."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2.extension import Fp2Error, Terminal, artifacts, load_config, plural, write_page, write_text
from fp2.methods.several_runs.comparison import difference_words, differs, reading, sizes_words

if TYPE_CHECKING:
    from fp2.extension import Config

MOST_PROBES = 8
STANDARD_OUTPUT = Path("-")


def compare_runs(
    words: Sequence[str], overrides: Sequence[str], json_path: Path | None = None, figure: Path | None = None,
    html: Path | None = None,
) -> None:  # fmt: skip
    """Compare runs (MLflow ids, or folders with a run's files), print the result, and write the requested files.

    Two runs have a table of their probes; of more, every pair has a line. `json_path` may be "-": JSON is then printed
    in place of the tables.
    """
    from fp2.extension import Progress, finish_purges, read_run, recording, run_sections, tables_of, writing_about
    from fp2.methods.several_runs.compare_many import check_runs, compare_all
    from fp2.methods.several_runs.sweep_report import FILES, comparison_page

    config = load_config(overrides)
    finish_purges(config, Progress())
    if len(words) == 2 and (tables := side_by_side(words, config)) is not None:
        if html is not None:
            fix = f"fp2 report {' '.join(words)} writes their page"
            raise Fp2Error("these runs have no fingerprints to compare on a page", where="--html", fix=fix)
        if figure is not None:
            fix = "Leave out --figure; the figures of each run are in its folder"
            raise Fp2Error("runs without disparities are compared in tables", where="--figure", fix=fix)
        if json_path == STANDARD_OUTPUT:
            print(_as_json(tables))
            return
        print_tables(tables["tables"], [run["name"] for run in tables["runs"]], Terminal())
        with recording(Path(config.paths.state), [run["run_id"] for run in tables["runs"]], [json_path]):
            _write_files(tables, json_path, None)
        return
    with tempfile.TemporaryDirectory(prefix="fp2-compare-") as scratch:
        more = FILES if html is not None else ()
        runs = [read_run(word, config, Path(scratch), dense=True, more=more) for word in words]
        check_runs(runs)
        with Progress().counter("Comparing") as show:
            steps = count(1)
            comparison = compare_all(runs, config, lambda total: lambda: show(next(steps), total))
        sections = [section for run in runs if run.folder for section in run_sections(run.folder, config, run.run_id)]
        shared_tables = tables_of([run.results for run in runs], sections, config.report.suppress_below)
        two = len(words) == 2
        block = {**(comparison["pairs"][0] if two else comparison), "beside": shared_tables}
        if printed := json_path == STANDARD_OUTPUT:
            print(_as_json(block))
            json_path = None
        else:
            console = Terminal()
            if two:
                _print(block, config.analysis.alpha, console)
            else:
                _print_pairs(comparison, config.analysis.alpha, console)
            print_tables(shared_tables, comparison["runs"], console)
        if html or json_path or figure:
            with (
                recording(Path(config.paths.state), [run.run_id for run in runs], [html, json_path, figure]),
                writing_about(config, [run.people for run in runs]),
            ):
                if html is not None:
                    write_page(html, comparison_page(runs, comparison, config, Progress()))
                    if not printed:
                        print(f"{'page':<12} {html}")
                _write_files(block, json_path, figure)


def _as_json(block: Mapping[str, Any]) -> str:
    return json.dumps(block, indent=1, ensure_ascii=False, allow_nan=False)


def _write_files(block: Mapping[str, Any], json_path: Path | None, figure: Path | None) -> None:
    if json_path is not None:
        write_text(json_path, _as_json(block) + "\n")
        print(f"{'json':<12} {json_path}")
    if figure is None:
        return
    from fp2.methods.several_runs.charts import distance_figure, profile_figure

    if "profiles" in block and not block["profiles"]:
        raise Fp2Error("no two groups have enough shared subjects to draw", where=str(figure))
    with artifacts.as_user_error(figure.parent):
        (profile_figure if "profiles" in block else distance_figure)(block, figure)
    print(f"{'figure':<12} {figure}")


def _print(block: Mapping[str, Any], alpha: float, console: Terminal) -> None:
    from fp2.extension import calibration_words, cut_label, plain, scorer_label

    first, second = block["first"], block["second"]
    console.print(Text(f"{plain(first['name'])} against {plain(second['name'])}", style="bold"))
    console.print(sizes_words(block), highlight=False)
    if calibration := calibration_words((first, second)):
        console.print(Text(calibration, style="italic"))
    headline = [row for row in block["distances"] if row["scorer"] == block["primary"]]
    secondary_rows = [row for row in block["distances"] if row["scorer"] != block["primary"]]
    telling = [row for row in secondary_rows if row["distance"] is not None and (row["null_mean"] or row["distance"])]
    console.print(_distances(headline, f"Distance between the fingerprints, {scorer_label(block['primary'])}", alpha))
    if headline:
        console.print(_probes(headline, block["probes"], alpha))
    if telling:
        console.print(_distances(telling, "Other scorers", alpha, scorer=True))
    if len(telling) < len(secondary_rows):
        quiet = {
            f"{scorer_label(row['scorer'])} by {cut_label(row['cut'])}" for row in secondary_rows if row not in telling
        }
        console.print(Text(f"Not compared, or without any difference: {', '.join(sorted(quiet))}.", style="dim"))
    console.print(Text(reading({"runs": [first, second], "pairs": [block]}, alpha), style="dim"))
    for note in block["notes"]:
        console.print(Text(note, style="yellow"))


def _print_pairs(comparison: Mapping[str, Any], alpha: float, console: Terminal) -> None:
    """Print a line for each pair and cut of the primary scorer, and how many pairs differ in the other scorers."""
    from fp2.extension import calibration_words, cut_label, plain, scorer_label

    pairs = comparison["pairs"]
    console.print(Text(f"{plural(len(comparison['runs']), 'run')}, {plural(len(pairs), 'pair')}", style="bold"))
    if calibration := calibration_words(pair[side] for pair in pairs for side in ("first", "second")):
        console.print(Text(calibration, style="italic"))
    verdicts_by_scorer: dict[tuple[str, str], list[bool]] = {}
    tables: dict[str, Table] = {}
    for pair in pairs:
        for row in pair["distances"]:
            if row["scorer"] != comparison["primary"]:
                verdicts_by_scorer.setdefault((row["scorer"], row["cut"]), []).append(differs(row, alpha))
                continue
            title = f"Distance between the fingerprints, {scorer_label(row['scorer'])} by {cut_label(row['cut'])}"
            names = Text(f"{plain(pair['first']['name'])} – {plain(pair['second']['name'])}")
            tables.setdefault(row["cut"], _new(title, ("runs",))).add_row(names, *_cells(row, alpha))
    for table in tables.values():
        console.print(table)
    for (scorer, cut), verdicts in verdicts_by_scorer.items():
        note = f"{scorer_label(scorer)} by {cut_label(cut)}: {sum(verdicts)} of {len(verdicts)} pairs differ"
        console.print(Text(note, style="" if any(verdicts) else "dim"))
    console.print(Text(reading(comparison, alpha), style="dim"))
    for pair in comparison["not_compared"]:
        note = f"Not compared: {pair['first']} and {pair['second']}, since {pair['reason']}"
        console.print(Text(plain(note), style="yellow"))
    for note in comparison["notes"]:
        console.print(Text(note, style="yellow"))


_NUMBERS = ("distance", "95 %", "null mean", "p", "corr.")


def _new(title: str, labels: Sequence[str], numbers: Sequence[str] = _NUMBERS) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0, pad_edge=False,
        show_edge=False,
    )  # fmt: skip
    for name in labels:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("difference", overflow="fold")
    return table


def _cells(row: Mapping[str, Any], alpha: float, numbers: Sequence[str] = _NUMBERS) -> list[Text]:
    """Return the cells of a distance: the chosen `numbers`, and whether there is a difference."""
    from fp2.extension import DASH, number, probability

    cells = {
        "distance": number(row["distance"]), "null mean": number(row["null_mean"]),
        "95 %": DASH if row.get("ci_low") is None else f"{number(row['ci_low'])}–{number(row['ci_high'])}",
        "p": probability(row["adjusted_p"]), "corr.": number(row.get("correlation"), 2),
    }  # fmt: skip
    distance, *others = (cells[name] for name in numbers)
    bold = "bold" if differs(row, alpha) else ""
    return [Text(distance, style=bold), *map(Text, others), Text(difference_words(row, alpha))]


def _distances(rows: Sequence[Mapping[str, Any]], title: str, alpha: float, scorer: bool = False) -> Table:
    """Return one row per cut: distance, interval, null mean, p; with the scorer, or the correlation of the profiles."""
    from fp2.extension import cut_label, scorer_label

    numbers = _NUMBERS[:-1] if scorer else _NUMBERS
    table = _new(title, ("scorer", "cut") if scorer else ("cut",), numbers)
    for row in rows:
        labels = [scorer_label(row["scorer"]), cut_label(row["cut"])]
        table.add_row(*map(Text, labels if scorer else labels[1:]), *_cells(row, alpha, numbers))
    return table


def _probes(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], alpha: float) -> Table:
    """Return the probes in which the runs differ most, relative to the null mean."""
    from fp2.extension import cut_label, plain

    numbers = ("distance", "null mean", "p")
    table = _new("Probes with the largest distances", ("probe", "cut"), numbers)
    entries = [(row["cut"], entry) for row in rows for entry in row["by_probe"]]
    entries.sort(key=lambda item: (item[1]["adjusted_p"], (item[1]["null_mean"] or 0.0) - item[1]["distance"]))
    for cut, entry in entries[:MOST_PROBES]:
        label = plain(labels.get(entry["probe"], entry["probe"]))
        table.add_row(Text(label), Text(cut_label(cut)), *_cells(entry, alpha, numbers))
    return table


def side_by_side(words: Sequence[str], config: Config) -> dict[str, Any] | None:
    """Return the tables of runs that have no fingerprints; None if a run has some, or no section has a table."""
    from fp2.extension import (
        MIN_CELL,
        distinct_names,
        plain,
        read_results,
        run_folder,
        run_sections,
        tables_of,
    )

    with tempfile.TemporaryDirectory(prefix="fp2-compare-") as scratch:
        needed = (artifacts.RESULTS, artifacts.CONFIG)
        folders = [run_folder(word, config, Path(scratch), needed, (artifacts.QUESTIONS,)) for word in words]
        results = [read_results(folder) for folder in folders]
        if any(
            results_of_run["disparities"] or (folder / artifacts.QUESTIONS).is_file()
            for results_of_run, folder in zip(results, folders, strict=True)
        ):
            return None
        sections = run_sections(folders[0], config, results[0]["run_id"])
    shared = [section for section in sections if all(section.applies(results_of_run) for results_of_run in results)]
    tables = tables_of(results, shared, MIN_CELL)
    if not tables:
        return None
    named = distinct_names(
        [(plain(results_of_run["dataset"]["name"]), results_of_run["run_id"]) for results_of_run in results]
    )
    return {
        "runs": [
            {"name": name, "run_id": results_of_run["run_id"]}
            for name, results_of_run in zip(named, results, strict=True)
        ],
        "tables": tables,
    }


def print_tables(tables: Sequence[Mapping[str, Any]], names: Sequence[str], console: Terminal) -> None:
    """Print tables of several runs, a column for each run."""
    from fp2.methods.several_runs.across import cell_words

    for one in tables:
        table = Table(title=one["title"], title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", overflow="fold")
        for name in names:
            table.add_column(Text(name), justify="right", overflow="fold")
        for label, cells in one["rows"].items():
            table.add_row(Text(label), *(Text(cell_words(cell)) for cell in cells))
        console.print(table)
