"""How surely each group is the worst one, with what chance alone would make of the same group sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.interval import bootstrap_interval
from fp2.stats.joint import permuted_moments
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.prepare import Prepared, prepare
from fp2.stats.rows import FloatArray
from fp2.stats.studentised import share_worst


@dataclass(frozen=True)
class WorstGroup:
    """p_worst: share of bootstrap resamples in which the group is the worst (ties shared).

    p_chance: the same share in permutations, where no group differs: small groups are extreme by chance, and a p_worst
    near p_chance says nothing.
    """

    group: str
    mean: float
    p_worst: float
    p_chance: float


def worst_group_probabilities(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool = True,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    min_subjects: int = 10,
) -> list[WorstGroup]:
    """Return every group with enough subjects, most probably worst first. Arguments as in `disparity`."""
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, images)
    cells = make_cells(entries)
    p = prepare(entries, cells, min_subjects)
    if p is None:
        return []
    sign = np.array([1.0 if higher_is_better else -1.0])
    found = bootstrap_interval(
        p.y, p.member, p.eligible, sign, dependent=p.slots.dependent, n_bootstrap=n_bootstrap, seed=seed, alpha=0.05
    ).worst[:, 0]
    chance = _chance(p, sign, n_permutations, seed)
    out = []
    for g in np.flatnonzero(p.eligible[:, 0]).tolist():
        code = int(p.slots.kept[g])
        mean = float(np.nanmean(cells.mean[cells.group == code, 0]))
        out.append(WorstGroup(entries.names[code], mean, float(found[g]), float(chance[g])))
    return sorted(out, key=lambda row: (-row.p_worst, row.group))


def _chance(p: Prepared, sign: FloatArray, n: int, seed: int) -> FloatArray:
    total = np.zeros(len(p.eligible))
    for found in permuted_moments(p, np.zeros(1, dtype=bool), n, seed)[1]:
        total += share_worst(found, sign)[:, 0]
    share: FloatArray = total / n
    return share
