"""Figures of the narrow tasks: share found, groups, threshold curves, and verification by hairstyles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.extension import (
    CHANCE,
    FAINT,
    GRID,
    INK,
    LINES,
    Results,
    cut_label,
    figure,
    head,
    number,
    plain,
    save,
    shorten,
    style,
)
from fp2.methods.fhibe.narrow.protocol import NOT_MEASURABLE
from fp2.methods.fhibe.scores.figures import bare, short_group

_ROW = 0.3  # inches
_MAX_LINES = len(LINES)  # groups of a panel of curves
_MAX_STYLES = 16  # pairs of hairstyles of a panel


def tasks(block: Mapping[str, Any], results: Results, path: Path) -> Path:
    """Draw for each task and model the share of people found, and the mean score if it is measurable."""
    outcomes = block["outcomes"]
    with style():
        drawn = figure(9.2, 1.9 + 0.55 * len(outcomes))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.9 / width, 0.75 / height, 4.1 / width, 1 - 1.65 / height))
        for y, one in enumerate(outcomes):
            colour = LINES[0] if one["measurable"] else CHANCE
            axes.barh(y, one["found_share"], height=0.55, color=GRID)
            mean = one["means"].get(one["metric"])
            if mean is not None:
                axes.plot(mean, y, "o", color=colour, markersize=7)
            words = NOT_MEASURABLE if mean is None else f"{one['metric']} {number(mean, 2)}"
            text = f"{words} · found {one['found_share']:.0%}"
            axes.text(1.04, y, text, va="center", fontsize=8, color=FAINT if mean is None else colour)
        axes.axvline(block["measurable_from"], color=FAINT, linewidth=0.8, linestyle=":")
        axes.set(xlim=(0, 1), ylim=(len(outcomes) - 0.5, -0.5))
        bare(axes)
        axes.set_yticks(range(len(outcomes)), [shorten(plain(one["label"]), 44) for one in outcomes], fontsize=8)
        axes.set_xlabel("bar: share of people found · point: mean score over subjects", fontsize=8)
        head(drawn, "Narrow tasks: share found and mean score", [results])
        return save(drawn, path)


def by_group(rows: Sequence[Mapping[str, Any]], results: Results, path: Path, title: str, axis: str) -> Path:
    """Draw a value and its interval for each group, one cut below the other.

    rows : `cut, group, n_subjects, value, low, high`.
    """
    places, place, before = [], 0.0, None
    for row in rows:
        place += 1.0 if row["cut"] == before else 1.9
        places.append(place)
        before = row["cut"]
    with style():
        drawn = figure(8.2, 1.7 + _ROW * (places[-1] + 1))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((3.0 / width, 0.7 / height, 1 - 3.4 / width, 1 - 1.55 / height))
        shown = None
        for y, row in zip(places, rows, strict=True):
            if row["cut"] != shown:
                shown = row["cut"]
                axes.text(-0.02, y - 0.95, cut_label(shown), transform=axes.get_yaxis_transform(), ha="right",
                          va="center", fontsize=8.5, fontweight="bold")  # fmt: skip
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [y, y], color=LINES[0], linewidth=1.6, alpha=0.5)
            axes.plot(row["value"], y, "o", color=LINES[0], markersize=5)
        labels = [f"{shorten(short_group(row['group']), 34)}  (n={row['n_subjects']})" for row in rows]
        axes.set_yticks(places, labels, fontsize=8)
        axes.set(xlim=_limits(rows), ylim=(places[-1] + 0.7, 0.4))
        bare(axes)
        axes.set_xlabel(axis, fontsize=8)
        head(drawn, shorten(title, 70), [results])
        return save(drawn, path)


def _limits(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the ends of the axis of a value from 0 to 1: what is drawn, and a margin."""
    ends = [row[key] for row in rows for key in ("low", "high", "value") if row[key] is not None]
    low, high = min(ends), max(max(ends), min(ends) + 0.1)
    margin = 0.06 * (high - low)
    return max(low - margin, -0.02), min(high + margin, 1.02)


