"""The page of several runs, of a sweep or a comparison: radars, leaderboard, disparities, groups, data, questions.

It shows what `fp2.runs.sweep.sweep_results` found, and computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fp2.report.comparison import comparison_context, difference_words, sizes_words
from fp2.report.disparities import Scale, mean_cell
from fp2.report.disparity_charts import FEWEST_SPOKES, effect_bars, radar
from fp2.report.page import render
from fp2.report.plots import axis_end, plot, run_style
from fp2.report.reading import (
    DASH,
    EFFECTS,
    cut_label,
    number,
    plain,
    probability,
    scorer_identity,
    scorer_label,
    scorer_version,
    severity_legend,
    shorten,
    verdict_meanings,
)
from fp2.report.reproduce import code_words, decoding_words, question_sets
from fp2.report.samples import MOST_RUNS
from fp2.report.section import cell_words
from fp2.tables import WITHOUT_ATTEMPT

Block = Mapping[str, Any]
MOST_EFFECTS = 15
"""Effect sizes that are listed for each cut and scorer; `results.json` has all."""


def render_sweep(block: Block, sample: Block | None = None, compared: tuple[Block, float] | None = None) -> str:
    """Return the HTML of the page.

    Parameters
    ----------
    block : mapping
        What `fp2.runs.sweep.sweep_results` returned.
    sample : mapping, optional
        Answers side by side (`samples.sample_side_by_side`).
    compared : (mapping, float), optional
        The distances between the runs (`fp2.runs.compare_many.compare_all`), which then stand first, and alpha.
    """
    sample = sample or {"runs": [], "rows": []}
    panels = [_panel(panel, block) for panel in block["panels"]]
    labels = [run["label"] for run in block["runs"]]
    runs = [{**run, "style": run_style(place)} for place, run in enumerate(block["runs"])]
    context = {
        "title": title_of(block) if compared is None else _title_of_pair(labels),
        "comparison": compared
        and comparison_context(*compared, {run["run_id"]: run["label"] for run in block["runs"]}),
        "sweep": block,
        "runs": runs,
        "panels": panels,
        "has_family": any(run["family"] or run["parameters"] for run in runs),
        "has_radar": any(panel["radar"] for panel in panels),
        "calibration": [run["label"] for run in runs if run["calibration"] and not run["without_effects"]],
        "without_effects": [run["label"] for run in runs if run["without_effects"]],
        "partial": [run["label"] for run in runs if not run["complete"]],
        "cuts": block["cuts"],
        "scorers": block["scorers"],
        "probes": block["probes"],
        "min_cell": block["min_cell"],
        "most_effects": MOST_EFFECTS,
        "bounds": severity_legend(runs[0]),
        "effect_legend": effect_legend(),
        "verdicts": verdict_meanings(
            row for panel in panels for line in panel["lines"] for row in line["rows"].values()
        ),
        "limitations": limitations_of(runs),
        "cautions": _by_value(runs, lambda run: run["caution"]),
        "data": _by_value(runs, _data_of),
        "methods": _by_value(runs, _method_of),
        "used_scorers": _by_value(
            runs, lambda run: [(one["name"], scorer_version(one)) for one in run["scorers"]], each=True
        ),
        "questions": question_sets([(run["label"], run["questions"]) for run in runs]),
        "asked": any(run["answers"]["planned"] for run in runs),
        "answers_by_group": _answers_by_group(runs),
        "absent": [key for key in WITHOUT_ATTEMPT if any(key in run["answers"] for run in runs)],
        "side_by_side": len(runs) <= MOST_RUNS,
        "sample_runs": [runs[place]["label"] for place in sample["runs"]],
        "sample": [
            {**row, "answers": [{**answer, "text": shorten(answer["text"])} for answer in row["answers"]]}
            for row in sample["rows"]
        ],
        "labels": block["probes"],
        "primary": block["scorers"][0] if block["scorers"] else "",
    }
    return render("sweep.html.j2", context, filters=FILTERS)


def _title_of_pair(labels: Sequence[str]) -> str:
    return " against ".join(labels) if len(labels) == 2 else f"{len(labels)} runs compared"


def title_of(block: Block) -> str:
    """Return what the report is called."""
    runs = block["runs"]
    what = "Bias fingerprint" if block["panels"] else "Result"
    if len(runs) == 1:
        return f"{what}{'' if block['panels'] else 's'} of {runs[0]['label']}"
    names = {run["model"] for run in runs}
    models = {(run["model"], run["id"], run["revision"], run["weights_digest"]) for run in runs}
    if len(names) == 1 and None not in names:
        return f"{what}s of {names.pop()}: {len(runs)} runs"
    return f"{what}s of {len(runs)} {'models' if len(models) == len(runs) else 'runs'}"


def effect_legend() -> str:
    """Return the least difference of each magnitude: `negligible < 0.2 ≤ small < ...`."""
    return " ".join(["negligible", *(f"< {least:g} ≤ {words}" for least, words in EFFECTS)])


def limitations_of(runs: Sequence[Block]) -> list[dict[str, Any]]:
    """Return every limitation (`value`) once, with the `runs` that it is about (none where it is about all)."""
    return _by_value(runs, lambda run: run["limitations"], each=True)


def _by_value(runs: Sequence[Block], value: Callable[[Block], Any], *, each: bool = False) -> list[dict[str, Any]]:
    """Return the different values of runs, each with the runs that have it (none where all do); `each`: of lists."""
    found: list[dict[str, Any]] = []
    for run in runs:
        for one in value(run) if each else [value(run)]:
            if one is None:
                continue
            if not (same := [row for row in found if row["value"] == one]):
                found.append({"value": one, "runs": []})
            (same or found[-1:])[0]["runs"].append(run["label"])
    return [{**row, "runs": [] if len(row["runs"]) == len(runs) else row["runs"]} for row in found]


def _data_of(run: Block) -> dict[str, Any]:
    """Return what a reader has to know of the data of a run."""
    keys = ("dataset", "release", "dataset_digest", "n_subjects", "n_images", "without_value", "terms", "caution")
    return {key: run[key] for key in keys}


def _method_of(run: Block) -> dict[str, Any] | None:
    """Return how the groups of a run were compared; None where they were not."""
    return {**run["analysis"], "seed": None} if run["analysis"]["correction"] else None


def _answers_by_group(runs: Sequence[Block]) -> dict[str, list[dict[str, Any]]]:
    """Return per cut a part for each group, with the counts of answers of every run, and one for subjects in none."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cut in dict.fromkeys(row["cut"] for run in runs for row in run["answers_by_group"]):
        parts: dict[str | None, list[dict[str, Any]]] = {}
        for place, run in enumerate(runs):
            sizes = run["groups"].get(cut, {})
            for row in run["answers_by_group"]:
                if row["cut"] == cut:
                    size = sizes.get(row["group"], {}).get("n_subjects")
                    share = row["refused"] / row["answered"] if row.get("answered") and not row["suppressed"] else None
                    parts.setdefault(row["group"], []).append({"run": place, "row": row, "size": size, "share": share})
        for place, run in enumerate(runs):
            if run["without_value"].get(cut):
                parts.setdefault(None, []).append({"run": place, "row": None, "size": run["without_value"][cut]})
        found[cut] = [{"group": group, "lines": lines} for group, lines in parts.items()]
    return found


