"""The report: tables in Markdown, three figures, and the same rows as JSON."""

from __future__ import annotations

import json
import re
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

PEOPLE = f"{len(SIZES)} groups of {', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]}"

INTRODUCTION = f"""# Validity of the statistics

The statistical methods were tested on simulated data of which the truth is known: the tests behind the verdicts of a
fingerprint, of counterfactual sets and of missing values, the distance of two fingerprints, the ranks of models, prompt
sensitivity, other wordings and repeated samples, variance components, corrections for multiple testing (Holm and
step-down max-T), equivalence, bounds under refusals, and severity. Power is compared with that of a mixed model and of
generalised estimating equations (GEE). GRAS has [a page of its own](gras_validity.md); FHIBE's published tests are not
covered. This page is written by `python -m benchmarks.validity`; a fast version runs with the tests. The
[glossary](glossary.md) defines the terms.

The simulated data have {PEOPLE} subjects and {IMAGES} images per subject, with an
intraclass correlation of {ICC}; scores are normal, skewed (log-normal), zero-inflated (60 % zeros, like a sentiment
score) or mostly zero (3 % between .3 and 1), binary (30 % yes) or rarely yes (5, 2 or .5 %).
*Error* is the Monte-Carlo standard error of the value. *Holds* is `yes` inside the bound, `within error` if outside by
at most two standard errors, `no` otherwise.
"""

CHANGES = """## What changed since version 0.3.0

Shares of data sets by the method of 0.3.0 that lie outside their bound, or have none, and by the present method on the
same data; of each claim and outcome the data in which the two differ most (the columns "0.3.0" below have all). The
formulas of 0.3.0 are in `benchmarks/validity/earlier.py`; a test compares them with that version's own numbers. False
cells of GRAS, by Holm's correction of asymptotic tests and by step-down max-F, are on [its own
page](gras_validity.md).
"""

READING = """## How to read it

- **One test decides**: `p_value`, the permutation test of the studentised largest difference, with group labels
  permuted across subjects. Kruskal-Wallis and Welch's F are reported for reference; their type-I error here is why they
  decide no verdict.
- **`js_p` compares whole distributions**, not means. It also reacts to a group whose subjects vary more, or have fewer
  images each, at equal means: do not read it as a difference of means. It decides no verdict.
- **Rare outcomes are discrete**: with 2 % yes answers and a group of ten, many permutations are tied, and every tie
  counts against significance. Welch's F is undefined where a group is constant; its type-I error is that of the rest.
- **`raw` is biased upwards, `excess` downwards**: on average `raw` is at least its null mean, and `excess` subtracts
  the null mean whatever the true difference. `shrunken` is the estimate to quote; it underestimates a single small
  group that differs from all others.
- **Counterfactual sets** compare each answer with the others about the same scene. With binary answers few sets differ
  at all, and the test is conservative.
- **Binary outcomes use the variance at the overall rate**, scaled to the agreement of a subject's answers: that of the
  group itself where it is larger than elsewhere. A group of ten with an intraclass correlation far above that of the
  others is rejected a little too often: by chance 3 % of such groups are constant, and no test tells a constant group
  from a true rate of 0 without losing half of its power for one.
- **A scorer that errs** is corrected with labels of some answers (`fp2 label`): the gap between mean labels. Coverage
  and type-I error are those of the corrected gap; the scores alone claim a gap in most data sets where the scorer is
  biased against one group. With rare labels and few of them the test is conservative and finds little. Data sets in
  which a group has fewer than 10 labelled subjects are refused. Labellers who misread at random shrink the gap:
  coverage is that of the shrunken one.
- **One family for a run**: neither correction scorer by scorer, nor composites first and the rows within those that are
  rejected, controls the error over the run; the rows "for reference" show by how much.
- **Few wordings support little inference about others**: with two or three questions the interval beyond them is wide,
  and true differences are seldom claimed. Its level holds where every group depends on the wording, and where one alone
  does.
- **Variances of skewed answers are hard to bound**: where subjects differ by an exponential distribution, the interval
  of their variance component misses in 8 %. Components that are given as 0 where negative are a little too high.
- **Beside a mixed model and GEE**: power is compared with that of tests whose level, in the same kind of data without a
  gap, is at most 6 % (or within two standard errors of it). GEE's sandwich variance is too small with a group of ten;
  bias-reduced, it holds for some outcomes. The sum of squares of a mixed model has power against evenly spaced means,
  which no single pair shows; for zero-inflated scores a group's own variance helps.
- **What 5 % of data sets can show**: family-wise rates of 5.0 to 5.7 % with a bound of 5 % are within error of it. The
  permutation of each family is exact where labels are exchangeable.
- **Conservative by construction**: equivalence among five groups (every pair has to pass), the minimum-effect test (the
  critical value is that of equal groups), intervals at a gap (the lower end is simultaneous over pairs, the upper one
  is the largest of all pairs), the interval under refusals (all pairs again), the confidence set of the worst group
  (Bonferroni), intervals beyond two questions (one degree of freedom), models without any gap, of which none is
  truly better.
- **Conservative because data are few**: rare outcomes and matched sets with few discordant answers (ties), the test of
  equal error with few errors, labels that are rarely yes.
- **Skewed scores with unequal spread**: mean and variance of a small group with a long tail correlate,
  which studentising does not remove; Welch's F and Kruskal-Wallis reject more often.
- **Two models on the same subjects, one of which gives one value to everything**: the differences are then the scores
  of the other, and where these are skewed and a small group varies more, both tests of the distance reject too often
  (10 %). Between models that both vary they do not.
- **Severity at a true 0.024**: few data sets are significant there, and those are the ones that look large, so that the
  label misses more often than elsewhere.
- **What is not concluded**: a small group whose subjects (nearly) all answer the same is never called equivalent to
  others on the strength of its own spread.
"""


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
    head = (
        f"Of {len(bounded)} numbers with a bound {counts['yes']} hold, {counts['within error']} within error, "
        f"{counts['no']} do not. Up to {data_sets:,} data sets each.\n"
    )
    parts = [INTRODUCTION, head, _changes(rows), READING]
    claims = list(dict.fromkeys(row.claim for row in rows))
    after = {
        "levels": next((c for c in claims if c.startswith("Measured level")), ""),
        "estimates": next((c for c in claims if c.startswith("Bias")), ""),
        "power": next((c for c in claims if c.startswith("Power curve")), ""),
    }
    for claim in _ordered(claims):
        parts.append(_section(claim, [row for row in rows if row.claim == claim]))
        parts += [figures[f"validity_{name}.png"] for name, place in after.items() if place == claim]
    return "\n".join(parts)


