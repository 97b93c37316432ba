"""A1: permute whole label tuples among subjects.

Only subjects with the same number k of slots exchange their tuples, and the tuple's order over a subject's slots is
shuffled; an attribute that never changes has k = 1 for everybody and permutes freely.

Draws come from PCG64 streams of their own (one per k and purpose), consumed row by row: the result does not depend on
how the permutations are cut into chunks.
"""

from __future__ import annotations

import math

import numpy as np

from fp2.stats.layout import Slots
from fp2.stats.rows import IntArray


def default_permutations(m: int, alpha: float = 0.05) -> int:
    """Return B for a Holm family of `m` p-values: at least 10,000, and enough to resolve alpha / m ten times over."""
    if m < 1 or not 0 < alpha < 1:
        raise ValueError(f"need m >= 1 and 0 < alpha < 1, got {m} and {alpha}")
    return max(10_000, math.ceil(round(10 * m / alpha, 6)))


Labels = list[IntArray]


class Permuter:
    """Draws relabellings. `draw(b)` gives, for each class of subjects, label set ids (b, S, k)."""

    def __init__(self, slots: Slots, seed: int) -> None:
        self._own = [slots.label_set[c] for c in slots.classes]
        self._streams = [(stream(seed, c.shape[1], 0), stream(seed, c.shape[1], 1)) for c in slots.classes]

    def observed(self) -> Labels:
        """Return the labels as they are, as a batch of one."""
        return [own[None] for own in self._own]

    def draw(self, b: int) -> Labels:
        """Return `b` random relabellings."""
        return [
            self._draw(own, people, places, b) for own, (people, places) in zip(self._own, self._streams, strict=True)
        ]

    @staticmethod
    def _draw(own: IntArray, people: np.random.Generator, places: np.random.Generator, b: int) -> IntArray:
        if own.shape[1] == 1:
            return people.permuted(np.broadcast_to(own[:, 0], (b, len(own))), axis=1)[:, :, None]
        tuples = own[people.permuted(np.broadcast_to(np.arange(len(own)), (b, len(own))), axis=1)]
        return places.permuted(tuples, axis=2)


def stream(seed: int, *key: int) -> np.random.Generator:
    """A PCG64 generator of its own for each key under one seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
