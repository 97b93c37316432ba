"""Which groups are named where it is known which differ: the pair of a significant row, and the confidence set."""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays, p_values
from benchmarks.validity.worlds import World, draw, shifts
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import PairTable, pair_table
from fp2.stats.core.resampling import joint_permutations, observed_moments
from fp2.stats.core.units import prepare
from fp2.stats.disparities import named_pair, worst_confidence_set

NAMING_WORLDS = (
    World("normal", gap=0.5, where="two largest"),
    World("zero-heavy", gap=0.8, where="two largest"),
    World("yes/no", gap=0.8, where="two largest"),
    World("normal", gap=0.8, where="largest"),
    World("normal"),
    World("normal", "spread"),
    World("zero-heavy"),
    World("yes/no"),
    World("rare"),
    World("normal", gap=0.8),
    World("yes/no", "images", gap=0.4, where="largest"),
)


def naming(world: World, n: int, seed: int) -> Arrays:
    """Of each data set: p, whether the pair and the worst group are right, by |T| and by the means; the set's truth.

    Without a gap every group ranks worst; the last, smallest one is asked for.
    """
    data = draw(world, np.random.default_rng(seed), n)
    entries = read_entries(data.values, data.groups, data.subjects, data.images)
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "every world has two large groups"
    joint = joint_permutations(p, np.full(n, world.yes_no), np.ones(n), 199, seed)
    table, cautious = (
        pair_table(found) for found in (joint.observed, observed_moments(p.y, p.member, p.eligible, p.units.dependent))
    )
    truth = shifts(world)[p.units.kept]
    bad, good = truth == truth.min(), truth == truth.max()
    worst = int(np.flatnonzero(bad)[-1])
    rows = []
    for j in range(n):
        mean = joint.observed.mean[:, 0, j]
        low, high = named_pair(_column(table, j), mean)
        could = worst_confidence_set(_column(cautious, j), mean, 0.05)
        ends = int(mean.argmin()), int(mean.argmax())
        rows.append(
            (bad[low] & good[high], bad[ends[0]] & good[ends[1]], bad[low], bad[ends[0]], could[worst], could.sum())
        )
    names = ("pair_right", "pair_by_means", "worst_right", "worst_by_means", "covered", "size")
    found = dict(zip(names, np.array(rows, dtype=float).T, strict=True))
    return {"p": p_values(joint.max_t, joint.max_t_permuted), **found}


def _column(table: PairTable, j: int) -> PairTable:
    return PairTable(table.gap[:, j], table.error[:, j], table.df[:, j])
