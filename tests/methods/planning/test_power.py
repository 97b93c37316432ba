"""Sample sizes: against independent references, and in the limits that have a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import studentized_range
from statsmodels.stats.power import TTestIndPower

from fp2.methods.planning.power import Spread, detection_power, spread_of, subjects_needed
from fp2.stats.effects import icc_oneway


@pytest.mark.parametrize(("groups", "n", "level"), [(2, 11, 0.05), (5, 21, 0.002), (12, 10, 0.01), (3, 60, 1e-4)])
def test_the_level_is_that_of_the_studentised_range(groups: int, n: int, level: float) -> None:
    """Without a gap the power is the level; the critical value is SciPy's."""
    from fp2.methods.planning.power import _critical_range

    spread = Spread(0.3, 0.4)
    power = detection_power(0.0, spread, groups=groups, subjects=n, images=2, level=level)
    assert power == pytest.approx(level, rel=1e-3)
    df = 2.0 * (n - 1) + 1
    assert _critical_range(groups, df, level) == pytest.approx(studentized_range.ppf(1 - level, groups, df), rel=1e-4)


@pytest.mark.parametrize(("effect", "n", "level"), [(0.5, 64, 0.05), (0.8, 40, 0.002), (0.3, 200, 0.01)])
def test_two_groups_have_the_power_of_the_t_test(effect: float, n: int, level: float) -> None:
    ours = detection_power(effect, Spread(1.0, None), groups=2, subjects=n, images=1, level=level)
    assert ours == pytest.approx(TTestIndPower().power(effect, n, level), abs=0.003)


def test_the_power_of_many_groups_agrees_with_simulated_ranges() -> None:
    rng, groups, n, level = np.random.default_rng(5), 5, 200, 0.01
    shift = 0.35 * math.sqrt(n)
    means = rng.normal(size=(200_000, groups)) + np.array([-shift / 2, 0, 0, 0, shift / 2])
    critical = studentized_range.ppf(1 - level, groups, 2 * (n - 1) + 1)
    found = float((np.ptp(means, axis=1) > critical).mean())
    assert detection_power(0.35, Spread(1.0, None), groups=groups, subjects=n, images=1, level=level) == pytest.approx(
        found, abs=0.01
    )


def test_the_number_is_the_smallest_that_reaches_the_power() -> None:
    spread = Spread(0.2, 0.3)
    n = subjects_needed(0.1, spread, groups=4, images=3, level=0.002)
    assert n is not None
    reached, below = (detection_power(0.1, spread, groups=4, subjects=k, images=3, level=0.002) for k in (n, n - 1))
    assert below < 0.8 <= reached
    needs = [subjects_needed(0.1, spread, groups=4, images=k, level=0.002) for k in (1, 3, 1000)]
    assert needs[0] > needs[1] > needs[2]  # type: ignore[operator]
    # images cannot help beyond the variance between subjects
    assert needs[2] == pytest.approx(needs[0] * 0.3, rel=0.1)  # type: ignore[operator]
    assert subjects_needed(5.0, spread, groups=2, images=1, level=0.05, least=10) == 10
    assert subjects_needed(1e-5, spread, groups=2, images=1, level=0.05) is None


def test_more_images_do_not_help_where_no_subject_has_two() -> None:
    alone = Spread(0.2, None)
    assert alone.variance(1) == alone.variance(6) == pytest.approx(0.04)


def test_the_spread_is_that_of_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(2)
    subjects = np.repeat(np.arange(400), rng.integers(1, 6, 400))
    groups = subjects % 3
    values = 0.5 * groups + 0.3 * rng.normal(size=400)[subjects] + 0.4 * rng.normal(size=len(subjects))
    found = spread_of(values, groups, subjects)
    assert found is not None
    icc, _ = icc_oneway(values, subjects, groups)
    assert found.icc == pytest.approx(icc)
    assert found.sd == pytest.approx(0.5, rel=0.05)  # the gap of the groups plays no part
    assert found.df == 397
    assert found.cautious().sd > found.sd
    again = spread_of(np.where(np.arange(len(values)) % 7 == 0, np.nan, values), groups, subjects)
    assert again is not None
    assert again.sd == pytest.approx(0.5, rel=0.05)


def test_outcomes_without_a_spread_have_none() -> None:
    one = np.arange(40)
    assert spread_of(np.full(40, 0.3), one % 2, one) is None
    assert spread_of(np.full(40, np.nan), one % 2, one) is None
    single = spread_of(np.random.default_rng(1).normal(size=40), one % 2, one)
    assert single is not None
    assert single.icc is None
    with pytest.raises(ValueError, match="gap above 0"):
        subjects_needed(0.0, Spread(1, 0.2), groups=2, images=1, level=0.05)
    with pytest.raises(ValueError, match="at least two groups"):
        detection_power(0.1, Spread(1, 0.2), groups=1, subjects=10, images=1, level=0.05)
