"""From arrays to rows: one claim, one number, its Monte-Carlo error, and whether the claim holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.studies import ALPHA, MULTIPLES
from benchmarks.validity.worlds import World

Results = dict[tuple[str, World], Arrays]
FREE = "printed, no bound"


@dataclass(frozen=True)
class Row:
    """`value` and its Monte-Carlo standard error over `n` data sets.

    verdict: `yes` inside the bound, `within error` outside by at most two standard errors, `no`, or `` without bound.
    """

    claim: str
    world: str
    quantity: str
    value: float
    error: float
    n: int
    bound: str
    verdict: str


def judge(value: float, error: float, low: float, high: float) -> str:
    """Compare a value with its bounds."""
    if low <= value <= high:
        return "yes"
    return "within error" if low - 2 * error <= value <= high + 2 * error else "no"


def describe(world: World) -> str:
    """Return the world in words."""
    condition = {
        "exchangeable": "groups exchangeable",
        "spread": "smallest group twice the SD",
        "images": "6, 5, 3, 2, 1 images a subject by group",
        "straddling": "a quarter of the subjects in two groups",
        "multi-valued": "a fifth of the subjects in two groups at once",
        "missing": "half the answers about the largest group missing",
    }[world.condition]
    sizes = "/".join(map(str, world.sizes))
    gap = "" if not world.gap else f", gap {world.gap:.2g} SD ({world.where})"
    return f"{world.outcome}, {sizes}, {condition}{gap}"


def rate_row(claim: str, world: str, quantity: str, hits: np.ndarray, low: float | None, high: float | None) -> Row:
    """A share of data sets, with its binomial standard error; no bound where both ends are None."""
    known = hits[~np.isnan(hits)] if hits.dtype.kind == "f" else hits
    n, value = len(known), float(known.mean())
    error = math.sqrt(max(value * (1 - value), 1 / max(n, 1) / 4) / n)
    if low is None and high is None:
        return Row(claim, world, quantity, value, error, n, FREE, "")
    least, most = low or 0.0, 1.0 if high is None else high
    bound = (
        f"{least:.0%} to {most:.0%}" if low and high else (f"at most {most:.0%}" if high else f"at least {least:.0%}")
    )
    return Row(claim, world, quantity, value, error, n, bound, judge(value, error, least, most))


def _rejected(p: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(p), np.nan, (p <= ALPHA + 1e-12).astype(float))


def summarise(results: Results) -> list[Row]:
    """Return all rows, claim by claim."""
    rows: list[Row] = []
    for (study, world), found in results.items():
        rows += _SUMMARIES[study](world, found)
    return rows


def _null(world: World, found: Arrays) -> list[Row]:
    where = describe(world)
    if world.outcome == "rare":
        claim, low, high = "Type-I error, rare yes/no: at most 6 % (may be conservative)", None, 0.06
    elif world.condition in ("spread", "images"):
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", None, 0.07
    else:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    rows = [rate_row(claim, where, "p_value (decides verdicts)", _rejected(found["p"]), low, high)]
    for name in ("js_p", "kruskal_p", "welch_p"):
        if np.isfinite(found[name]).any() and (name != "js_p" or world.scale[1] <= 1):
            rows.append(rate_row("Measured level, for reference", where, name, _rejected(found[name]), None, None))
    return rows


def _units(world: World, found: Arrays) -> list[Row]:
    claim = "Images taken as subjects (the trap)"
    return [rate_row(claim, describe(world), "p_value", _rejected(found["p"]), None, None)]


def _family(world: World, found: Arrays) -> list[Row]:
    where = "6 correlated probes x 4 cuts, all null"
    return [
        rate_row("Family-wise error after Holm: at most 5 %", where, "any of 24 rows significant",
                 _rejected(found["smallest_adjusted"]), None, 0.05),
        rate_row("Type-I error, no group differs: 4-6 %", where, "composite p",
                 _rejected(found["composite_p"]), 0.04, 0.06),
    ]  # fmt: skip


def _coverage(world: World, found: Arrays) -> list[Row]:
    where, truth = describe(world), world.true_gap
    covered = ((found["low"] - 1e-9 <= truth) & (truth <= found["high"] + 1e-9)).astype(float)
    least = 0.95 if world.gap else 0.93
    gap = f"{world.gap:g} SD"
    rows = [
        rate_row(f"Coverage of the interval at a gap of {gap}: at least {least:.0%}", where, "ci", covered, least, None)
    ]
    unit = truth / world.gap if world.gap else _unit(world)
    for name in ("raw", "excess", "shrunken"):
        off = (found[name] - truth) / unit
        rows.append(
            Row("Bias of the estimates, in SD of one answer", where, name, float(off.mean()),
                float(off.std(ddof=1) / math.sqrt(len(off))), len(off), FREE, "")
        )  # fmt: skip
    return rows


def _unit(world: World) -> float:
    from benchmarks.validity.worlds import answer_sd

    return answer_sd(world.outcome)


def _power(world: World, found: Arrays) -> list[Row]:
    sizes = "/".join(map(str, world.sizes))
    where = f"{world.outcome}, {sizes}, the two smallest groups apart"
    rows = []
    for multiple in MULTIPLES:
        low = 0.75 if multiple == 1.0 else None
        claim = "Power at the printed MDE: about 80 %" if low else "Power curve, in multiples of the printed MDE"
        rows.append(rate_row(claim, where, f"{multiple:g} x mde80", _rejected(found[f"p_{multiple:g}"]), low, None))
    return rows


def _equivalence(world: World, found: Arrays) -> list[Row]:
    claim = "Equivalence stated at a gap of exactly the bound: at most 5 %"
    return [rate_row(claim, describe(world), "equivalence_p", _rejected(found["p"]), None, 0.05)]


def _stepped(world: World, found: Arrays) -> list[Row]:
    claim = "Family-wise error after step-down max-T: at most 5 %"
    where = f"6 correlated probes x 4 cuts, all null, {world.outcome}"
    return [rate_row(claim, where, "any of 24 rows significant", _rejected(found["smallest_adjusted"]), None, 0.05)]


def _missing(world: World, found: Arrays) -> list[Row]:
    claim = "Family-wise error after step-down max-T: at most 5 %"
    how = {"missing": "many refusals in one group", "images": "6, 5, 3, 2, 1 images a subject by group"}
    rate = {"rare": "2 %", "yes/no": "30 %"}[world.outcome]
    where = f"values missing at random, {rate}, {how.get(world.condition, 'groups exchangeable')}"
    rejected = _rejected(found["smallest_adjusted"])
    return [rate_row(claim, where, "any of 24 rows of `missing` significant", rejected, None, 0.05)]


def _matched(world: World, found: Arrays) -> list[Row]:
    where = f"{world.outcome}, {world.sizes[0]} sets of {len(world.sizes)} versions" + {
        "spread": ", one version twice the SD",
        "missing": ", 40 % of the sets lack one version, 15 % another",
    }.get(world.condition, "")
    claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    if world.condition == "spread":
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", 0.0, 0.07
    elif world.yes_no:  # few sets, many ties
        claim, low, high = "Type-I error, rare yes/no: at most 6 % (may be conservative)", 0.0, 0.06
    return [rate_row(claim, where, "matched sets p", _rejected(found["p"]), low or None, high)]


def _matched_equivalence(world: World, found: Arrays) -> list[Row]:
    claim = "Equivalence stated at a gap of exactly the bound: at most 5 %"
    where = f"{world.outcome}, {world.sizes[0]} sets of 2 versions, difference {world.gap:.2g} SD"
    return [rate_row(claim, where, "matched sets equivalence_p", _rejected(found["p"]), None, 0.05)]


def _distance(world: World, found: Arrays) -> list[Row]:
    where = "two models of different level and noise, same profile"
    covered = (found["low"] <= 1e-9).astype(float)
    return [
        rate_row(
            "Type-I error, no group differs: 4-6 %", where, "fingerprint distance p", _rejected(found["p"]), 0.04, 0.06
        ),
        rate_row("Coverage of the distance's interval at 0: at least 93 %", where, "ci", covered, 0.93, None),
    ]


def _wording(world: World, found: Arrays) -> list[Row]:
    where = "3 templates that shift every group alike"
    return [rate_row("Type-I error, no group differs: 4-6 %", where, "wording p", _rejected(found["p"]), 0.04, 0.06)]


def _ranks(world: World, found: Arrays) -> list[Row]:
    claim = "Models without gaps wrongly ordered: at most 5.5 %"
    where = "5 models, noise 1 to 4 times"
    row = rate_row(claim, where, "any two called different", found["false_order"], None, 0.055)
    return [Row(row.claim, row.world, row.quantity, row.value, row.error, row.n, "at most 5.5%", row.verdict)]


def _planned(world: World, found: Arrays) -> list[Row]:
    claim = "Power at the printed sample size, after correction: 75-85 %"
    n, groups = int(found["subjects"][0]), len(world.sizes)
    where = f"{world.outcome}, {groups} groups of {n}, gap {world.gap:.2g} SD"
    if world.outcome == "rare":
        claim = "Power at the printed sample size, rare yes/no: at least 75 % (may be more)"
        return [rate_row(claim, where, "found", found["found"], 0.75, None)]
    return [rate_row(claim, where, "found", found["found"], 0.75, 0.85)]


def _pilots(world: World, found: Arrays) -> list[Row]:
    where = f"{world.outcome}, pilot of 149 subjects with 3 images each"
    power = found["power"]
    error = float(power.std(ddof=1) / math.sqrt(len(power)))
    mean = Row(
        "Power at the sample size from a pilot: 75-85 % on average", where, "mean power", float(power.mean()), error,
        len(power), "75% to 85%", judge(float(power.mean()), error, 0.75, 0.85),
    )  # fmt: skip
    claim = "Pilots whose cautious sample size has a power of 78 % or more"
    return [mean, rate_row(claim, where, "share of pilots", (found["cautious"] >= 0.78).astype(float), None, None)]


def _two_samples(world: World, found: Arrays) -> list[Row]:
    where = f"two models, samples of their own, parallel profiles: {describe(world)}"
    if world.yes_no:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
        if world.outcome == "rare":
            claim, low = "Type-I error, rare yes/no: at most 6 % (may be conservative)", 0.0
    else:
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", 0.0, 0.07
    rows = [rate_row(claim, where, "distance p, all probes", _rejected(found["p"]), low or None, high)]
    rows.append(rate_row(claim, where, "distance p, one probe", _rejected(found["single"]), low or None, high))
    covered = (found["low"] <= 1e-9).astype(float)
    return [
        *rows,
        rate_row("Coverage of the distance's interval at 0: at least 93 %", where, "ci", covered, 0.93, None),
    ]


def _apart(world: World, found: Arrays) -> list[Row]:
    where = f"two models, samples of their own, one group {world.gap:g} SD apart"
    claim = "Coverage of the distance's interval above 0: at least 94 %"
    return [
        rate_row(claim, where, "ci", found["covered"], 0.94, None),
        rate_row("Power to tell two models apart", where, "distance p", _rejected(found["p"]), None, None),
    ]


def _adjusted(world: World, found: Arrays) -> list[Row]:
    where = f"a covariate that differs by group, {describe(world)}"
    rows = []
    if not world.gap:
        claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
        if world.condition in ("spread", "images"):
            claim, low, high = "Type-I error, unequal spread or images: at most 7 %", None, 0.07
        rows.append(rate_row(claim, where, "adjusted p", _rejected(found["p"]), low, high))
        rows.append(rate_row("The covariate's effect taken for the group's", where, "p without adjustment",
                             _rejected(found["raw_p"]), None, None))  # fmt: skip
    else:
        rows.append(rate_row("Power of the adjusted test", where, "adjusted p", _rejected(found["p"]), None, None))
    for name, claim, bound in (
        ("estimate", "Bias of the adjusted gap of two groups: within 0.03 SD of one answer", "-3% to 3%"),
        ("raw_estimate", "Bias of the gap without adjustment, in SD of one answer", FREE),
    ):
        off = (found[name] - world.true_gap) / _unit(world)
        value, error = float(off.mean()), float(off.std(ddof=1) / math.sqrt(len(off)))
        verdict = "" if bound == FREE else judge(value, error, -0.03, 0.03)
        rows.append(Row(claim, where, "mean difference", value, error, len(off), bound, verdict))
    return rows


def _interaction(world: World, found: Arrays) -> list[Row]:
    where = f"3 x 2 intersections with main effects, {describe(world)}"
    if world.gap:
        return [rate_row("Power to find an interaction", where, "interaction p", _rejected(found["p"]), None, None)]
    claim, low, high = "Type-I error, no group differs: 4-6 %", 0.04, 0.06
    if world.condition == "spread":
        claim, low, high = "Type-I error, unequal spread or images: at most 7 %", 0.0, 0.07
    return [rate_row(claim, where, "interaction p", _rejected(found["p"]), low or None, high)]


def _looks(world: World, found: Arrays) -> list[Row]:
    where = f"four looks, {describe(world)}"
    if world.gap:
        claim = "Power over four looks"
        return [rate_row(claim, where, name, found[name], None, None) for name in ("obrien_fleming", "pocock")]
    claim = "Error over four looks, alpha spent over them: 4-6 %"
    rows = [rate_row(claim, where, name, found[name], 0.04, 0.06) for name in ("obrien_fleming", "pocock")]
    return [*rows, rate_row("Error over four looks at p <= 0.05 each", where, "any", found["naive"], None, None)]


_SUMMARIES = {
    "null": _null,
    "images_as_units": _units,
    "family": _family,
    "coverage": _coverage,
    "power": _power,
    "equivalence": _equivalence,
    "step_down": _stepped,
    "missing": _missing,
    "matched": _matched,
    "matched_equivalence": _matched_equivalence,
    "distance": _distance,
    "wording": _wording,
    "ranks": _ranks,
    "planning": _planned,
    "pilots": _pilots,
    "two_samples": _two_samples,
    "two_samples_apart": _apart,
    "adjusted": _adjusted,
    "interaction": _interaction,
    "looks": _looks,
}
