"""How large the differences are: scores that do not grow with the number of pictures, each with an interval.

`omega_squared`: mean over tests of Welch's omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not floored at 0, so that chance
adds nothing on average. `gap`: the root of the mean over tests of (max - min of group means)^2 less its mean under
permuted labels. A plain mean of max - min grows as groups get smaller; taken off in squares, what noise adds is gone
(to a few hundredths of the gap in simulation, benchmarks/gras_validity.py). The plain mean and its chance level stand
beside it, with an interval for what that mean is at this number of people. Intervals: estimate +- 1.96 standard errors
(`_error`), from resamples of whole subjects; those of the gap in squares. A resample or permutation that leaves an
attribute without any test is left out, and counted.
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
    """Gathers what the intervals need from batches of resamples: means over tests (b, A) of omega^2, gap^2 and gap."""

    def __init__(self) -> None:
        self._parts: list[list[FloatArray]] = []

    def add(self, tests: Tests) -> None:
        """Take in one batch."""
        self._parts.append([means(x) for x in (tests.omega_squared, tests.gap**2, tests.gap)])

    def all(self) -> list[FloatArray]:
        """Return omega^2, gap^2 and gap, each (B, A)."""
        return [np.concatenate([part[i] for part in self._parts]) for i in range(3)]


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
    which = [a for a in which if np.isfinite(omega[a])]
    centre, error = _average(omega[which]), _error(drawn[0], null.omega_squared, which)
    square, square_error = _average(corrected[which]), _error(drawn[1], null.square, which)
    low, high = (_root(square + z * square_error) for z in (-_Z, _Z))
    mean, mean_error = _average(gap[which]), _spread(_draws(drawn[2], which)) ** 0.5
    chance = _draws(null.omega_squared, which)
    return {
        "omega_squared": {
            "value": plain(centre),
            "low": plain(centre - _Z * error),
            "high": plain(centre + _Z * error),
            "null_mean": plain(_average(chance)),
            "null_p95": plain(float(np.quantile(chance, 0.95)) if len(chance) else float("nan")),
        },
        "gap": {
            "value": plain(_root(square)),
            "low": plain(low),
            "high": plain(high),
            "plain_mean": plain(mean),
            "plain_low": plain(max(0.0, mean - _Z * mean_error) if np.isfinite(mean_error) else mean_error),
            "plain_high": plain(mean + _Z * mean_error),
            "plain_null_mean": plain(_average(null.gap[:, which])),
        },
        "resamples_left_out": len(drawn[0]) - len(_draws(drawn[0], which)),
    }


def _average(x: FloatArray) -> float:
    """Mean of what is known, NaN without any."""
    known = x[np.isfinite(x)]
    return float(known.mean()) if len(known) else float("nan")


def _root(square: float) -> float:
    """Root of what is above 0; NaN stays."""
    return float(np.sqrt(np.maximum(0.0, square)))


def _draws(x: FloatArray, which: list[int]) -> FloatArray:
    """Average (B, A) over some attributes, without the draws in which one of them has no test at all."""
    part = x[:, which]
    return np.asarray(part[np.isfinite(part).all(axis=1)].mean(axis=1)) if which else np.empty(0)


def _spread(draws: FloatArray) -> float:
    """Variance of two draws or more, else NaN."""
    return float(draws.var(ddof=1)) if len(draws) >= 2 else float("nan")


def _error(drawn: FloatArray, null: FloatArray, which: list[int]) -> float:
    """Return the standard error of a mean of squares, from its resamples and its permutations (B, A).

    A square (m + e)^2 varies by V + L, V as where nothing differs (m = 0) and L in proportion to m^2. A resample draws
    around m + e, which adds 2 V on average: it is taken off. NaN where fewer than two draws have a test.
    """
    resampled, permuted = (_spread(_draws(x, which)) for x in (drawn, null))
    return float(np.sqrt(np.maximum(resampled - 2.0 * permuted, permuted)))
