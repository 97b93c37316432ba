"""Agreement of two measurements of the same answers: Spearman's rho, and Cohen's kappa of their classes.

Answers about one subject are alike, so that intervals resample subjects. An interval is the estimate plus and minus
Student's t times the standard deviation over resamples, on the scale of Fisher's z (artanh), which keeps it within
-1 and 1; shares and kappa are bounded in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import CHUNK_BYTES, Estimate, FloatArray, IntArray, finite, resample_counts, stream

FEWEST = 15
"""There is no interval where fewer subjects have an answer outside the most common value of either measurement: with
some ten such subjects it covers less than 90 % instead of 95 %."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of two measurements of `n` answers about `n_subjects` subjects.

    A coefficient is None where a measurement is constant; its interval, where there are too few subjects.
    rho: Spearman's rank correlation. same: share of answers with the same class. kappa: Cohen's kappa of the classes.
    Both None without classes.
    """

    n: int
    n_subjects: int
    rho: Estimate
    same: float | None
    kappa: Estimate | None


def clustered_agreement(
    first: ArrayLike,
    second: ArrayLike,
    subjects: ArrayLike,
    *,
    classes: tuple[ArrayLike, ArrayLike] | None = None,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
) -> Agreement:
    """Compare two measurements of the same answers.

    Parameters
    ----------
    first, second : (n,)
        Values, none missing.
    subjects : (n,)
        Whom each answer is about.
    classes : two arrays (n,), optional
        Class of each answer by either measurement, from one set of numbers.
    n_bootstrap, seed : int
        Resamples of the subjects, with replacement; 0: no intervals.
    alpha : float
        1 - confidence level.

    Raises
    ------
    ValueError
        If lengths differ, or a value is missing.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    names, subject = np.unique(np.asarray(subjects).astype(str), return_inverse=True)
    if not (len(a) == len(b) == len(subject)) or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("need as many first values as second ones and subjects, none missing")
    if not len(a):
        nothing = Estimate(None)
        return Agreement(0, 0, nothing, None, None if classes is None else nothing)
    n = len(names)
    codes = [np.unique(x, return_inverse=True)[1] for x in (a, b)]
    rng, step, n_draws = stream(seed, 5), max(1, CHUNK_BYTES // (80 * n)), n_bootstrap if _vary(codes, subject) else 0
    starts = range(0, n_draws, step)  # how often each subject is drawn, in batches
    weights = [resample_counts(rng, min(step, n_draws - start), n) for start in starts] or [np.zeros((0, n))]
    ones = np.ones((1, n))
    drawn = np.concatenate([_rho(codes, subject, w) for w in weights])
    rho = _estimate(float(_rho(codes, subject, ones)[0]), drawn, n, alpha)
    same, kappa = None, None
    if classes is not None:
        table = _tables(*classes, subject, n)
        if not _vary([np.unique(x, return_inverse=True)[1] for x in classes], subject):
            weights = [np.zeros((0, n))]
        same = float(np.trace(table.sum(axis=0))) / len(a)
        drawn = np.concatenate([_kappa(np.einsum("bn,nij->bij", w, table)) for w in weights])
        kappa = _estimate(float(_kappa(table.sum(axis=0)[None])[0]), drawn, n, alpha)
    return Agreement(len(a), n, rho, same, kappa)


def _vary(codes: Sequence[IntArray], subject: IntArray) -> bool:
    """Whether enough subjects have an answer outside the most common value of each measurement."""
    return all(len(np.unique(subject[code != np.bincount(code).argmax()])) >= FEWEST for code in codes)


def _rho(codes: Sequence[IntArray], subject: IntArray, weights: FloatArray) -> FloatArray:
    """Return Spearman's rho of two codes (n,) under each line of subject weights (b, N); NaN where one is constant."""
    out = np.full(len(weights), np.nan)
    for row_index, weight_row in enumerate(weights):
        w = weight_row[subject]
        sizes = [np.bincount(code, weights=w) for code in codes]
        ranks = [(np.cumsum(size) - size / 2)[code] for code, size in zip(codes, sizes, strict=True)]  # mid-ranks
        total = w.sum()
        off = [rank - (w @ rank) / total for rank in ranks]
        spread = (w @ off[0] ** 2) * (w @ off[1] ** 2)
        if spread > 1e-12 * total**6:
            out[row_index] = (w @ (off[0] * off[1])) / np.sqrt(spread)
    return out


def _tables(first: ArrayLike, second: ArrayLike, subject: IntArray, n: int) -> FloatArray:
    """Return the contingency table of the classes of each subject, (n, k, k)."""
    both = np.stack([np.asarray(first), np.asarray(second)])
    names, code = np.unique(both, return_inverse=True)
    first_code, other = code.reshape(both.shape)
    k = len(names)
    return np.bincount((subject * k + first_code) * k + other, minlength=n * k * k).reshape(n, k, k).astype(np.float64)


def _kappa(tables: FloatArray) -> FloatArray:
    """Return Cohen's kappa of each table (b, k, k); NaN where both have one class only."""
    share = tables / tables.sum(axis=(1, 2), keepdims=True)
    chance = (share.sum(axis=2) * share.sum(axis=1)).sum(axis=1)
    observed = np.trace(share, axis1=1, axis2=2)
    defined = chance < 1 - 1e-12
    return np.where(defined, (observed - chance) / np.where(defined, 1 - chance, 1.0), np.nan)


def _estimate(value: float, drawn: FloatArray, n: int, alpha: float) -> Estimate:
    """Return a coefficient with the interval from its resamples, on the scale of Fisher's z.

    A resample without a coefficient is left out. Perfect agreement has no spread, and no interval.
    """
    from scipy.stats import t

    defined = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or abs(value) > 1 - 1e-12 or len(defined) < 2:
        return Estimate(finite(value))
    z = np.arctanh(np.clip(defined, -1 + 1e-6, 1 - 1e-6))
    reach = float(t.ppf(1 - alpha / 2, n - 1)) * float(z.std(ddof=1))
    centre = float(np.arctanh(value))
    return Estimate(float(value), float(np.tanh(centre - reach)), float(np.tanh(centre + reach)))
