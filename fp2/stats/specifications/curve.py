"""The joint test of a specification curve (Simonsohn, Simmons and Nelson 2020, Nature Human Behaviour 4, 1208-1214).

Specifications of one claim analyse the same answers, so that their estimates are correlated, and a count of significant
ones proves nothing by itself. Their joint distribution without any difference is that under permutation of the group
labels across subjects, the same permutation for every specification.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fp2.stats.core.numeric import FloatArray
from fp2.stats.core.permutation import TIE, permutation_p


@dataclass(frozen=True)
class CurveTest:
    """Median effect and share of significant specifications, their means under permutation, and the p-values."""

    median: float
    median_null: float
    median_p: float
    share: float
    share_null: float
    share_p: float


def significant(observed: FloatArray, permuted: FloatArray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which statistics are significant at `alpha`: as observed (s,), and under each permutation (B, s).

    Each value is ranked among the observed one and all permuted ones, so that observed and permuted statistics are
    judged by one rule: p = #{T >= t} / (B + 1) for all B + 1 of them. NaN counts as the largest.
    """
    pooled = np.concatenate([observed[None], permuted])
    pooled = np.where(np.isnan(pooled), np.inf, pooled)
    total, out = len(pooled), np.empty(pooled.shape, dtype=bool)
    for k in range(pooled.shape[1]):
        order = np.sort(pooled[:, k])
        with np.errstate(invalid="ignore"):
            least = pooled[:, k] - TIE * (1 + np.abs(pooled[:, k]))
        least = np.where(np.isinf(pooled[:, k]), np.inf, least)
        at_least = total - np.searchsorted(order, least, side="left")
        out[:, k] = at_least <= alpha * total + 1e-9
    return out[0], out[1:]


def curve_test(
    effects: FloatArray, permuted_effects: FloatArray, statistics: FloatArray, permuted: FloatArray, alpha: float = 0.05
) -> CurveTest:
    """Test a curve of s specifications.

    Parameters
    ----------
    effects, permuted_effects : (s,), (B, s)
        Effects in a unit that all specifications share, as observed and under the joint permutations.
    statistics, permuted : (s,), (B, s)
        The statistics whose permutation p-values decide significance at `alpha`, specification by specification.

    Raises
    ------
    ValueError
        Without a specification, or for other shapes.
    """
    s = len(effects)
    shapes = {permuted_effects.shape, permuted.shape}
    if not s or len(statistics) != s or len(shapes) > 1 or permuted.shape[1] != s:
        raise ValueError(f"need (s,) and (B, s) for s >= 1, got {effects.shape}, {statistics.shape} and {shapes}")
    found, found_permuted = significant(statistics, permuted, alpha)
    known = np.where(np.isnan(permuted_effects), np.inf, permuted_effects)
    medians, shares = np.median(known, axis=1), found_permuted.mean(axis=1)
    median, share = float(np.median(effects)), float(found.mean())
    return CurveTest(
        median=median, median_null=float(medians.mean()), median_p=permutation_p(median, medians), share=share,
        share_null=float(shares.mean()), share_p=permutation_p(share, shares),
    )  # fmt: skip
