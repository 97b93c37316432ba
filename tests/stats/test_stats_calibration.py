"""Null means of the range, the worst group of noise, and the interval where subjects are in several groups.

Error rates, coverage and power are in test_stats_validity.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from stats_data import panel_of

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import YesNo, moments, worst_shares
from fp2.stats.core.sums import group_sums
from fp2.stats.core.units import Permuter, prepare

WIDE = (-50.0, 50.0)
UNIT_SIZES = (1586, 1064, 184, 86, 61, 19)


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
