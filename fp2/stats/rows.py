"""The typed results of the group statistics."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

OK = "ok"
TOO_FEW = "too_few_subjects"
UNINFORMATIVE = "uninformative"


def finite(value: float) -> float | None:
    """Return a plain float, or None where the number does not exist (NaN or infinite)."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class GroupSummary:
    """One group in one row: sizes count what has a value; `mean` and `sd` (ddof 1) are over subject means.

    `eligible` says whether the group had enough subjects to enter the maximum, the tests and the verdict.
    """

    group: str
    n_subjects: int
    n_images: int
    mean: float | None
    sd: float | None
    eligible: bool


@dataclass(frozen=True)
class DisparityRow:
    """One outcome compared between the groups of one cut; None where a number does not exist.

    Sizes are in the outcome's own units. `raw` is max - min of the group means over subjects; `null_mean` and
    `null_p95` are what `raw` is by chance alone; `excess = raw - null_mean` compares with chance and does not estimate
    the gap; `shrunken` does. `p_value` comes from the permutation of whole subjects with the studentised maximum
    `max_t`. `kruskal_*` and `welch_*` are asymptotic references that decide nothing. `p_worst` is how often the
    bootstrap finds the same worst group, `p_worst_null` its expectation in permutations that make that group the worst
    by chance. `mde80`: a gap of this size between any two eligible groups would have been found with 80 % power at
    `alpha` before correction. `equivalence_p`: TOST of all pairs against `smallest_effect`. `status` is "ok",
    "too_few_subjects" or "uninformative"; `adjusted_p`, `significant` and `verdict` stay None until `adjust` sets them
    for a family. `n_images`, `n_subjects`: with a value, all groups; `n_missing`: pictures without one. `extreme_pair`
    is (worst, best), the pair that `hedges_g` (>= 0) is about.
    """

    raw: float | None
    null_mean: float | None
    null_p95: float | None
    p_value: float | None
    max_t: float | None
    excess: float | None
    shrunken: float | None
    ci_low: float | None
    ci_high: float | None
    worst_group: str | None
    best_group: str | None
    extreme_pair: tuple[str, str] | None
    p_worst: float | None
    p_worst_null: float | None
    hedges_g: float | None
    epsilon_squared: float | None
    omega_squared: float | None
    kruskal_h: float | None
    kruskal_p: float | None
    welch_f: float | None
    welch_p: float | None
    dependent_groups: bool
    js_divergence: float | None
    js_null_mean: float | None
    js_p: float | None
    icc: float | None
    design_effect: float | None
    mde80: float | None
    equivalence_p: float | None
    smallest_effect: float
    n_images: int
    n_subjects: int
    n_missing: int
    n_permutations: int
    status: str
    groups: tuple[GroupSummary, ...]
    adjusted_p: float | None = None
    significant: bool | None = None
    verdict: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict: finite floats or None, lists instead of tuples."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    """Turn tuples into lists and non-finite floats into None, all the way down."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


@dataclass(frozen=True)
class Panel:
    """Rows of several outcomes on the same pictures, with the permutations that they share.

    `raw_permuted` and `max_t_permuted` are (B, m): row b is one relabelling of the people, applied to every outcome.
    `max_t` is (m,). A column that could not be tested is NaN throughout.
    """

    rows: list[DisparityRow]
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray


@dataclass(frozen=True)
class CompositeTest:
    """The mean of several rows' `raw`, with its chance level and p-value from the same joint permutations."""

    value: float | None
    null_mean: float | None
    null_p95: float | None
    excess: float | None
    p_value: float | None
    n_columns: int
