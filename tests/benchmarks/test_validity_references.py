"""What `benchmarks.validity` sets beside our methods: statsmodels' tests, version 0.3.0, limits for every method."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import fdtrc

from benchmarks.validity import earlier
from benchmarks.validity.mixed_models import gee_p, mixed_model_p
from benchmarks.validity.report import write_report
from benchmarks.validity.rows import Row, mean_row, rate_row
from benchmarks.validity.summary import summarise
from benchmarks.validity.worlds import World, draw


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("world", [World("normal", gap=0.9), World("yes/no", gap=0.6, where="steps")])
def test_tests_of_mixed_models_and_gee_are_those_of_statsmodels(world: World) -> None:
    import statsmodels.api as sm

    data = draw(world, np.random.default_rng(5), 1)
    names, y = np.unique(data.groups), data.values[:, 0]
    means = data.values.reshape(-1, 3, 1).mean(axis=1)
    groups = [means[data.groups[::3] == name] for name in names]
    x = np.stack([np.ones(len(y)), *((data.groups == name).astype(float) for name in names[1:])], axis=1)
    contrast = np.eye(5)[1:]
    fit = sm.MixedLM(y, x, groups=data.subjects).fit(reml=True)
    f = float(fit.wald_test(np.c_[contrast, np.zeros(4)], scalar=True).statistic) / 4
    assert mixed_model_p(groups)[0] == pytest.approx(fdtrc(4, 144, f), rel=1e-3)
    family = sm.families.Binomial() if world.yes_no else sm.families.Gaussian()
    for reduced, kind in ((False, "robust"), (True, "bias_reduced")):
        gee = sm.GEE(y, x, groups=data.subjects, family=family).fit(cov_type=kind)
        p = float(gee.wald_test(contrast, scalar=True).pvalue)
        assert gee_p(groups, world.yes_no, reduced)[0] == pytest.approx(p, rel=1e-6)


AS_BEFORE = {
    World("yes/no", "agreement", gap=0.8): [
        (0.08, 0.0, 0.6412169570396614, 0.9129850083873726),
        (0.005, 0.2928172564591395, 0.8531047130738434, 0.9999275016135171),
    ],
    World("normal", "triple spread", sizes=(60, 10), gap=1.5): [
        (0.005, 0.2434267623103067, 0.6838912703588724, 0.9993205292950803),
        (0.005, 0.13758713955890953, 0.64185065775753, 0.9953573451246419),
    ],
    World("uncommon", "many images", gap=1.0): [
        (0.025, 0.0, 0.605279957839476, 0.9513419189067912),
        (0.28, 0.0, 0.43008405382249704, 0.8204301412941257),
    ],
}
"""p_value, ci_low, ci_high and equivalence_p of the rows of version 0.3.0, as that version computed them."""


@pytest.mark.parametrize("world", AS_BEFORE, ids=lambda w: f"{w.outcome} {w.condition}")
def test_what_is_shown_of_an_earlier_version_is_what_it_computed(world: World) -> None:
    data = draw(world, np.random.default_rng(3), 2)
    low, high = earlier.interval(data, 199, 3)
    found = (earlier.p_value(world, data, 199, 3), low, high, earlier.equivalence_p(data, 0.05))
    np.testing.assert_allclose(np.transpose(found), AS_BEFORE[world], atol=1e-9)


def test_the_page_states_bounds_errors_and_numbers_of_data_sets_as_they_are(tmp_path) -> None:
    hits = np.array([1.0] * 30 + [0.0] * 10 + [np.nan] * 60)
    rows = [
        rate_row("Some rate: at most 5.5 %", "a world", "share", hits, None, 0.055, np.ones(100)),
        mean_row("Some bias: within 0.03", "a world", "mean difference", hits - 0.7, -0.03, 0.03),
        Row("Some limit", "a world", "exact", 0.5, 0.0, 0, "printed, no bound", ""),
    ]
    shown = [
        rate_row("Type-I error", "normal, 40/40, groups exchangeable", "p_value (decides verdicts)", hits, 0.04, 0.06)
    ]
    null, gaps = World("normal"), (0.0, 0.2, 0.8)
    arrays = {name: np.full(4, 0.5) for name in ("low", "high", "raw", "excess", "shrunken", "p")}
    arrays |= {f"{name}_before": arrays[name] for name in ("low", "high", "p")}
    coverage = summarise({("coverage", replace(null, gap=gap)): arrays for gap in gaps})
    page = write_report(tmp_path, [*rows, *shown, *coverage], [], 100).read_text()
    claims = (tmp_path / "validity.csv").read_text(encoding="utf-8")
    assert ",Some rate: at most 5.5 %,,at most 5.5 %,0,0,1,75.00 %,75.00 %,a world: 75.00 ± 6.85 %\n" in claims
    assert ",Some bias: within 0.03,,-0.03 to 0.03,0,1,0,0.050,0.050,a world: 0.050 ± 0.069\n" in claims
    assert ',Some limit,exact,"printed, no bound",0,0,0,50.00 %,50.00 %,\n' in claims
    assert "a world, share: 75.00 ± 6.85 %, at most 5.5 %" in page
    assert json.loads((tmp_path / "validity.json").read_text())["rows"][0]["simulated"] == 100
