"""`fp2 compare` of runs without scores, such as data set reports: what their report sections set side by side."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2 import artifacts
from fp2.errors import Fp2Error
from fp2.progress import Terminal

if TYPE_CHECKING:
    from fp2.config import Config


def side_by_side(words: Sequence[str], config: Config) -> dict[str, Any] | None:
    """Return the tables of runs that have no disparities; None if a run has some, or no section has a table.

    Raises
    ------
    Fp2Error
        If there is no such run, or its results cannot be read.
    """
    from fp2.report.reading import MIN_CELL, plain
    from fp2.runs.reader import distinct_names, read_results, run_folder
    from fp2.runs.section_tables import run_sections, tables_of

    with tempfile.TemporaryDirectory(prefix="fp2-compare-") as scratch:
        folders = [
            run_folder(word, config, Path(scratch), (artifacts.RESULTS, artifacts.CONFIG), (artifacts.SCORES,))
            for word in words
        ]
        results = [read_results(folder) for folder in folders]
        if any(one["disparities"] for one in results):
            return None
        sections = run_sections(folders[0], config, results[0]["run_id"])
    shared = [section for section in sections if all(section.applies(one) for one in results)]
    tables = tables_of(results, shared, MIN_CELL)
    if not tables:
        return None
    named = distinct_names([(plain(one["dataset"]["name"]), one["run_id"]) for one in results])
    return {
        "runs": [{"name": name, "run_id": one["run_id"]} for name, one in zip(named, results, strict=True)],
        "tables": tables,
    }


def write_side_by_side(block: Mapping[str, Any], json_path: Path | None, figure: Path | None) -> None:
    """Print the tables, or write them as JSON (to `-`: standard output).

    Raises
    ------
    Fp2Error
        If a figure is asked for.
    """
    if figure is not None:
        fix = "Leave out --figure; the figures of each run are in its folder"
        raise Fp2Error("runs without disparities are compared in tables", where="--figure", fix=fix)
    text = json.dumps(block, indent=1, ensure_ascii=False, allow_nan=False)
    if json_path is not None and str(json_path) == "-":
        print(text)
        return
    console = Terminal()
    print_tables(block["tables"], [run["name"] for run in block["runs"]], console)
    if json_path is not None:
        artifacts.write_text(json_path, text + "\n")
        print(f"{'json':<12} {json_path}")


def print_tables(tables: Sequence[Mapping[str, Any]], names: Sequence[str], console: Terminal) -> None:
    """Print tables of several runs, a column for each run."""
    from fp2.report.section import cell_words

    for one in tables:
        table = Table(title=one["title"], title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", overflow="fold")
        for name in names:
            table.add_column(Text(name), justify="right", overflow="fold")
        for label, cells in one["rows"].items():
            table.add_row(Text(label), *(Text(cell_words(cell)) for cell in cells))
        console.print(table)
