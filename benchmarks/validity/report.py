"""The report: findings in Markdown, three figures, every claim as CSV and every number as JSON."""

from __future__ import annotations

import csv
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

Type-I error, coverage, bias and power of the [statistical methods](statistics.md) on simulated data of which the truth
is known; terms are in the [glossary](glossary.md). `python -m benchmarks.validity` writes this page and two files:
[validity.csv](validity.csv) has a row for each claim, with its bound, how many kinds of data hold it, and the one that
is nearest to it. [validity.json](validity.json) has every number with its Monte-Carlo standard error and what version
0.3.0 gave. A fast version runs with the tests. [GRAS](methods/gras.md#validity) has its own study; FHIBE's published
tests are not covered.

Unless stated, {PEOPLE} subjects have {IMAGES} images each, with an intraclass correlation of
{ICC}. Scores are normal, skewed (log-normal), zero-heavy (60 % zeros), mostly zero (3 % between .3 and 1), yes/no
(30 % yes) or rarely yes (5, 2 and .5 %). *Within error*: outside the bound by at most two standard errors. Below a
heading without counts, every number is within its bound.
"""

FINDINGS = {
    "The whole program": "On the simulator and the bundled model the program finds every planted effect and its worst "
    "group, and calls no planted zero biased.",
    "Tests of a difference": "`p_value` decides verdicts. It keeps its level of 5 % where groups are "
    "exchangeable, and is conservative with rare outcomes. Kruskal-Wallis, Welch's F and `js_p` are for reference: "
    "they also react to unequal spread or numbers of images. Images taken as subjects are significant in 20 % of data "
    "sets without a gap.\n\nA small group that varies far more than the others, or whose images agree far more, is "
    "called different a little too often (up to 7.6 %).",
    "Intervals and estimates": "Intervals cover the gap in 93 to 99.9 % of data sets and agree with the p-value about "
    "0. `raw` is biased upwards, `excess` downwards: quote `shrunken`, which underestimates a single small group that "
    "differs from all others.",
    "Adjustment and intersections": "The adjusted gap is unbiased where a covariate differs by group; without "
    "adjustment the covariate's effect is taken for the group's in 66 to 80 % of data sets.",
    "Correction for several tests": "The family-wise error over a whole run is at most 5.6 %. Correcting each scorer "
    "alone would make it 28 %.",
    "Equivalence and the smallest effect": "Both tests are conservative among five groups. A small group whose "
    "subjects nearly all give the same answer is never called equivalent.",
    "Power and sample size": "Power at the printed minimum detectable effect and sample size is about 80 % (77 to "
    "86 %), and within 5 points of a mixed model and GEE where these keep their level; GEE does not with a group of "
    "ten.",
    "Distance and order of models": "Models with equal gaps are ordered in at most 5.2 % of data sets. One case is out "
    "of bounds: both models saw the same subjects, one gives one value to everything, the scores of the other are "
    "skewed, and a small group varies more.",
    "Worst groups": "The confidence set of the worst group holds it in at least 97 %. A single named worst group is "
    "wrong in up to 4 % of significant rows, one of the pair in up to 13 %.",
    "Severity and the composite": "A severity above *none* without a difference has at most 5 %. A single label is "
    "right in only 55 to 88 % of data sets near the lower two bounds, by any rule: labels can be ranges. At a true "
    "composite of 0.024 few data sets are significant, and those look large, so that the label is wrong in 13 %.",
    "Variance components": "Intervals cover in at least 94 %, in 92 % for skewed subjects. Negative components are "
    "given as 0, which biases them upwards.",
    "Other questions and samples": "Intervals beyond the questions asked are conservative with more than two "
    "questions; claims beyond them are false in at most 6 %.",
    "Refusals": "The interval of the worst-case bounds covers in at least 95 %.",
    "Sequential looks": "Alpha spending keeps the error over four looks at 4 to 6 %; testing at 0.05 each time makes "
    "it 13 to 14 %. With binary answers a false *equivalent* has up to 6.6 %.",
    "Specification curves": "Joint tests keep at most 6 % with exchangeable groups, and reach 8 % with unequal spread "
    "or numbers of images.",
    "Labels and measurement error": "The corrected gap covers in at least 94 %; scores alone make a false claim in 29 "
    "to 77 %. Labellers who misread at random shrink the gap; coverage is that of the shrunken one. Groups with fewer "
    "than 10 labelled subjects are refused.",
    "Agreement of scorers": "Intervals cover in at least 93 %, and the test by group rejects in at most 6 % under the "
    "same law in every group. It also rejects where answers on which scorers disagree are more frequent in one group.",
}
"""What the numbers below a heading say."""
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


def write_report(docs: Path, rows: Sequence[Row], truth: Sequence[Row], data_sets: int) -> Path:
    """Write `validity.md`, `.csv`, `.json` and the figures below `docs`; return the page's path."""
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
    with (docs / "validity.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([CLAIM_COLUMNS, *_claims(everything)])
    plain = {"data_sets": data_sets, "alpha": ALPHA, "rows": [asdict(row) for row in everything]}
    (docs / "validity.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    return page


def _page(rows: Sequence[Row], figures: dict[str, str], data_sets: int) -> str:
    missed = [row for row in rows if row.verdict == "no"]
    where = f" ({'; '.join(f'{_where(row)}, {row.bound}' for row in missed)})" if missed else ""
    parts = [INTRODUCTION, f"Up to {data_sets:,} data sets each. {_counts(rows).removesuffix('.')}{where}.\n"]
    for heading in reversed(METHODS):
        below = [row for row in rows if _heading(row.claim) == heading]
        if below:
            outside = any(row.verdict in ("within error", "no") for row in below)
            parts += [f"## {heading}\n", f"{FINDINGS[heading]}\n", *([f"{_counts(below)}\n"] if outside else [])]
            parts += [figures[name] for name, place in FIGURES.items() if place == heading]
    return "\n".join(parts)


def _counts(rows: Sequence[Row]) -> str:
    """Return how many numbers hold their bound, as a sentence."""
    counts = Counter(row.verdict for row in rows if row.bound != FREE)
    outside = {"within error": counts["within error"], "outside": counts["no"]}
    rest = "".join(f", {number} {name}" for name, number in outside.items() if number)
    return f"Numbers with a bound: {counts.total()}, of which {counts['yes']} hold it{rest}."


def _heading(claim: str) -> str:
    """Return the heading that a claim is below."""
    return next(heading for heading, pattern in METHODS.items() if re.search(pattern, claim))


CLAIM_COLUMNS = (
    "method", "claim", "statistic", "bound", "hold", "within_error", "outside", "lowest", "highest", "nearest",
)  # fmt: skip


def _claims(rows: Sequence[Row]) -> list[list[str]]:
    """Return a row for each claim: how many kinds of data hold its bound, their range, and the one nearest to it."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.claim, row.bound, row.quantity if row.bound == FREE else ""), []).append(row)
    return [
        [
            _heading(claim),
            claim,
            quantity,
            bound,
            *(str(sum(row.verdict == verdict for row in group)) for verdict in ("yes", "within error", "no")),
            *(group[0].number(end(row.value for row in group)) for end in (min, max)),
            "" if bound == FREE else _where(min(group, key=_margin), len({row.quantity for row in group}) > 1),
        ]
        for (claim, bound, quantity), group in groups.items()
    ]


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
            GAPS,
            [gap + bias[name, quantity] for gap, name in zip(GAPS, names, strict=True)],
            marker + "-",
            color=colour,
            label=f"mean {quantity}",
        )
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
                MULTIPLES,
                [100 * r.value for r in found],
                yerr=[200 * r.error for r in found],
                fmt="o-",
                color=colour,
                label=world,
            )
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
