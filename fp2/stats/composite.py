"""The composite: the mean disparity of several outcomes, tested with the permutations that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import finite
from fp2.stats.core.units import permutation_p
from fp2.stats.rows import Panel


@dataclass(frozen=True)
class CompositeTest:
    """The mean of `raw` over `n_columns` rows, its null mean and 95th percentile, excess and permutation p-value.

    `magnitude`: the value corrected for noise, with its interval at 1 - 2 alpha. None where a number does not exist.
    """

    value: float | None
    null_mean: float | None
    null_p95: float | None
    excess: float | None
    p_value: float | None
    n_columns: int
    magnitude: float | None = None
    magnitude_low: float | None = None
    magnitude_high: float | None = None


def composite_test(panel: Panel, columns: Sequence[int], alpha: float = 0.05) -> CompositeTest:
    """Test the mean of `raw` over `columns` (indices of the panel's rows).

    The null distribution of the value is the same mean in each joint permutation; p compares the mean over columns of
    max|T|. Columns that were not tested are left out; all numbers are None if none is left.

    The magnitude is the root of the squared value less the mean of its square over the permutations, or 0. What chance
    adds to the square of a gap does not depend on the gap, to first order, so that it does not depend on the number of
    subjects as the excess does. It is too high where few of many columns have a gap. The interval at 1 - 2 alpha is
    that of the square, by the delta method: its variance is 4 magnitude^2 SE^2, SE from what each subject adds to the
    extreme means, plus its variance over the permutations; Student's t with 3 (sum u^2)^2 / sum u^4 - 1 degrees of
    freedom (Satterthwaite 1946, for the subjects' parts u).

    Raises
    ------
    ValueError
        If a column is not in the panel.
    """
    from scipy.special import stdtrit

    if any(not -len(panel.rows) <= c < len(panel.rows) for c in columns):
        raise ValueError(f"columns {list(columns)} are not all among the panel's {len(panel.rows)} rows")
    tested = [c for c in columns if panel.rows[c].raw is not None]
    if not tested:
        return CompositeTest(None, None, None, None, None, 0)
    value = float(np.mean([panel.rows[c].raw for c in tested]))
    if all(panel.rows[c].p_value is None for c in tested):
        return CompositeTest(value, None, None, None, None, len(tested))
    null = panel.raw_permuted[:, tested].mean(axis=1)
    null = null[np.isfinite(null)]
    p = permutation_p(float(panel.max_t[tested].mean()), panel.max_t_permuted[:, tested].mean(axis=1))
    if not len(null):
        return CompositeTest(value, None, None, None, p, len(tested))
    mean = float(null.mean())
    influence = panel.influence[:, tested].mean(axis=1)
    square = value**2 - float((null**2).mean())
    sums = float((influence**2).sum()), float((influence**4).sum())
    df = max(3 * sums[0] ** 2 / sums[1] - 1, 1.0) if sums[1] > 0 else np.inf
    error = math.sqrt(4 * max(square, 0.0) * sums[0] + float((null**2).var()))
    margin = (float(stdtrit(df, 1 - alpha)) if math.isfinite(df) else 0.0) * error
    magnitude, low, high = (math.sqrt(max(x, 0.0)) for x in (square, square - margin, square + margin))
    high_null = finite(float(np.quantile(null, 0.95)))
    return CompositeTest(value, mean, high_null, value - mean, p, len(tested), magnitude, low, high)


def mean_covariances(values: ArrayLike, groups: ArrayLike, subjects: ArrayLike) -> dict[str, list[list[float]]]:
    """Return for each group the covariance matrix (m, m) of its means of m outcomes.

    With the means it is what an analysis of several runs needs of each, in place of its answers. The subjects are
    sampled independently; of two outcomes those with both count. values (n, m), groups, subjects (n,): as in
    `disparity_panel`. A subject in two groups relates their means, which is not stated.
    """
    entries = read_entries(values, groups, subjects, None)
    cells = cell_means(entries)
    matrices = {}
    for code, name in enumerate(entries.names):
        means = cells.mean[cells.group == code]
        known = np.isfinite(means)
        n = known.sum(axis=0)
        centred = np.where(known, means - np.nansum(means, axis=0) / np.maximum(n, 1), 0.0)
        both = known.T.astype(float) @ known
        covariance = centred.T @ centred / np.maximum(both - 1, 1) * both / np.maximum(np.outer(n, n), 1)
        matrices[name] = covariance.tolist()
    return matrices
