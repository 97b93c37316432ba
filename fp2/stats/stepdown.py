"""Step-down max-T (Westfall and Young 1993): correction of a large family from its joint permutations.

Holm needs permutations in proportion to the family; above some 2,000 tests this takes over. Outcomes of one cut share
their relabellings, so that the correction knows how they hang together. Cuts are permuted each by itself; their rows
then count as independent, which is never too lenient for largest absolute values (Sidak 1967).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.composite import TIE
from fp2.stats.rows import FloatArray, Panel

LARGE_FAMILY = 2_000


def step_down_max_t(observed: ArrayLike, permuted: ArrayLike) -> FloatArray:
    """Return the adjusted p-values (m,) of observed statistics (m,) from joint permutations (B, m).

    Ordered from the largest statistic down, each is compared with the permuted maximum over itself and all smaller
    ones: (1 + #) / (B + 1), made monotone. NaN: not tested, left out; a permutation without a statistic counts as
    reached.
    """
    t, table = np.asarray(observed, dtype=np.float64), np.asarray(permuted, dtype=np.float64)
    if t.ndim != 1 or table.ndim != 2 or table.shape[1] != len(t):
        raise ValueError(f"need observed (m,) and permuted (B, m), got {t.shape} and {table.shape}")
    out = np.full(len(t), np.nan)
    order = [int(j) for j in np.argsort(-t, kind="stable") if not np.isnan(t[j])]
    running, p = np.full(len(table), -np.inf), []
    for j in reversed(order):
        column = table[:, j]
        running = np.maximum(running, np.where(np.isnan(column), np.inf, column))
        p.append((1 + int((running >= t[j] * (1 - TIE) - TIE).sum())) / (len(table) + 1))
    if order:
        out[order] = np.maximum.accumulate(p[::-1])
    return out


def step_down_panels(panels: Sequence[Panel]) -> list[float | None]:
    """Return adjusted p-values of all rows of several panels, panel by panel; pass them to `decide`.

    All panels must have the same number of permutations (ValueError); None for a row that could not be tested.
    """
    if len({len(panel.max_t_permuted) for panel in panels}) > 1:
        raise ValueError("the panels have different numbers of permutations")
    if not panels:
        return []
    tested = np.array([row.p_value is not None for panel in panels for row in panel.rows], dtype=bool)
    seen = np.where(tested, np.concatenate([panel.max_t for panel in panels]), np.nan)
    p = step_down_max_t(seen, np.concatenate([panel.max_t_permuted for panel in panels], axis=1))
    return [float(x) if np.isfinite(x) else None for x in p]
