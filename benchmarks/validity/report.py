"""The report: a summary in Markdown, three figures, and every number as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.validity.rows import FREE, Row, describe
from benchmarks.validity.studies import GAPS, MULTIPLES
from benchmarks.validity.worlds import ALPHA, ICC, IMAGES, SIZES, World, answer_sd

INK, BLUE, ORANGE, GREY, GREEN = "#1f2933", "#2a6f97", "#d1495b", "#9aa5b1", "#3f7d4e"
LEVEL = "p_value (decides verdicts)"
LEVEL_NAMES = {
    LEVEL: ("p_value: labels permuted across subjects", BLUE),
    "kruskal_p": ("Kruskal-Wallis", ORANGE),
    "welch_p": ("Welch's F", GREY),
}

FIGURES = {
    "validity_levels.png": "Tests of a difference",
    "validity_estimates.png": "Intervals and estimates",
    "validity_power.png": "Power and sample size",
}
"""The heading that each figure is below."""
PEOPLE = f"{len(SIZES)} groups of {', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]}"

INTRODUCTION = f"""# Validity of the statistics

Type-I error, coverage, bias and power of the statistical methods on simulated data of which the truth is known. Terms
are in the [glossary](glossary.md), the methods in [statistics](statistics.md); [GRAS](methods/gras.md#validity) has its
own report, and FHIBE's published tests are not covered. `python -m benchmarks.validity` writes this page and
[validity.json](validity.json), which has every number with its data, Monte-Carlo standard error, number of data sets
and what version 0.3.0 gave (`before`), and claims that no range summarises, such as widths of intervals. A fast version
runs with the tests.

**Data.** Unless stated, {PEOPLE} subjects, {IMAGES} images per subject, an intraclass
correlation of {ICC}, and exchangeable groups. Scores are normal, skewed (log-normal), zero-heavy (60 % zeros, like a
sentiment score), mostly zero (3 % between .3 and 1), yes/no (30 % yes) or rarely yes (*uncommon*, *rare*, *very rare*:
5, 2, .5 %).

**Tables.** One row per claim. *Hold*: how many of the simulated kinds of data lie inside the bound; the others are
outside by at most two Monte-Carlo standard errors, except those that are *not*. *Values*: the lowest and the highest.
*Nearest to the bound*: the kind that is nearest to it, or farthest outside, and its value ± standard error.
"""

READING = """## Limits

- **`p_value` decides verdicts.** Kruskal-Wallis, Welch's F and `js_p` are for reference; `js_p` compares whole
  distributions, and also reacts to unequal spread or numbers of images at equal means.
- **Rare outcomes** and matched sets with few discordant answers have many ties: tests are conservative.
- **`raw` is biased upwards, `excess` downwards.** Quote `shrunken`; it underestimates a single small group that differs
  from all others.
- **A small group with a far larger intraclass correlation** than the others is rejected a little too often: by chance
  3 % of such groups of ten are constant, and no test tells a constant group from a true rate of 0 without losing half
  of its power for one.
- **Skewed scores with unequal spread**: mean and variance of a small group are correlated, which studentising does not
  remove; Welch's F and Kruskal-Wallis reject more often.
- **Two models on the same subjects, one of which gives one value to everything**: if the scores of the other are skewed
  and a small group varies more, both tests of the distance reject too often.
- **Labels of some answers**: coverage and type-I error are those of the corrected gap. Data sets in which a group has
  fewer than 10 labelled subjects are refused. Labellers who misread at random shrink the gap; coverage is that of the
  shrunken one.
- **Variance components** of skewed subjects: the interval misses in 8 %. Negative components are given as 0, which
  biases them upwards.
- **Severity at a true 0.024**: few data sets are significant, and those look large, so that labels miss more often.
- **Power beside a mixed model and GEE** is compared with tests whose level in the same data without a gap is at most
  6 % (or within two standard errors). GEE's sandwich variance is too small with a group of ten.
- **Conservative by construction**: equivalence among five groups, the minimum-effect test, intervals at a gap,
  intervals under refusals, the confidence set of the worst group, intervals beyond two questions.
- A small group whose subjects (nearly) all give the same answer is never called equivalent to others.
"""

METHODS = {
    "Agreement of scorers": "two scorers|both scorers",
    "Labels and measurement error": "a scorer that errs|corrected|equal error|by the scores alone",
    "Specification curves": "specification",
    "Sequential looks": "look",
    "Refusals": "refus|bounds$",
    "Other questions and samples": "questions|samples|SD between",
    "Variance components": "variance components",
    "Severity and the composite": "[Ss]everity|composite|[Tt]he label|single label",
    "Worst groups": "worst|Named",
    "Distance and order of models": "[Mm]odels|worse model|distance",
    "Power and sample size": "Power at|Power curve|[Pp]ilot|mixed model|hold their level",
    "Equivalence and the smallest effect": "Equivalence|Called",
    "Correction for several tests": "Family-wise|False coverage",
    "Adjustment and intersections": "djust|covariate|interaction",
    "Intervals and estimates": "Coverage|Bias|interval",
    "Tests of a difference": "Type-I|Measured|Images",
    "The whole program": "",
}
"""Headings, and the pattern of the claims below each; a claim is below the first that fits."""
NOT_SUMMARISED = (
    "Width of the interval|How often severity|Intervals of the agreement of two scorers that|Estimates of|"
    "A single label right|Equivalence with a bound of 5 % stated|Bias of variance|Power beyond"
)
"""Numbers without a bound that depend on the kind of data so much that their range says nothing."""


def write_report(docs: Path, rows: Sequence[Row], truth: Sequence[Row], data_sets: int) -> Path:
    """Write `validity.md`, `validity.json` and the figures below `docs`; return the page's path."""
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    figures = [
        ("validity_levels.png", "Share of null data sets that are significant at 5 %", lambda ax: _levels(ax, rows)),
        ("validity_estimates.png", "Raw, excess and shrunken estimates by true gap", lambda ax: _estimates(ax, rows)),
        ("validity_power.png", "Power by true difference, in multiples of the minimum detectable effect", _power(rows)),
    ]
    levels = sum(row.quantity == LEVEL for row in rows)
    for name, _, paint in figures:
        _figure(images / name, paint, 1.3 + 0.24 * levels if "levels" in name else 3.8)
    pages = {name: f"![{title}](images/{name})\n" for name, title, _ in figures}
    everything = [*rows, *truth]
    page = docs / "validity.md"
    page.write_text(_page(everything, pages, data_sets), encoding="utf-8")
    plain = {"data_sets": data_sets, "alpha": ALPHA, "rows": [asdict(row) for row in everything]}
    (docs / "validity.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    return page


def _page(rows: Sequence[Row], figures: dict[str, str], data_sets: int) -> str:
    bounded = [row for row in rows if row.bound != FREE]
    counts = {verdict: sum(row.verdict == verdict for row in bounded) for verdict in ("yes", "within error", "no")}
    missed = "; ".join(f"{_where(row)}, {row.bound}" for row in bounded if row.verdict == "no")
    head = (
        f"Of {len(bounded)} numbers with a bound {counts['yes']} hold, {counts['within error']} within error, "
        f"{counts['no']} do not{f' ({missed})' if missed else ''}. Up to {data_sets:,} data sets each.\n"
    )
    parts = [INTRODUCTION, head, READING]
    for heading in reversed(METHODS):
        below = [row for row in rows if _heading(row.claim) == heading]
        if below:
            parts += [f"## {heading}\n", _bounded(below), _free(below)]
            parts += [figures[name] for name, place in FIGURES.items() if place == heading]
    return "\n".join(part for part in parts if part)


def _heading(claim: str) -> str:
    """Return the heading that a claim is below."""
    return next(heading for heading, pattern in METHODS.items() if re.search(pattern, claim))


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of one claim and bound, by the claim; by claim and quantities where a claim has several bounds."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.claim, row.bound), []).append(row)
    claims = Counter(claim for claim, _ in groups)
    return {
        claim if claims[claim] == 1 else f"{claim} ({', '.join(dict.fromkeys(row.quantity for row in group))})": group
        for (claim, _), group in groups.items()
    }


def _bounded(rows: Sequence[Row]) -> str:
    """A table with one line per claim: how many numbers hold, their range, and the one nearest to the bound."""
    lines = ["| claim | hold | values | nearest to the bound |", "|---|---|---|---|"]
    for claim, group in _groups(rows).items():
        if group[0].bound != FREE:
            counts = Counter(row.verdict for row in group)
            held = f"{counts['yes']}/{len(group)}" + (f", {counts['no']} not" if counts["no"] else "")
            worst = _where(min(group, key=_margin), of_several=len({row.quantity for row in group}) > 1)
            lines.append(f"| {claim} | {held} | {_range(group)} | {worst} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _free(rows: Sequence[Row]) -> str:
    """A table of numbers without a bound: one line per claim, the range of each statistic."""
    lines = ["| without a bound | values |", "|---|---|"]
    for claim, group in _groups(rows).items():
        if group[0].bound == FREE and not re.match(NOT_SUMMARISED, claim):
            ranges = {
                name: _range([row for row in group if row.quantity == name])
                for name in dict.fromkeys(row.quantity for row in group)
            }
            named = len(ranges) > 1
            values = "; ".join(f"{name}: {values}" if named else values for name, values in ranges.items())
            lines.append(f"| {claim} | {values} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _range(rows: Sequence[Row]) -> str:
    low, high = (end(row.value for row in rows) for end in (min, max))
    ends = list(dict.fromkeys(rows[0].number(value) for value in (low, high)))
    return ends[-1] if len(ends) == 1 else f"{ends[0].removesuffix(' %')} to {ends[1]}"


def _margin(row: Row) -> float:
    """Return how far inside its bound a value lies, in standard errors; negative outside."""
    ends = [float(end) / (100 if row.percent else 1) for end in re.findall(r"-?\d+(?:\.\d+)?", row.bound)]
    low = None if row.bound.startswith("at most") else row.value - ends[0]
    high = None if row.bound.startswith("at least") else ends[-1] - row.value
    return min(gap for gap in (low, high) if gap is not None) / max(row.error, 1e-9)


def _where(row: Row, of_several: bool = True) -> str:
    """Return the kind of data of a row and its value; with the statistic where there are several."""
    value = row.number(row.value)
    if row.error:
        value = f"{value.removesuffix(' %')} ± {row.number(row.error)}"
    statistic = f", {row.quantity.removesuffix(' (decides verdicts)')}" if of_several else ""
    return f"{_short(row.world).replace(', groups exchangeable', '')}{statistic}: {value}"


def _figure(path: Path, paint: Any, height: float) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "text.color": INK}):
        figure, ax = plt.subplots(figsize=(7.2, height), layout="constrained")
        paint(ax)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)


def _short(world: str) -> str:
    """`normal, 60/40/..., groups exchangeable` without the usual sizes."""
    return world.replace(f", {'/'.join(map(str, SIZES))}", "").replace("intraclass correlation", "ICC")


def _levels(ax: Any, rows: Sequence[Row]) -> None:
    worlds = [r.world for r in rows if r.quantity == LEVEL]
    for quantity, (label, colour) in LEVEL_NAMES.items():
        found = {r.world: r for r in rows if r.quantity == quantity}
        places = [k for k, world in enumerate(worlds) if world in found]
        values = [100 * found[worlds[k]].value for k in places]
        errors = [200 * found[worlds[k]].error for k in places]
        ours = quantity.startswith("p_value")
        ax.errorbar(
            values, places, xerr=errors, fmt="o" if ours else "x", color=colour, label=label, zorder=3 if ours else 2
        )
    ax.axvspan(4, 6, color=BLUE, alpha=0.12, lw=0)
    ax.axvline(5, color=INK, lw=0.8, ls=":")
    ax.set(
        xlabel="significant without a gap, % of data sets ± 2 standard errors\n"
        "(5 nominal, 4 to 6 shaded; logarithmic above 10)",
        xlim=(0, 100),
        yticks=range(len(worlds)),
    )
    ax.set_yticklabels([_short(world) for world in worlds], fontsize=7.5)
    ax.invert_yaxis()
    ax.set_xscale("symlog", linthresh=10, linscale=1.5)
    ax.set_xticks([0, 5, 10, 20, 40, 80], ["0", "5", "10", "20", "40", "80"])
    ax.figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=3)


