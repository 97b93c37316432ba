"""Counts, sums and sums of squares of every outcome within relabelled groups, many relabellings at once.

Matrix products of indicator matrices with tables of mask, y and y^2: unanswered cells are zeros, so that counts follow
the permutation.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from fp2.stats.core.numeric import BoolArray, FloatArray, IntArray
from fp2.stats.core.units import Labels, UnitData


class Cross(NamedTuple):
    """Sums over the subjects in both g and h: count, sum of y in g, sum of y_g y_h; each (G, G, b, m)."""

    n: FloatArray
    s: FloatArray
    q: FloatArray


class Sums(NamedTuple):
    """Count of subjects, sum and sum of squares per group, each (G, b, m), for b relabellings of m outcomes.

    `cross`: None if no subject is in two groups. `spread`: sum of the subjects' relative variances, None if all are
    equal.
    """

    n: FloatArray
    s: FloatArray
    q: FloatArray
    cross: Cross | None
    spread: FloatArray | None = None


def group_sums(data: UnitData, labels: Labels) -> Sums:
    """Return the sums of the subject means in every relabelled group, over all classes of subjects."""
    class_sums = []
    for members, lab in zip(data.units.classes, labels, strict=True):
        # the cheapest way that is exact for the label sets of these subjects
        if not data.disjoint(members):
            class_sums.append(_overlapping(data, members, lab))
            continue
        sums = _by_unit(data, members.reshape(-1), lab.reshape(len(lab), -1))
        if sums.cross is not None and members.shape[1] > 1:
            pairs = [list(pair) for pair in combinations(range(members.shape[1]), 2)]
            between = [_between_units(data, members[:, pair], lab[:, :, pair]) for pair in pairs]
            by_kind = zip(sums.cross, *between, strict=True)
            sums = sums._replace(cross=Cross(*(_added(list(terms)) for terms in by_kind)))
        class_sums.append(sums)
    if len(class_sums) == 1:
        return class_sums[0]
    crosses = [p.cross for p in class_sums if p.cross is not None]
    cross = Cross(*(np.sum(tables, axis=0) for tables in zip(*crosses, strict=True)))
    spread = None if data.agreement is None else _added([p.spread for p in class_sums if p.spread is not None])
    return Sums(
        _added([p.n for p in class_sums]),
        _added([p.s for p in class_sums]),
        _added([p.q for p in class_sums]),
        cross,
        spread,
    )


def _added(tables: list[FloatArray]) -> FloatArray:
    return np.asarray(np.sum(tables, axis=0))


def _one_hot(labels: IntArray, n: int) -> FloatArray:
    """(b, S) codes -> (n, b, S) floats, 1 where the code is the first index."""
    hot: FloatArray = (labels[None] == np.arange(n)[:, None, None]).astype(np.float64)
    return hot


def _between_units(data: UnitData, members: IntArray, labels: IntArray) -> Cross:
    """Cross sums of two units of a subject, each with a single group: members (S, 2), labels (b, S, 2)."""
    groups, b = data.n_groups, len(labels)
    group = data.units.label_sets.argmax(axis=1)[labels]
    mask, y = data.unit_means(members)
    m = y.shape[2]
    table = np.concatenate(
        [mask[:, 0] * mask[:, 1], y[:, 0] * mask[:, 1], mask[:, 0] * y[:, 1], y[:, 0] * y[:, 1]], axis=1
    )
    hot = _one_hot(group[:, :, 0] * groups + group[:, :, 1], groups * groups).reshape(groups * groups * b, -1)
    sums = (hot @ table).reshape(groups, groups, b, 4, m)
    n, s, t, q = (sums[:, :, :, i] for i in range(4))
    # the first unit's group is g or h: each subject counts for (g, h) and for (h, g)
    return Cross(n + n.swapaxes(0, 1), s + t.swapaxes(0, 1), q + q.swapaxes(0, 1))


def _by_unit(data: UnitData, unit: IntArray, labels: IntArray) -> Sums:
    """Sum units (S,) by label set (b, S), then by group (or pair of groups) of the label sets."""
    count, y, square = data.contributions(unit)
    # outcomes that miss the same answers share their counts
    counts, inverse = np.unique(count, axis=1, return_inverse=True)
    m, (sets, b) = y.shape[1], (len(data.units.label_sets), len(labels))
    extra = [] if data.agreement is None else [data.relative_variance(data.count[unit])]
    table = np.concatenate([y, square, *extra, counts], axis=1)
    hot = _one_hot(labels, sets).reshape(sets * b, -1)
    by_set = (hot @ table).reshape(sets, b, -1)
    first = (2 + len(extra)) * m
    s, q, n = by_set[:, :, :m], by_set[:, :, m : 2 * m], by_set[:, :, first:][:, :, inverse.reshape(-1)]
    spread = by_set[:, :, 2 * m : first] if extra else None
    if not data.units.dependent:
        order = data.units.label_sets.argmax(axis=0)
        return Sums(n[order], s[order], q[order], None, None if spread is None else spread[order])
    cross = Cross(*(_between_groups(data.units.label_sets, term) for term in (n, s, q)))
    n, s, q = (_diagonal(term) for term in cross)
    if spread is not None:
        spread = np.tensordot(data.units.label_sets.T.astype(np.float64), spread, axes=1)
    return Sums(n, s, q, cross, spread)


def _diagonal(table: FloatArray) -> FloatArray:
    """(G, G, b, m) -> what each group has with itself, (G, b, m)."""
    groups = np.arange(len(table))
    return table[groups, groups]


def _between_groups(label_sets: BoolArray, by_set: FloatArray) -> FloatArray:
    """Add sums by label set (L, b, m) for the pairs of groups that each set holds: (G, G, b, m), mostly zeros."""
    groups = label_sets.shape[1]
    out = np.zeros((groups, groups, *by_set.shape[1:]))
    for members, of_set in zip(label_sets, by_set, strict=True):
        inside = np.flatnonzero(members)
        for g in inside:
            for h in inside:
                out[g, h] += of_set
    return out


def _overlapping(data: UnitData, members: IntArray, labels: IntArray) -> Sums:
    """Sums where label sets of one subject share a group: its mean there is over all images of these units."""
    member = data.units.label_sets[labels]  # (b, S, k, G)
    count, total = data.count[members], data.total[members]  # (S, k, m)
    den = num = np.zeros(())
    for k in range(members.shape[1]):
        in_group = member[:, :, k].transpose(0, 2, 1)[:, None].astype(np.float64)  # (b, 1, G, S)
        den = den + in_group * count[:, k].T[None, :, None]
        num = num + in_group * total[:, k].T[None, :, None]
    mask = (den > 0).astype(np.float64)  # (b, m, G, S)
    y = num / np.where(den > 0, den, 1.0)
    turn = (2, 3, 0, 1)
    cross = Cross(*((a @ z.swapaxes(2, 3)).transpose(turn) for a, z in ((mask, mask), (y, mask), (y, y))))
    n, s, q = (_diagonal(term) for term in cross)
    if data.agreement is None:
        return Sums(n, s, q, cross)
    spread = data.relative_variance(den.transpose(0, 2, 3, 1)).sum(axis=2)  # (b, G, m)
    return Sums(n, s, q, cross, spread.transpose(1, 0, 2))


def group_histograms(data: UnitData, labels: Labels, histograms: FloatArray) -> FloatArray:
    """Return the sum of the subjects' histograms in every relabelled group, (G, b, m, bins).

    `histograms` (C, m, bins): each unit's shares of its answered images per bin, zeros if none. Each subject adds a
    total of 1 to each of its groups.
    """
    b, (_, m, bins) = len(labels[0]), histograms.shape
    out = np.zeros((data.n_groups, b, m, bins))
    for c, lab in zip(data.units.classes, labels, strict=True):
        if data.disjoint(c):
            sets = len(data.units.label_sets)
            hot = _one_hot(lab.reshape(b, -1), sets).reshape(sets * b, -1)
            by_set = hot @ histograms[c.reshape(-1)].reshape(c.size, -1)
            member = data.units.label_sets.T.astype(np.float64)
            out += np.tensordot(member, by_set.reshape(sets, b, m, bins), axes=1)
        else:
            out += _overlapping_histograms(data, c, data.units.label_sets[lab], histograms)
    return out


def _overlapping_histograms(data: UnitData, members: IntArray, member: BoolArray, histograms: FloatArray) -> FloatArray:
    b, subjects, n_slots, groups = member.shape
    out = np.empty((groups, b, *histograms.shape[1:]))
    for column in range(histograms.shape[1]):
        weight = member * data.count[members, column][None, :, :, None]  # (b, S, k, G)
        share = weight / np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
        flat = share.transpose(3, 0, 1, 2).reshape(groups * b, subjects * n_slots)
        out[:, :, column] = (flat @ histograms[members.reshape(-1), column]).reshape(groups, b, -1)
    return out


def weighted_sums(y: FloatArray, weights: FloatArray) -> Sums:
    """Return the sums of each group, (G, b, m), in which every subject has a weight.

    Parameters
    ----------
    y : (N, G, m)
        Subject means, NaN where there is none.
    weights : (b, N)
        As 1 and 0 to choose subjects.
    """
    _, groups, m = y.shape
    present = np.isfinite(y)
    filled, mask = np.where(present, y, 0.0), present.astype(np.float64)

    def added(table: FloatArray) -> FloatArray:
        sums = weights @ table.reshape(len(table), -1)
        return np.moveaxis(sums.reshape(len(weights), -1, m), 0, 1)

    n, s, q = (added(array) for array in (mask, filled, filled * filled))
    if not (present.any(axis=2).sum(axis=1) > 1).any():
        return Sums(n, s, q, None)
    cross = [np.zeros((groups, groups, len(weights), m)) for _ in range(3)]
    for g in range(groups):
        common = (mask[:, [g]] * mask).any(axis=(0, 2))
        for array, (a, z) in zip(cross, ((mask, mask), (filled, mask), (filled, filled)), strict=True):
            array[g, common] = added(a[:, [g]] * z[:, common])
    return Sums(n, s, q, Cross(*cross))
