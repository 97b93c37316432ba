"""Adjusted disparities: against statsmodels, and what the adjustment must and must not remove."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from fp2.methods.adjusted.model import NOT_SEPARABLE, Design, adjusted_panel, interaction_panel
from fp2.stats.rows import PanelSettings

QUICK = PanelSettings(n_permutations=399, seed=5)


def design(group: np.ndarray, x: np.ndarray, of: tuple[str, ...] = ("x",), **more: Any) -> Design:
    names = tuple(f"g{k}" for k in range(int(group.max()) + 1))
    return Design(np.eye(len(names))[group], names, x.reshape(len(group), -1), of, **more)


def people(n: int = 120, seed: int = 1) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Three groups of unequal size, and a covariate that is higher in the later ones."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3])
    return rng, group, rng.normal(size=n) + 0.8 * group


def test_means_errors_and_statistics_are_those_of_least_squares_with_hc2() -> None:
    rng, group, x = people()
    y = 0.3 * x + rng.normal(size=len(x)) * (1 + group)
    (found,) = adjusted_panel(y[:, None], design(group, x), QUICK)
    fit = sm.OLS(y, np.column_stack([np.eye(3)[group], x - x.mean()])).fit(cov_type="HC2")
    assert [one.adjusted for one in found.groups] == pytest.approx(list(fit.params[:3]))
    assert [one.error for one in found.groups] == pytest.approx(list(fit.bse[:3]))
    t = [abs(float(fit.t_test(c).tvalue.squeeze())) for c in ([1, -1, 0, 0], [1, 0, -1, 0], [0, 1, -1, 0])]
    assert found.max_t == pytest.approx(max(t))
    assert found.gap == pytest.approx(np.ptp(fit.params[:3]))
    assert found.raw == pytest.approx(np.ptp([y[group == g].mean() for g in range(3)]))


def test_without_covariates_two_groups_have_welchs_statistic() -> None:
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(3)
    group = np.repeat([0, 1], [40, 15])
    y = rng.normal(size=55) * (1 + 2 * group)
    (found,) = adjusted_panel(
        y[:, None], design(group, np.zeros((55, 0)), ()), PanelSettings(n_permutations=1_999, seed=1)
    )
    t, p = ttest_ind(y[group == 0], y[group == 1], equal_var=False)
    assert found.max_t == pytest.approx(abs(t))
    assert found.p_value == pytest.approx(p, abs=0.03)
    assert found.gap == pytest.approx(found.raw)


def test_a_confounded_gap_goes_and_a_true_one_stays() -> None:
    rng, group, x = people(300)
    noise = 0.5 * rng.normal(size=(300, 2))
    values = noise + np.stack([x, x + 1.0 * (group == 2)], axis=1)
    none, true = adjusted_panel(values, design(group, x), QUICK)
    assert none.raw is not None
    assert none.gap is not None
    assert none.p_value is not None
    assert none.raw > 1.0
    assert none.gap < 0.25
    assert none.p_value > 0.05
    assert none.ci_low == 0.0
    assert true.gap == pytest.approx(1.0, abs=0.3)
    assert true.p_value == pytest.approx(1 / 400)
    assert true.pair is not None
    assert true.pair[1] == "g2"
    (balance,) = none.balance
    assert balance.before > 0.8
    assert balance.after < 1e-9
    assert sum(one.n_subjects for one in none.groups) == 300
    assert all(one.effective_n < one.n_subjects for one in none.groups)


def test_the_interval_excludes_zero_exactly_if_the_test_rejects() -> None:
    rng, group, x = people(90)
    values = rng.normal(size=(90, 12)) + np.linspace(0, 1.2, 12) * (group == 1)[:, None]
    for one in adjusted_panel(values, design(group, x), QUICK):
        assert one.ci_low is not None
        assert one.p_value is not None
        assert (one.ci_low > 0) == (one.p_value <= 0.05)


def test_groups_that_the_covariates_determine_are_refused() -> None:
    rng, group, _ = people()
    values = rng.normal(size=(len(group), 1))
    (found,) = adjusted_panel(values, design(group, (group == 2).astype(float)), QUICK)
    assert (found.status, found.p_value, found.gap) == (NOT_SEPARABLE, None, None)


def test_missing_small_and_constant() -> None:
    rng, group, x = people()
    values = rng.normal(size=(len(group), 4))
    values[:, 1] = 0.3
    values[:, 2] = np.nan
    values[group != 0, 3] = np.nan
    ok, constant, empty, alone = adjusted_panel(values, design(group, x), QUICK)
    assert [one.status for one in (ok, constant, empty, alone)] == [
        "ok",
        "uninformative",
        "uninformative",
        "too_few_subjects",
    ]
    with pytest.raises(ValueError, match="missing value"):
        adjusted_panel(values, design(group, np.where(x > 1, np.nan, x)), QUICK)


def test_a_subject_in_two_groups_counts_by_halves() -> None:
    """Shares of 1/2 put a subject between the groups: exact where its answer lies midway."""
    shares = np.concatenate([np.eye(2)[np.repeat([0, 1], 20)], np.full((10, 2), 0.5)])
    y = shares @ np.array([0.0, 1.0]) + 1e-6 * np.random.default_rng(0).normal(size=50)
    (found,) = adjusted_panel(y[:, None], Design(shares, ("a", "b"), np.zeros((50, 0)), ()), QUICK)
    assert [one.adjusted for one in found.groups] == pytest.approx([0.0, 1.0], abs=1e-5)
    assert [one.n_subjects for one in found.groups] == [30, 30]


def test_an_interaction_is_told_from_main_effects() -> None:
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(6), [30, 25, 20, 30, 15, 20])
    first, second = np.arange(6) // 2, np.arange(6) % 2
    additive = np.concatenate([np.eye(3)[first], np.eye(2)[second]], axis=1)
    main = (1.0 * first - 2.0 * second)[group]
    values = 0.4 * rng.normal(size=(140, 2)) + np.stack([main, main + 1.0 * (group == 5)], axis=1)
    crossed = design(group, np.zeros((140, 0)), (), additive=additive)
    assert adjusted_panel(values, crossed, QUICK)[0].p_value == pytest.approx(1 / 400)  # main effects are differences
    none, planted = interaction_panel(values, crossed, QUICK)
    assert none is not None
    assert planted is not None
    assert none.p_value > 0.05
    assert planted.p_value == pytest.approx(1 / 400)
    # combinations that main effects determine have no interaction to test
    kept = np.isin(group, (0, 1, 2))
    part = design(group[kept], np.zeros((kept.sum(), 0)), (), additive=additive[:3])
    assert interaction_panel(values[kept, :1], part, QUICK) == [None]
