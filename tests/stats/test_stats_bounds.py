"""The interval of the bounds under refusals: its limits, and its coverage at both ends of the range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from fp2.stats.bounds import _critical, bounds_between, refusal_ends

WIDTH = (-1.0, 1.0)


def answers(rng, shares, means, sizes=(60, 40)):
    """Answers of groups of given means, of which a share is refused."""
    groups = np.repeat(["a", "b"], sizes)
    code = (groups == "b").astype(int)
    values = rng.normal(np.array(means)[code], 0.2)
    refused = rng.random(len(values)) < np.array(shares)[code]
    return values, refused, groups, np.arange(len(values))


def test_without_refusals_the_interval_is_that_of_welch_with_the_smaller_groups_df():
    values, refused, groups, people = answers(np.random.default_rng(1), (0.0, 0.0), (0.0, 0.3))
    found = bounds_between(refusal_ends(values, refused, WIDTH), groups, people)
    a, b = (values[groups == g] for g in "ab")
    gap, error = abs(a.mean() - b.mean()), np.sqrt(a.var(ddof=1) / 60 + b.var(ddof=1) / 40)
    assert found.low == pytest.approx(found.high) == pytest.approx(gap)
    assert found.ci_high == pytest.approx(gap + stats.t.ppf(0.975, 39) * error)
    assert 0 < found.ci_low < gap - stats.t.ppf(0.975, 39) * error, "both orders of the pair are taken into account"


def test_a_wide_range_takes_the_one_sided_critical_value():
    values, refused, groups, people = answers(np.random.default_rng(2), (0.3, 0.3), (0.0, 0.3))
    ends = refusal_ends(values, refused, WIDTH)
    found = bounds_between(ends, groups, people)
    high, low = ends[groups == "b", 1], ends[groups == "a", 0]
    error = np.sqrt(high.var(ddof=1) / 40 + low.var(ddof=1) / 60)
    assert found.ci_high == pytest.approx(found.high + stats.t.ppf(ndtr(1.6449), 39) * error, rel=1e-4)


def test_the_critical_value_lies_between_the_two_ends_for_any_number_of_groups_and_any_width():
    """Rounding decides the sign at the ends: without refusals, 8, 9, 10 or 12 groups had no solution."""
    df = np.array([1e9])
    for alpha in (0.01, 0.05, 0.1):
        for n_groups in range(2, 40):
            level = alpha / (n_groups * (n_groups - 1))
            found = [float(_critical(level, width, df)[0]) for width in (0.0, 1e-17, 1.0, 5.5, 6.3, 7.3, np.inf)]
            assert found == sorted(found, reverse=True)
            assert found[0] == pytest.approx(stats.norm.ppf(1 - level / 2), rel=1e-6)
            assert found[-1] == pytest.approx(stats.norm.ppf(1 - level), rel=1e-6)
