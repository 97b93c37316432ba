"""Charts of disparities, of one run and of several: radars, intervals, heat maps, profiles, distances, ranks.

They are built from results, drawn by `drawing` as files and by `plots` on pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fp2.report.plots import axis_end
from fp2.report.reading import (
    FEWEST_SPOKES,
    answers_link,
    cut_label,
    group_order,
    model_name,
    number,
    panels,
    plain,
    primary_scorer,
    probe_labels,
    rows_of,
    scorer_label,
    scorer_names,
    severity_words,
    shown_interval,
    verdict_words,
)
from fp2.report.values import Axis, Chart, ChartKind, Point, Reference, Series
from fp2.results import ComparedRow, GroupRow, RunResults

MOST_GROUPS = 24
"""Groups of a profile; the largest are shown."""
MOST_DIFFERING = 12
"""Rows of the chart of what differs."""
FINGERPRINT = "fingerprint"


def disparity_charts(results: RunResults) -> list[Chart]:
    """Return a radar and a heat map of group means per cut, of the primary scorer; the radars have one axis.

    Pages draw the radars on their first screen (`fp2.report.summary`), and no heat map, since a table of group means
    has its colours.
    """
    cuts = [cut for cut in results["cuts"] if cut in results["composites"] and rows_of(results, cut)]
    return [
        *(
            replace(chart, on_page=False)
            for chart in radars([results], [cut for cut in cuts if len(rows_of(results, cut)) >= FEWEST_SPOKES])
        ),
        *(heat(results, cut) for cut in cuts),
    ]


def radars(runs: Sequence[RunResults], cuts: Sequence[str], names: Sequence[str] = ()) -> list[Chart]:
    """Return a radar per cut with a line per run, of each run's primary scorer; all have one axis."""
    labels, scorer = probe_labels(runs[0]), scorer_label(primary_scorer(runs[0]))
    rows = [row for run in runs for cut in cuts for row in rows_of(run, cut).values()]
    end = axis_end(row[key] for row in rows for key in ("raw", "null_p95"))
    several = len(runs) > 1
    named = names or [model_name(run) if several else "" for run in runs]
    title = f"Bias fingerprint: {scorer} disparity by probe"
    return [
        radar(
            title,
            cut,
            labels,
            [
                (name, index if several else None, rows_of(run, cut))
                for index, (name, run) in enumerate(zip(named, runs, strict=True))
                if rows_of(run, cut)
            ],
            end,
            panel=cut_label(cut) + ("" if several else _composite_line(runs[0], cut)),
        )
        for cut in cuts
    ]


def _composite_line(results: RunResults, cut: str) -> str:
    """Return a second line for the heading of a radar: the composite of the cut."""
    composite = results["composites"].get(cut)
    if composite is None or composite["value"] is None:
        return ""
    severity = severity_words(composite["severity"], composite["value"], results["complete"])
    null = f"null mean {number(composite['null_mean'])}"
    return f"\ncomposite {number(composite['value'])}, {null}: severity {severity}"


def radar(
    title: str,
    cut: str,
    labels: Mapping[str, str],
    runs: Iterable[tuple[str, int | None, Mapping[str, ComparedRow]]],
    end: float,
    *,
    panel: str = "",
    scorer: str = "",
) -> Chart:
    """Return the disparities by probe as a radar with an axis from 0 to `end`.

    Parameters
    ----------
    labels : mapping
        The label of each probe, in order; those without a row of any run are left out.
    runs : iterable of (str, int or None, mapping)
        Name, place (which chooses the colour) and rows by probe of each line; a probe without a row or value is a gap.
    """
    runs_shown = list(runs)
    probes = [probe for probe in labels if any(probe in rows for _, _, rows in runs_shown)]
    series = [
        Series([_point(rows.get(probe), labels[probe], name) for probe in probes], name, index)
        for name, index, rows in runs_shown
    ]
    return Chart(
        ChartKind.RADAR,
        f"radar_{cut}",
        title,
        series,
        Axis("disparity", 0.0, end),
        panel=panel,
        file=FINGERPRINT,
        cut=cut,
        scorer=scorer,
    )


def interval_charts(results: RunResults) -> list[Chart]:
    """Return the disparities with intervals, beside what chance gives, by cut and scorer; a scorer has one axis.

    Files draw those of the first scorer that has rows, which pages draw on their first screen (`fp2.report.summary`).
    """
    labels, scorers = probe_labels(results), scorer_names(results)
    ends = {
        scorer: 1.04
        * max(
            [
                0.01,
                *(
                    row[key] or 0.0
                    for row in results["disparities"]
                    if row["scorer"] == scorer
                    for key in ("raw", "ci_high", "null_p95")
                ),
            ]
        )
        for scorer in scorers
    }
    return [
        Chart(
            ChartKind.INTERVALS,
            f"intervals_{scorer}_{cut}",
            f"{scorer_label(scorer).capitalize()} disparity (max \u2212 min) and its null distribution",
            [Series([_point(row, answers_link(labels[probe], row)) for probe, row in rows.items()])],
            Axis(f"disparity of {scorer_label(scorer)} by {cut_label(cut)}", 0.0, ends[scorer]),
            panel=cut_label(cut),
            file="intervals",
            cut=cut,
            scorer=scorer,
            in_files=scorer == scorers[0],
            on_page=scorer != scorers[0],
        )
        for cut, scorer, rows in panels(results, scorers)
    ]


