"""The bootstrap interval against plain loops over its steps, and what the package offers at its top."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import fp2.stats
from fp2.stats.core.numeric import stream
from fp2.stats.core.resampling import observed_moments
from fp2.stats.disparities import disparity


def regular(samples):
    """Regularised s^2 / n of each sample with v0 = 3."""
    pool = sum((len(y) - 1) * np.var(y, ddof=1) for y in samples) / sum(len(y) - 1 for y in samples)
    return [((len(y) - 1) * np.var(y, ddof=1) + 3 * pool) / (len(y) + 2) / len(y) for y in samples]


def test_interval_equals_plain_loops():
    rng = np.random.default_rng(1)
    samples = [rng.normal(shift, 0.2, n) for shift, n in ((0.0, 20), (0.05, 14), (0.25, 10))]
    pairs = list(itertools.combinations(range(3), 2))
    gap = {(g, h): samples[g].mean() - samples[h].mean() for g, h in pairs}
    error = regular(samples)
    draws = [stream(7, 0, 0, g).integers(0, len(y), (150, len(y))) for g, y in enumerate(samples)]
    largest, worst = [], 0
    for b in range(150):
        again = [y[d[b]] for y, d in zip(samples, draws, strict=True)]
        e = regular(again)
        largest.append(
            max(abs(again[g].mean() - again[h].mean() - gap[g, h]) / math.sqrt(e[g] + e[h]) for g, h in pairs)
        )
        worst += again[0].mean() == min(y.mean() for y in again)
    q = np.quantile(largest, 0.95, method="higher")
    low = max(0.0, *(abs(gap[p]) - q * math.sqrt(error[p[0]] + error[p[1]]) for p in pairs))
    highs = []
    for g, h in pairs:
        parts = error[g] ** 2 / (len(samples[g]) - 1) + error[h] ** 2 / (len(samples[h]) - 1)
        df = (error[g] + error[h]) ** 2 / parts
        highs.append(abs(gap[g, h]) + stats.t.ppf(0.975, df) * math.sqrt(error[g] + error[h]))
    row = disparity(
        np.concatenate(samples),
        np.repeat(["a", "b", "c"], [20, 14, 10]),
        range(44),
        n_permutations=9,
        n_bootstrap=150,
        seed=7,
    )
    assert (row.ci_low, row.ci_high) == pytest.approx((low, max(highs)))
    assert row.worst_group == "a"
    assert row.p_worst == pytest.approx(worst / 150)


def test_upper_end_is_clipped_to_the_width_of_the_scale():
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.choice([0.0, 1.0], 12, p=[0.9, 0.1]), rng.choice([0.0, 1.0], 12, p=[0.1, 0.9])])
    row = disparity(
        y, np.repeat(["a", "b"], 12), range(24), n_permutations=9, n_bootstrap=99, seed=0, value_range=(0, 1)
    )
    assert row.ci_high == 1.0


def test_without_a_bootstrap_there_is_no_interval():
    y = np.random.default_rng(3).normal(0, 0.1, 24)
    row = disparity(y, np.repeat(["a", "b"], 12), range(24), n_permutations=9, n_bootstrap=0, seed=0)
    assert row.ci_low is row.ci_high is row.p_worst is None
    assert row.p_value is not None


def test_weighted_form_agrees_with_the_plain_one_where_groups_share_nobody():
    rng = np.random.default_rng(4)
    y, member = np.full((40, 3, 2), np.nan), np.zeros((40, 3), dtype=bool)
    for s in range(40):
        y[s, s % 3] = rng.normal(size=2)
        member[s, s % 3] = True
    y[5, 2, 0] = np.nan
    everywhere = np.ones((3, 2), dtype=bool)
    plain = observed_moments(y, member, everywhere, dependent=False)
    weighted = observed_moments(y, member, everywhere, dependent=True)
    for name in ("mean", "error", "variance", "n"):
        np.testing.assert_allclose(getattr(plain, name), getattr(weighted, name))
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(weighted.correlation[off], 0.0, atol=1e-12)


def test_the_package_offers_two_functions_and_imports_nothing_heavy():
    code = """
import sys, fp2.stats
assert not {'numpy', 'scipy', 'pandas'} & set(sys.modules)
import fp2.stats.disparities, fp2.stats.adjustment
assert callable(fp2.stats.disparity) and callable(fp2.stats.adjust)
assert not {'scipy', 'pandas', 'statsmodels'} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        fp2.stats.nothing_of_the_kind  # noqa: B018
