"""The figures of several runs: two fingerprints side by side, and the leaderboard's rank intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import FAINT, GRID, INK, LINES, figure, save, shorten, style
from fp2.report.leaderboard import LeaderboardRow
from fp2.report.reading import calibration_words, cut_label, number, plain, scorer_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_GROUPS = 24
_LEFT, _RIGHT, _COLUMN, _HEAD, _FOOT, _TITLE, _LINE, _GAP = 1.75, 0.25, 1.4, 1.4, 0.55, 0.5, 0.24, 0.42


def profile_figure(block: Mapping[str, Any], path: Path) -> Path:
    """Draw the result of `fp2.runs.compare.compare`: a row of panels per cut, a panel per probe, a line per group."""
    rows = block["profiles"]
    cuts = list(dict.fromkeys(row["cut"] for row in rows))
    probes = [probe for probe in block["probes"] if any(row["probe"] == probe for row in rows)]
    groups = {cut: _groups(rows, cut) for cut in cuts}
    end = 1.1 * max([abs(row[run]) for row in rows for run in ("first", "second")] + [0.01])
    body = sum(_TITLE + _LINE * len(groups[cut]) + _GAP for cut in cuts)
    with style():
        drawn = figure(max(_LEFT + _COLUMN * len(probes) + _RIGHT, 6.5), _HEAD + body + _FOOT)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        column = (width - _LEFT - _RIGHT) / len(probes)
        _profile_head(drawn, block)
        top = height - _HEAD
        for cut in cuts:
            distances = _distances(block, cut)
            drawn.text(0.15 / width, (top - 0.13) / height, f"by {shorten(cut_label(cut), 60)}", fontweight="bold")
            top -= _TITLE
            tall = _LINE * len(groups[cut])
            for x, probe in enumerate(probes):
                left = (_LEFT + x * column) / width
                axes = drawn.add_axes((left, (top - tall) / height, (column - 0.14) / width, tall / height))
                own = {row["group"]: row for row in rows if row["cut"] == cut and row["probe"] == probe}
                _profile_panel(axes, own, groups[cut], end, first=x == 0)
                distance, differs = distances.get(probe, (None, False))
                axes.set_title(
                    f"{shorten(plain(block['probes'][probe]), 18)}\n{number(distance)}{' *' if differs else ''}",
                    fontsize=7.5, fontweight="bold" if differs else "normal", pad=3,
                )  # fmt: skip
            top -= tall + _GAP
        where = "images with a value in both runs" if block["samples"] == "shared" else "each run's own subjects"
        note = (
            f"Group means over subjects less their mean over groups, of {where}; groups of at "
            "least 10 subjects.\nUnder each probe: the distance of the two profiles; * significant after Holm's "
            "correction over probes and cuts."
        )
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT, linespacing=1.4)
        return save(drawn, path)


def profile_axes(axes: Axes, block: Mapping[str, Any], cut: str, probe: str) -> None:
    """Draw one probe and cut of a pair of runs on axes of the caller's: see `profile_figure`."""
    rows = [row for row in block["profiles"] if row["cut"] == cut]
    own = {row["group"]: row for row in rows if row["probe"] == probe}
    end = 1.1 * max([abs(row[run]) for row in own.values() for run in ("first", "second")] + [0.01])
    _profile_panel(axes, own, _groups(rows, cut), end, first=True)
    distance, differs = _distances(block, cut).get(probe, (None, False))
    words = f"distance {number(distance)}{' *' if differs else ''}"
    axes.set_title(f"{shorten(plain(block['probes'][probe]), 40)}, by {shorten(cut_label(cut), 40)}: {words}")
    axes.set_xlabel(f"{scorer_label(block['primary'])}: group mean less the mean over groups")
    for run, marker, colour in (("first", "o", LINES[0]), ("second", "D", LINES[1])):
        axes.plot([], [], marker, color=colour, label=shorten(plain(block[run]["name"]), 40))
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _groups(rows: Sequence[Mapping[str, Any]], cut: str) -> list[str]:
    """Return the groups of a cut in order, the largest ones where there are many."""
    sizes = {row["group"]: row["n_subjects"] for row in rows if row["cut"] == cut}
    kept = set(sorted(sizes, key=lambda group: -sizes[group])[:MOST_GROUPS])
    return sorted(kept)


def _distances(block: Mapping[str, Any], cut: str) -> dict[str, tuple[float, bool]]:
    """Return each probe's distance in a cut, and whether it is significant."""
    alpha = block["settings"]["alpha"]
    row = next(row for row in block["distances"] if row["cut"] == cut and row["scorer"] == block["primary"])
    return {entry["probe"]: (entry["distance"], entry["adjusted_p"] <= alpha) for entry in row["by_probe"]}


