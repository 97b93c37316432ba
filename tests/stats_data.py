"""Simulated data for the tests of the statistics: subjects with several images, groups of given sizes."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from fp2.stats.disparities import disparity_panel
from fp2.stats.effects import divergence
from fp2.stats.rows import Outcome, Panel, PanelSettings

UNEQUAL = (60, 40, 25, 14, 10)


def panel_of(values, groups, subjects, *, images=None, **options) -> Panel:
    """Compare outcomes; options are fields of `PanelSettings` and of `Outcome`: in a list one of each, else of all."""
    settings = {one.name: options.pop(one.name) for one in fields(PanelSettings) if one.name in options}
    outcomes = [
        Outcome(**{name: value[j] if isinstance(value, list) else value for name, value in options.items()})
        for j in range(np.shape(values)[1] if np.ndim(values) > 1 else 1)
    ]
    return disparity_panel(values, groups, subjects, outcomes, PanelSettings(**settings), images=images)


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
