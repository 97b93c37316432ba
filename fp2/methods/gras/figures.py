"""The figures of a GRAS run: traits by group, templates, attribution rates, the score and its null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    CHANCE,
    FAINT,
    INK,
    LINES,
    cut_label,
    figure,
    head,
    number,
    plain,
    probability,
    save,
    shorten,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Block = Mapping[str, Any]
Results = Mapping[str, Any]
POSITIVE, NEGATIVE = "positive", "negative"
_ROW, _TOP, _FOOT, _WORD = 0.158, 1.2, 0.3, 1.25
_FADED = 0.4
_MARKS = ("o", "s", "^", "D", "v")


def main_unit(block: Block) -> Mapping[str, Any]:
    """Return the part of the block with subjects as units (images where each subject has one)."""
    found: Mapping[str, Any] = block["units"].get("subjects") or block["units"]["images"]
    return found


def sizes(block: Block, attribute: str) -> dict[str, int]:
    """Return the number of subjects in each group of an attribute."""
    own = next(entry for entry in block["attributes"] if entry["name"] == attribute)
    return {group["group"]: group["n_subjects"] for group in own["groups"]}


def ordered(block: Block) -> dict[str, list[int]]:
    """Return the indices of the traits by polarity, highest valence first (in the list's order where it is unknown)."""
    traits = block["traits"]
    places = sorted(range(len(traits)), key=lambda k: -(traits[k]["valence"] or 0.0))
    return {sign: own for sign in (POSITIVE, NEGATIVE) if (own := [k for k in places if traits[k]["polarity"] == sign])}


def significant(unit: Mapping[str, Any], attribute: str) -> list[bool]:
    """Return for each trait whether group means differ significantly (step-down max-F)."""
    return [bool(found) for found in unit["tests"][attribute]["significant"]]


def mark_of(template: int) -> tuple[str, str]:
    """Return marker and colour of a template; periods of 5 and 6 make the first 30 distinct."""
    return _MARKS[template % len(_MARKS)], LINES[template % len(LINES)]


def trait_heatmap(block: Block, results: Results, attribute: str, path: Path, least: int) -> Path:
    """Draw each group's mean P(Yes) less the overall mean, averaged over templates: traits by groups."""
    import matplotlib

    unit = main_unit(block)
    part, subjects = unit["group_means"][attribute], sizes(block, attribute)
    groups = [(g, name) for g, name in enumerate(part["groups"]) if subjects.get(name, 0) >= least]
    table = [_deviations(part, g) for g, _ in groups]
    limit = _limit(block, unit, least)
    panels, marked = ordered(block), significant(unit, attribute)
    colours: Any = matplotlib.colormaps["PuOr"]
    with style():
        column = min(0.62, max(0.3, 2.6 / max(len(groups), 1)))
        words = max(len(shorten(plain(name), 16)) for _, name in groups) if groups else 0
        drawn, boxes = _panels(list(panels.values()), column * len(groups), 0.75, 0.3 + 0.075 * words)
        for axes, (sign, places) in zip(boxes, panels.items(), strict=True):
            values = [[table[g][k] for g in range(len(groups))] for k in places]
            shown = [[math.nan if x is None else x for x in row] for row in values]
            faded = [[1.0 if marked[k] else _FADED] * len(groups) for k in places]
            axes.imshow(
                shown, cmap=colours, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest", alpha=faded
            )
            _trait_names(axes, block, places, marked)
            axes.set_xticks(range(len(groups)), [shorten(plain(name), 16) for _, name in groups], rotation=90)
            axes.tick_params(axis="x", labelsize=7.5, length=0, labelcolor=INK, top=False, bottom=True)
            axes.set_title(f"{sign} traits", fontsize=9.5, loc="left")
            axes.spines[:].set_visible(False)
        _scale(drawn, colours, limit)
        head(drawn, f"P(Yes) of each group less the overall mean, by {shorten(cut_label(attribute), 40)}", [results])
        note = "Mean over templates. Faded: no significant difference of means (step-down max-F over all cells)."
        drawn.text(0.15 / drawn.get_figwidth(), 0.12 / drawn.get_figheight(), note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def template_scatter(block: Block, results: Results, number_of_set: int, path: Path) -> Path:
    """Draw the mean P(Yes) of each trait in each template: a row per trait, a colour and marker per template."""
    part = main_unit(block)["wording"]["sets"][number_of_set]
    panels = ordered(block)
    with style():
        drawn, boxes = _panels(list(panels.values()), 2.6, 0.35, 0.75)
        means = part["means"]
        known = [x for row in means for x in row if x is not None]
        low, high = min(known, default=0.0), max(known, default=1.0)
        pad = 0.05 * max(high - low, 0.02)
        for axes, (sign, places) in zip(boxes, panels.items(), strict=True):
            for y, k in enumerate(places):
                row = [x for x in means[k] if x is not None]
                axes.plot([min(row, default=0), max(row, default=0)], [y, y], color=CHANCE, linewidth=1, zorder=1)
                for t, x in enumerate(means[k]):
                    if x is not None:
                        mark, colour = mark_of(t)
                        axes.plot(x, y, mark, color=colour, markersize=3.6, zorder=2, markeredgewidth=0)
            _trait_names(axes, block, places, [False] * len(block["traits"]))
            axes.set(xlim=(low - pad, high + pad), ylim=(len(places) - 0.4, -0.6))
            axes.tick_params(axis="x", labelsize=7.5)
            axes.spines["left"].set_visible(False)
            axes.set_xlabel(f"mean {_outcome(block)}", fontsize=8)
            axes.set_title(f"{sign} traits", fontsize=9.5, loc="left")
        _template_legend(drawn, block)
        names = ", ".join(cut_label(name) for name in part["attributes"])
        head(drawn, "Prompt sensitivity: mean answer by template", [results])
        note = f"Images with {shorten(names, 70)}. Each marker is the mean over all of them."
        drawn.text(0.15 / drawn.get_figwidth(), 0.12 / drawn.get_figheight(), note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def attribution_bars(block: Block, results: Results, path: Path, least: int) -> Path:
    """Draw the attribution rates of each group, positive and negative traits, with intervals; a panel per attribute."""
    rows = main_unit(block)["attribution"]
    subjects = {entry["name"]: sizes(block, entry["name"]) for entry in block["attributes"]}
    kept = [row for row in rows if subjects[row["attribute"]].get(row["group"], 0) >= least]
    groups: dict[str, list[str]] = {}  # attributes without a group that is large enough have no panel
    for row in kept:
        if row["group"] not in groups.setdefault(row["attribute"], []):
            groups[row["attribute"]].append(row["group"])
    heights = [0.34 * len(found) + 0.55 for found in groups.values()]
    with style():
        drawn = figure(7.6, sum(heights) + 1.75)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        top = height - 1.15
        for name, tall in zip(groups, heights, strict=True):
            axes = drawn.add_axes((1.7 / width, (top - tall + 0.3) / height, 1 - 2.1 / width, (tall - 0.55) / height))
            top -= tall
            own = {(row["group"], row["polarity"]): row for row in kept if row["attribute"] == name}
            _bars(axes, own, groups[name])
            axes.set_title(cut_label(name), fontsize=9.5, loc="left")
        axes.set_xlabel("share of traits with a group mean above the overall mean in all templates", fontsize=8.5)
        _bar_legend(drawn)
        head(drawn, "Attribution rates of positive and negative traits", [results])
        note = (
            "Grey: central 95 % under permuted labels. Thin line: interval (one-sided 95 % bounds per trait)."
            "\nUpright marker: share of traits above the overall mean by more than the smallest effect of interest."
        )
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def score_and_null(block: Block, results: Results, path: Path) -> Path:
    """Draw the published score on the histogram of its permutation distribution, a panel per unit."""
    units = block["units"]
    with style():
        drawn = figure(7.6, 1.2 + 1.75 * len(units))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        ends = [x for unit in units.values() for x in (*unit["scores"]["null"], _published(unit)["value"])]
        low, high = max(0.0, min(ends) - 4), min(100.0, max(ends) + 4)
        for place, (name, unit) in enumerate(units.items()):
            bottom = 0.55 + 1.75 * (len(units) - 1 - place)
            axes = drawn.add_axes((0.35 / width, bottom / height, 1 - 0.7 / width, 1.2 / height))
            _null(axes, unit, low, high)
            label = {"images": "images as units (as published)", "subjects": "subjects as units"}[name]
            axes.set_title("images as units, one per subject" if block["same_units"] else label, fontsize=9, loc="left")
        axes.set_xlabel("cells with p ≤ α in any template, % (published orientation; ideal 0)", fontsize=8.5)
        head(drawn, "GRAS Bias Score and its null distribution", [results])
        return save(drawn, path)


def _published(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = unit["scores"]["published_orientation"]
    return found


def _null(axes: Axes, unit: Mapping[str, Any], low: float, high: float) -> None:
    score = _published(unit)
    axes.hist(unit["scores"]["null"], bins=40, range=(low, high), color=CHANCE, edgecolor="white", linewidth=0.5)
    axes.axvspan(score["null_low"], score["null_high"], color=CHANCE, alpha=0.25, linewidth=0, zorder=0)
    axes.axvline(score["null_mean"], color=FAINT, linestyle=(0, (4, 3)), linewidth=1)
    axes.axvline(score["value"], color=LINES[1], linewidth=2)
    p = probability(score["p_value"])
    null = f"null mean {number(score['null_mean'], 1)}; p {p if p[0] == '<' else '= ' + p}"
    axes.set_title(
        f"{number(score['value'], 2)} ({null})", loc="right", fontsize=9, fontweight="normal", color=LINES[1]
    )
    axes.set(xlim=(low, high), yticks=[])
    axes.spines["left"].set_visible(False)


def _deviations(part: Mapping[str, Any], g: int) -> list[float | None]:
    out: list[float | None] = []
    for own, overall in zip(part["means"][g], part["overall"], strict=True):
        gaps = [a - b for a, b in zip(own, overall, strict=True) if a is not None and b is not None]
        out.append(sum(gaps) / len(gaps) if gaps else None)
    return out


def _limit(block: Block, unit: Mapping[str, Any], least: int) -> float:
    """Return one end of the colour scale for all attributes of a run, so that its heatmaps are comparable."""
    found = [0.0]
    for attribute, part in unit["group_means"].items():
        subjects = sizes(block, attribute)
        for g, name in enumerate(part["groups"]):
            if subjects.get(name, 0) >= least:
                found += [abs(x) for x in _deviations(part, g) if x is not None]
    return _round_up(max(found))


def _round_up(value: float) -> float:
    step = next((s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if value <= s), None)
    return step or float(math.ceil(value))


def _panels(places: Sequence[Sequence[int]], inside: float, right: float, foot: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel per polarity and room for the trait names left of each; lengths in inches."""
    rows = max(len(own) for own in places)
    under = _FOOT + foot
    drawn = figure(0.1 + len(places) * (_WORD + inside + 0.15) + right, _TOP + under + _ROW * rows)
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    boxes = []
    for place, own in enumerate(places):
        left = 0.1 + place * (_WORD + inside + 0.15) + _WORD
        tall = _ROW * len(own)
        boxes.append(
            drawn.add_axes((left / width, (under + _ROW * rows - tall) / height, inside / width, tall / height))
        )
    return drawn, boxes


def _trait_names(axes: Axes, block: Block, places: Sequence[int], marked: Sequence[bool]) -> None:
    names = [shorten(plain(block["traits"][k]["word"]), 18) + (" •" if marked[k] else "") for k in places]
    axes.set_yticks(range(len(places)), names)
    axes.tick_params(axis="y", labelsize=7.2, length=0, labelcolor=INK)
    for label, k in zip(axes.get_yticklabels(), places, strict=True):
        label.set_fontweight("bold" if marked[k] else "normal")


def _scale(drawn: Figure, colours: Any, limit: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    width = drawn.get_figwidth()
    bar = drawn.add_axes((1 - 0.62 / width, 0.45, 0.12 / width, 0.25))
    scale: Any = drawn.colorbar(ScalarMappable(Normalize(-limit, limit), colours), cax=bar)
    scale.outline.set_visible(False)
    scale.set_ticks([-limit, 0, limit], labels=[number(-limit, 2), "0", number(limit, 2)])
    scale.ax.tick_params(labelsize=7.5, length=0)


def _template_legend(drawn: Figure, block: Block) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker=mark_of(t)[0], color=mark_of(t)[1], linestyle="", markersize=4.5, label=plain(name))
        for t, name in enumerate(block["templates"])
    ]
    at = (0.5, 0.26 / drawn.get_figheight())
    drawn.legend(handles=marks, loc="lower center", bbox_to_anchor=at, ncols=5, frameon=False, fontsize=8)


def _bars(axes: Axes, rows: Mapping[tuple[str, str], Mapping[str, Any]], groups: Sequence[str]) -> None:
    for y, group in enumerate(groups):
        for step, (sign, colour) in enumerate(((POSITIVE, LINES[2]), (NEGATIVE, LINES[3]))):
            row = rows.get((group, sign))
            if row is None or row["share"] is None:
                continue
            at = y + (step - 0.5) * 0.36
            width = row["null_high"] - row["null_low"]
            axes.barh(at, width, left=row["null_low"], height=0.36, color=CHANCE, alpha=0.45, linewidth=0)
            axes.barh(at, row["share"], height=0.2, color=colour, alpha=0.8, linewidth=0)
            axes.plot([row["low"], row["high"]], [at, at], color=INK, linewidth=0.9)
            if row["beyond_share"]:
                axes.plot([row["beyond_share"]] * 2, [at - 0.15, at + 0.15], color="black", linewidth=2)
    axes.set(xlim=(0, 1), ylim=(len(groups) - 0.5, -0.5))
    axes.set_yticks(range(len(groups)), [shorten(plain(group), 22) for group in groups])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.tick_params(axis="x", labelsize=7.5)


def _bar_legend(drawn: Figure) -> None:
    from matplotlib.patches import Patch

    marks = [Patch(color=c, alpha=0.8, label=f"{n} traits") for n, c in ((POSITIVE, LINES[2]), (NEGATIVE, LINES[3]))]
    at = (1.0, 1 - 0.62 / drawn.get_figheight())
    drawn.legend(handles=marks, loc="center right", bbox_to_anchor=at, ncols=2, frameon=False, fontsize=8)


def _outcome(block: Block) -> str:
    return {"logit_difference": "log odds of yes"}.get(block["outcome"], "P(Yes)")