def _means(panel: Block, runs: Sequence[Block]) -> dict[str, Any]:
    """Return the heat map of a panel: a part for each group, with a line of means by probe for each run."""
    cut, rows_of_run = panel["cut"], {line["run"]: line["rows"] for line in panel["lines"]}
    groups = {
        (place, probe): {group["group"]: group for group in row["groups"]}
        for place, rows in rows_of_run.items()
        for probe, row in rows.items()
    }
    scorers = (one for place in rows_of_run for one in runs[place]["scorers"] if one["name"] == panel["scorer"])
    value_range = next((one.get("value_range") for one in scorers), None) or [0.0, 1.0]
    scale = Scale(value_range, [group["mean"] for cells in groups.values() for group in cells.values()])
    known = [name for place in rows_of_run for name in runs[place]["groups"].get(cut, {})]
    parts = []
    for name in dict.fromkeys([*known, *(name for cells in groups.values() for name in cells)]):
        lines = [
            {
                "run": place,
                "size": runs[place]["groups"].get(cut, {}).get(name, {}).get("n_subjects"),
                "cells": [mean_cell(groups[place, probe].get(name), rows[probe], name, scale) if probe in rows else
                          {"text": DASH, "level": "none", "mark": "", "title": ""} for probe in panel["probes"]],
            }
            for place, rows in rows_of_run.items()
            if name in runs[place]["groups"].get(cut, {}) or any(name in groups[place, probe] for probe in rows)
        ]  # fmt: skip
        parts.append({"group": name, "lines": lines})
    return {"parts": parts, "scale": scale.words}


