"""Rates of yes/no outcomes against SciPy and statsmodels, and their coverage for clustered answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from statsmodels.stats.proportion import confint_proportions_2indep

from fp2.methods.fhibe.proportions import proportions_by_group
from fp2.stats.interval import wilson


def test_proportions_equal_scipy_and_statsmodels_with_one_image_a_subject():
    rng = np.random.default_rng(8)
    groups = np.repeat(["a", "b", "c"], [40, 25, 12])
    y = (rng.random(77) < np.repeat([0.2, 0.5, 0.0], [40, 25, 12])).astype(float)
    found = proportions_by_group(y, groups, range(77))
    for row in found.groups:
        n, yes = int((groups == row.group).sum()), int(y[groups == row.group].sum())
        assert row.effective_n == pytest.approx(n)
        assert (row.ci_low, row.ci_high) == pytest.approx(binomtest(yes, n).proportion_ci(method="wilson"), abs=1e-12)
    first = found.pairs[0]
    counts = [int(y[groups == g].sum()) for g in "ab"]
    theirs = confint_proportions_2indep(counts[0], 40, counts[1], 25, method="newcomb", compare="diff")
    assert (first.ci_low, first.ci_high) == pytest.approx(theirs)


def test_proportions_know_that_images_of_one_person_agree():
    subjects = np.repeat(np.arange(30), 4)
    same = np.repeat((np.arange(30) < 9).astype(float), 4)
    row = proportions_by_group(same, np.full(120, "a"), subjects).groups[0]
    assert (row.rate, row.n_images) == (0.3, 120)
    assert row.effective_n == pytest.approx(30)
    spread = np.tile([1.0, 0.0, 0.0, 1.0], 30)
    assert proportions_by_group(spread, np.full(120, "a"), subjects).groups[0].effective_n == 120
    with pytest.raises(ValueError, match="yes/no"):
        proportions_by_group([0.5], ["a"], [1])
    assert [wilson(0.0, n)[0] for n in (3.7, 10, 33.3)] == [0.0] * 3
    assert [wilson(1.0, n)[1] for n in (3.7, 10, 33.3)] == [1.0] * 3


def test_wilson_with_effective_n_covers_clustered_rates():
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(300):
        rate = rng.beta(0.2 * 3, 0.8 * 3, 60)
        y = (rng.random((60, 4)) < rate[:, None]).astype(float)
        row = proportions_by_group(y.ravel(), np.full(240, "a"), np.repeat(np.arange(60), 4)).groups[0]
        covered += row.ci_low <= 0.2 <= row.ci_high
    assert covered / 300 > 0.91
