"""A4: generalised Jensen-Shannon divergence between the groups' distributions of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.rows import BoolArray, FloatArray


def default_bins(low: float, high: float) -> int:
    """11 bins where the scale has both signs (0 in mid-bin), else 10."""
    return 11 if low < 0 < high else 10


def histogram_shares(values: FloatArray, line: np.ndarray, size: int, low: float, high: float, bins: int) -> FloatArray:
    """Share of each line's values in equal bins over [low, high]: (size, bins), zeros for a line without values."""
    present = np.isfinite(values)
    place = np.clip(np.floor((values[present] - low) / (high - low) * bins + 1e-9).astype(np.intp), 0, bins - 1)
    counts = np.bincount(line[present] * bins + place, minlength=size * bins).reshape(size, bins).astype(np.float64)
    shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares


def _entropy(p: FloatArray) -> FloatArray:
    bits: FloatArray = -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=-1)
    return bits


def divergence_of_sums(totals: FloatArray, valid: BoolArray) -> FloatArray:
    """JSD from unnormalised group histograms (G, ..., bins) with `valid` (G, ...); NaN with fewer than two groups."""
    weight = totals.sum(axis=-1, keepdims=True)
    p = np.where(valid[..., None], totals / np.where(weight > 0, weight, 1.0), 0.0)
    k = valid.sum(axis=0)
    safe = np.maximum(k, 2)
    mixture = _entropy(p.sum(axis=0) / safe[..., None])
    own = (_entropy(p) * valid).sum(axis=0) / safe
    return np.where(k >= 2, np.clip((mixture - own) / np.log2(safe), 0.0, 1.0), np.nan)


def jensen_shannon(distributions: ArrayLike) -> float:
    """Return JSD = [H(mean of P_g) - mean of H(P_g)] / log2 k, in [0, 1].

    `distributions` is (k, bins), each row summing to 1. For k = 2 it is the square of SciPy's `jensenshannon` distance
    in base 2. Raises ValueError for fewer than two distributions, negative shares, or sums that are not 1.
    """
    p = np.asarray(distributions, dtype=np.float64)
    if p.ndim != 2 or len(p) < 2:
        raise ValueError(f"need at least two distributions as rows, got shape {p.shape}")
    if (p < 0).any() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-9):
        raise ValueError("every distribution must be non-negative and sum to 1")
    return float(divergence_of_sums(p, np.ones(len(p), dtype=bool)))
