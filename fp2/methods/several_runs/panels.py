"""What several runs found, side by side: for each cut and scorer, the disparities of every run, and their summaries.

Everything here is read from the runs' `results.json`; numbers of groups below the reporting minimum are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from fp2.extension import (
    Section,
    Verdict,
    cohens_d,
    cut_label,
    distinct_names,
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

Results = Mapping[str, Any]
Panel = dict[str, Any]


def run_labels(runs: Sequence[Results], settings: Sequence[str] = ()) -> list[str]:
    """Return a name for each run, of what the runs differ in: model, variant, data set, cuts, primary scorer.

    The model is always named. Runs that are still alike have the settings in which their `config.yaml` differ (the
    texts are `settings`), and without any the start of their id.
    """
    name_parts = [
        [
            model_name(run),
            variant_name(run) or "original",
            plain(run["dataset"]["name"]),
            "by " + " and ".join(map(cut_label, run["cuts"])),
            _scorers(run),
        ]
        for run in runs
    ]
    varying = [
        i for i in range(len(name_parts[0])) if i == 0 or len({names_of_run[i] for names_of_run in name_parts}) > 1
    ]
    if len(varying) > 1 and len({names_of_run[0] for names_of_run in name_parts}) == 1:
        varying = varying[1:]  # one model: what the runs differ in says enough
    names = [plain(" · ".join(names_of_run[i] for i in varying)) for names_of_run in name_parts]
    if settings:
        names = _with_settings(names, [_that_matter(text) for text in settings])
    return distinct_names([(name, plain(run["run_id"])) for name, run in zip(names, runs, strict=True)])


def _with_settings(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names, of runs with one name each with the settings in which these runs differ."""
    longer, one_name = list(names), len(names) > 1 == len(set(names))
    for name in dict.fromkeys(names):
        alike = [index for index, other in enumerate(names) if other == name]
        differences = list(zip(*_differences("", [settings[index] for index in alike]), strict=True))
        all_differ = all(any(words) for words in differences)
        for index, words in zip(alike, differences, strict=False):
            longer[index] = " · ".join([*([] if one_name and all_differ else [name]), *filter(None, words)])
    return longer


def _that_matter(text: str) -> dict[str, Any]:
    """Return the settings of a `config.yaml` that can change an answer or a number."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    settings = {
        key: value for key, value in (config or {}).items() if key not in ("cut", "report", "tracking", "shard")
    }
    if isinstance(answers := settings.get("answers"), dict):
        answers.pop("against", None)  # of a sweep, the runs before
    return settings


def _differences(key: str, values: Sequence[Any]) -> Iterator[list[str]]:
    """Yield in words the settings below a key that are not the same in all runs: for each, a text per run."""
    if all(value == values[0] for value in values):
        return
    if all(isinstance(value, Mapping) for value in values):
        for name in dict.fromkeys(name for value in values for name in value):
            yield from _differences(name, [value.get(name) for value in values])
        return
    label = key.replace("_", " ")
    yield [
        "" if value is None else plain(f"{label} {value}") if isinstance(value, bool | int | float | str) else label
        for value in values
    ]


def _scorers(run: Results) -> str:
    """Return a run's scorers: two by name, of more the first and how many others."""
    names = [scorer_label(name) for name in scorer_names(run)] or [scorer_label(primary_scorer(run))]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more scores"


