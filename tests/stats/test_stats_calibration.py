"""Null means of the range, the worst group of noise, and the interval where subjects are in several groups.

Error rates, coverage and power are in test_stats_validity.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from stats_data import clustered, panel_of

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import YesNo, moments, worst_shares
from fp2.stats.core.resampling import joint_permutations
from fp2.stats.core.sums import group_sums
from fp2.stats.core.units import Permuter, prepare
from fp2.stats.interval import worst_probabilities

WIDE = (-50.0, 50.0)
UNIT_SIZES = (1586, 1064, 184, 86, 61, 19)


def panels(make, n_panels=6, **options):
    """Rows of `n_panels` panels; `make(rng)` gives values, groups, subjects, images."""
    rows = []
    for k in range(n_panels):
        values, groups, subjects, images = make(np.random.default_rng(100 + k))
        defaults = {"n_permutations": 399, "n_bootstrap": 0, "seed": k, "value_range": WIDE}
        rows += panel_of(values, groups, subjects, images=images, **{**defaults, **options}).rows
    return rows


def straddling(rng):
    values, groups, subjects, images = clustered(rng, sizes=(40, 30, 20), columns=100)
    moved = (subjects % 4 == 0) & (images % 3 == 2)
    following = {"group A": "group B", "group B": "group C", "group C": "group A"}
    return values, np.where(moved, [following[g] for g in groups], groups), subjects, images


def test_interval_covers_when_subjects_straddle_groups():
    for gap in (0.0, 0.16):

        def make(rng, gap=gap):
            values, groups, subjects, images = straddling(rng)
            return values[:, :50] + gap * (groups == "group C")[:, None], groups, subjects, images

        rows = panels(make, n_panels=3, n_permutations=9, n_bootstrap=300)
        assert np.mean([row.ci_low - 1e-12 <= gap <= row.ci_high for row in rows]) >= 0.91


def test_the_worst_group_of_noise_is_named_again_as_often_as_expected():
    """p_worst of chance findings averages to p_worst_null: the number beside it is its chance level."""
    again, expected = [], []
    for k in range(6):
        entries = read_entries(*clustered(np.random.default_rng(100 + k), sizes=(80, 40, 20, 12), columns=100))
        p = prepare(entries, cell_means(entries), 10)
        joint = joint_permutations(p, np.zeros(100, dtype=bool), np.ones(100), 399, seed=k)
        shares = worst_probabilities(p, np.ones(100), n_bootstrap=200, seed=k)
        smallest = [entries.names[code] for code in p.units.kept].index("group D")
        worst = joint.observed.mean[:, 0].argmin(axis=0) == smallest
        again += list(shares[smallest, worst])
        expected += list(joint.worst_again[smallest, worst])
    assert len(again) > 150
    assert np.mean(again) == pytest.approx(np.mean(expected), abs=0.04)


def test_chance_level_of_six_unequal_groups():
    """At SD 0.35: null mean 0.106, 95th percentile 0.20; the smallest group is extreme in 69 %."""
    rng = np.random.default_rng(0)
    groups = np.repeat([f"g{k}" for k in range(6)], UNIT_SIZES)
    values = rng.normal(0, 0.35, (len(groups), 1))
    panel = panel_of(
        values, groups, np.arange(len(groups)), n_permutations=2_000, n_bootstrap=0, seed=1, value_range=WIDE
    )
    row, unit = panel.rows[0], 0.35 / values.std()
    assert row.null_mean * unit == pytest.approx(0.106, abs=0.004)
    assert row.null_p95 * unit == pytest.approx(0.20, abs=0.01)

    entries = read_entries(values, groups, np.arange(len(groups)), None)
    prepared = prepare(entries, cell_means(entries), 10)
    found = moments(
        group_sums(prepared.data, Permuter(prepared.units, 2).draw(1_000)),
        prepared.eligible,
        YesNo(np.zeros(1, dtype=bool), prepared.centre, prepared.scale),
        1.0,
    )
    extreme = sum(float(worst_shares(found, np.array([sign]))[5].mean()) for sign in (1.0, -1.0))
    assert extreme == pytest.approx(0.69, abs=0.03)


def test_chance_level_with_six_images_a_subject():
    """The same groups as images, six a subject with ICC 0.3, have a null mean of 0.168."""
    sizes = tuple(round(n / 6) for n in UNIT_SIZES)
    values, groups, subjects, images = clustered(np.random.default_rng(3), sizes, images=6, sd=0.35)
    panel = panel_of(
        values,
        groups,
        subjects,
        images=images,
        n_permutations=4_000,
        n_bootstrap=0,
        seed=1,
        value_range=WIDE,
        min_subjects=3,
    )
    expected = 0.35 * np.sqrt((1 + 5 * 0.3) / 6)
    spread = np.std([values[subjects == s].mean() for s in np.unique(subjects)])
    assert panel.rows[0].null_mean * expected / spread == pytest.approx(0.168, abs=0.008)
