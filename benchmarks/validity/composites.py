"""Composites of which the size is known: is the label of severity right, and how often does it name a single level?

400 (or 1,600) subjects in unequal groups; six probes, whose subjects' leanings correlate. The gap is that of the
smallest group in every probe, or in the first only (`one probe`, six times as large). Beside the label of the composite
stands that of the best estimate there could be: which group differs is known, and so are all variances.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import ICC, IMAGES, NORMAL_SD, World, draw, shifts
from fp2.protocols.fingerprint.disparities import SEVERITIES, severity
from fp2.stats.composite import composite_test
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.resampling import joint_permutations
from fp2.stats.core.units import permutation_p, prepare
from fp2.stats.disparities import range_influence

PROBES, SPREAD, SHARED = 6, 0.35, 0.5
BOUNDS = {"low": 0.02, "moderate": 0.10, "high": 0.25}
PEOPLE = (160, 100, 70, 45, 25)
SEVERITY_WORLDS = (
    *(World("normal", sizes=PEOPLE, gap=gap / SPREAD) for gap in (0.0, 0.024, 0.05, 0.08, 0.12, 0.16, 0.2, 0.3)),
    World("normal", sizes=PEOPLE, gap=0.12 / SPREAD, where="steps"),
    World("normal", "one probe", sizes=PEOPLE, gap=0.12 / SPREAD),
    World("normal", sizes=tuple(4 * size for size in PEOPLE), gap=0.12 / SPREAD),
    World("zero-heavy", sizes=PEOPLE),
)


def composites(world: World, n: int, seed: int, n_permutations: int = 399) -> Arrays:
    """The composite's p and three estimates, and the lowest and highest label (0 to 3; NaN where there is none).

    `best`: the estimate of `known_error`, NaN where another group or a single probe differs.
    """
    rng = np.random.default_rng(seed)
    flat = World(world.outcome, sizes=world.sizes)
    parts = [draw(flat, rng, PROBES, shared=SHARED) for _ in range(n)]
    data = parts[0]
    share = np.eye(PROBES)[0] * PROBES if world.condition == "one probe" else np.ones(PROBES)
    shift = (
        shifts(world)[np.unique(data.groups, return_inverse=True)[1]] * SPREAD * world.gap / max(world.true_gap, 1e-9)
    )
    values = np.concatenate([part.values * SPREAD / NORMAL_SD + shift[:, None] * share for part in parts], axis=1)
    entries = read_entries(values, data.groups, data.subjects, data.images)
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "every world has two large groups"
    m = values.shape[1]
    joint = joint_permutations(p, np.zeros(m, dtype=bool), np.ones(m), n_permutations, seed)
    mean = joint.observed.mean[:, 0]
    raw = np.ptp(mean, axis=0) * p.scale
    panel: Any = SimpleNamespace(
        rows=[
            SimpleNamespace(raw=raw[j], p_value=permutation_p(joint.max_t[j], joint.max_t_permuted[:, j]))
            for j in range(len(raw))
        ],
        max_t=joint.max_t,
        raw_permuted=joint.raw_permuted * p.scale,
        max_t_permuted=joint.max_t_permuted,
        influence=range_influence(p, mean) * p.scale,
    )
    rows = []
    for k in range(n):
        test = composite_test(panel, range(k * PROBES, (k + 1) * PROBES))
        label = severity(test.p_value, test.magnitude_low, test.magnitude_high, BOUNDS, 0.05)
        ends = [SEVERITIES.index(word) for word in label.split(" to ")] if label else [np.nan]
        rows.append((test.p_value, test.value, test.excess, test.magnitude, ends[0], ends[-1]))
    names = ("p", "value", "excess", "magnitude", "lowest", "highest")
    found = dict(zip(names, np.array(rows, dtype=float).T, strict=True))
    if world.where != "smallest" or world.condition == "one probe":
        return found | {"best": np.full(n, np.nan)}
    means = values.reshape(-1, IMAGES, n, PROBES).mean(axis=(1, 3))
    rest = len(means) - world.sizes[-1]
    return found | {"best": means[rest:].mean(axis=0) - means[:rest].mean(axis=0)}


def known_error(sizes: tuple[int, ...]) -> float:
    """Return the standard error of the smallest group's mean less that of all other subjects, over all probes.

    With equal variances it is the estimate of least variance if that group alone differs, by the same in every probe.
    """
    person, image = ICC * (SHARED + (1 - SHARED) / PROBES), (1 - ICC) / IMAGES / PROBES
    return SPREAD * float(np.sqrt((person + image) * (1 / sizes[-1] + 1 / sum(sizes[:-1]))))
