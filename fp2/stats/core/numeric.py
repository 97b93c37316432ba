"""What all statistics share: array types, finite and rounded numbers, random streams, the memory budget of a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

CHUNK_BYTES = 48_000_000
"""Memory that one batch of permutations or resamples may take."""


def finite(value: float) -> float | None:
    """Return a plain float, or None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return a PCG64 generator that is independent for each `key` under one seed.

    Streams are consumed row by row, so that results do not depend on how the draws are cut into batches.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def rounded(value: float, digits: int = 6) -> float | None:
    """Return `value` with `digits` significant digits, None where it is not finite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def nested(values: NDArray[np.generic], digits: int = 6) -> Any:
    """Return an array as nested lists of `rounded` numbers."""
    if values.ndim == 0:
        return rounded(float(values), digits)
    return [nested(value, digits) for value in values]
