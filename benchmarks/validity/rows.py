"""One row of the report: a number, its Monte-Carlo error, its bound, and whether it lies inside."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.validity.worlds import ALPHA, World

FREE = "printed, no bound"


@dataclass(frozen=True)
class Row:
    """`value` and its Monte-Carlo standard error over `n` data sets; `n` = 0: computed, not simulated.

    verdict: `yes` inside the bound, `within error` outside by at most two standard errors, `no`, or `` without bound.
    percent: whether the value is a share. before: what the method of version 0.3.0 gives, and before_verdict whether it
    lies inside. simulated: data sets drawn, where only some of them count (0: all count).
    """

    claim: str
    world: str
    quantity: str
    value: float
    error: float
    n: int
    bound: str
    verdict: str
    percent: bool = True
    before: float | None = None
    before_verdict: str = ""
    simulated: int = 0

    @property
    def data_sets(self) -> str:
        """The number of data sets in words."""
        if self.simulated:
            return f"{self.n} of {self.simulated}"
        return str(self.n) if self.n else "exact"

    def number(self, value: float | None) -> str:
        """Return a value in the row's unit."""
        if value is None:
            return ""
        return f"{100 * value:.2f} %" if self.percent else f"{value:.3f}"


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
        "triple spread": "smallest group three times the SD",
        "many images": "12, 9, 6, 3, 1 images a subject by group",
        "agreement": "intraclass correlation .95 in the smallest group, .05 elsewhere",
        "milder agreement": "intraclass correlation .8 in the smallest group, .2 elsewhere",
        "images": "6, 5, 3, 2, 1 images a subject by group",
        "straddling": "a quarter of the subjects in two groups",
        "multi-valued": "a fifth of the subjects in two groups at once",
        "missing": "half the answers about the largest group missing",
    }[world.condition]
    sizes = "/".join(map(str, world.sizes))
    gap = "" if not world.gap else f", gap {world.gap:.2g} SD ({world.where})"
    return f"{world.outcome}, {sizes}, {condition}{gap}"


def rate_row(
    claim: str,
    world: str,
    quantity: str,
    hits: np.ndarray,
    low: float | None = None,
    high: float | None = None,
    before: np.ndarray | None = None,
) -> Row:
    """A share of data sets, with its binomial standard error; no bound where both ends are None.

    hits: True or 1, False or 0, NaN where a data set does not count; before: the same by the method of 0.3.0.
    """
    known = hits[~np.isnan(hits)] if hits.dtype.kind == "f" else hits
    n, value = len(known), float(known.mean())
    error = math.sqrt(max(value * (1 - value), 1 / max(n, 1) / 4) / n)
    return _row(claim, world, quantity, value, error, n, low, high, True, before, len(hits) if n < len(hits) else 0)


def mean_row(
    claim: str,
    world: str,
    quantity: str,
    values: np.ndarray,
    low: float | None = None,
    high: float | None = None,
    *,
    percent: bool = False,
    before: np.ndarray | None = None,
) -> Row:
    """A mean over data sets, with its standard error; NaN where a data set does not count."""
    known = values[np.isfinite(values)]
    n, value, error = len(known), float(known.mean()), float(known.std(ddof=1) / math.sqrt(len(known)))
    simulated = len(values) if n < len(values) else 0
    return _row(claim, world, quantity, value, error, n, low, high, percent, before, simulated)


def _row(
    claim: str,
    world: str,
    quantity: str,
    value: float,
    error: float,
    n: int,
    low: float | None,
    high: float | None,
    percent: bool,
    before: np.ndarray | None,
    simulated: int,
) -> Row:
    bound, verdict, before_verdict = FREE, "", ""
    earlier = None if before is None or np.isnan(before).all() else float(np.nanmean(before))
    if low is not None or high is not None:
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        bound, verdict = _bound(low, high, percent), judge(value, error, least, most)
        before_verdict = "" if earlier is None else judge(earlier, error, least, most)
    return Row(claim, world, quantity, value, error, n, bound, verdict, percent, earlier, before_verdict, simulated)


def _bound(low: float | None, high: float | None, percent: bool) -> str:
    ends = [f"{100 * x:.1f}".removesuffix(".0") + " %" if percent else f"{x:g}" for x in (low, high) if x is not None]
    return " to ".join(ends) if len(ends) == 2 else f"at {'least' if high is None else 'most'} {ends[0]}"


def rejected(p: np.ndarray) -> np.ndarray:
    """1 where p <= alpha, else 0; NaN where there is no p."""
    return np.where(np.isnan(p), np.nan, (p <= ALPHA + 1e-12).astype(float))
