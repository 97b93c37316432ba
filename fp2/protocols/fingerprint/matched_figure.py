"""The figure of counterfactual sets: each version's level under each probe, beside the null distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import CHANCE, FAINT, INK, VERDICT_MARKS, figure, head, save, shorten, style
from fp2.report.reading import cut_label, number, plain, primary_scorer, probe_labels, scorer_label, verdict_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def version_levels(
    rows: Sequence[Mapping[str, Any]], cut: str, results: Mapping[str, Any], path: Path, least: int
) -> Path:
    """Draw the levels of the versions of one cut, a line per probe, without versions of fewer than `least` sets."""
    labels = probe_labels(results)
    reach = max(
        [abs(v["level"]) for row in rows for v in row["versions"] if v["level"] is not None]
        + [row["null_p95"] / 2 for row in rows]
        + [0.05]
    )
    with style():
        drawn = figure(8.2, 2.0 + 0.62 * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((1.75 / width, 0.85 / height, 1 - 3.5 / width, 1 - 1.85 / height))
        for y, row in enumerate(rows):
            _draw_probe(axes, y, row, reach, least)
        axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
        axes.set(xlim=(-1.8 * reach, 1.8 * reach), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [shorten(labels[row["probe"]], 20) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"mean {scorer_label(primary_scorer(results))} less the mean of the set")
        head(drawn, f"Within-set differences by {shorten(cut_label(cut), 40)}: {rows[0]['n_sets']} sets", [results])
        note = "Filled: significant after correction. Grey bar: 95th percentile of the difference expected by chance."
        drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _draw_probe(axes: Axes, y: int, row: Mapping[str, Any], reach: float, least: int) -> None:
    """Draw one probe: the null as a bar around 0, the versions as points, and the ends named where significant."""
    axes.barh(y, row["null_p95"], left=-row["null_p95"] / 2, height=0.46, color=CHANCE, alpha=0.6, zorder=1)
    colour, _, filled = VERDICT_MARKS.get(row["verdict"], (FAINT, "o", False))
    known = [v for v in row["versions"] if v["level"] is not None and v["n_sets"] >= least]
    levels = [v["level"] for v in known]
    if not levels:
        return
    axes.plot([min(levels), max(levels)], [y, y], color=colour, linewidth=1.2, zorder=2)
    axes.scatter(levels, [y] * len(levels), s=26, facecolor=colour if filled else "white", edgecolor=colour, zorder=3)
    if row["significant"]:
        named = [v for v in known if v["name"] in (row["worst_version"], row["best_version"])]
        for version in named:
            left = version["level"] == min(v["level"] for v in named)
            axes.annotate(
                shorten(plain(version["name"]), 16), (version["level"], y), (-6 if left else 6, 0),
                textcoords="offset points", ha="right" if left else "left", va="center", fontsize=8, color=INK,
            )  # fmt: skip
    gap = f"{number(row['raw'])} {verdict_words(row['verdict'])}"
    axes.text(1.85 * reach, y, gap, va="center", ha="left", fontsize=8, color=INK if row["significant"] else FAINT)
