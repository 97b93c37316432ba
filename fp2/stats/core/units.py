"""The exchangeable units of a permutation test: their labels, and their values for every outcome.

An image's *label set* is the set of groups that it counts in. An *exchangeable unit* is all images of one subject that
carry one label set; a subject whose attribute never changes is one unit. Labels are permuted across units: whole
subjects with the same number of units exchange their label sets (Winkler et al. 2014, NeuroImage 92, call such
subjects exchangeability blocks). Only subjects with the same number k of units do, and the order of the label sets over
a subject's units is shuffled. An attribute that never changes has k = 1 for every subject and is permuted freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fp2.stats.core.entries import Cells, Entries, count_and_sum
from fp2.stats.core.numeric import CHUNK_BYTES, BoolArray, FloatArray, IntArray, stream

TIE = 1e-9
"""Relative and absolute difference below which two statistics tie: they differ by rounding alone."""

Labels = list[IntArray]
"""For each class of subjects the label sets of their units in a batch of relabellings, (b, S, k)."""


@dataclass(frozen=True)
class Units:
    """The labels of C exchangeable units, for G groups in an order that does not depend on their names.

    Attributes
    ----------
    kept : (G,)
        Codes of the groups.
    label_sets : (L, G)
        Which groups each label set holds.
    label_set : (C,)
        The label set of each unit.
    classes : tuple of (S, k)
        For each number k of units a subject has, the units of the S subjects with that number.
    subject : (C,)
        Code of the subject of each unit.
    """

    kept: IntArray
    label_sets: BoolArray
    label_set: IntArray
    classes: tuple[IntArray, ...]
    subject: IntArray

    @property
    def dependent(self) -> bool:
        """Whether some subject counts in more than one group."""
        return any(c.shape[1] > 1 for c in self.classes) or bool((self.label_sets.sum(axis=1) > 1).any())


@dataclass(frozen=True)
class UnitData:
    """The values of the units: number of answered images and their sum, (C, m), on the scale of the comparison.

    `agreement` (m,): intraclass correlation of one subject's answers; a mean of k answers then has a variance in
    proportion to agreement + (1 - agreement) / k. NaN, or None for all outcomes, where they have the same variance.
    """

    units: Units
    count: FloatArray
    total: FloatArray
    agreement: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.count.shape != self.total.shape:
            raise ValueError("count and total differ in shape")

    @property
    def n_groups(self) -> int:
        """Number of groups G."""
        return len(self.units.kept)

    def disjoint(self, members: IntArray) -> bool:
        """Whether two units of one subject can never share a group, for a class (S, k): k = 1 or single labels."""
        sets = self.units.label_sets
        return members.shape[1] == 1 or bool((sets[self.units.label_set[members]].sum(axis=-1) == 1).all())

    def unit_means(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (1 if answered else 0, mean or 0) of any array of units, outcomes on the last axis."""
        present = self.count[chosen] > 0
        mean = np.where(present, self.total[chosen] / np.where(present, self.count[chosen], 1.0), 0.0)
        return present.astype(np.float64), mean

    def contributions(self, chosen: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what units (S,) add to the count, sum and sum of squares of their groups, each (S, m).

        Every subject counts once, with its mean.
        """
        mask, mean = self.unit_means(chosen)
        return mask, mean, mean * mean

    def relative_variance(self, count: FloatArray) -> FloatArray:
        """Return the variance of a mean of `count` answers (outcomes last), 0 for none; its mean over units is 1."""
        assert self.agreement is not None
        alike = self.agreement

        def of(k: FloatArray) -> FloatArray:
            return np.where(k > 0, alike + (1 - alike) / np.where(k > 0, k, 1.0), 0.0)

        typical = of(self.count).sum(axis=0) / np.maximum((self.count > 0).sum(axis=0), 1)
        return of(count) / np.where(typical > 0, typical, 1.0)

    def chunk(self, n: int) -> int:
        """Return how many permutations fit in the memory budget at once, at most `n`."""
        m, groups = self.count.shape[1], self.n_groups
        sets = len(self.units.label_sets)
        widest = max(
            c.size * (sets + (c.shape[1] > 1) * groups * groups) if self.disjoint(c) else len(c) * 5 * m * groups
            for c in self.units.classes
        )
        cross = 8 * groups * groups * m if self.units.dependent else 0
        return max(1, min(n, CHUNK_BYTES // int(8 * max(1, widest + cross))))


@dataclass(frozen=True)
class Prepared:
    """What is permuted and resampled, for N subjects, G groups and m outcomes scaled to unit spread.

    Attributes
    ----------
    units : Units
    data : UnitData
        The units' values, scaled.
    total : (C, m)
        The units' totals, not scaled.
    image_unit, image_values : (P,), (P, m)
        The unit and the values of each image, not scaled.
    y : (N, G, m)
        Scaled subject means per group, NaN where there is none.
    member : (N, G)
        Who is in which group, answered or not.
    eligible : (G, m)
        Groups with enough subjects that have a value.
    centre, scale : (m,)
        Zero of the scaled values (the mean of the units) and one scaled unit, in the outcome's own units.
    """

    units: Units
    data: UnitData
    total: FloatArray
    image_unit: IntArray
    image_values: FloatArray
    y: FloatArray
    member: BoolArray
    eligible: BoolArray
    centre: FloatArray
    scale: FloatArray


def prepare(entries: Entries, cells: Cells, min_subjects: int) -> Prepared | None:
    """Drop the small groups and scale every outcome; None if fewer than two groups have `min_subjects` subjects."""
    minimum = max(min_subjects, 2)
    size = np.bincount(cells.group, minlength=len(entries.names))
    if (size >= minimum).sum() < 2:
        return None
    units, image_unit, image_values = _make_units(entries, size >= minimum)
    unit_count, unit_total = count_and_sum(image_unit, len(units.label_set), image_values)
    answered = np.stack([np.isfinite(cells.mean[cells.group == g]).sum(axis=0) for g in units.kept])
    eligible = answered >= minimum
    # subjects that are only in groups too small for this outcome leave it, as the small groups did above
    usable = (units.label_sets[units.label_set].astype(np.int64) @ eligible.astype(np.int64)) > 0
    count = np.where(usable, unit_count, 0.0)
    centre, scale = _centre_and_scale(unit_total, count)
    y = np.full((int(cells.subject.max()) + 1, len(units.kept), len(scale)), np.nan)
    member = np.zeros(y.shape[:2], dtype=bool)
    for g, code in enumerate(units.kept):
        in_group = cells.group == code
        member[cells.subject[in_group], g] = True
        y[cells.subject[in_group], g] = _scaled(cells.mean[in_group], centre, scale)
    total = np.where(count > 0, count * _scaled(unit_total / np.where(count > 0, count, np.nan), centre, scale), 0.0)
    data = UnitData(units, count, total)
    return Prepared(units, data, unit_total, image_unit, image_values, y, member, eligible, centre, scale)


def _make_units(entries: Entries, is_kept: BoolArray) -> tuple[Units, IntArray, FloatArray]:
    """Return the units of the groups that `is_kept` (n_groups,) marks, and the unit and values of each image.

    The labels of small groups are dropped first, and with them the images that have no other label.
    """
    inside = is_kept[entries.group]
    _, image = np.unique(entries.subject_image[inside], return_inverse=True)
    group, values = entries.group[inside], entries.values[inside]
    n_images = int(image.max()) + 1
    member = np.zeros((n_images, len(is_kept)), dtype=bool)
    member[image, group] = True
    label_sets, image_set = np.unique(member, axis=0, return_inverse=True)
    image_set = image_set.reshape(-1)
    first = np.unique(image, return_index=True)[1]
    # an image in several groups repeats its answers: those of its first group are taken
    once = group == group[first][image]
    image, values = image[once], values[once]
    subject = entries.subject[inside][first]
    unit, unit_subject, unit_set = _number_units(subject, image_set, entries.images_given)
    # groups in the order of the first unit that they appear in; those without a unit are left out
    unit_member = label_sets[unit_set]
    units_used = np.flatnonzero(unit_member.any(axis=0))
    order = units_used[np.argsort(unit_member[:, units_used].argmax(axis=0), kind="stable")].astype(np.intp)
    units = Units(order, label_sets[:, order], unit_set, unit_classes(unit_subject), unit_subject)
    return units, unit[image], values


def _number_units(subject: IntArray, label_set: IntArray, by_image: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Number the (subject, label set) pairs by subject, then by their first image, so that names play no part."""
    pairs, first, unit = np.unique(
        np.stack([subject, label_set], axis=1), axis=0, return_index=True, return_inverse=True
    )
    rank = np.lexsort((first if by_image else pairs[:, 1], pairs[:, 0]))
    position = np.empty_like(rank)
    position[rank] = np.arange(len(rank))
    return position[unit.reshape(-1)], pairs[rank, 0].astype(np.intp), pairs[rank, 1].astype(np.intp)


def unit_classes(unit_subject: IntArray) -> tuple[IntArray, ...]:
    """Return the units of the subjects with k units, (S, k), for each k that occurs, from units sorted by subject."""
    _, start, size = np.unique(unit_subject, return_index=True, return_counts=True)
    return tuple(
        (start[size == k][:, None] + np.arange(k)[None, :]).astype(np.intp) for k in sorted(set(size.tolist()))
    )


def _centre_and_scale(total: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and spread of the unit means per outcome; the spread is 0 where it is rounding error."""
    answered = count > 0
    mean = np.where(answered, total / np.where(answered, count, 1.0), 0.0)
    n = np.maximum(answered.sum(axis=0), 1)
    centre = mean.sum(axis=0) / n
    spread = np.sqrt((np.where(answered, mean - centre, 0.0) ** 2).sum(axis=0) / n)
    return centre, np.where(spread > 1e-12 * np.maximum(1.0, np.abs(centre)), spread, 0.0)


def _scaled(mean: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (mean - centre) / scale, exactly 0 in an outcome without spread; NaN stays."""
    return np.where(scale > 0, (mean - centre) / np.where(scale > 0, scale, 1.0), mean * 0.0)


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
        return [label_sets[None] for label_sets in self._own]

    def draw(self, b: int) -> Labels:
        """Return `b` random relabellings."""
        return [
            self._draw(label_sets, across, within, b)
            for label_sets, (across, within) in zip(self._own, self._streams, strict=True)
        ]

    @staticmethod
    def _draw(label_sets: IntArray, across: np.random.Generator, within: np.random.Generator, b: int) -> IntArray:
        if label_sets.shape[1] == 1:
            return across.permuted(np.broadcast_to(label_sets[:, 0], (b, len(label_sets))), axis=1)[:, :, None]
        tuples = label_sets[across.permuted(np.broadcast_to(np.arange(len(label_sets)), (b, len(label_sets))), axis=1)]
        return within.permuted(tuples, axis=2)


def permutation_p(observed: float, permuted: FloatArray) -> float:
    """Return (1 + #{T* >= T}) / (B + 1) (Phipson and Smyth 2010); permuted (B,).

    A permutation without a statistic (NaN) counts as at least as large, and so do ties. Statistics have no units.
    """
    reached = ~(permuted < observed * (1 - TIE) - TIE)
    return float((1 + int(reached.sum())) / (len(permuted) + 1))
