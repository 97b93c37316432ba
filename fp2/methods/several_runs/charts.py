"""Charts of several runs: profiles, distances, rank intervals, effect sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fp2.extension import (
    MOST_GROUPS,
    Axis,
    Chart,
    ChartKind,
    Heading,
    LeaderboardRow,
    Point,
    Reference,
    Series,
    calibration_words,
    cut_label,
    draw_panels,
    number,
    plain,
    scorer_label,
    verdict_words,
)


def effect_bars(
    title: str, cut: str, scorer: str, effects: Sequence[tuple[str, int, float, Mapping[str, Any]]]
) -> Chart:
    """Return effect sizes of several runs as bars: label, place of the run, Cohen's d and row of each."""
    texts = [
        f"{label}: d {number(d, 2)} ({row['effect']}), {verdict_words(row['verdict'])}" for label, _, d, row in effects
    ]
    series = [
        Series([Point(d, label, filled=bool(row["significant"]), title=tooltip)], place=index)
        for (label, index, d, row), tooltip in zip(effects, texts, strict=True)
    ]
    return Chart(ChartKind.BARS, f"effects_{scorer}_{cut}", title, series, Axis("d per answer"), cut=cut, scorer=scorer)


def profiles(block: Mapping[str, Any]) -> list[Chart]:
    """Return the group means of two runs (`compare.compare`), each less its mean over groups: cut by probe."""
    rows = block["profiles"]
    limit = 1.1 * max([abs(row[run]) for row in rows for run in ("first", "second")] + [0.01])
    return [
        profile(block, cut, probe, limit)
        for cut in dict.fromkeys(row["cut"] for row in rows)
        for probe in block["probes"]
        if any(row["cut"] == cut and row["probe"] == probe for row in rows)
    ]


def profile(block: Mapping[str, Any], cut: str, probe: str, end: float | None = None) -> Chart:
    """Return the group means of two runs for one probe, on an axis from -`end` to `end`."""
    rows = [row for row in block["profiles"] if row["cut"] == cut]
    sizes = {row["group"]: row["n_subjects"] for row in rows}
    groups = sorted(sorted(sizes, key=lambda group: -sizes[group])[:MOST_GROUPS])
    by_group = {row["group"]: row for row in rows if row["probe"] == probe}
    end = end or 1.1 * max([abs(row[run]) for row in by_group.values() for run in ("first", "second")] + [0.01])
    row = next(row for row in block["distances"] if row["cut"] == cut and row["scorer"] == block["primary"])
    entry = next((entry for entry in row["by_probe"] if entry["probe"] == probe), None)
    distance, differs = (
        (None, False) if entry is None else (entry["distance"], entry["adjusted_p"] <= block["settings"]["alpha"])
    )
    heading = f"{plain(block['probes'][probe])}, by {cut_label(cut)}"
    where = "images with a value in both runs" if block["samples"] == "shared" else "each run's own subjects"
    return Chart(
        ChartKind.INTERVALS,
        f"profile_{cut}_{probe}",
        f"Two fingerprints: {scorer_label(block['primary'])}",
        [
            Series(
                [Point(by_group[group][run] if group in by_group else None, group) for group in groups],
                block[run]["name"],
                index,
            )
            for index, run in enumerate(("first", "second"))
        ],
        Axis(f"{scorer_label(block['primary'])}: centred group mean", -end, end),
        references=[Reference(0.0)],
        file="profiles",
        cut=cut,
        panel=f"{heading}\ndistance {number(distance)}{' *' if differs else ''}",
        caption=f"Group means over subjects less their mean over groups, of {where}; groups of at least 10 subjects. "
        "Distance: of the two profiles; * significant after Holm's correction over probes and cuts.",
    )


def profile_figure(block: Mapping[str, Any], path: Path) -> Path:
    """Draw the group means of two runs, a panel per probe and cut."""
    shared, charts = block["shared"], profiles(block)
    caption = f"{shared['n_subjects']:,} subjects and {shared['n_images']:,} images in both runs"
    if block["samples"] == "independent":
        caption = f"{shared['n_subjects_first']:,} and {shared['n_subjects_second']:,} subjects, none in both runs"
    remark = calibration_words(block[run] for run in ("first", "second"))
    return draw_panels(charts, path, Heading(charts[0].title, [caption], remark))


