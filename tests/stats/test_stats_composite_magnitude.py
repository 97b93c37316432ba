"""The magnitude of a composite: its value, its interval, and that it does not depend on the number of subjects."""

from __future__ import annotations

import numpy as np
import pytest
from stats_data import clustered, panel_of

from fp2.stats.composite import composite_test


def panel_and_test(rng, sizes, gap, columns=4):
    values, groups, subjects, images = clustered(rng, sizes, columns=columns, gap=gap)
    panel = panel_of(
        values, groups, subjects, images=images, n_permutations=299, n_bootstrap=0, seed=1, value_range=(-9.0, 9.0)
    )
    return panel, composite_test(panel, range(columns))


def test_magnitude_is_the_root_of_squares_less_their_permutation_mean():
    panel, test = panel_and_test(np.random.default_rng(1), (50, 35, 20), 0.3)
    null = panel.raw_permuted.mean(axis=1)
    assert test.magnitude**2 == pytest.approx(test.value**2 - (null**2).mean())
    assert 0 <= test.magnitude_low < test.magnitude < test.magnitude_high
    quiet = composite_test(panel, [])
    assert quiet.magnitude is quiet.magnitude_low is quiet.magnitude_high is None


def test_influence_is_the_standard_error_of_the_extreme_means():
    values, groups, subjects, images = clustered(np.random.default_rng(2), (50, 35), columns=1)
    panel = panel_of(
        values, groups, subjects, images=images, n_permutations=9, n_bootstrap=0, seed=1, value_range=(-9.0, 9.0)
    )
    squares = sum(group.sd**2 / group.n_subjects for group in panel.rows[0].groups)
    assert (panel.influence**2).sum() == pytest.approx(squares)


def test_magnitude_does_not_depend_on_the_number_of_subjects_and_the_excess_does():
    found = {}
    for times in (1, 6):
        rng, sizes = np.random.default_rng(3), tuple(times * n for n in (25, 25, 25, 25))
        tests = [panel_and_test(rng, sizes, 0.12)[1] for _ in range(25)]
        found[times] = [np.mean([getattr(test, name) for test in tests]) for name in ("magnitude", "excess")]
    assert abs(found[6][0] - found[1][0]) < 0.3 * abs(found[6][1] - found[1][1])
