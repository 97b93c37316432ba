"""Where the curve of ranked importances bends: how many features an error model is told by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def elbow(importances: Sequence[float], most: int = 10, least: int = 1) -> int:
    """Return how many of the ranked importances (largest first) come before the curve goes flat.

    The bend is the point that lies farthest below the straight line from the first to the last importance, both axes
    scaled to [0, 1] (Satopää et al. 2011, "Kneedle"); the features before it are taken, at least `least` and at most
    `most`. All of them count where there are fewer than three; where all are the same, `least` do.
    """
    values = np.asarray(importances, dtype=np.float64)
    if len(values) < 3:
        return len(values)
    if np.any(np.diff(values) > 0):
        raise ValueError("importances must be ranked, largest first")
    width = values[0] - values[-1]
    if width <= 0:
        return min(least, len(values))
    x = np.linspace(0.0, 1.0, len(values))
    below = (1.0 - x) - (values - values[-1]) / width
    return int(np.clip(below.argmax(), min(least, len(values)), most))