def differing(rows: Sequence[ComparedRow], results: RunResults, caption: str = "") -> Chart:
    """Return disparities of several cuts with their intervals, in the order given: the significant ones, or others."""
    title = "What differs significantly" if rows[0]["significant"] else "Disparities, none significant"
    labels = probe_labels(results)
    points = [
        _point(row, answers_link(f"{labels[row['probe']]}, {cut_label(row['cut'])}", row))
        for row in rows[:MOST_DIFFERING]
    ]
    end = 1.04 * max([point.high or point.value or 0.0 for point in points] + [0.01])
    more = f"The {MOST_DIFFERING} largest of {len(rows)}. " if len(rows) > MOST_DIFFERING else ""
    return Chart(
        ChartKind.INTERVALS,
        "differing",
        title,
        [Series(points)],
        Axis(f"disparity of {scorer_label(primary_scorer(results))}", 0.0, end),
        caption=f"{more}{caption}".strip(),
        in_files=False,
    )


def _point(row: ComparedRow | None, label: str, name: str = "") -> Point:
    """Return the disparity of a row, as large as groups of any size make it; a gap where none was tested."""
    if row is None or row["raw"] is None or row.get("status", "ok") != "ok":
        return Point(None, label, verdict=None if row is None else row["verdict"])
    low, high = shown_interval(row)
    title = f"{plain(name)}, {label}: {number(row['raw'])}" if name else f"{label}: {number(row['raw'])}"
    if low is not None and high is not None:
        title += f", interval {number(low)} to {number(high)}"
    title += f", null mean {number(row['null_mean'])}; {verdict_words(row['verdict'])}"
    if row["worst_group"] and row["significant"]:
        title += f"; worst {plain(row['worst_group'])}, best {plain(row['best_group'])}"
    return Point(
        row["raw"],
        label,
        low=low,
        high=high,
        null_mean=row["null_mean"],
        null_p95=row["null_p95"],
        filled=bool(row["significant"]),
        verdict=row["verdict"],
        title=title,
    )


def heat(results: RunResults, cut: str) -> Chart:
    """Return the primary scorer's mean of each group of `cut` under each probe as a heat map.

    Colours diverge around 0 for scores of both signs, to 0.2 at least, and run over the range of the score otherwise.
    The pair with the largest |T| is marked where the disparity is significant.
    """
    rows, labels, sizes = rows_of(results, cut), probe_labels(results), results["dataset"]["groups"].get(cut, {})
    means = {(probe, group["group"]): group for probe, row in rows.items() for group in row["groups"]}
    scorer = primary_scorer(results)
    value_range = next((s.get("value_range") for s in results["scorers"] if s["name"] == scorer), None) or (-1.0, 1.0)
    diverging = value_range[0] < 0 < value_range[1]
    low, high = (-0.2, 0.2) if diverging else map(float, value_range)
    end_values = {
        probe: {row["worst_group"]: "low", row["best_group"]: "high"}
        for probe, row in rows.items()
        if row["significant"]
    }
    series = [
        Series(
            [
                _mean(means.get((probe, group)), labels[probe], end_values.get(probe, {}).get(group, ""))
                for probe in rows
            ],
            group,
            subjects=sizes.get(group, {}).get("n_subjects", 0),
        )
        for group in group_order(results, cut)
    ]
    return Chart(
        ChartKind.HEAT,
        f"heatmap_{re.sub(r'[^0-9A-Za-z_-]', '-', cut)}",
        f"Mean {scorer_label(scorer)} by {cut_label(cut)} and probe",
        series,
        Axis("", low, high),
        caption="▼ worse, ▲ better: clearest pair if significant. –: too few subjects with an answer.",
        diverging=diverging,
        cut=cut,
        on_page=False,
    )


def _mean(group: GroupRow | None, label: str, mark: str) -> Point:
    if group is None or group["mean"] is None:
        return Point(None, label)
    return Point(group["mean"], label, mark=mark, subjects=group["n_subjects"])


def means(row: ComparedRow) -> Chart:
    """Return the group means of one disparity, and as the last row the interval of the disparity.

    That row starts at the smallest mean of the groups that are compared: its point is the disparity (so it is at the
    largest mean), the band the null distribution up to its 95th percentile.
    """
    points = [
        Point(
            group["mean"],
            f"{plain(group['group'])} (n={group['n_subjects']})",
            filled=bool(group["eligible"]),
            subjects=group["n_subjects"],
        )
        for group in row["groups"]
        if group["mean"] is not None
    ]
    raw, low, high = row["raw"], row["ci_low"], row["ci_high"]
    if raw is None:
        return Chart(
            ChartKind.INTERVALS, "means", "Group means", [Series(points)], Axis("group mean"), filled="compared"
        )
    start = min(group["mean"] for group in row["groups"] if group["eligible"] and group["mean"] is not None)
    interval = [None if end is None else start + end for end in (low, high)]
    points.append(Point(start + raw, "disparity", low=interval[0], high=interval[1], verdict=row["verdict"]))
    return Chart(
        ChartKind.INTERVALS,
        "means",
        "Group means",
        [Series(points)],
        Axis("group mean; last row: smallest mean plus the interval of the disparity; band: by chance"),
        references=[Reference(start, "null distribution, from the smallest mean", start + (row["null_p95"] or 0.0))],
        panel=f"disparity {number(raw)}: {verdict_words(row['verdict'])}",
        filled="compared",
    )
