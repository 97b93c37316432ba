"""Association between attributes against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association

from fp2.stats.association import balance_table, contingency, cramers_v


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
