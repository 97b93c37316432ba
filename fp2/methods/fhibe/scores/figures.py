"""Figures of FHIBE's bias analyses: highest disparities, feature importances, the decision tree, the rules.

`top_disparities` draws those of any block with a benchmark (`fp2.methods.fhibe.scores.benchmark`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import FAINT, GRID, INK, LABEL_JOIN, LINES, figure, head, number, plain, save, shorten, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Mapping[str, Any]
AGREEMENT = {
    "both": ("significant in both analyses", LINES[1]),
    "published_only": ("published analysis only", LINES[4]),
}
_SHORT = {"She/her/hers": "She", "He/him/his": "He", "They/them/their": "They"}
_TONES = ("I", "II", "III", "IV", "V", "VI")
_ROW, _MAX_ROWS = 0.34, 25  # inches; rows of a figure


def short_group(name: str) -> str:
    """Return a group's name as the paper's tables write it: `He/him/his x 60+ x V` -> `He × 60+ × Type V`."""
    parts = (_SHORT.get(part, f"Type {part}" if part in _TONES else part) for part in name.split(LABEL_JOIN))
    return plain(" × ".join(parts))


def large_top(block: Mapping[str, Any], min_cell: int) -> list[Mapping[str, Any]]:
    """Return the highest disparities of a block of which the worst and the best group have `min_cell` subjects."""
    sizes = {
        (one["label"], row["cut"], group["group"]): group["n_subjects"]
        for one in block["outcomes"]
        if one["benchmark"] is not None
        for row in one["benchmark"]["rows"]
        for group in row["groups"]
    }
    return [
        line
        for line in block["top"]
        if min(sizes[line["outcome"], line["cut"], line[end]] for end in ("worst", "best")) >= min_cell
    ]


def top_disparities(top: Sequence[Mapping[str, Any]], results: Results, path: Path, title: str) -> Path:
    """Draw the highest significant disparities as bars, with worst and best group, coloured by agreement."""
    rows = [row for row in top if row["disparity"] is not None][:_MAX_ROWS]
    several = len({row.get("outcome") for row in rows}) > 1
    with style():
        drawn = figure(11.5, 1.85 + _ROW * max(len(rows), 2))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((3.2 / width, 0.85 / height, 3.1 / width, 1 - 1.75 / height))
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontsize": 8}
        for y, row in enumerate(rows):
            axes.barh(y, row["disparity"], height=0.62, color=AGREEMENT.get(row["agreement"], ("", FAINT))[1])
            axes.text(row["disparity"], y, f" {number(row['disparity'], 2)}", va="center", fontsize=8)
            words = f"{short_group(row['worst'])}  →  {short_group(row['best'])}"
            axes.text(1.12, y, shorten(words, 68), va="center", **beside)
        axes.text(1.12, -0.9, "worst group  →  best group", color=FAINT, **beside)
        end = max([row["disparity"] for row in rows], default=0.1)
        axes.set(xlim=(0, 1.12 * end or 0.1), ylim=(max(len(rows), 1) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), [_case(row, several) for row in rows], fontsize=8)
        axes.set_xlabel("D = 1 \u2212 median of worst / median of best (binary scores: proportions)", fontsize=8)
        bare(axes)
        head(drawn, shorten(title, 80), [results])
        _agreement_legend(drawn, {row["agreement"] for row in rows})
        return save(drawn, path)


def _case(row: Mapping[str, Any], several: bool) -> str:
    return f"{shorten(plain(row['outcome']), 22)} · {row['intersection']}" if several else str(row["intersection"])


def bare(axes: Axes) -> None:
    """Draw a vertical grid behind horizontal bars, without ticks and line on the left."""
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _note(drawn: Figure, text: str, y: float = 0.12) -> None:
    drawn.text(0.15 / drawn.get_figwidth(), y / drawn.get_figheight(), text, fontsize=7.5, color=FAINT)


def _agreement_legend(drawn: Figure, present: set[str]) -> None:
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Patch(color=colour, label=text) for code, (text, colour) in AGREEMENT.items() if code in present
    ]
    if marks:
        drawn.legend(handles=marks, loc="lower right", ncols=2, frameon=False, fontsize=8)
    _note(drawn, "P pronoun, A age, ST skin tone, AR region, AS subregion of ancestry")


def importances(model: Mapping[str, Any], results: Results, path: Path, label: str) -> Path:
    """Draw each feature's impurity importance, with the elbow, and its out-of-fold importance with its interval."""
    rows = model["importances"][:20]
    with style():
        drawn = figure(9.6, 2.2 + _ROW * max(len(rows), 3))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        bottom, tall = 0.95 / height, 1 - 2.05 / height
        left = drawn.add_axes((2.3 / width, bottom, 3.1 / width, tall))
        right = drawn.add_axes((6.0 / width, bottom, 3.3 / width, tall))
        for y, row in enumerate(rows):
            colour = LINES[1] if row["sensitive"] else LINES[0]
            alpha = 1.0 if row["feature"] in model["selected"] else 0.35
            left.barh(y, row["impurity"], height=0.62, color=colour, alpha=alpha)
            right.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=1.8)
            right.plot(row["permutation"], y, "o", color=colour, markerfacecolor=colour if row["found"] else "white")
        n = len(model["selected"])
        left.axhline(n - 0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        left.text(1.0, n - 0.45, "elbow", transform=left.get_yaxis_transform(), ha="right", va="top", fontsize=7.5)
        right.axvline(0, color=FAINT, linewidth=0.8)
        for axes in (left, right):
            axes.set_ylim(len(rows) - 0.5, -0.5)
            bare(axes)
        names = [shorten(plain(row["feature"].replace("_", " ")), 30) for row in rows]
        left.set_yticks(range(len(rows)), names, fontsize=8.5)
        right.set_yticks([])
        left.set_xlabel("impurity importance (published)", fontsize=8)
        right.set_xlabel("permutation importance out of fold\n(share of variance), 95 % interval", fontsize=8)
        left.set_title(
            _fit(model), loc="left", fontsize=9, fontweight="normal" if model["explains"] else "bold"
        )  # fmt: skip
        head(drawn, shorten(f"Features associated with errors: {label}", 80), [results])
        _note(drawn, "Orange: sensitive attribute. Filled point: above 0 after Bonferroni correction.")
        return save(drawn, path)


def _fit(model: Mapping[str, Any]) -> str:
    auc = "" if model.get("auc") is None else f", AUC {number(model['auc'], 2)}"
    nothing = "" if model["explains"] else ": not above 0, importances are not interpretable"
    return f"out-of-fold R² {number(model['r2'], 2)}{auc}{nothing}"


def tree(model: Mapping[str, Any], results: Results, path: Path, label: str, min_cell: int) -> Path:
    """Draw the decision tree: a split and the mean score in each node, without those of too few subjects."""
    import matplotlib

    nodes = {node["id"]: node for node in model["tree"]["nodes"]}
    places = _layout(nodes)
    leaves = sum(node["feature"] is None for node in nodes.values())
    levels = 1 + max(node["depth"] for node in nodes.values())
    means = [node["mean"] for node in nodes.values()]
    colours: Any = matplotlib.colormaps["cividis"]
    with style():
        drawn = figure(max(7.5, 1.75 * leaves), 1.6 + 1.35 * levels)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((0.15 / width, 0.4 / height, 1 - 0.3 / width, 1 - 1.35 / height))
        axes.set(xlim=(-0.5, leaves - 0.5), ylim=(levels - 0.5, -0.5))
        axes.axis("off")
        for node in nodes.values():
            x, y = places[node["id"]], node["depth"]
            for side, words in _branches(node):
                to = nodes[node[side]]
                axes.plot([x, places[to["id"]]], [y, to["depth"]], color=FAINT, linewidth=1, zorder=1)
                axes.text((x + places[to["id"]]) / 2, y + 0.5, words, ha="center", va="center", fontsize=7.5,
                          color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2})  # fmt: skip
            _node(axes, node, x, colours, (min(means), max(means)), min_cell)
        head(drawn, shorten(f"Direction of the features: {label}", 80), [results])
        _note(drawn, "Mean score over subjects in each node; darker is lower. The tree describes this sample.", 0.1)
        return save(drawn, path)


