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
    return [
        rate_row("Type-I error, no group differs: 4-6 %", where, "interaction p", _rejected(found["p"]), 0.04, 0.06)
    ]


def _ranks(world: World, found: Arrays) -> list[Row]:
    claim = "Models without gaps wrongly ordered: at most 5.5 %"
    where = "5 models, noise 1 to 4 times"
    row = rate_row(claim, where, "any two called different", found["false_order"], None, 0.055)
    return [Row(row.claim, row.world, row.quantity, row.value, row.error, row.n, "at most 5.5%", row.verdict)]


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
}