def _panel(panel: Block, block: Block) -> dict[str, Any]:
    """Return a panel with its radar, its leaderboard rows, and its headline numbers."""
    labels = {probe: block["probes"][probe] for probe in panel["probes"]}
    rows = [row for line in panel["lines"] for row in line["rows"].values()]
    names = [run["label"] for run in block["runs"]]
    what = f"{scorer_label(panel['scorer'])} disparity by {cut_label(panel['cut'])}"
    drawn = None
    if len(labels) >= FEWEST_SPOKES:
        lines = [(names[line["run"]], line["run"], line["rows"]) for line in panel["lines"]]
        end = axis_end(row[key] for row in rows for key in ("raw", "null_p95"))
        drawn = plot(radar(f"Radar of the {what} for {len(lines)} runs", panel["cut"], labels, lines, end))
    by_run = {line["run"]: line for line in panel["lines"]}
    significant = {one["run"]: one for one in panel["significant"]}
    composites = [
        row for row in block["leaderboard"] if row["cut"] == panel["cut"] and row["scorer"] == panel["scorer"]
    ]
    ranked = any(row["rank_low"] is not None for row in composites)
    ordered = [(row["run"], row) for row in composites if row["run"] in by_run]
    ordered += [(run, None) for run in by_run if run not in {place for place, _ in ordered}]
    effects = [{**one, "row": by_run[one["run"]]["rows"][one["probe"]]} for one in panel["effects"][:MOST_EFFECTS]]
    return {
        **panel,
        "labels": labels,
        "several": len(panel["lines"]) > 1,
        "versions": len(
            {
                scorer_identity(one)
                for line in panel["lines"]
                for one in block["runs"][line["run"]]["scorers"]
                if one["name"] == panel["scorer"]
            }
        ),
        "radar": drawn,
        "board": [
            {"run": run, "row": row, "rows": by_run[run]["rows"], "significant": significant[run]}
            for run, row in ordered
        ],
        "has_composite": any(row is not None and row["composite"] is not None for _, row in ordered),
        "ranked": ranked,
        "effects": effects,
        "effect_chart": plot(
            effect_bars(
                f"Effect sizes of the {what}",
                panel["cut"],
                panel["scorer"],
                [
                    (f"{plain(names[one['run']])}, {labels[one['probe']]}", one["run"], one["d"], one["row"])
                    for one in effects
                ],
            )
        ),
        "n_effects": len(panel["effects"]),
        "means": _means(panel, block["runs"]) if len(names) <= MOST_RUNS else None,
        "all_significant": sum(one["n_significant"] == one["n_probes"] for one in panel["significant"]),
        "any_significant": sum(one["n_significant"] > 0 for one in panel["significant"]),
        "n_significant": sum(one["n_significant"] for one in panel["significant"]),
        "n_compared": sum(one["n_compared"] for one in panel["significant"]),
        "tallies": [_tally(tally) for tally in panel["tallies"]],
        "headline": _headline(panel, ordered),
    }


def _tally(tally: Block) -> dict[str, Any]:
    """Return a tally with the group that is most often worst and the one most often best."""
    most = {
        end: max(tally["groups"], key=lambda group: group[f"{end}_count"], default=None) for end in ("worst", "best")
    }
    return {**tally, "most": most}


def _headline(panel: Block, ordered: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """Return the range of the composites, and the largest effect and disparity."""
    composites = [row["composite"] for _, row in ordered if row is not None and row["composite"] is not None]
    largest = [
        one
        for one in (probe["largest"] and {**probe["largest"], "probe": probe["probe"]} for probe in panel["by_probe"])
        if one
    ]
    return {
        "composites": (min(composites), max(composites)) if composites else None,
        "effect": panel["effects"][0] if panel["effects"] else None,
        "gap": max(largest, key=lambda one: one["raw"], default=None),
    }


def rank_words(row: Block | None) -> str:
    """Return the rank interval of a leaderboard row: `1`, `2–4`, or a dash where it is unknown."""
    low, high = (row["rank_low"], row["rank_high"]) if row is not None else (None, None)
    return DASH if low is None else str(low) if low == high else f"{low}–{high}"


def chance_words(group: Block, end: str) -> str:
    """Return how often a group was expected at one end, with the p-value: `expected 4.1, p = 0.03`."""
    if group[f"{end}_expected"] is None:
        return "chance not known"
    p = probability(group[f"{end}_p_value"])
    return f"expected by chance {number(group[f'{end}_expected'], 1)}, p {p if p.startswith('<') else f'= {p}'}"


FILTERS = (cell_words, chance_words, rank_words, code_words, decoding_words, difference_words, sizes_words)
