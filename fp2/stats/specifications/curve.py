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
    """Median gap and share of significant specifications, their means under permutation, and the joint p-values.

    `median_p` tests the median of the specifications' p-values, not that of the gaps: a gap is not studentised, so that
    a small group with a larger spread than the others would be found to differ.
    """

    median: float
    median_null: float
    median_p: float
    share: float
    share_null: float
    share_p: float


def p_values(observed: FloatArray, permuted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the p-values of statistics: as observed (s,), and under each permutation (B, s).

    Each value is ranked among the observed one and all permuted ones, so that observed and permuted statistics are
    judged by one rule: p = #{T >= t} / (B + 1) for all B + 1 of them. NaN counts as the largest.
    """
    pooled = np.concatenate([observed[None], permuted])
    pooled = np.where(np.isnan(pooled), np.inf, pooled)
    total, out = len(pooled), np.empty(pooled.shape)
    for k in range(pooled.shape[1]):
        known = np.isfinite(pooled[:, k])
        least = np.where(known, pooled[:, k] - TIE * (1 + np.abs(np.where(known, pooled[:, k], 0.0))), np.inf)
        out[:, k] = (total - np.searchsorted(np.sort(pooled[:, k]), least, side="left")) / total
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
        The statistics whose permutation p-values are tested jointly; p <= `alpha` is significant.

    Raises
    ------
    ValueError
        Without a specification, or for other shapes.
    """
    s = len(effects)
    shapes = {permuted_effects.shape, permuted.shape}
    if not s or len(statistics) != s or len(shapes) > 1 or permuted.shape[1] != s:
        raise ValueError(f"need (s,) and (B, s) for s >= 1, got {effects.shape}, {statistics.shape} and {shapes}")
    p, p_permuted = p_values(statistics, permuted)
    share, shares = float((p <= alpha + 1e-9).mean()), (p_permuted <= alpha + 1e-9).mean(axis=1)
    gaps = np.median(np.where(np.isnan(permuted_effects), np.inf, permuted_effects), axis=1)
    return CurveTest(
        median=float(np.median(effects)),
        median_null=float(gaps.mean()),
        median_p=permutation_p(-float(np.median(p)), -np.median(p_permuted, axis=1)),
        share=share,
        share_null=float(shares.mean()),
        share_p=permutation_p(share, shares),
    )
