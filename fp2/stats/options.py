"""The options of a panel, checked and broadcast over its outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fp2.stats.core.numeric import BoolArray, FloatArray


@dataclass(frozen=True)
class Options:
    """The options of m outcomes, as `disparity` explains them.

    sign (m,): +1 where a low mean is bad, else -1; low, high (m,): the scales; bins: None where a scale is unbounded.
    """

    sign: FloatArray
    low: FloatArray
    high: FloatArray
    bins: tuple[int | None, ...]
    yes_no: BoolArray
    smallest_effect: FloatArray
    n_permutations: int
    n_bootstrap: int
    seed: int
    alpha: float
    min_subjects: int

    def check_values(self, values: FloatArray) -> None:
        """Raise ValueError for values (n, m) outside their scale, or other than 0 and 1 in a yes/no column."""
        if not len(values):
            return
        slack = 1e-9 * np.maximum(1.0, np.where(np.isfinite(self.high - self.low), self.high - self.low, 1.0))
        with np.errstate(invalid="ignore"):
            outside = ((values < self.low - slack) | (values > self.high + slack)).any(axis=0)
            neither = ((values != 0) & (values != 1) & ~np.isnan(values)).any(axis=0) & self.yes_no
        if outside.any():
            j = int(outside.argmax())
            raise ValueError(f"column {j} holds a value outside its range [{self.low[j]:g}, {self.high[j]:g}]")
        if neither.any():
            raise ValueError(f"column {int(neither.argmax())} is yes/no but holds values other than 0 and 1")


def _each(value: Any, m: int, what: str) -> list[Any]:
    items = list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else [value] * m
    if len(items) != m:
        raise ValueError(f"{what} has {len(items)} entries for {m} outcomes")
    return items


def make_options(
    m: int,
    *,
    higher_is_better: bool | Sequence[bool],
    value_ranges: tuple[float, float] | Sequence[tuple[float, float]],
    bins: int | Sequence[int | None] | None,
    yes_no: bool | Sequence[bool],
    smallest_effects: float | Sequence[float],
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float,
    min_subjects: int,
) -> Options:
    """Check the options and broadcast single ones over `m` outcomes; raise ValueError if one is out of range."""
    one_range = len(value_ranges) == 2 and all(isinstance(end, (int, float)) for end in value_ranges)
    ranges = np.array([value_ranges] * m if one_range else list(value_ranges), dtype=np.float64).reshape(-1, 2)
    if len(ranges) != m or not (ranges[:, 0] < ranges[:, 1]).all():
        raise ValueError(f"value_ranges must give low < high for each of {m} outcomes")
    if n_permutations < 1 or n_bootstrap < 0 or min_subjects < 1 or seed < 0 or not 0 < alpha < 1:
        raise ValueError("need n_permutations >= 1, n_bootstrap >= 0, min_subjects >= 1, seed >= 0, 0 < alpha < 1")
    effects = np.array(_each(smallest_effects, m, "smallest_effects"), dtype=np.float64)
    if not (effects >= 0).all():
        raise ValueError("smallest_effects must not be negative")
    return Options(
        sign=np.where(np.array(_each(higher_is_better, m, "higher_is_better"), dtype=bool), 1.0, -1.0),
        low=ranges[:, 0],
        high=ranges[:, 1],
        bins=tuple(_bins(b, lo, hi) for b, (lo, hi) in zip(_each(bins, m, "bins"), ranges, strict=True)),
        yes_no=np.array(_each(yes_no, m, "yes_no"), dtype=bool),
        smallest_effect=effects,
        n_permutations=n_permutations,
        n_bootstrap=n_bootstrap,
        seed=seed,
        alpha=alpha,
        min_subjects=min_subjects,
    )


def _bins(bins: int | None, low: float, high: float) -> int | None:
    if not np.isfinite(high - low):
        return None
    if bins is None:
        # on a scale with both signs 0 lies in the middle of a bin
        return 11 if low < 0 < high else 10
    if bins < 2:
        raise ValueError(f"need at least two bins, got {bins}")
    return int(bins)
