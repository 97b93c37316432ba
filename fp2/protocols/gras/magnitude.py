"""How large the differences are: scores that do not grow with the number of pictures, each with an interval.

`omega_squared`: mean over tests of Welch's omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not floored at 0, so that chance
adds nothing on average. `gap`: the root of the mean over tests of (max - min of group means)^2 less its mean under
permuted labels. A plain mean of max - min grows as groups get smaller; taken off in squares, what noise adds is gone
(to a few hundredths of the gap in simulation, benchmarks/gras_validity.py). The plain mean and its chance level stand
beside it. Intervals: estimate +- 1.96 standard errors (`_error`), from resamples of whole subjects; those of the gap in
squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fp2.protocols.gras.compare import Null, Tests, means
from fp2.protocols.gras.groups import FloatArray
from fp2.protocols.gras.plain import plain

_Z = 1.959963984540054


class Resampled:
    """Gathers what the intervals need from batches of resamples: means over tests (b, A) of omega^2 and gap^2."""

    def __init__(self) -> None:
        self._parts: list[list[FloatArray]] = []

    def add(self, tests: Tests) -> None:
        """Take in one batch."""
        self._parts.append([means(x) for x in (tests.omega_squared, tests.gap**2)])

    def all(self) -> list[FloatArray]:
        """Return omega^2 and gap^2, each (B, A)."""
        return [np.concatenate([part[i] for part in self._parts]) for i in range(2)]


def magnitude(observed: Tests, null: Null, resampled: Resampled, names: Sequence[str]) -> dict[str, Any]:
    """Return the two scores over all attributes, and per attribute under `by_attribute`."""
    omega, gap, square = (means(x)[0] for x in (observed.omega_squared, observed.gap, observed.gap**2))
    chance = np.where(np.isfinite(observed.gap[0]), null.square_gap, np.nan)[None]
    corrected = square - means(chance)[0]
    drawn = resampled.all()
    every = list(range(len(names)))
    return {
        **_scores(every, omega, gap, corrected, null, drawn),
        "by_attribute": {name: _scores([a], omega, gap, corrected, null, drawn) for a, name in enumerate(names)},
    }


def _scores(
    which: list[int], omega: FloatArray, gap: FloatArray, corrected: FloatArray, null: Null, drawn: list[FloatArray]
) -> dict[str, Any]:
    """Average over some attributes (all have the same number of cells)."""
    centre, error = _average(omega[which]), _error(drawn[0], null.omega_squared, which)
    square, square_error = _average(corrected[which]), _error(drawn[1], null.square, which)
    low, value, high = (float(np.sqrt(np.maximum(0.0, square + z * square_error))) for z in (-_Z, 0.0, _Z))
    chance = np.array([_average(row[which]) for row in null.omega_squared])
    return {
        "omega_squared": {
            "value": plain(centre),
            "low": plain(centre - _Z * error),
            "high": plain(centre + _Z * error),
            "null_mean": plain(float(chance.mean())),
            "null_p95": plain(float(np.quantile(chance, 0.95))),
        },
        "gap": {
            "value": plain(value),
            "low": plain(low),
            "high": plain(high),
            "plain_mean": plain(_average(gap[which])),
            "plain_null_mean": plain(_average(null.gap[:, which])),
        },
    }


def _average(x: FloatArray) -> float:
    """Mean of what is known, NaN without any."""
    known = x[np.isfinite(x)]
    return float(known.mean()) if len(known) else float("nan")


def _error(drawn: FloatArray, null: FloatArray, which: list[int]) -> float:
    """Return the standard error of a mean of squares, from its resamples and its permutations (B, A).

    A square (m + e)^2 varies by V + L, V as where nothing differs (m = 0) and L in proportion to m^2. A resample draws
    around m + e, which adds 2 V on average: it is taken off.
    """
    resampled, permuted = (np.array([_average(row[which]) for row in x]).var(ddof=1) for x in (drawn, null))
    return float(np.sqrt(max(resampled - 2.0 * permuted, permuted)))
