"""Resampling whole people: counts of how often each subject is drawn, and ratios of sums under them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_CHUNK = 500


def draws(n_subjects: int, n_resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks (b, n_subjects) of how often each subject is in a resample of `n_subjects` with replacement."""
    rng = np.random.default_rng(seed)
    even = np.full(n_subjects, 1.0 / n_subjects)
    for start in range(0, n_resamples, _CHUNK):
        yield rng.multinomial(n_subjects, even, size=min(_CHUNK, n_resamples - start)).astype(np.float64)


def ratios(above: FloatArray, below: FloatArray, n_resamples: int, seed: int) -> FloatArray:
    """Return sum(above) / sum(below) in each resample: (n_resamples, k) from per-subject sums (n_subjects, k).

    NaN where a resample's lower sum is 0.
    """
    top, bottom = above.reshape(len(above), -1), below.reshape(len(below), -1)
    blocks = []
    for counts in draws(len(top), n_resamples, seed):
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks.append((counts @ top) / (counts @ bottom))
    found: FloatArray = np.concatenate(blocks)
    found[~np.isfinite(found)] = np.nan
    return found


def spread(samples: FloatArray, alpha: float = 0.05) -> tuple[float | None, float | None, float | None]:
    """Return the standard error and the percentile interval of one column of resamples; None where none exist."""
    known = samples[~np.isnan(samples)]
    if known.size < 2:
        return None, None, None
    low, high = np.quantile(known, [alpha / 2, 1 - alpha / 2])
    return float(known.std(ddof=1)), float(low), float(high)


def per_subject(values: FloatArray, subjects: NDArray[np.intp], n_subjects: int) -> FloatArray:
    """Return the mean of `values` (n, k) over each subject's rows, (n_subjects, k): every person weighs the same."""
    columns = values.reshape(len(values), -1)
    sums = np.zeros((n_subjects, columns.shape[1]))
    np.add.at(sums, subjects, columns)
    return sums / np.bincount(subjects, minlength=n_subjects)[:, None]
