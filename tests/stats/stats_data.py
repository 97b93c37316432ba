"""Simulated data for the tests of the statistics: subjects with several images, groups of given sizes."""

from __future__ import annotations

import numpy as np

from fp2.stats.entropy import divergence

UNEQUAL = (60, 40, 25, 14, 10)


def clustered(rng, sizes=UNEQUAL, images=3, icc=0.3, columns=1, sd=0.2, gap=0.0):
    """Values (n, columns), groups, subjects, images; the last group is `gap` higher. Not clipped."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    subject = np.repeat(np.arange(len(group)), images)
    person = np.sqrt(icc) * rng.normal(size=(len(group), columns))
    values = sd * (person[subject] + np.sqrt(1 - icc) * rng.normal(size=(len(subject), columns)))
    values += gap * (group == len(sizes) - 1)[subject, None]
    names = np.array([f"group {chr(65 + g)}" for g in group])
    return values, names[subject], subject, np.arange(len(subject))


def tangled(rng, n_subjects=14, columns=3, labels="ABC", missing=0.15, most=2):
    """Entries whose subjects vary between groups and whose images carry one or `most` labels at once."""
    rows = []
    for s in range(n_subjects):
        sets = [frozenset(rng.choice(list(labels), size=rng.choice([1, 1, most]), replace=False)) for _ in range(3)]
        for i in range(rng.integers(2, 6)):
            value = rng.normal(size=columns)
            value[rng.random(columns) < missing] = np.nan
            carried = sets[int(rng.integers(0, 1 + s % 3))]
            rows += [(value, g, f"s{s:02d}", f"s{s:02d}-{i}") for g in sorted(carried)]
    values, groups, subjects, images = zip(*rows, strict=True)
    return np.array(values), np.array(groups), np.array(subjects), np.array(images)


def jensen_shannon(distributions):
    """The divergence of distributions (k, bins)."""
    p = np.asarray(distributions)
    return float(divergence(p, np.ones(len(p), dtype=bool)))
