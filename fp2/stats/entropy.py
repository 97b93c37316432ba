"""Entropy: the Jensen-Shannon divergence between the groups' distributions, and the diversity of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fp2.stats.core.numeric import BoolArray, FloatArray, IntArray
from fp2.stats.core.permutation import Labels, Permuter
from fp2.stats.core.sums import group_histograms
from fp2.stats.core.units import Prepared
from fp2.stats.options import Options

JS_PERMUTATIONS = 2_000


@dataclass(frozen=True)
class AnswerDiversity:
    """Number of answers, of distinct ones, entropy in bits; `uninformative`: no answers, or all the same."""

    n: int
    distinct: int
    entropy: float
    uninformative: bool


def response_diversity(answers: Iterable[str | None]) -> AnswerDiversity:
    """Count distinct answers (ignoring whitespace and case) and their entropy; None = not answered, left out."""
    counts = Counter(" ".join(text.split()).casefold() for text in answers if text is not None)
    n = counts.total()
    share = np.array(list(counts.values()), dtype=np.float64) / max(n, 1)
    entropy = float(-(share * np.log2(share)).sum()) if n else 0.0
    return AnswerDiversity(n, len(counts), max(entropy, 0.0), len(counts) <= 1)


def divergence(totals: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the generalised Jensen-Shannon divergence [H(mean of P_g) - mean of H(P_g)] / log2 k, in [0, 1].

    Parameters
    ----------
    totals : (G, ..., bins)
        Unnormalised histograms of the groups.
    valid : (G, ...)
        The k groups that count.

    Returns
    -------
    (...)
        NaN with fewer than two groups. For k = 2 the square of the Jensen-Shannon distance in base 2 (Lin 1991).
    """
    weight = totals.sum(axis=-1, keepdims=True)
    p = np.where(valid[..., None], totals / np.where(weight > 0, weight, 1.0), 0.0)
    k = valid.sum(axis=0)
    safe = np.maximum(k, 2)
    mixture = _entropy(p.sum(axis=0) / safe[..., None])
    own = (_entropy(p) * valid).sum(axis=0) / safe
    return np.where(k >= 2, np.clip((mixture - own) / np.log2(safe), 0.0, 1.0), np.nan)


def _entropy(p: FloatArray) -> FloatArray:
    bits: FloatArray = -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=-1)
    return bits


def permuted_divergences(p: Prepared, options: Options) -> tuple[FloatArray, FloatArray]:
    """Return the observed divergence (m,) and those of the first permutations (min(B, 2000), m); NaN if unbounded.

    Each subject has weight 1, spread over its images. The relabellings are those of the panel's other statistics: the
    same streams from their beginning.
    """
    table = _unit_histograms(p, options)
    # a bin without any answer adds nothing
    usable = table[:, :, table.any(axis=(0, 1))]
    permuter, total = Permuter(p.units, options.seed), min(options.n_permutations, JS_PERMUTATIONS)
    step = p.data.chunk(max(1, total // max(1, usable.shape[2])))
    observed = _one_batch(p, permuter.observed(), usable)[0]
    parts = [_one_batch(p, permuter.draw(min(step, total - start)), usable) for start in range(0, total, step)]
    bounded = np.array([bins is not None for bins in options.bins])
    return np.where(bounded, observed, np.nan), np.where(bounded, np.concatenate(parts), np.nan)


def _one_batch(p: Prepared, labels: Labels, table: FloatArray) -> FloatArray:
    sums = group_histograms(p.data, labels, table)
    valid = (sums.sum(axis=-1) >= 2 - 1e-6) & p.eligible[:, None, :]
    return divergence(sums, valid)


def _unit_histograms(p: Prepared, options: Options) -> FloatArray:
    """Return each unit's shares of its answered images per bin, (C, m, most bins); zeros where a unit is not used."""
    most = max((bins for bins in options.bins if bins is not None), default=1)
    table = np.zeros((*p.data.count.shape, most))
    for j, bins in enumerate(options.bins):
        if bins is not None:
            ends = float(options.low[j]), float(options.high[j])
            table[:, j, :bins] = _shares(p.image_values[:, j], p.image_unit, len(table), *ends, bins)
    table[p.data.count == 0] = 0.0
    return table


def _shares(values: FloatArray, line: IntArray, size: int, low: float, high: float, bins: int) -> FloatArray:
    """Return the share of each line's values in equal bins over [low, high]: (size, bins), zeros without values."""
    present = np.isfinite(values)
    place = np.clip(np.floor((values[present] - low) / (high - low) * bins + 1e-9).astype(np.intp), 0, bins - 1)
    counts = np.bincount(line[present] * bins + place, minlength=size * bins).reshape(size, bins).astype(np.float64)
    shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares
