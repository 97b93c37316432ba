"""Dyadic regression against statsmodels and the sum written out, and its level under the null."""

import numpy as np
import pytest
import statsmodels.api as sm

from fp2.methods.attention.dyads import dyad_fit


def data(rng, n_images, n_people, *, copies=2, k=3):
    """Two people a image, `copies` rows of each; nobody is in two when there are enough people."""
    couples = (
        rng.permutation(n_people)[: 2 * n_images].reshape(-1, 2)
        if n_people >= 2 * n_images
        else np.array([rng.choice(n_people, 2, replace=False) for _ in range(n_images)])
    )
    person, image = rng.normal(size=n_people), rng.normal(size=n_images)
    trait = rng.integers(0, 2, size=(n_people, k - 2)).astype(float)
    rows = np.repeat(np.arange(n_images), copies)
    a, b = couples[rows].T
    position = np.tile([0.5, -0.5], n_images)[: len(rows)]
    x = np.column_stack([np.ones(len(rows)), position, trait[a] - trait[b]])
    y = person[a] - person[b] + image[rows] + rng.normal(size=len(rows))
    return y, x, rows, a, b


def test_without_people_in_two_images_it_is_the_jackknife_over_images():
    y, x, images, a, b = data(np.random.default_rng(0), 40, 100, k=4)
    fit = dyad_fit(y, x, images, a, b)
    theirs = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": images}, use_t=True)
    np.testing.assert_allclose(fit.coefficients, theirs.params)
    without = np.array([sm.OLS(y[images != g], x[images != g]).fit().params for g in range(40)])
    away = without - fit.coefficients
    np.testing.assert_allclose(fit.covariance, 39 / 40 * away.T @ away)
    assert (fit.by, fit.df) == ("dyad", 39)
    assert 1 < fit.term(2)[1] / theirs.bse[2] < 1.2  # the usual one is too small


def test_tests_and_intervals_follow_from_the_covariance():
    y, x, images, a, b = data(np.random.default_rng(5), 40, 100, k=4)
    fit = dyad_fit(y, x, images, a, b)
    value, error, low, high, p = fit.term(2)
    theirs = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": images}, use_t=True)
    again = theirs.t_test(np.eye(4)[2], cov_p=fit.covariance)
    np.testing.assert_allclose([value, error, p], [again.effect[0], again.sd.item(), float(again.pvalue)])
    np.testing.assert_allclose([[low, high]], again.conf_int())
    wald = theirs.wald_test(np.eye(4)[2:], cov_p=fit.covariance, use_f=True, scalar=True)
    assert fit.joint_p([2, 3]) == pytest.approx(float(wald.pvalue))


def test_with_people_in_several_images_it_is_the_sum_over_rows_that_share_a_person():
    y, x, images, a, b = data(np.random.default_rng(1), 60, 50)
    fit = dyad_fit(y, x, images, a, b)
    n, k = x.shape
    residuals = np.empty(n)
    for g in range(60):
        rows = images == g
        residuals[rows] = y[rows] - x[rows] @ sm.OLS(y[~rows], x[~rows]).fit().params
    meat = np.zeros((k, k))
    for i in range(n):
        for j in range(n):
            if images[i] == images[j] or {a[i], b[i]} & {a[j], b[j]}:
                meat += residuals[i] * residuals[j] * np.outer(x[i], x[j])
    bread = np.linalg.inv(x.T @ x)
    assert fit.by == "dyad"
    np.testing.assert_allclose(fit.covariance, 59 / 60 * bread @ meat @ bread)


def test_people_in_several_images_widen_the_interval():
    y, x, images, a, b = data(np.random.default_rng(2), 150, 40)
    ours = dyad_fit(y, x, images, a, b)
    plain = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": images})
    assert ours.term(2)[1] > 1.1 * plain.bse[2]


@pytest.mark.thorough
def test_level_of_the_test_that_nothing_matters():
    """600 data sets without any effect of the trait, half of the people in two images or more."""
    rng = np.random.default_rng(3)
    p = [dyad_fit(*data(rng, 120, 200, k=5)).joint_p([2, 3, 4]) for _ in range(600)]
    assert 0.025 <= np.mean(np.array(p) < 0.05) <= 0.08


def test_collinear_terms_are_refused():
    y, x, images, a, b = data(np.random.default_rng(4), 30, 60)
    with pytest.raises(ValueError, match="linearly dependent"):
        dyad_fit(y, np.column_stack([x, x[:, 1] * 2]), images, a, b)
    with pytest.raises(ValueError, match="fewer images"):
        dyad_fit(y[:4], x[:4], images[:4], a[:4], b[:4])
    with pytest.raises(ValueError, match="one image only"):
        dyad_fit(y, np.column_stack([x, images == 3]).astype(float), images, a, b)
