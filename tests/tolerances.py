"""Tolerances that follow from the type of the numbers, not from the processor that computed them first."""

from __future__ import annotations

import numpy as np


def epsilons(count: float, *, size: float = 1.0, dtype: str = "float32") -> float:
    """Return `count` rounding errors of numbers of this size: the machine epsilon of the type times both.

    Sums in another order, fused operations and other vector widths differ by a few of them.
    """
    return float(count * np.finfo(dtype).eps * size)
