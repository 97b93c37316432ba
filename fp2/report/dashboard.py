"""The dashboard of one run (see `fp2.report.page`)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.report import reading
from fp2.report.disparities import detectable_words
from fp2.report.html import render_values
from fp2.report.leaderboard import boards_of, marks_of, rank
from fp2.report.page import render, write_page
from fp2.report.reading import MIN_CELL, shorten, suppress_small_cells
from fp2.report.reproduce import code_words, decoding_words, question_sets
from fp2.report.section import Section, heading, present
from fp2.report.values import tables
from fp2.tables import WITHOUT_ATTEMPT

MIN_EXAMPLE_COUNT = 2  # an answer that occurs once is about one image, and may describe the person in it
_EXAMPLES_PER_PROBE = 8


def write_dashboard(
    results: Mapping[str, Any],
    examples: Sequence[Mapping[str, Any]],
    leaderboard: Sequence[Mapping[str, Any]],
    path: Path,
    min_cell: int = MIN_CELL,
    figures: Path | None = None,
    sections: Sequence[Section] = (),
    sample: Sequence[Mapping[str, Any]] = (),
    key_id: str | None = None,
    repeat: Mapping[str, Any] | None = None,
) -> Path:
    """Write the dashboard of one run and return its path.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    examples : sequence of {probe, text, count}
        Distinct answers with their counts. The most frequent of each probe are shown, and none that occurs fewer than
        `MIN_EXAMPLE_COUNT` times.
    leaderboard : sequence of dicts
        Summaries of the runs in the store, as `fp2.report.leaderboard.summarise` returns them (one per run and cut);
        those by other cuts than the run's are not shown.
    path : Path
        The HTML file, written atomically.
    min_cell : int
        Groups with fewer subjects are shown without their numbers.
    figures : Path, optional
        The folder of the run's figures, which are embedded in the page.
    sections : sequence of Section
        Those of the run's protocol (`fp2.report.section.load_sections`).
    sample : sequence of dicts
        Answers to read (`fp2.report.samples`).
    key_id : str, optional
        The id of the key that the run's passport is signed with.
    repeat : mapping, optional
        How the run is repeated (`fp2.report.reproduce.how_to_repeat`).

    Raises
    ------
    Fp2Error
        If the file cannot be written.
    """
    page = render_dashboard(results, examples, leaderboard, min_cell, figures, sections, sample, key_id, repeat)
    return write_page(path, page)


def render_dashboard(
    results: Mapping[str, Any],
    examples: Sequence[Mapping[str, Any]],
    leaderboard: Sequence[Mapping[str, Any]],
    min_cell: int = MIN_CELL,
    figures: Path | None = None,
    sections: Sequence[Section] = (),
    sample: Sequence[Mapping[str, Any]] = (),
    key_id: str | None = None,
    repeat: Mapping[str, Any] | None = None,
) -> str:
    """Return the dashboard's HTML (parameters as for `write_dashboard`)."""
    applying = present(sections, results)
    parts = [
        {
            "name": section.name,
            "title": section.title,
            "html": render_values(values, min_cell),
            "scorers": dict.fromkeys(table.scorer for table in tables(values) if table.scorer),
            **section.context(results[section.name], results, min_cell),
        }
        for section in applying
        for values in [list(section.values(results[section.name], results))]
    ]
    shown = suppress_small_cells(results, min_cell)
    context = {
        "results": shown,
        "heading": heading(sections, results),
        "model_was_used": reading.model_was_used(results),
        "sections": parts,
        "pictures": _embedded(parts, figures),
        **reading.calibration_of(results),
        "variant": reading.variant_line(results),
        "calls": reading.calls_words(results["answers"]),
        "supplied": reading.SUPPLIED if reading.were_supplied(results) else None,
        "absent": [key for key in WITHOUT_ATTEMPT if key in results["answers"]],
        "cuts": list(results["cuts"]),
        "scorers": list(dict.fromkeys(name for part in parts for name in part.get("scorers", ()))),
        "primary": reading.primary_scorer(results),
        "lead": _lead(results),
        "without_value": results["dataset"].get("without_value") or {},
        "key_id": key_id,
        "repeat": repeat,
        "questions": question_sets([("", results["probes"])]),
        "asked": bool(results["answers"]["planned"]),
        "left_out": reading.left_out_of_composites(results),
        "no_common_groups": reading.NO_COMMON_GROUPS,
        "answers_by_group": _answers_by_group(shown),
        "examples": _examples(results, examples),
        "boards": [board for board in boards_of(rank(leaderboard)) if board["cut"] in results["cuts"]],
        "sample": [{**row, "answers": [{**row, "text": shorten(row["text"])}]} for row in sample],
        "sample_runs": [],
        "min_cell": min_cell,
        "min_count": MIN_EXAMPLE_COUNT,
        "labels": reading.probe_labels(results),
    }
    own = {
        f"sections/{section.name}.html.j2": section.template.read_text(encoding="utf-8")
        if section.template.is_file()
        else ""
        for section in applying
    }

    def cut_label(cut: str) -> str:
        return reading.cut_label(cut, results["dataset"].get("scales"))

    return render("dashboard.html.j2", context, own, [marks_of, cut_label, code_words, decoding_words])


def _lead(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each cut which probes differ significantly by the primary scorer, of how many that were tested."""
    labels, lines = reading.probe_labels(results), []
    for cut in results["cuts"]:
        rows = reading.rows_of(results, cut)
        tested = [probe for probe, row in rows.items() if row["significant"] is not None and row["raw"] is not None]
        differing = [
            f"{labels[probe]}{' (not robust to refusals)' if rows[probe].get('holds_under_refusals') is False else ''}"
            for probe in tested
            if rows[probe]["significant"]
        ]
        if rows:
            lines.append(
                {"cut": cut, "n": len(tested), "differing": differing, "detectable": detectable_words(rows.values())}
            )
    return lines


def _embedded(parts: Sequence[Mapping[str, Any]], folder: Path | None) -> dict[str, str]:
    """Return the sections' figures that were drawn, as data URIs by file name."""
    names = [name for part in parts for name in part.get("alts", {})]
    paths = {name: folder / name for name in names} if folder else {}
    return {
        name: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        for name, path in paths.items()
        if path.is_file()
    }


def _answers_by_group(results: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return per cut the groups' answer counts with their sizes."""
    sizes = results["dataset"]["groups"]
    return {
        cut: [
            {**row, "size": sizes.get(cut, {}).get(row["group"], {})}
            for row in results["answers_by_group"]
            if row["cut"] == cut
        ]
        for cut in results["cuts"]
    }


def _examples(results: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the most frequent answers of each probe, shortened."""
    shown: list[dict[str, Any]] = []
    if not examples:
        return shown
    for probe in results["probes"]:
        mine = sorted((e for e in examples if e["probe"] == probe["id"]), key=lambda e: (-e["count"], e["text"]))
        frequent = [e for e in mine if e["count"] >= MIN_EXAMPLE_COUNT]
        texts = [{"text": shorten(e["text"]), "count": e["count"]} for e in frequent[:_EXAMPLES_PER_PROBE]]
        more, rare = max(0, len(frequent) - _EXAMPLES_PER_PROBE), len(mine) - len(frequent)
        shown.append({"probe": probe, "answers": texts, "more": more, "rare": rare})
    return shown