def _profile_head(drawn: Figure, block: Mapping[str, Any]) -> None:
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    title = f"Two fingerprints: {scorer_label(block['primary'])}"
    drawn.text(0.15 / width, 1 - 0.32 / height, title, fontsize=12.5, fontweight="bold")
    shared = block["shared"]
    line = f"{shared['n_subjects']:,} subjects and {shared['n_images']:,} images in both runs"
    if block["samples"] == "independent":
        line = f"{shared['n_subjects_first']:,} and {shared['n_subjects_second']:,} subjects, none in both runs"
    drawn.text(0.15 / width, 1 - 0.55 / height, line, fontsize=8.5, color=FAINT)
    for y, (run, colour, marker) in enumerate((("first", LINES[0], "●"), ("second", LINES[1], "◆"))):
        name = shorten(plain(block[run]["name"]), 60)
        drawn.text(0.15 / width, 1 - (0.76 + 0.19 * y) / height, marker, fontsize=9, color=colour)
        drawn.text(0.33 / width, 1 - (0.76 + 0.19 * y) / height, name, fontsize=8.5, color=INK)
    said = calibration_words(block[run] for run in ("first", "second"))
    drawn.text(0.15 / width, 1 - 1.14 / height, said, fontsize=8, color=FAINT, style="italic")


def _profile_panel(
    axes: Axes, rows: Mapping[str, Mapping[str, Any]], groups: Sequence[str], end: float, first: bool
) -> None:
    """Draw one probe: two points per group, joined by a thin line."""
    axes.axvline(0, color=GRID, linewidth=1)
    for y, group in enumerate(groups):
        axes.axhline(y, color=GRID, linewidth=0.5, zorder=0)
        if group not in rows:
            continue
        a, b = rows[group]["first"], rows[group]["second"]
        axes.plot((a, b), (y, y), color=FAINT, linewidth=1)
        axes.plot(a, y, "o", color=LINES[0], markersize=5)
        axes.plot(b, y, "D", color=LINES[1], markersize=4.3)
    axes.set(xlim=(-end, end), ylim=(len(groups) - 0.5, -0.5))
    axes.set_yticks(range(len(groups)), [shorten(plain(group), 24) for group in groups] if first else [])
    axes.tick_params(length=0, labelsize=7.5)
    axes.locator_params(axis="x", nbins=3)
    axes.spines["left"].set_visible(False)


_SQUARE, _SIDE, _OVER, _UNDER = 0.62, 2.3, 0.95, 0.75


def distance_figure(block: Mapping[str, Any], path: Path) -> Path:
    """Draw the result of `fp2.runs.compare_many.compare_all`: for each cut, the distances of all pairs of runs.

    The primary scorer, one colour scale from 0; a star marks pairs that differ significantly.
    """
    names, found = block["runs"], _by_pair(block["pairs"], block["primary"])
    cuts = list(dict.fromkeys(cut for cut, _, _ in found))
    end = max([row["distance"] for row in found.values()], default=0.0) or 1.0
    side = _SQUARE * len(names)
    with style():
        drawn = figure(_SIDE + side + 0.6, _OVER + max(len(cuts), 1) * (side + 0.95) + _UNDER)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        title = f"Distances of fingerprints: {scorer_label(block['primary'])}"
        drawn.text(0.15 / width, 1 - 0.32 / height, title, fontsize=12.5, fontweight="bold")
        said = calibration_words(pair[run] for pair in block["pairs"] for run in ("first", "second"))
        drawn.text(0.15 / width, 1 - 0.55 / height, said, fontsize=8, color=FAINT, style="italic")
        for place, cut in enumerate(cuts):
            bottom = height - _OVER - (place + 1) * (side + 0.95) + 0.6
            axes = drawn.add_axes((_SIDE / width, bottom / height, side / width, side / height))
            _distance_panel(axes, found, cut, names, end, block["settings"]["alpha"])
        note = "Bold, *: significant after Holm's correction over pairs and cuts.\nBelow the diagonal: null means."
        drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT, linespacing=1.4)
        return save(drawn, path)


def distance_axes(axes: Axes, pairs: Sequence[Mapping[str, Any]], cut: str) -> None:
    """Draw the distances of all pairs by one cut on axes of the caller's: see `distance_figure`."""
    found = _by_pair(pairs, pairs[0]["primary"])
    names = list(dict.fromkeys(pair[run]["name"] for pair in pairs for run in ("first", "second")))
    end = max([row["distance"] for row in found.values()], default=0.0) or 1.0
    _distance_panel(axes, found, cut, names, end, pairs[0]["settings"]["alpha"])