def _layout(nodes: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    """Return the horizontal place of each node: leaves in order, a split centred above its two nodes."""
    places: dict[int, float] = {}

    def visit(node: Mapping[str, Any]) -> float:
        if node["feature"] is None:
            place = float(sum(nodes[known]["feature"] is None for known in places))
        else:
            place = (visit(nodes[node["low"]]) + visit(nodes[node["high"]])) / 2
        places[node["id"]] = place
        return place

    visit(nodes[0])
    return places


def _branches(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the two sides of a split, each with its label."""
    if node["feature"] is None:
        return []
    if node["value"] is not None or node["feature"] in ("bald", "headwear", "eyewear"):
        return [("low", "no"), ("high", "yes")]
    return [("low", f"≤ {node['threshold']:.3g}"), ("high", f"> {node['threshold']:.3g}")]


def _split(node: Mapping[str, Any]) -> str:
    """Return a node's split as one line, or as two if it is on a value."""
    if node["feature"] is None:
        return ""
    feature = shorten(plain(node["feature"].replace("_", " ")), 28)
    return f"{feature}?\n" if node["value"] is None else f"{feature}\n= {shorten(plain(node['value']), 24)}?\n"


def _node(
    axes: Axes, node: Mapping[str, Any], x: float, colours: Any, ends: tuple[float, float], min_cell: int
) -> None:
    hidden = node["n_subjects"] < min_cell
    share = 0.5 if ends[1] <= ends[0] else (node["mean"] - ends[0]) / (ends[1] - ends[0])
    value = "too few subjects" if hidden else f"{number(node['mean'], 3)}  (n={node['n_subjects']})"
    axes.text(
        x, node["depth"], _split(node) + value, ha="center", va="center", fontsize=8, zorder=3,
        color="white" if not hidden and share < 0.35 else INK,
        bbox={"facecolor": "#f2f3f5" if hidden else colours(0.25 + 0.7 * share), "edgecolor": FAINT,
              "boxstyle": "round,pad=0.45", "linewidth": 0.8},
    )  # fmt: skip


def rules(patterns: Mapping[str, Any], results: Results, path: Path, label: str, min_cell: int) -> Path:
    """Draw the best rules: the share of low scores under each, on the discovery and on the held-out half."""
    rows = [r for r in patterns["rules"] if min(r["n_subjects"], r["held_subjects"]) >= min_cell][:15]
    with style():
        drawn = figure(9.6, 2.1 + _ROW * max(len(rows), 3))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((4.9 / width, 0.9 / height, 1 - 6.6 / width, 1 - 1.8 / height))
        for y, row in enumerate(rows):
            colour = LINES[1] if row["held"] else FAINT
            ends = [row["confidence"], row["held_confidence"]]
            axes.plot(ends, [y, y], color=GRID, linewidth=2, zorder=1)
            axes.plot(ends[0], y, "o", color=colour, markerfacecolor="white", markersize=6)
            axes.plot(ends[1], y, "o", color=colour, markersize=6)
            words = f"lift {number(row['held_lift'], 1)}" + ("" if row["held"] else ", not replicated")
            axes.text(1.03, y, words, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=INK)
        axes.axvline(patterns["base_rate_held"], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlim=(-0.02, 1.02), ylim=(max(len(rows), 1) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), [shorten(plain(r["text"].replace("_", " ")), 62) for r in rows], fontsize=8)
        axes.set_xlabel("share of low scores under the rule (dashed: base rate)", fontsize=8)
        bare(axes)
        head(drawn, shorten(f"Error patterns: {label}", 80), [results])
        _note(drawn, "Hollow: discovery half of the subjects. Filled: held-out half. Orange: replicated there.")
        return save(drawn, path)