def threshold_curves(one: Mapping[str, Any], results: Results, path: Path, min_cell: int) -> Path:
    """Draw the mean score at every threshold, a panel per cut with its largest groups, the mean of all in grey."""
    curve = one["curves"]
    cuts = list(dict.fromkeys(row["cut"] for row in curve["groups"])) or [""]
    with style():
        drawn = figure(4.3 * len(cuts) + 0.6, 4.3)
        for place, cut in enumerate(cuts):
            axes = drawn.add_axes(_panel(drawn, place, len(cuts)))
            axes.plot(curve["thresholds"], curve["overall"], color=CHANCE, linewidth=3, label="all")
            rows = [row for row in curve["groups"] if row["cut"] == cut and row["n_subjects"] >= min_cell]
            rows = sorted(rows, key=lambda row: -row["n_subjects"])[:_MAX_LINES]
            for colour, row in zip(LINES, sorted(rows, key=lambda row: row["group"]), strict=False):
                axes.plot(
                    curve["thresholds"], row["values"], color=colour, label=shorten(short_group(row["group"]), 24)
                )
            axes.set(ylim=(-0.02, 1.02), title=cut_label(cut) if cut else "")
            axes.set_xlabel("threshold", fontsize=8)
            axes.grid(color=GRID, linewidth=0.6)
            axes.legend(frameon=False, fontsize=7, loc="best")
        head(drawn, shorten(f"Mean score at each threshold: {plain(one['label'])}", 70), [results])
        return save(drawn, path)


def _panel(drawn: Any, place: int, n: int) -> tuple[float, float, float, float]:
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    wide = (width - 0.6) / n
    return ((0.6 + place * wide) / width, 0.6 / height, (wide - 0.5) / width, 1 - 1.75 / height)


def hairstyle_errors(one: Mapping[str, Any], results: Results, path: Path, min_cell: int) -> Path:
    """Draw the paper's Extended Data Fig. 8: false rejection rates of pairs of hairstyles, a panel per pronoun.

    Beside each bar stands the share of the pronoun's subjects who have such a pair.
    """
    panels = hairstyle_panels(one, min_cell)
    longest = max(len(rows) for _, rows in panels)
    with style():
        drawn = figure(5.2 * len(panels), 1.9 + _ROW * longest)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        end = max(row["missed"] for _, rows in panels for row in rows) or 0.1
        for place, (pronoun, rows) in enumerate(panels):
            left = (5.2 * place + 2.5) / width
            axes = drawn.add_axes((left, 0.7 / height, 2.0 / width, 1 - 1.75 / height))
            for y, row in enumerate(rows):
                same = row["first"] == row["second"]
                axes.barh(y, row["missed"], height=0.62, color=LINES[4] if same else INK)
                words = f" {row['missed']:.1%} · {row['share_of_subjects']:.0%}"
                axes.text(row["missed"], y, words, va="center", fontsize=7, color=FAINT)
            labels = [shorten(f"{plain(row['first'])} / {plain(row['second'])}", 38) for row in rows]
            axes.set_yticks(range(len(rows)), labels, fontsize=7)
            axes.set(xlim=(0, 1.35 * end), ylim=(longest - 0.5, -0.5))
            axes.set_title(short_group(pronoun), fontsize=9)
            axes.set_xlabel("false rejection rate · share of subjects", fontsize=7.5)
            bare(axes)
        head(drawn, shorten(f"Errors by the two hairstyles: {plain(one['model'])}", 60), [results])
        drawn.text(0.15 / width, 0.12 / height, "blue: both images show one hairstyle", fontsize=7.5, color=FAINT)
        return save(drawn, path)


def hairstyle_panels(one: Mapping[str, Any], min_cell: int) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return each pronoun with its pairs of hairstyles that have a rate, the highest first."""
    known = [
        row
        for row in (one["verification"] or {}).get("whole", {}).get("hairstyles", ())
        if row["missed"] is not None and row["n_subjects"] >= min_cell
    ]
    return [
        (
            pronoun,
            sorted((row for row in known if row["pronoun"] == pronoun), key=lambda row: -row["missed"])[:_MAX_STYLES],
        )
        for pronoun in dict.fromkeys(row["pronoun"] for row in known)
    ]
