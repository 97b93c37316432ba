"""Sum every outcome within relabelled groups, all outcomes and many relabellings at once (A1, A5).

Unanswered cells are zeros in matrix products of the mask, y and y^2, so the counts follow the permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fp2.stats.layout import Slots
from fp2.stats.permutation import Labels
from fp2.stats.rows import BoolArray, FloatArray, IntArray

CHUNK_BYTES = 48_000_000


class Cross(NamedTuple):
    """Sums over the subjects in both g and h: count, sum of y in g, sum of y_g y_h; each (G, G, b, m)."""

    n: FloatArray
    s: FloatArray
    q: FloatArray


class Sums(NamedTuple):
    """Count of subjects, sum and sum of squares per group, each (G, b, m), for b relabellings of m outcomes.

    `spread`: sum of the subjects' relative variances, None where all have the same.
    """

    n: FloatArray
    s: FloatArray
    q: FloatArray
    cross: Cross | None
    spread: FloatArray | None = None


@dataclass(frozen=True)
class SlotData:
    """What the sums need: per-slot answered counts and totals (C, m) of the values as they are to be compared.

    `agreement` (m,): how alike one subject's answers are; a mean of k answers then has a variance in proportion to
    agreement + (1 - agreement) / k. None where every mean is as good as any other.
    """

    slots: Slots
    count: FloatArray
    total: FloatArray
    agreement: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.count.shape != self.total.shape:
            raise ValueError("count and total differ in shape")

    @property
    def n_groups(self) -> int:
        """Number of groups G."""
        return len(self.slots.kept)

    def disjoint(self, slots: IntArray) -> bool:
        """Whether a class (S, k) can never put two slots of one subject in one group: k = 1, or single labels only."""
        return slots.shape[1] == 1 or bool((self.slots.label_sets[self.slots.label_set[slots]].sum(axis=-1) == 1).all())

    def slot_means(self, slots: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (answered as 0/1, mean or 0) of any array of slots, with the outcomes as last axis."""
        present = self.count[slots] > 0
        mean = np.where(present, self.total[slots] / np.where(present, self.count[slots], 1.0), 0.0)
        return present.astype(np.float64), mean

    def relative_variance(self, count: FloatArray) -> FloatArray:
        """Variance of a mean of `count` answers (outcomes last), 0 for none; averages to 1 over the slots."""
        assert self.agreement is not None
        alike = self.agreement

        def of(k: FloatArray) -> FloatArray:
            return np.where(k > 0, alike + (1 - alike) / np.where(k > 0, k, 1.0), 0.0)

        typical = of(self.count).sum(axis=0) / np.maximum((self.count > 0).sum(axis=0), 1)
        return of(count) / np.where(typical > 0, typical, 1.0)

    def chunk(self, n: int) -> int:
        """How many permutations fit in the memory budget at once, at most `n`."""
        m, groups = self.count.shape[1], self.n_groups
        sets = len(self.slots.label_sets)
        widest = max(
            c.size * (sets + (c.shape[1] > 1) * groups * groups) if self.disjoint(c) else len(c) * 5 * m * groups
            for c in self.slots.classes
        )
        cross = 8 * groups * groups * m if self.slots.dependent else 0
        return max(1, min(n, CHUNK_BYTES // int(8 * max(1, widest + cross))))


def one_hot(labels: IntArray, n: int) -> FloatArray:
    """(b, S) ids -> (n, b, S) floats, 1 where the id is the first axis."""
    hot: FloatArray = (labels[None] == np.arange(n)[:, None, None]).astype(np.float64)
    return hot


def group_totals(data: SlotData, labels: Labels) -> Sums:
    """Sum counts, values and squares of the subject means in every permuted group, over all classes of subjects."""
    parts = [_class_totals(data, c, lab) for c, lab in zip(data.slots.classes, labels, strict=True)]
    if len(parts) == 1:
        return parts[0]
    crosses = [p.cross for p in parts if p.cross is not None]
    cross = Cross(*(np.sum(part, axis=0) for part in zip(*crosses, strict=True)))
    spread = None if data.agreement is None else sum_of([p.spread for p in parts if p.spread is not None])
    return Sums(sum_of([p.n for p in parts]), sum_of([p.s for p in parts]), sum_of([p.q for p in parts]), cross, spread)


def sum_of(parts: list[FloatArray]) -> FloatArray:
    """Add arrays of one shape."""
    return np.asarray(np.sum(parts, axis=0))


def _class_totals(data: SlotData, slots: IntArray, labels: IntArray) -> Sums:
    """Sums over the subjects of one class, by the cheapest way that is exact for their label sets."""
    if not data.disjoint(slots):
        return _overlapping(data, slots, labels)
    sums = _by_slot(data, slots.reshape(-1), labels.reshape(len(labels), -1))
    if sums.cross is None or slots.shape[1] == 1:
        return sums
    extra = [
        _between_places(data, slots[:, [p, q]], labels[:, :, [p, q]]) for p, q in combinations(range(slots.shape[1]), 2)
    ]
    cross = Cross(*(sum_of(list(parts)) for parts in zip(sums.cross, *extra, strict=True)))
    return Sums(sums.n, sums.s, sums.q, cross, sums.spread)


def _between_places(data: SlotData, slots: IntArray, labels: IntArray) -> Cross:
    """Cross sums from one slot of a subject to another, both with a single group: slots (S, 2), labels (b, S, 2)."""
    groups, b = data.n_groups, len(labels)
    group = data.slots.label_sets.argmax(axis=1)[labels]
    mask, y = data.slot_means(slots)
    m = y.shape[2]
    table = np.concatenate(
        [mask[:, 0] * mask[:, 1], y[:, 0] * mask[:, 1], mask[:, 0] * y[:, 1], y[:, 0] * y[:, 1]], axis=1
    )
    hot = one_hot(group[:, :, 0] * groups + group[:, :, 1], groups * groups).reshape(groups * groups * b, -1)
    found = (hot @ table).reshape(groups, groups, b, 4, m)
    n, s, t, q = (found[:, :, :, i] for i in range(4))
    # the first slot's group is g or h: each subject counts for (g, h) and for (h, g)
    return Cross(n + n.swapaxes(0, 1), s + t.swapaxes(0, 1), q + q.swapaxes(0, 1))


def _by_slot(data: SlotData, slot: IntArray, labels: IntArray) -> Sums:
    """Sum slots (S,) per label set (b, S), then per group (or pair of groups) of label sets."""
    mask, y = data.slot_means(slot)
    present = mask > 0
    masks, which = np.unique(present, axis=1, return_inverse=True)
    m, (sets, b) = y.shape[1], (len(data.slots.label_sets), len(labels))
    extra = [] if data.agreement is None else [data.relative_variance(data.count[slot])]
    table = np.concatenate([y, y * y, *extra, masks.astype(np.float64)], axis=1)
    hot = one_hot(labels, sets).reshape(sets * b, -1)
    by_set = (hot @ table).reshape(sets, b, -1)
    first = (2 + len(extra)) * m
    s, q, n = by_set[:, :, :m], by_set[:, :, m : 2 * m], by_set[:, :, first:][:, :, which.reshape(-1)]
    spread = by_set[:, :, 2 * m : first] if extra else None
    if not data.slots.dependent:
        order = data.slots.label_sets.argmax(axis=0)
        return Sums(n[order], s[order], q[order], None, None if spread is None else spread[order])
    cross = Cross(*(_between_groups(data.slots.label_sets, part) for part in (n, s, q)))
    n, s, q = (_diagonal(part) for part in cross)
    if spread is not None:
        spread = np.tensordot(data.slots.label_sets.T.astype(np.float64), spread, axes=1)
    return Sums(n, s, q, cross, spread)


def _diagonal(part: FloatArray) -> FloatArray:
    """(G, G, b, m) -> what each group has with itself, (G, b, m)."""
    groups = np.arange(len(part))
    return part[groups, groups]


def _between_groups(label_sets: BoolArray, part: FloatArray) -> FloatArray:
    """Add sums by label set (L, b, m) up for the pairs of groups that they hold: (G, G, b, m), mostly zeros."""
    groups = label_sets.shape[1]
    out = np.zeros((groups, groups, *part.shape[1:]))
    for members, own in zip(label_sets, part, strict=True):
        inside = np.flatnonzero(members)
        for g in inside:
            for h in inside:
                out[g, h] += own
    return out


def _overlapping(data: SlotData, slots: IntArray, labels: IntArray) -> Sums:
    """Label sets of one subject may share a group: its mean there is over all its images in the slots labelled so."""
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
    n, s, q = (_diagonal(part) for part in cross)
    if data.agreement is None:
        return Sums(n, s, q, cross)
    spread = data.relative_variance(den.transpose(0, 2, 3, 1)).sum(axis=2)  # (b, G, m)
    return Sums(n, s, q, cross, spread.transpose(1, 0, 2))


def group_histograms(data: SlotData, labels: Labels, histograms: FloatArray) -> FloatArray:
    """Sum the subjects' histograms in every permuted group.

    `histograms` (C, m, bins): a slot's own shares of its answered images (zeros if none). Returns (G, b, m, bins),
    each subject adding a total of 1 to each of its groups.
    """
    b, (_, m, bins) = len(labels[0]), histograms.shape
    out = np.zeros((data.n_groups, b, m, bins))
    for c, lab in zip(data.slots.classes, labels, strict=True):
        if data.disjoint(c):
            sets = len(data.slots.label_sets)
            hot = one_hot(lab.reshape(b, -1), sets).reshape(sets * b, -1)
            by_set = hot @ histograms[c.reshape(-1)].reshape(c.size, -1)
            member = data.slots.label_sets.T.astype(np.float64)
            out += np.tensordot(member, by_set.reshape(sets, b, m, bins), axes=1)
        else:
            out += _overlapping_histograms(data, c, data.slots.label_sets[lab], histograms)
    return out


def _overlapping_histograms(data: SlotData, slots: IntArray, member: BoolArray, histograms: FloatArray) -> FloatArray:
    b, people, places, groups = member.shape
    out = np.empty((groups, b, *histograms.shape[1:]))
    for column in range(histograms.shape[1]):
        weight = member * data.count[slots, column][None, :, :, None]  # (b, S, k, G)
        share = weight / np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
        flat = share.transpose(3, 0, 1, 2).reshape(groups * b, people * places)
        out[:, :, column] = (flat @ histograms[slots.reshape(-1), column]).reshape(groups, b, -1)
    return out
