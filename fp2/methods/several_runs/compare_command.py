"""`fp2 compare A B ...`: the distances between the fingerprints of runs, on shared subjects or on two samples."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.extension import Fp2Error, Terminal, artifacts, load_config, write_page, write_text

if TYPE_CHECKING:
    from fp2.extension import Config

STANDARD_OUTPUT = Path("-")


def compare_runs(
    words: Sequence[str],
    overrides: Sequence[str],
    json_path: Path | None = None,
    figure: Path | None = None,
    html: Path | None = None,
) -> None:
    """Compare runs (MLflow ids, or folders with a run's files), print the result, and write the requested files.

    Two runs have a table of their probes; of more, every pair has a line. `json_path` may be "-": JSON is then printed
    in place of the tables.
    """
    from fp2.extension import (
        Progress,
        finish_purges,
        read_run,
        recording,
        run_sections,
        tables_of,
        terminal,
        writing_about,
    )
    from fp2.methods.several_runs.across import beside_tables
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
        console = Terminal()
        for rendered in terminal(
            beside_tables(tables["tables"], [run["name"] for run in tables["runs"]], primary=True), 0
        ):
            console.print(rendered)
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
            _print(comparison, shared_tables, config.analysis.alpha)
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


def _print(comparison: Mapping[str, Any], shared_tables: Sequence[Mapping[str, Any]], alpha: float) -> None:
    """Print the distances, how they are read, and the tables that sections of the runs set side by side."""
    from fp2.extension import calibration_words, terminal
    from fp2.methods.several_runs.across import beside_tables
    from fp2.methods.several_runs.comparison import comparison_values, reading

    console = Terminal()
    if calibration := calibration_words(pair[side] for pair in comparison["pairs"] for side in ("first", "second")):
        console.print(Text(calibration, style="italic"))
    for rendered in terminal(comparison_values(comparison, alpha, {}), 0):
        console.print(rendered)
    console.print(Text(reading(comparison, alpha), style="dim"))
    for rendered in terminal(beside_tables(shared_tables, comparison["runs"], primary=True), 0):
        console.print(rendered)


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