def all_probe_labels(runs: Sequence[Results]) -> dict[str, str]:
    """Return the label of every probe of the runs, in order of appearance."""
    labels_of: dict[str, str] = {}
    for run in runs:
        labels_of |= {probe: label for probe, label in probe_labels(run).items() if probe not in labels_of}
    return labels_of


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
        `cut`, `scorer`, `probes` (ids, in order), `rows_by_run`: for each run that has rows, `run` (its place) and
        `rows`, the disparities by probe with `cohens_d` and `effect`; `by_probe` and `significant`, summaries of these.
    """
    shown_runs = [suppress_small_cells(run, min_cell) for run in runs]
    order = list(all_probe_labels(runs))
    panels = []
    for cut in dict.fromkeys(cut for run in runs for cut in run["cuts"]):
        for scorer in scorers_of(runs):
            rows_by_run: list[dict[str, Any]] = [
                {"run": index, "rows": {probe: _with_effects(row) for probe, row in rows.items()}}
                for index, run in enumerate(shown_runs)
                if (rows := rows_of(run, cut, scorer))
            ]
            if rows_by_run:
                probes = [probe for probe in order if any(probe in run_row["rows"] for run_row in rows_by_run)]
                panel = {"cut": cut, "scorer": scorer, "probes": probes, "lines": rows_by_run}
                panels.append({**panel, **_summaries(rows_by_run, probes)})
    return panels


def _with_effects(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with Cohen's d of the named pair, and the magnitude in words of its d in SD of one answer."""
    sizes = {group["group"]: group["n_subjects"] for group in row["groups"]}
    pair = [sizes.get(row.get(end) or "", 0) for end in ("worst_group", "best_group")]
    g = row.get("hedges_g")
    d = cohens_d(g, *pair) if g is not None and sum(pair) > 2 else None
    answer_d = row.get("answer_d")
    return {**row, "cohens_d": d, "effect": effect_words(d if answer_d is None else answer_d)}


def is_compared(row: Mapping[str, Any] | None) -> bool:
    """Return whether groups were compared: enough subjects, and answers that are not all the same."""
    return row is not None and row["raw"] is not None and row["verdict"] != Verdict.UNINFORMATIVE


def _summaries(run_rows: Sequence[Mapping[str, Any]], probes: Sequence[str]) -> dict[str, Any]:
    """Return which run has the smallest and the largest disparity of each probe, and how many each run has."""
    by_probe = []
    for probe in probes:
        raw_values = [
            (run_row["rows"][probe]["raw"], run_row["run"])
            for run_row in run_rows
            if is_compared(run_row["rows"].get(probe))
        ]
        rows = {run_row["run"]: run_row["rows"].get(probe) for run_row in run_rows}
        summary: dict[str, Any] = {
            "probe": probe,
            "n_compared": len(raw_values),
            "n_significant": sum(bool(row and row["significant"]) for row in rows.values()),
            "smallest": None,
            "largest": None,
        }
        if raw_values:
            for name, end in (("smallest", min), ("largest", max)):
                raw, run = end(raw_values)
                row = rows[run]
                keys = ("raw", "null_mean", "significant", "verdict", "worst_group", "best_group")
                tied = sum(value == raw for value, _ in raw_values) - 1
                summary[name] = {"run": run, **{key: row[key] for key in keys}, "tied": tied}
        by_probe.append(summary)
    significant = [
        {
            "run": run_row["run"],
            "n_significant": sum(bool(row["significant"]) for row in run_row["rows"].values()),
            "n_compared": sum(is_compared(row) for row in run_row["rows"].values()),
            "n_probes": len(run_row["rows"]),
        }
        for run_row in run_rows
    ]
    return {"by_probe": by_probe, "significant": significant}


def effects_of(panel: Panel) -> list[dict[str, Any]]:
    """Return the effect sizes of a panel, the largest first: d in SD of one answer, or else Cohen's d."""
    effects = [
        {
            "run": run_row["run"],
            "probe": probe,
            "row": row,
            "d": row["cohens_d"] if (d := row.get("answer_d")) is None else d,
        }
        for run_row in panel["lines"]
        for probe, row in run_row["rows"].items()
    ]
    return sorted((effect for effect in effects if effect["d"] is not None), key=lambda effect: -effect["d"])


def headlines_of(runs: Sequence[Results], sections: Sequence[Section] = ()) -> list[dict[str, Any]]:
    """Return what other protocols state in their `headline`: block, name of the number, and its value for each run.

    `label` is the name in words, as far as the block's section has it.
    """
    labels = {(section.name, name): label for section in sections for name, label in section.headline.items()}
    headlines: dict[tuple[str, str], list[Any]] = {}
    for index, run in enumerate(runs):
        for block, content in run.items():
            if isinstance(content, Mapping) and isinstance(content.get("headline"), Mapping):
                for name, value in leaves(content["headline"]):
                    headlines.setdefault((block, name), [None] * len(runs))[index] = value
    return [
        {"block": block, "name": name, "label": labels.get((block, name), scorer_label(name)), "values": values}
        for (block, name), values in headlines.items()
    ]
