"""Figures of FHIBE's bias analyses: highest disparities, importances, the drawn tree, the rules that held.

`top_disparities` serves every block that has a benchmark (`fp2.protocols.fhibe.scores.benchmark`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import FAINT, GRID, INK, LINES, figure, head, save, shorten, style
from fp2.report.reading import number, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Mapping[str, Any]
AGREEMENT = {
    "both": ("found with people as units, too", LINES[1]),
    "published_only": ("published method only", LINES[4]),
}
_SHORT = {"She/her/hers": "She", "He/him/his": "He", "They/them/their": "They"}
_ROW, _MOST_ROWS = 0.34, 25


def short_group(name: str) -> str:
    """Return a group's name as the paper's table writes it: `He/him/his x 60+ x V` -> `He × 60+ × Type V`."""
    parts = [_SHORT.get(p, f"Type {p}" if p in ("I", "II", "III", "IV", "V", "VI") else p) for p in name.split(" x ")]
    return plain(" × ".join(parts))


def top_disparities(top: Sequence[Mapping[str, Any]], results: Results, path: Path, title: str) -> Path:
    """Draw the largest significant disparities as bars, with worst and best group, coloured by whether ours agrees."""
    rows = [row for row in top if row["disparity"] is not None][:_MOST_ROWS]
    with style():
        drawn = figure(11.5, 1.85 + _ROW * max(len(rows), 2))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((3.2 / width, 0.85 / height, 3.1 / width, 1 - 1.75 / height))
        several = len({row.get("outcome") for row in rows}) > 1
        for y, row in enumerate(rows):
            _, colour = AGREEMENT.get(row["agreement"], ("", FAINT))
            axes.barh(y, row["disparity"], height=0.62, color=colour)
            axes.text(row["disparity"], y, f" {number(row['disparity'], 2)}", va="center", fontsize=8)
            words = f"{short_group(row['worst'])}  →  {short_group(row['best'])}"
            axes.text(1.12, y, shorten(words, 68), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        end = max([row["disparity"] for row in rows], default=0.1)
        axes.set(xlim=(0, 1.12 * end or 0.1), ylim=(max(len(rows), 1) - 0.5, -0.5))
        names = [
            f"{shorten(plain(r['outcome']), 22)} · {r['intersection']}" if several else r["intersection"] for r in rows
        ]
        axes.set_yticks(range(len(rows)), names, fontsize=8)
        axes.set_xlabel("D = 1 \u2212 median of worst / median of best (shares for yes/no)", fontsize=8)
        _bare(axes)
        axes.text(
            1.12, -0.9, "worst group  →  best group", transform=axes.get_yaxis_transform(), color=FAINT, fontsize=8
        )
        head(drawn, shorten(title, 80), [results])
        _agreement_legend(drawn, {row["agreement"] for row in rows})
        return save(drawn, path)


def _case(row: Mapping[str, Any], several: bool) -> str:
    return f"{shorten(plain(row['outcome']), 22)} · {row['intersection']}" if several else str(row["intersection"])


def _bare(axes: Axes) -> None:
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _agreement_legend(drawn: Figure, present: set[str]) -> None:
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Patch(color=colour, label=text) for code, (text, colour) in AGREEMENT.items() if code in present
    ]
    if marks:
        drawn.legend(handles=marks, loc="lower right", ncols=2, frameon=False, fontsize=8)
    note = "P pronoun, A age, ST skin tone, AR region, AS subregion of ancestry"
    drawn.text(0.15 / drawn.get_figwidth(), 0.12 / drawn.get_figheight(), note, fontsize=7.5, color=FAINT)


def importances(model: Mapping[str, Any], results: Results, path: Path, label: str) -> Path:
    """Draw each feature's impurity importance (bars, elbow) and its importance on other people with its interval."""
    rows = model["importances"][:20]
    with style():
        drawn = figure(9.6, 2.2 + _ROW * max(len(rows), 3))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        bottom, tall = 0.95 / height, 1 - 2.05 / height
        left = drawn.add_axes((2.3 / width, bottom, 3.1 / width, tall))
        right = drawn.add_axes((6.0 / width, bottom, 3.3 / width, tall))
        for y, row in enumerate(rows):
            colour = LINES[1] if row["sensitive"] else LINES[0]
            left.barh(y, row["impurity"], height=0.62, color=colour, alpha=1.0 if _in(row, model) else 0.35)
            right.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=1.8)
            right.plot(row["permutation"], y, "o", color=colour, markerfacecolor=colour if row["found"] else "white")
        n = len(model["selected"])
        left.axhline(n - 0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        left.text(1.0, n - 0.45, "elbow", transform=left.get_yaxis_transform(), ha="right", va="top", fontsize=7.5)
        right.axvline(0, color=FAINT, linewidth=0.8)
        for axes in (left, right):
            axes.set_ylim(len(rows) - 0.5, -0.5)
            _bare(axes)
        names = [shorten(plain(row["feature"].replace("_", " ")), 30) for row in rows]
        left.set_yticks(range(len(rows)), names, fontsize=8.5)
        right.set_yticks([])
        left.set_xlabel("impurity importance (as published)", fontsize=8)
        right.set_xlabel(
            "share of variance lost on other people\nwhen the feature is shuffled, 95 % interval", fontsize=8
        )
        explained = f"R² on other people {number(model['r2'], 2)}"
        if model.get("auc") is not None:
            explained += f", AUC {number(model['auc'], 2)}"
        said = explained if model["explains"] else f"{explained}: these features explain nothing of it"
        left.set_title(said, loc="left", fontsize=9, fontweight="normal" if model["explains"] else "bold")
        head(drawn, shorten(f"What goes with the errors: {label}", 80), [results])
        note = "Orange: a sensitive attribute. Filled dot: above 0 after correction for the number of features."
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _in(row: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    return row["feature"] in model["selected"]


def tree(model: Mapping[str, Any], results: Results, path: Path, label: str, min_cell: int) -> Path:
    """Draw the decision tree: questions in boxes, mean scores below, nothing of leaves with too few people."""
    import matplotlib

    nodes = {node["id"]: node for node in model["tree"]["nodes"]}
    places = _layout(nodes)
    leaves = sum(node["feature"] is None for node in nodes.values())
    levels = 1 + max(node["depth"] for node in nodes.values())
    means = [node["mean"] for node in nodes.values()]
    low, high = min(means), max(means)
    colours: Any = matplotlib.colormaps["cividis"]
    with style():
        drawn = figure(max(7.5, 1.75 * leaves), 1.6 + 1.35 * levels)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((0.15 / width, 0.4 / height, 1 - 0.3 / width, 1 - 1.35 / height))
        axes.set(xlim=(-0.5, leaves - 0.5), ylim=(levels - 0.5, -0.5))
        axes.axis("off")
        for node in nodes.values():
            x, y = places[node["id"]], node["depth"]
            for side, words in (("low", _low(node)), ("high", _high(node))):
                if node["feature"] is not None:
                    to = nodes[node[side]]
                    axes.plot([x, places[to["id"]]], [y, to["depth"]], color=FAINT, linewidth=1, zorder=1)
                    middle = (x + places[to["id"]]) / 2
                    axes.text(middle, y + 0.5, words, ha="center", va="center", fontsize=7.5, color=INK,
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2})  # fmt: skip
            _node(axes, node, x, colours, (low, high), min_cell)
        head(drawn, shorten(f"Which way the features go: {label}", 80), [results])
        note = "Mean score over people in each box; darker is lower. The tree describes these pictures."
        drawn.text(0.15 / width, 0.1 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _question(node: Mapping[str, Any]) -> str:
    """Return a node's question on a line of its own, or on two where it is about a value."""
    if node["feature"] is None:
        return ""
    feature = shorten(plain(node["feature"].replace("_", " ")), 28)
    return f"{feature}?\n" if node["value"] is None else f"{feature}\n= {shorten(plain(node['value']), 24)}?\n"


def _layout(nodes: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    """Return the horizontal place of each node: leaves in order, a question in the middle of its answers."""
    places: dict[int, float] = {}
    count = 0

    def visit(node: Mapping[str, Any]) -> float:
        nonlocal count
        if node["feature"] is None:
            places[node["id"]] = float(count)
            count += 1
        else:
            places[node["id"]] = (visit(nodes[node["low"]]) + visit(nodes[node["high"]])) / 2
        return places[node["id"]]

    visit(nodes[0])
    return places


def _low(node: Mapping[str, Any]) -> str:
    if node["feature"] is None:
        return ""
    return "no" if _is_flag(node) else f"≤ {node['threshold']:.3g}"


def _high(node: Mapping[str, Any]) -> str:
    if node["feature"] is None:
        return ""
    return "yes" if _is_flag(node) else f"> {node['threshold']:.3g}"


def _is_flag(node: Mapping[str, Any]) -> bool:
    return node["value"] is not None or node["feature"] in ("bald", "headwear", "eyewear")


def _node(
    axes: Axes, node: Mapping[str, Any], x: float, colours: Any, ends: tuple[float, float], min_cell: int
) -> None:
    hidden = node["n_subjects"] < min_cell
    share = 0.5 if ends[1] <= ends[0] else (node["mean"] - ends[0]) / (ends[1] - ends[0])
    fill = "#f2f3f5" if hidden else colours(0.25 + 0.7 * share)
    question = _question(node)
    value = "too few people" if hidden else f"{number(node['mean'], 3)}  (n={node['n_subjects']})"
    dark = not hidden and share < 0.35
    axes.text(
        x, node["depth"], question + value, ha="center", va="center", fontsize=8, color="white" if dark else INK,
        bbox={"facecolor": fill, "edgecolor": FAINT, "boxstyle": "round,pad=0.45", "linewidth": 0.8}, zorder=3,
    )  # fmt: skip


def rules(patterns: Mapping[str, Any], results: Results, path: Path, label: str, min_cell: int) -> Path:
    """Draw the best rules: how often the score is low under each, where it was found and on other people."""
    rows = [r for r in patterns["rules"] if min(r["n_subjects"], r["held_subjects"]) >= min_cell][:15]
    with style():
        drawn = figure(9.6, 2.1 + _ROW * max(len(rows), 3))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((4.9 / width, 0.9 / height, 1 - 6.3 / width, 1 - 1.8 / height))
        for y, row in enumerate(rows):
            colour = LINES[1] if row["held"] else FAINT
            ends = [row["confidence"], row["held_confidence"]]
            axes.plot(ends, [y, y], color=GRID, linewidth=2, zorder=1)
            axes.plot(ends[0], y, "o", color=colour, markerfacecolor="white", markersize=6)
            axes.plot(ends[1], y, "o", color=colour, markersize=6)
            words = f"lift {number(row['held_lift'], 1)}" + ("" if row["held"] else ", did not hold")
            axes.text(1.03, y, words, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=INK)
        axes.axvline(patterns["base_rate_held"], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlim=(-0.02, 1.02), ylim=(max(len(rows), 1) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), [shorten(plain(r["text"].replace("_", " ")), 62) for r in rows], fontsize=8)
        axes.set_xlabel("share of low scores under the rule (dashed: of everybody)", fontsize=8)
        _bare(axes)
        head(drawn, shorten(f"Error patterns: {label}", 80), [results])
        note = "Hollow: on the people that the rule was found on. Filled: on the others. Orange: held after correction."
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)