def _estimates(ax: Any, rows: Sequence[Row]) -> None:
    unit = answer_sd("normal")
    names = [describe(World("normal", gap=gap)) for gap in GAPS]
    bias = {(r.world, r.quantity): r.value for r in rows if r.claim.startswith("Bias")}
    ax.plot(GAPS, GAPS, color=INK, lw=1, ls=":", label="the truth")
    for quantity, colour, marker in (("raw", ORANGE, "s"), ("shrunken", BLUE, "o"), ("excess", GREY, "^")):
        ax.plot(
            GAPS, [gap + bias[name, quantity] for gap, name in zip(GAPS, names, strict=True)], marker + "-",
            color=colour, label=f"mean {quantity}",
        )  # fmt: skip
    ax.set(xlabel="true gap of the smallest group, SD of one answer", ylabel=f"estimate, SD (one SD = {unit:g})")
    ax.legend(frameon=False)


def _power(rows: Sequence[Row]) -> Any:
    curves = [r for r in rows if "mde80" in r.quantity]

    def paint(ax: Any) -> None:
        worlds = dict.fromkeys(r.world for r in curves)
        for world, colour in zip(worlds, cycle((BLUE, ORANGE, GREY, GREEN)), strict=False):
            own = {r.quantity: r for r in curves if r.world == world}
            found = [own[f"{m:g} x mde80"] for m in MULTIPLES]
            ax.errorbar(
                MULTIPLES, [100 * r.value for r in found], yerr=[200 * r.error for r in found], fmt="o-", color=colour,
                label=world,
            )  # fmt: skip
        ax.axhline(80, color=INK, lw=0.8, ls=":")
        ax.axvline(1, color=INK, lw=0.8, ls=":")
        ax.set(
            xlabel="true gap / minimum detectable effect (mde80)",
            ylabel="significant, % of data sets",
            ylim=(0, 102),
            xticks=np.array(MULTIPLES),
        )
        if curves:
            ax.legend(frameon=False, fontsize=8, loc="lower right")

    return paint
