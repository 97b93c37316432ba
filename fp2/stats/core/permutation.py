"""Random relabellings, and the p-value of a permutation test.

Whole subjects exchange their label sets: only subjects with the same number k of exchangeable units, and the order of
the label sets over a subject's units is shuffled. An attribute that never changes has k = 1 for every subject and is
permuted freely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fp2.stats.core.numeric import FloatArray, IntArray, stream
from fp2.stats.core.units import Units

TIE = 1e-9
"""Relative and absolute difference below which two statistics tie: they differ by rounding alone."""

Labels = list[IntArray]
"""For each class of subjects the label sets of their units in a batch of relabellings, (b, S, k)."""


def permutation_p(observed: float, permuted: FloatArray) -> float:
    """Return (1 + #{T* >= T}) / (B + 1) (Phipson and Smyth 2010); permuted (B,).

    A permutation without a statistic (NaN) counts as at least as large, and so do ties. Statistics have no units.
    """
    reached = ~(permuted < observed * (1 - TIE) - TIE)
    return float((1 + int(reached.sum())) / (len(permuted) + 1))


class Permuter:
    """Draws relabellings of the exchangeable units, from one pair of random streams per class of subjects.

    Parameters
    ----------
    units : Units
    seed : int
    *key : int
        Of the random streams, for several permutations under one seed.
    exchanged : sequence of (S, k), optional
        The classes of subjects that exchange their labels; all by default.
    """

    def __init__(self, units: Units, seed: int, *key: int, exchanged: Sequence[IntArray] | None = None) -> None:
        classes = units.classes if exchanged is None else exchanged
        self._own = [units.label_set[c] for c in classes]
        self._streams = [(stream(seed, *key, c.shape[1], 0), stream(seed, *key, c.shape[1], 1)) for c in classes]

    def observed(self) -> Labels:
        """Return the observed labels, as a batch of one."""
        return [own[None] for own in self._own]

    def draw(self, b: int) -> Labels:
        """Return `b` random relabellings."""
        return [
            self._draw(own, across, within, b) for own, (across, within) in zip(self._own, self._streams, strict=True)
        ]

    @staticmethod
    def _draw(own: IntArray, across: np.random.Generator, within: np.random.Generator, b: int) -> IntArray:
        if own.shape[1] == 1:
            return across.permuted(np.broadcast_to(own[:, 0], (b, len(own))), axis=1)[:, :, None]
        tuples = own[across.permuted(np.broadcast_to(np.arange(len(own)), (b, len(own))), axis=1)]
        return within.permuted(tuples, axis=2)
