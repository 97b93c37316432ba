"""The rule of the Fingerprint² page, against SciPy on plain lists and Cohen's d by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fp2.methods.page_rule.rule import cohens_d, page_rule


def test_a_small_table_by_hand() -> None:
    """Means .2, .5, .1; variances (ddof 0) of the extreme groups .06/9 * ... worked out below."""
    values = [0.1, 0.2, 0.3, 0.4, 0.6, 0.0, 0.2]
    groups = ["a", "a", "a", "b", "b", "c", "c"]
    found = page_rule(values, groups)
    assert found.disparity == pytest.approx(0.5 - 0.1)
    assert (found.worst, found.best) == ("c", "b")
    # var b = ((.4 - .5)^2 + (.6 - .5)^2) / 2 = .01 and var c = .01: pooled SD .1, d = .4 / .1
    assert found.d == pytest.approx(4.0)
    # ranks: .0 1 | .1 2 | .2 3.5 (a, c) | .3 5 | .4 6 | .6 7; sums a 10.5, b 13, c 4.5
    h = 12 / (7 * 8) * (10.5**2 / 3 + 13**2 / 2 + 4.5**2 / 2) - 3 * 8
    h /= 1 - (2**3 - 2) / (7**3 - 7)  # one pair of ties
    assert found.h == pytest.approx(h)
    assert found.p_value == pytest.approx(math.exp(-h / 2))  # chi-squared with two degrees of freedom


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.sampled_from("abc")), min_size=2, max_size=60).filter(
        lambda rows: len({g for _, g in rows}) > 1 and len({v for v, _ in rows}) > 1
    )
)
def test_as_scipy_and_numpy_compute_it(rows: list[tuple[int, str]]) -> None:
    values, groups = [value / 20 for value, _ in rows], [group for _, group in rows]
    samples = {name: [v for v, g in zip(values, groups, strict=True) if g == name] for name in sorted(set(groups))}
    means = {name: float(np.mean(own)) for name, own in samples.items()}
    found = page_rule(values, groups)
    h, p = stats.kruskal(*samples.values())
    assert (found.h, found.p_value) == pytest.approx((h, p), nan_ok=True)
    assert found.disparity == pytest.approx(max(means.values()) - min(means.values()))
    assert means[found.best] == max(means.values())
    assert means[found.worst] == min(means.values())
    spread = math.sqrt((np.std(samples[found.best]) ** 2 + np.std(samples[found.worst]) ** 2) / 2)
    assert found.d == pytest.approx(found.disparity / spread if spread else 0.0)


def test_what_has_no_test_or_no_spread() -> None:
    assert page_rule([0.5, 0.5, 0.5], ["a", "b", "b"]) == page_rule([0.5, 0.5], ["a", "b"])
    constant, alone = page_rule([0.5, 0.5], ["a", "b"]), page_rule([0.1, 0.9], ["a", "a"])
    assert (constant.disparity, constant.h, constant.p_value, constant.d) == (0.0, None, 1.0, 0.0)
    assert (alone.h, alone.p_value, alone.worst, alone.best) == (None, 1.0, "a", "a")
    assert cohens_d([1.0, 1.0], [0.0]) == 0.0
    with pytest.raises(ValueError, match="no answer"):
        page_rule([], [])