def _ordered(claims: Sequence[str]) -> list[str]:
    """Claims with a bound on errors first, then what is only printed beside them."""
    order = ("Type-I", "Family", "Measured", "Images", "Coverage", "Bias", "Power at", "Power curve", "Equiv", "Models")
    return sorted(claims, key=lambda c: next((k for k, start in enumerate(order) if c.startswith(start)), len(order)))


def _changes(rows: Sequence[Row]) -> str:
    """Return the table of what 0.3.0 gave outside its bound: of each claim and outcome, the largest change."""
    lines = [CHANGES, "| | data | 0.3.0 | now | bound |", "|---" * 5 + "|"]
    by_claim: dict[tuple[str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        if row.before is not None and row.before_verdict in ("no", ""):
            key = row.claim, row.world.split(",")[0]
            by_claim.setdefault(key, []).append((abs(row.before - row.value), row))
    claims = [claim for claim, _ in by_claim]
    for (claim, _), found in sorted(by_claim.items(), key=lambda pair: claims.index(pair[0][0])):
        row = max(found, key=lambda pair: pair[0])[1]
        what = f"{re.split(r': (?=[an0-9])', claim)[0]} ({row.quantity})"
        bound = "none" if row.bound == FREE else row.bound
        lines.append(f"| {what} | {row.world} | {row.number(row.before)} | {row.number(row.value)} | {bound} |")
    return "\n".join(lines) + "\n"


def _section(claim: str, rows: Sequence[Row]) -> str:
    earlier = any(row.before is not None for row in rows)
    if all(row.bound == FREE for row in rows) and not earlier:
        return _side_by_side(claim, rows)
    names = ["data", "number", "value", "error", "data sets", "bound", "holds", *(["0.3.0"] if earlier else [])]
    lines = [f"## {claim}\n", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        error = row.number(row.error) if row.error else ""
        cells = [row.world, row.quantity, row.number(row.value), error, row.data_sets, row.bound, row.verdict or "-"]
        lines.append("| " + " | ".join([*cells, *([row.number(row.before)] if earlier else [])]) + " |")
    return "\n".join(lines) + "\n"


def _side_by_side(claim: str, rows: Sequence[Row]) -> str:
    """Numbers without a bound: one line per kind of data, one column per number, each with its error."""
    names = list(dict.fromkeys(row.quantity for row in rows))
    lines = [f"## {claim}\n", "| data | " + " | ".join(names) + " | data sets |", "|---" * (len(names) + 2) + "|"]
    for world in dict.fromkeys(row.world for row in rows):
        own = {row.quantity: row for row in rows if row.world == world}
        cells = [_cell(own[name]) if name in own else "" for name in names]
        n = max(row.simulated or row.n for row in own.values())
        lines.append(f"| {world} | " + " | ".join(cells) + f" | {n or 'exact'} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    """Return a value with its error, and the number of data sets where only some count."""
    error = f" ± {row.number(row.error)}" if row.error else ""
    return row.number(row.value) + error + (f" (of {row.n})" if row.simulated else "")


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
