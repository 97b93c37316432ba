"""Template tests against pingouin and SciPy; sign flips and rank agreement by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare

from fp2.methods.gras.prompt_sensitivity import rank_agreement, sign_flips, template_tests


def test_template_tests_are_pingouins_and_scipys() -> None:
    pingouin = pytest.importorskip("pingouin", reason="the comparison needs pingouin, a test-only dependency")
    rng = np.random.default_rng(2)
    y = rng.normal(size=(30, 3, 5)) + rng.normal(size=(30, 3, 1))
    y[:, :, 1] += 0.4
    y[:, :, 2] *= 2
    y[:, 2] = np.round(y[:, 2])  # ties
    y[4, 0, 2] = np.nan
    found = template_tests(y)
    for k in range(3):
        rows = y[np.isfinite(y[:, k]).all(axis=1), k]
        long = pd.DataFrame([(i, t, v) for (i, t), v in np.ndenumerate(rows)], columns=["unit", "template", "y"])
        names = {"data": long, "dv": "y", "within": "template", "subject": "unit"}
        table = pingouin.rm_anova(**names, correction=True, detailed=True).iloc[0]
        assert found.n[k] == len(rows)
        assert found.f[k] == pytest.approx(table["F"])
        assert found.greenhouse_geisser[k] == pytest.approx(table["eps"])
        assert found.p_gg[k] == pytest.approx(table["p_GG_corr"])
        assert found.huynh_feldt[k] == pytest.approx(pingouin.epsilon(**names, correction="hf"))
        assert found.share_template[k] == pytest.approx(table["ng2"])
        assert found.share_template[k] + found.share_unit[k] + found.share_rest[k] == pytest.approx(1.0)
        expected = friedmanchisquare(*rows.T)
        assert found.friedman[k] == pytest.approx(expected.statistic)
        assert found.friedman_p[k] == pytest.approx(expected.pvalue)


def test_friedman_ranks_tiny_values_as_they_are() -> None:
    rng = np.random.default_rng(0)
    y = 1e-18 * rng.integers(1, 1000, (12, 1, 3))
    y[0] = 0.9  # beside it, centring loses all the other values' digits
    found = template_tests(y)
    assert found.friedman[0] == pytest.approx(friedmanchisquare(*y[:, 0].T).statistic)


def test_flips_and_rank_agreement_by_hand() -> None:
    means = np.zeros((2, 1, 4))
    means[0, 0] = 0.1, 0.1, 0.1, -0.1
    assert sign_flips(means) == 0.25
    assert sign_flips(np.abs(means)) == 0.25 - 0.25
    assert np.isnan(sign_flips(np.zeros((2, 3, 4))))
    many = np.random.default_rng(0).normal(size=(3, 20, 1)) * np.ones(5)
    assert rank_agreement(many) == pytest.approx(1.0)
