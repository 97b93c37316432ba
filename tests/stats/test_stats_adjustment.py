"""Corrections of families of p-values, against statsmodels and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from stats_data import clustered
from statsmodels.stats.multitest import multipletests

from fp2.stats.adjustment import adjust_p_values, default_permutations, step_down_max_t, step_down_panels
from fp2.stats.disparities import disparity_panel


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("holm", "holm"), ("bh", "fdr_bh"), ("by", "fdr_by"), ("bonferroni", "bonferroni")],
)
def test_corrections_equal_statsmodels_and_skip_missing(ours, theirs):
    rng = np.random.default_rng(7)
    p = np.round(rng.random(40) ** 3, 3)
    given = [None, *p[:20], float("nan"), *p[20:]]
    expected = multipletests(p, method=theirs)[1]
    got = adjust_p_values(given, ours)
    assert got[0] is None
    assert got[21] is None
    assert [x for x in got if x is not None] == pytest.approx(expected.tolist())
    assert adjust_p_values(list(p), "none") == pytest.approx(p.tolist())


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
    options = {"n_permutations": 499, "n_bootstrap": 0, "seed": 2, "value_ranges": (-9, 9)}
    panels = [disparity_panel(values, cut, subjects, images=images, **options) for cut in (groups, other)]
    adjusted = step_down_panels(panels)
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
