"""What several runs found, side by side: for each cut and scorer, the disparities of every run, and their summaries.

Everything here is read from the runs' `results.json`; numbers of groups below the reporting minimum are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fp2.report.reading import (
    cut_label,
    effect_words,
    leaves,
    model_name,
    plain,
    primary_scorer,
    probe_labels,
    rows_of,
    scorer_label,
    scorer_names,
    suppress_small_cells,
    variant_name,
)
from fp2.report.section import Section
from fp2.runs.reader import distinct_names
from fp2.stats.effects import cohens_d
from fp2.verdicts import Verdict

Results = Mapping[str, Any]
Panel = dict[str, Any]


def run_labels(runs: Sequence[Results]) -> list[str]:
    """Return a name for each run, of what the runs differ in: model, variant, data set, cuts, primary scorer.

    The model is always named; runs that are still alike have the start of their id.
    """
    parts = [
        [
            model_name(run),
            variant_name(run) or "original",
            plain(run["dataset"]["name"]),
            "by " + " and ".join(map(cut_label, run["cuts"])),
            _scorers(run),
        ]
        for run in runs
    ]
    varying = [i for i in range(len(parts[0])) if i == 0 or len({part[i] for part in parts}) > 1]
    if len(varying) > 1 and len({part[0] for part in parts}) == 1:
        varying = varying[1:]  # one model: what the runs differ in says enough
    names = [plain(" · ".join(part[i] for i in varying)) for part in parts]
    return distinct_names([(name, plain(run["run_id"])) for name, run in zip(names, runs, strict=True)])


def _scorers(run: Results) -> str:
    """Return a run's scorers: two by name, of more the first and how many others."""
    names = [scorer_label(name) for name in scorer_names(run)] or [scorer_label(primary_scorer(run))]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more scores"


def all_probe_labels(runs: Sequence[Results]) -> dict[str, str]:
    """Return the label of every probe of the runs, in order of appearance."""
    found: dict[str, str] = {}
    for run in runs:
        found |= {probe: label for probe, label in probe_labels(run).items() if probe not in found}
    return found


def scorers_of(runs: Sequence[Results]) -> list[str]:
    """Return every scorer that has disparities, primary scorers first."""
    names = dict.fromkeys(name for run in runs for name in scorer_names(run))
    primaries = {primary_scorer(run) for run in runs}
    return sorted(names, key=lambda name: name not in primaries)


def panels_of(runs: Sequence[Results], min_cell: int) -> list[Panel]:
    """Return a panel for each cut and scorer that some run has.

    Returns
    -------
    list of dict
        `cut`, `scorer`, `probes` (ids, in order), `lines`: for each run that has rows, `run` (its place) and `rows`,
        the disparities by probe with `cohens_d` and `effect`; `by_probe` and `significant`, summaries of these.
    """
    shown = [suppress_small_cells(run, min_cell) for run in runs]
    order = list(all_probe_labels(runs))
    panels = []
    for cut in dict.fromkeys(cut for run in runs for cut in run["cuts"]):
        for scorer in scorers_of(runs):
            lines: list[dict[str, Any]] = [
                {"run": place, "rows": {probe: _with_effects(row) for probe, row in rows.items()}}
                for place, run in enumerate(shown)
                if (rows := rows_of(run, cut, scorer))
            ]
            if lines:
                probes = [probe for probe in order if any(probe in line["rows"] for line in lines)]
                panels.append(
                    {"cut": cut, "scorer": scorer, "probes": probes, "lines": lines, **_summaries(lines, probes)}
                )
    return panels


def _with_effects(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with Cohen's d of the named pair, and the magnitude in words of its d in SD of one answer."""
    sizes = {group["group"]: group["n_subjects"] for group in row["groups"]}
    pair = [sizes.get(row.get(end) or "", 0) for end in ("worst_group", "best_group")]
    g = row.get("hedges_g")
    d = cohens_d(g, *pair) if g is not None and sum(pair) > 2 else None
    known = row.get("answer_d")
    return {**row, "cohens_d": d, "effect": effect_words(d if known is None else known)}


def is_compared(row: Mapping[str, Any] | None) -> bool:
    """Return whether groups were compared: enough subjects, and answers that are not all the same."""
    return row is not None and row["raw"] is not None and row["verdict"] != Verdict.UNINFORMATIVE


def _summaries(lines: Sequence[Mapping[str, Any]], probes: Sequence[str]) -> dict[str, Any]:
    """Return which run has the smallest and the largest disparity of each probe, and how many each run has."""
    by_probe = []
    for probe in probes:
        known = [(line["rows"][probe]["raw"], line["run"]) for line in lines if is_compared(line["rows"].get(probe))]
        rows = {line["run"]: line["rows"].get(probe) for line in lines}
        found: dict[str, Any] = {
            "probe": probe,
            "n_compared": len(known),
            "n_significant": sum(bool(row and row["significant"]) for row in rows.values()),
            "smallest": None,
            "largest": None,
        }
        if known:
            for name, end in (("smallest", min), ("largest", max)):
                raw, run = end(known)
                found[name] = _end(rows, run) | {"tied": sum(value == raw for value, _ in known) - 1}
        by_probe.append(found)
    significant = [
        {
            "run": line["run"],
            "n_significant": sum(bool(row["significant"]) for row in line["rows"].values()),
            "n_compared": sum(is_compared(row) for row in line["rows"].values()),
            "n_probes": len(line["rows"]),
        }
        for line in lines
    ]
    return {"by_probe": by_probe, "significant": significant}


def _end(rows: Mapping[int, Any], run: int) -> dict[str, Any]:
    row = rows[run]
    keys = ("raw", "null_mean", "significant", "verdict", "worst_group", "best_group")
    return {"run": run, **{key: row[key] for key in keys}}


def effects_of(panel: Panel) -> list[dict[str, Any]]:
    """Return the effect sizes of a panel, the largest first: d in SD of one answer, or else Cohen's d."""
    found = [
        {
            "run": line["run"],
            "probe": probe,
            "row": row,
            "d": row["cohens_d"] if (d := row.get("answer_d")) is None else d,
        }
        for line in panel["lines"]
        for probe, row in line["rows"].items()
    ]
    return sorted((one for one in found if one["d"] is not None), key=lambda one: -one["d"])


def headlines_of(runs: Sequence[Results], sections: Sequence[Section] = ()) -> list[dict[str, Any]]:
    """Return what other protocols state in their `headline`: block, name of the number, and its value for each run.

    `label` is the name in words, as far as the block's section has it.
    """
    words = {(section.name, name): label for section in sections for name, label in section.headline.items()}
    found: dict[tuple[str, str], list[Any]] = {}
    for place, run in enumerate(runs):
        for block, content in run.items():
            if isinstance(content, Mapping) and isinstance(content.get("headline"), Mapping):
                for name, value in leaves(content["headline"]):
                    found.setdefault((block, name), [None] * len(runs))[place] = value
    return [
        {"block": block, "name": name, "label": words.get((block, name), scorer_label(name)), "values": values}
        for (block, name), values in found.items()
    ]
