"""The composite: the mean disparity of several outcomes, tested with the permutations that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fp2.stats.core.numeric import finite
from fp2.stats.core.permutation import permutation_p
from fp2.stats.rows import Panel


@dataclass(frozen=True)
class CompositeTest:
    """The mean of `raw` over `n_columns` rows, its null mean and 95th percentile, excess and permutation p-value.

    None where a number does not exist.
    """

    value: float | None
    null_mean: float | None
    null_p95: float | None
    excess: float | None
    p_value: float | None
    n_columns: int


def composite_test(panel: Panel, columns: Sequence[int]) -> CompositeTest:
    """Test the mean of `raw` over `columns` (indices of the panel's rows).

    The null distribution of the value is the same mean in each joint permutation; p compares the mean over columns of
    max|T|. Columns that were not tested are left out; all numbers are None if none is left.

    Raises
    ------
    ValueError
        If a column is not in the panel.
    """
    if any(not -len(panel.rows) <= c < len(panel.rows) for c in columns):
        raise ValueError(f"columns {list(columns)} are not all among the panel's {len(panel.rows)} rows")
    used = [c for c in columns if panel.rows[c].raw is not None]
    if not used:
        return CompositeTest(None, None, None, None, None, 0)
    value = float(np.mean([panel.rows[c].raw for c in used]))
    if all(panel.rows[c].p_value is None for c in used):
        return CompositeTest(value, None, None, None, None, len(used))
    null = panel.raw_permuted[:, used].mean(axis=1)
    null = null[np.isfinite(null)]
    p = permutation_p(float(panel.max_t[used].mean()), panel.max_t_permuted[:, used].mean(axis=1))
    if not len(null):
        return CompositeTest(value, None, None, None, p, len(used))
    mean = float(null.mean())
    return CompositeTest(value, mean, finite(float(np.quantile(null, 0.95))), value - mean, p, len(used))