def _by_pair(pairs: Sequence[Mapping[str, Any]], primary: str) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Return the distances of the primary scorer by cut and the names of two runs."""
    return {
        (row["cut"], pair["first"]["name"], pair["second"]["name"]): row
        for pair in pairs
        for row in pair["distances"]
        if row["scorer"] == primary and row["distance"] is not None
    }


def _distance_panel(
    axes: Axes, found: Mapping[tuple[str, str, str], Any], cut: str, names: Sequence[str], end: float, alpha: float
) -> None:
    """Draw one cut: distances above the diagonal, null means below."""
    import matplotlib
    from matplotlib.patches import Rectangle

    colours = matplotlib.colormaps["Blues"]
    for y, first in enumerate(names):
        for x, second in enumerate(names):
            row = found.get((cut, first, second)) or found.get((cut, second, first))
            if row is None or x == y:
                continue
            value = row["distance"] if x > y else row["null_mean"]
            shade = 0.85 * min((value or 0.0) / end, 1.0)
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colours(shade), edgecolor="white", linewidth=1.5))
            differs = x > y and row["adjusted_p"] is not None and row["adjusted_p"] <= alpha
            axes.text(
                x + 0.5, y + 0.5, f"{number(value)}{'*' if differs else ''}", ha="center", va="center", fontsize=8,
                color="white" if shade > 0.55 else INK if x > y else FAINT, fontweight="bold" if differs else "normal",
            )  # fmt: skip
    axes.set(xlim=(0, len(names)), ylim=(len(names), 0))
    axes.set_xticks([x + 0.5 for x in range(len(names))], [shorten(plain(name), 9) for name in names])
    axes.set_yticks([y + 0.5 for y in range(len(names))], [shorten(plain(name), 26) for name in names])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.set_title(shorten(f"by {cut_label(cut)}", 40), loc="left", fontsize=9.5)


_TOP, _BOTTOM, _HEADING, _ROW, _BETWEEN = 0.85, 0.6, 0.4, 0.3, 0.4
_NAMES, _VALUES, _WIDTH = 2.6, 1.9, 8.6
NOTE = (
    "Bar: simultaneous confidence interval of the rank (95 % by default). Dot: rank by the difference between two "
    "groups,\ngiven at the right with the tie letters: models that share a letter do not differ significantly."
)


def rank_figure(rows: Sequence[LeaderboardRow], path: Path) -> Path:
    """Draw the rank intervals of every cut that has them, a panel each, with rank 1 at the left."""
    boards: dict[tuple[str, str | None], list[LeaderboardRow]] = {}
    for row in rows:
        if row.rank_low is not None:
            boards.setdefault((row.cut, row.variant), []).append(row)
    body = sum(_HEADING + _ROW * len(members) + _BETWEEN for members in boards.values())
    with style():
        drawn = figure(_WIDTH, _TOP + body + _BOTTOM)
        height = drawn.get_figheight()
        drawn.text(
            0.15 / _WIDTH, 1 - 0.32 / height, "Leaderboard with rank intervals", fontsize=12.5, fontweight="bold"
        )
        some = next(iter(boards.values()))[0]
        line = f"{shorten(plain(some.dataset), 40)} · {some.n_subjects:,} subjects · rank 1: smallest disparities"
        drawn.text(0.15 / _WIDTH, 1 - 0.55 / height, line, fontsize=8.5, color=FAINT)
        said = calibration_words(map(asdict, rows))
        drawn.text(0.15 / _WIDTH, 1 - 0.74 / height, said, fontsize=8, color=FAINT, style="italic")
        top = height - _TOP
        for (cut, variant), members in boards.items():
            top -= _HEADING
            tall = _ROW * len(members)
            box = (_NAMES / _WIDTH, (top - tall) / height, 1 - (_NAMES + _VALUES) / _WIDTH, tall / height)
            _rank_panel(drawn.add_axes(box), members, f"by {cut_label(cut)}" + (f" ({variant})" if variant else ""))
            top -= tall + _BETWEEN
        drawn.text(0.15 / _WIDTH, 0.18 / height, NOTE, fontsize=7.5, color=FAINT, linespacing=1.4)
        return save(drawn, path)


def _rank_panel(axes: Axes, rows: Sequence[LeaderboardRow], title: str) -> None:
    """Draw one cut: a line per model, rank 1 at the top."""
    k = len(rows)
    axes.set(xlim=(0.5, k + 0.5), ylim=(k - 0.5, -0.5))
    axes.set_title(shorten(title, 60), loc="left")
    for y, row in enumerate(rows):
        axes.plot((row.rank_low or 0, row.rank_high or 0), (y, y), color=LINES[0], linewidth=5, alpha=0.35,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(row.rank or 0, y, "o", color=LINES[0], markersize=6)
        beside: Any = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.03, y, number(row.difference), color=INK, **beside)
        axes.text(1.17, y, row.ties or "", color=FAINT, style="italic", **beside)
    axes.set_yticks(range(k), _model_names(rows))
    axes.set_xticks(range(1, k + 1))
    axes.set_xlabel("rank", fontsize=8.5, labelpad=1)
    axes.tick_params(length=0, labelsize=8.5)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _model_names(rows: Sequence[LeaderboardRow]) -> list[str]:
    """Return the models' names, with the start of the run id where a name is repeated."""
    names = [plain(row.model) for row in rows]
    return [
        shorten(name, 30) if names.count(name) == 1 else f"{shorten(name, 20)} {row.run_id[:8]}"
        for name, row in zip(names, rows, strict=True)
    ]