def distances(pairs: Sequence[Mapping[str, Any]], cuts: Sequence[str] = ()) -> list[Chart]:
    """Return the distances of all pairs of runs (`compare_many.compare_all`) by the primary scorer, per cut.

    Null means are below the diagonal; all cuts have one colour scale from 0.
    """
    primary, alpha = pairs[0]["primary"], pairs[0]["settings"]["alpha"]
    rows = {
        (row["cut"], pair["first"]["name"], pair["second"]["name"]): row
        for pair in pairs
        for row in pair["distances"]
        if row["scorer"] == primary and row["distance"] is not None
    }
    names = list(dict.fromkeys(pair[run]["name"] for pair in pairs for run in ("first", "second")))
    end = max([row[key] or 0.0 for row in rows.values() for key in ("distance", "null_mean")], default=0.0) or 1.0

    def cell(cut: str, y: int, x: int) -> Point:
        first, second = names[y], names[x]
        row = rows.get((cut, first, second)) or rows.get((cut, second, first))
        if row is None or x == y:
            return Point(None, second)
        differs = x > y and row["adjusted_p"] is not None and row["adjusted_p"] <= alpha
        return Point(row["distance" if x > y else "null_mean"], second, mark="significant" if differs else "")

    return [
        Chart(
            ChartKind.HEAT,
            f"distances_{cut}",
            f"Distances of fingerprints: {scorer_label(primary)}",
            [Series([cell(cut, y, x) for x in range(len(names))], name) for y, name in enumerate(names)],
            Axis("", 0.0, end),
            panel=f"by {cut_label(cut)}",
            file="distances",
            cut=cut,
            caption="Bold, *: significant after Holm's correction over pairs and cuts. Below the diagonal: null means.",
        )
        for cut in cuts or dict.fromkeys(cut for cut, _, _ in rows)
    ]


def distance_figure(block: Mapping[str, Any], path: Path) -> Path:
    """Draw the distances of all pairs of runs (`compare_many.compare_all`), a panel per cut."""
    charts = distances(block["pairs"])
    remark = calibration_words(pair[run] for pair in block["pairs"] for run in ("first", "second"))
    return draw_panels(charts, path, Heading(charts[0].title, remark=remark))


def ranks(rows: Sequence[LeaderboardRow]) -> list[Chart]:
    """Return the rank intervals of every cut and variant of a leaderboard that has them, rank 1 at the left."""
    boards: dict[tuple[str, str | None], list[LeaderboardRow]] = {}
    for row in rows:
        if row.rank_low is not None:
            boards.setdefault((row.cut, row.variant), []).append(row)
    return [
        Chart(
            ChartKind.INTERVALS,
            f"ranks_{cut}",
            "Leaderboard with rank intervals",
            [
                Series(
                    [
                        Point(row.rank, _rank_label(row, members), low=row.rank_low, high=row.rank_high)
                        for row in members
                    ]
                )
            ],
            Axis("rank", 0.5, len(members) + 0.5),
            panel=f"by {cut_label(cut)}{f' ({variant})' if variant else ''}",
            file="ranks",
            cut=cut,
            caption="Line: simultaneous confidence interval of the rank (95 % by default). Point: rank by the "
            "difference between two groups, given beside the name with the tie letters: models that share a letter do "
            "not differ significantly.",
        )
        for (cut, variant), members in boards.items()
    ]


def rank_figure(rows: Sequence[LeaderboardRow], path: Path) -> Path:
    """Draw the rank intervals of every cut that has them, a panel each."""
    charts, first = ranks(rows), next(row for row in rows if row.rank_low is not None)
    caption = f"{plain(first.dataset)} · {first.n_subjects:,} subjects · rank 1: smallest disparities"
    return draw_panels(charts, path, Heading(charts[0].title, [caption], calibration_words(map(asdict, rows))))


def _rank_label(row: LeaderboardRow, rows: Sequence[LeaderboardRow]) -> str:
    """Return model, difference and tie letters, with the start of the run id where a name is repeated."""
    name = plain(row.model)
    suffix = f" {row.run_id[:8]}" if sum(plain(other.model) == name for other in rows) > 1 else ""
    values = " ".join(text for text in (number(row.difference), row.ties or "") if text)
    return f"{name if len(name) <= 24 else name[:23] + '…'}{suffix} {values}"
