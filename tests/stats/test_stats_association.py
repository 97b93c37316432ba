"""Association between attributes against SciPy, and intersections of attributes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association

from fp2.stats.association import balance_table, contingency, cramers_v
from fp2.stats.intersections import beyond_additive, intersection_table


def test_intersections_count_subjects_and_list_empty_combinations():
    attributes = {"gender": ["f", "f", "m", "m", "m"], "age": ["old", "old", "old", "old", "young"]}
    groups, table = intersection_table(attributes, ["p", "p", "q", "r", "r"], min_subjects=2)
    assert groups == ["f × old", "f × old", "m × old", "m × old", "m × young"]
    assert [(row.group, row.n_subjects, row.n_images, row.eligible) for row in table] == [
        ("m × old", 2, 2, True),
        ("f × old", 1, 2, False),
        ("m × young", 1, 1, False),
        ("f × young", 0, 0, False),
    ]
    with pytest.raises(ValueError):
        intersection_table({}, ["p"])


def test_beyond_additive_is_zero_for_sums_and_finds_what_is_left():
    rng = np.random.default_rng(12)
    n = 400
    first, second = rng.choice(["f", "m"], n), rng.choice(["x", "y", "z"], n)
    y = 0.1 * (first == "f") + 0.2 * (second == "z")
    attributes = {"a": first, "b": second}
    assert list(beyond_additive(y, attributes, range(n)).values()) == pytest.approx([0.0] * 6, abs=1e-12)
    y = y + 0.3 * ((first == "f") & (second == "z"))
    assert beyond_additive(y, attributes, range(n))["f × z"] > 0.05


def test_cramers_v_equals_scipy_and_its_correction_removes_chance():
    rng = np.random.default_rng(13)
    table = rng.integers(1, 40, (4, 3))
    assert cramers_v(table, corrected=False) == pytest.approx(association(table, method="cramer"))
    independent = [np.histogram2d(*rng.integers(0, 5, (2, 100)), bins=5)[0] for _ in range(200)]
    assert np.mean([cramers_v(t, corrected=False) for t in independent]) > 0.18
    assert np.mean([cramers_v(t) for t in independent]) < 0.07
    assert cramers_v(np.diag([30, 30, 30])) == pytest.approx(1.0)
    assert cramers_v([[3, 4], [0, 0]]) is None
    with pytest.raises(ValueError):
        cramers_v([[-1, 2], [3, 4]])


def test_balance_counts_subjects_not_images_and_divides_several_labels():
    rows, columns, table = contingency(["a", "a", {"a", "b"}, None], ["x", "x", "y", "y"], ["p", "p", "q", "r"])
    assert (rows, columns) == (("a", "b"), ("x", "y"))
    assert table.tolist() == [[1.0, 0.5], [0.0, 0.5]]
    rng = np.random.default_rng(14)
    region = rng.choice(["n", "s", "w"], 300)
    skin = np.where(rng.random(300) < 0.8, region, "n")
    result = balance_table({"region": region, "age": rng.choice(["1", "2"], 300), "skin": skin}, range(300))
    assert (result[0].first, result[0].second, result[0].confounded) == ("region", "skin", True)
    assert not any(r.confounded for r in result[1:])
    assert result[0].n_subjects == 300
    repeated = balance_table({"region": np.repeat(region, 5), "skin": np.repeat(skin, 5)}, np.repeat(range(300), 5))
    assert repeated[0].v_corrected == pytest.approx(result[0].v_corrected)
