"""Corrections of families of p-values, against statsmodels, SciPy and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from stats_data import clustered, panel_of
from statsmodels.stats.multitest import multipletests

from fp2.stats.adjustment import METHODS, adjust_p_values, default_permutations, step_down, step_down_max_t

ORACLES = {
    "holm": lambda p: multipletests(p, method="holm")[1],
    "bh": false_discovery_control,
    "by": lambda p: false_discovery_control(p, method="by"),
    "bonferroni": lambda p: np.minimum(1, len(p) * p),
    "none": lambda p: p,
}


def test_corrections_equal_other_libraries_and_skip_missing():
    rng = np.random.default_rng(7)
    p = np.round(rng.random(40) ** 3, 3)
    given = [None, *p[:20], float("nan"), *p[20:]]
    assert set(ORACLES) == set(METHODS)
    for method, oracle in ORACLES.items():
        got = adjust_p_values(given, method)
        assert got[0] is got[21] is None
        assert [x for x in got if x is not None] == pytest.approx(oracle(p).tolist(), rel=1e-14)
        assert adjust_p_values([None], method) == [None]
    with pytest.raises(ValueError, match="outside"):
        adjust_p_values([1.2])


def test_step_down_max_t_equals_plain_loops():
    rng = np.random.default_rng(6)
    table = np.abs(rng.normal(size=(199, 7)))
    seen = np.array([4.0, 1.2, np.nan, 2.5, 0.1, 3.0, 1.2])
    got = step_down_max_t(seen, table)
    order = [j for j in np.argsort(-seen, kind="stable") if not np.isnan(seen[j])]
    largest = 0.0
    for place, j in enumerate(order):
        p = (1 + sum(max(line[order[place:]]) >= seen[j] for line in table)) / 200
        largest = max(largest, p)
        assert got[j] == pytest.approx(largest)
    assert np.isnan(got[2])
    with pytest.raises(ValueError):
        step_down_max_t([1.0], table)


def test_step_down_over_panels_is_no_stricter_than_single_steps_and_finds_the_gap():
    rng = np.random.default_rng(7)
    values, groups, subjects, images = clustered(rng, columns=5)
    values[:, 0] += 0.4 * (groups == "group E")
    other = np.where(subjects % 2 == 0, "x", "y")
    options = {"n_permutations": 499, "n_bootstrap": 0, "seed": 2, "value_range": (-9, 9)}
    panels = [panel_of(values, cut, subjects, images=images, **options) for cut in (groups, other)]
    adjusted = step_down(panels, range(10))
    rows = [row for panel in panels for row in panel.rows]
    assert len(adjusted) == 10
    assert all(p >= row.p_value - 1e-12 for p, row in zip(adjusted, rows, strict=True))
    assert adjusted[0] <= 0.05 < min(adjusted[1:])


@pytest.mark.parametrize(("m", "expected"), [(1, 10_000), (50, 10_000), (144, 28_800), (51, 10_200)])
def test_default_permutations(m, expected):
    assert default_permutations(m) == expected


def test_default_permutations_refuses_an_empty_family():
    with pytest.raises(ValueError):
        default_permutations(0)
