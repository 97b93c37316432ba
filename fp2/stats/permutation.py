"""A1: permute whole label tuples among subjects, and sum every outcome within the permuted groups.

Only subjects with the same number k of slots exchange their tuples, and the tuple's order over a subject's slots is
shuffled; an attribute that never changes has k = 1 for everybody and permutes freely. One permutation serves all
outcomes (A5): unanswered cells are zeros in the matrix products, and the counts follow the permutation.

Draws come from PCG64 streams of their own (one per k and purpose), consumed row by row: the result does not depend on
how the permutations are cut into chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fp2.stats.layout import Slots
from fp2.stats.rows import BoolArray, FloatArray, IntArray

CHUNK_BYTES = 48_000_000


def default_permutations(m: int, alpha: float = 0.05) -> int:
    """Return B for a Holm family of `m` p-values: at least 10,000, and enough to resolve alpha / m ten times over."""
    if m < 1 or not 0 < alpha < 1:
        raise ValueError(f"need m >= 1 and 0 < alpha < 1, got {m} and {alpha}")
    return max(10_000, math.ceil(round(10 * m / alpha, 6)))


class Cross(NamedTuple):
    """Sums over the subjects in both g and h: count, sum of y in g, sum of y_g y_h; each (G, G, b, m)."""

    n: FloatArray
    s: FloatArray
    q: FloatArray


class Sums(NamedTuple):
    """Count of subjects, sum and sum of squares per group, each (G, b, m), for b relabellings of m outcomes."""

    n: FloatArray
    s: FloatArray
    q: FloatArray
    cross: Cross | None


Labels = list[IntArray]


@dataclass(frozen=True)
class SlotData:
    """What the sums need: per-slot answered counts and totals (C, m) of the values as they are to be compared."""

    slots: Slots
    count: FloatArray
    total: FloatArray

    def __post_init__(self) -> None:
        if self.count.shape != self.total.shape:
            raise ValueError("count and total differ in shape")

    @property
    def n_groups(self) -> int:
        """Number of groups G."""
        return len(self.slots.kept)

    def chunk(self, n: int) -> int:
        """How many permutations fit in the memory budget at once, at most `n`."""
        m, groups = self.count.shape[1], self.n_groups
        widest = max(
            c.shape[0] * (len(self.slots.label_sets) if c.shape[1] == 1 else 5 * m * groups) for c in self.slots.classes
        )
        cross = 8 * groups * groups * m if self.slots.dependent else 0
        return max(1, min(n, CHUNK_BYTES // int(8 * max(1, widest + cross))))


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


def one_hot(labels: IntArray, n: int) -> FloatArray:
    """(b, S) ids -> (n, b, S) floats, 1 where the id is the first axis."""
    hot: FloatArray = (labels[None] == np.arange(n)[:, None, None]).astype(np.float64)
    return hot


def group_totals(data: SlotData, labels: Labels) -> Sums:
    """Sum counts, values and squares of the subject means in every permuted group, over all classes of subjects."""
    parts = [
        _constant(data, c[:, 0], lab[:, :, 0]) if c.shape[1] == 1 else _varying(data, c, lab)
        for c, lab in zip(data.slots.classes, labels, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    crosses = [p.cross for p in parts if p.cross is not None]
    cross = Cross(*(np.sum(part, axis=0) for part in zip(*crosses, strict=True)))
    return Sums(sum_of([p.n for p in parts]), sum_of([p.s for p in parts]), sum_of([p.q for p in parts]), cross)


def sum_of(parts: list[FloatArray]) -> FloatArray:
    """Add arrays of one shape."""
    return np.asarray(np.sum(parts, axis=0))


def _constant(data: SlotData, slot: IntArray, labels: IntArray) -> Sums:
    """Subjects with one label set: everything is a sum per label set, then per group (or pair of groups) of sets."""
    present = data.count[slot] > 0
    y = np.where(present, data.total[slot] / np.where(present, data.count[slot], 1.0), 0.0)
    masks, which = np.unique(present, axis=1, return_inverse=True)
    m, (sets, b) = y.shape[1], (len(data.slots.label_sets), len(labels))
    table = np.concatenate([masks.astype(np.float64), y, y * y], axis=1)
    hot = one_hot(labels, sets).reshape(sets * b, -1)
    by_set = (hot @ table).reshape(sets, b, -1)
    n, s, q = by_set[:, :, : -2 * m][:, :, which.reshape(-1)], by_set[:, :, -2 * m : -m], by_set[:, :, -m:]
    member = data.slots.label_sets.T.astype(np.float64)
    if not data.slots.dependent:
        order = member.argmax(axis=1)
        return Sums(n[order], s[order], q[order], None)
    both = np.einsum("gl,hl->ghl", member, member)
    cross = Cross(*(np.tensordot(both, part, axes=1) for part in (n, s, q)))
    n, s, q = (np.tensordot(member, part, axes=1) for part in (n, s, q))
    return Sums(n, s, q, cross)


def _varying(data: SlotData, slots: IntArray, labels: IntArray) -> Sums:
    """Subjects with k > 1 slots: the mean of a subject in a group is over all its images in the slots labelled so."""
    member = data.slots.label_sets[labels]  # (b, S, k, G)
    count, total = data.count[slots], data.total[slots]  # (S, k, m)
    den = num = np.zeros(())
    for place in range(slots.shape[1]):
        here = member[:, :, place].transpose(0, 2, 1)[:, None].astype(np.float64)  # (b, 1, G, S)
        den = den + here * count[:, place].T[None, :, None]
        num = num + here * total[:, place].T[None, :, None]
    mask = (den > 0).astype(np.float64)  # (b, m, G, S)
    y = num / np.where(den > 0, den, 1.0)
    turn = (2, 3, 0, 1)
    cross = Cross(*((a @ z.swapaxes(2, 3)).transpose(turn) for a, z in ((mask, mask), (y, mask), (y, y))))
    diagonal = np.arange(data.n_groups)
    return Sums(cross.n[diagonal, diagonal], cross.s[diagonal, diagonal], cross.q[diagonal, diagonal], cross)


def group_histograms(data: SlotData, labels: Labels, histograms: FloatArray) -> FloatArray:
    """Sum the subjects' histograms in every permuted group.

    `histograms` (C, m, bins): a slot's own shares of its answered images (zeros if none). Returns (G, b, m, bins),
    each subject adding a total of 1 to each of its groups.
    """
    b, (_, m, bins) = len(labels[0]), histograms.shape
    out = np.zeros((data.n_groups, b, m, bins))
    for c, lab in zip(data.slots.classes, labels, strict=True):
        if c.shape[1] == 1:
            sets = len(data.slots.label_sets)
            by_set = one_hot(lab[:, :, 0], sets).reshape(sets * b, -1) @ histograms[c[:, 0]].reshape(len(c), -1)
            member = data.slots.label_sets.T.astype(np.float64)
            out += np.tensordot(member, by_set.reshape(sets, b, m, bins), axes=1)
        else:
            out += _varying_histograms(data, c, data.slots.label_sets[lab], histograms)
    return out


def _varying_histograms(data: SlotData, slots: IntArray, member: BoolArray, histograms: FloatArray) -> FloatArray:
    b, people, places, groups = member.shape
    out = np.empty((groups, b, *histograms.shape[1:]))
    for column in range(histograms.shape[1]):
        weight = member * data.count[slots, column][None, :, :, None]  # (b, S, k, G)
        share = weight / np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
        flat = share.transpose(3, 0, 1, 2).reshape(groups * b, people * places)
        out[:, :, column] = (flat @ histograms[slots.reshape(-1), column]).reshape(groups, b, -1)
    return out
