"""A5: the composite of several outcomes, tested with the permutations that they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fp2.stats.rows import CompositeTest, Panel, finite

TIE = 1e-9


def permutation_p(observed: float, permuted: np.ndarray) -> float:
    """Return (1 + #{T* >= T}) / (B + 1). A permutation without a statistic (NaN) counts as at least as large.

    Statistics are free of units; what differs by rounding alone, near zero too, is a tie and counts as reached.
    """
    reached = ~(permuted < observed * (1 - TIE) - TIE)
    return float((1 + int(reached.sum())) / (len(permuted) + 1))


def composite_test(panel: Panel, columns: Sequence[int]) -> CompositeTest:
    """Test the mean of `raw` over `columns` (indices into the panel's rows).

    The value's chance level is the mean and 95th percentile of the same mean in each joint permutation; p compares the
    mean over columns of max|T|. Columns that could not be tested are left out; all None if none is left.
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
