"""The draw of answers and its bound, and when two answers agree."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from fp2.methods.audit.agreement import (
    TOLERANCES,
    Evidence,
    first_difference,
    probabilities_agree,
    texts_agree,
    tolerance_of,
)
from fp2.methods.audit.sample import bound, draw

PAYLOAD = hashlib.sha256(b"payload").hexdigest()


def test_the_draw_is_the_documented_one() -> None:
    seed = hashlib.sha256(bytes.fromhex(PAYLOAD) + b"nonce").digest()
    numbers = [int.from_bytes(hashlib.sha256(seed + i.to_bytes(8, "big")).digest(), "big") % 1000 for i in range(40)]
    assert draw(PAYLOAD, "nonce", 1000, 20) == list(dict.fromkeys(numbers))[:20]
    assert sorted(draw(PAYLOAD, "nonce", 7, 20)) == list(range(7))


def test_nothing_of_299_bounds_the_altered_ones_by_one_percent() -> None:
    many = bound(0, 299, 10**6)
    assert 0.0099 < many.share <= 0.01
    assert many.altered / many.total == pytest.approx(many.share, rel=0.01)
    assert bound(0, 500, 500).altered == 0
    assert bound(3, 3, 3).share == 1.0


@pytest.mark.parametrize(("differ", "sampled", "total"), [(0, 50, 400), (3, 120, 1000), (40, 60, 80)])
def test_bounds_equal_independent_ones(differ: int, sampled: int, total: int) -> None:
    result = bound(differ, sampled, total)
    assert result.share == pytest.approx(binomtest(differ, sampled).proportion_ci(0.90, "exact").high)
    accepted = [m for m in range(total + 1) if hypergeom.cdf(differ, total, m, sampled) > 0.05]
    assert result.altered == max(accepted)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_forgeries_are_found_at_the_stated_rate(share: float) -> None:
    n, k, audits = 2000, 150, 1000
    random = np.random.default_rng(0)
    found = 0
    for number in range(audits):
        altered = set(random.choice(n, int(share * n), replace=False).tolist())
        found += bool(altered & set(draw(PAYLOAD, str(number), n, k)))
    expected = 1 - hypergeom.pmf(0, n, int(share * n), k)
    assert abs(found - audits * expected) < 4 * math.sqrt(audits * expected * (1 - expected)) + 1


def test_probabilities_agree_within_the_coarser_dtype() -> None:
    float32, bfloat16 = {"dtype": "float32", "quantisation": None}, {"dtype": "bfloat16"}
    assert tolerance_of(float32, float32) == TOLERANCES["float32"]
    assert tolerance_of(float32, bfloat16) == tolerance_of({"dtype": None}) == TOLERANCES["bfloat16"]
    assert tolerance_of({"dtype": "float32", "quantisation": "int8"}) == TOLERANCES["bfloat16"]
    exact = TOLERANCES["float32"]
    assert probabilities_agree(0.5, 0.5005, exact)
    assert not probabilities_agree(0.5, 0.51, exact)
    assert not probabilities_agree([0.5, 0.5], [0.5], exact)
    assert not probabilities_agree([0.5, 0.5], [0.5, 0.4], exact)


@pytest.mark.parametrize(
    ("stated", "now", "expected"),
    [
        ("a nurse in town", "a nurse by trade", ("a nurse in", "a nurse by")),
        ("works in town", "works into town", ("works in town", "works into town")),
        ("a nurse", "a nurse in town", None),
    ],
)
def test_where_texts_first_differ(stated: str, now: str, expected: Any) -> None:
    assert first_difference(stated, now) == expected


def test_texts_agree_at_a_near_tie_only() -> None:
    tolerance = TOLERANCES["bfloat16"]
    assert texts_agree("a", "b", Evidence(tie=0.1, rest=0.2), tolerance)
    assert not texts_agree("a", "b", Evidence(tie=2.0, rest=0.0), tolerance)
    assert not texts_agree("a", "b", Evidence(tie=0.1, rest=9.0), tolerance)
    assert texts_agree("a kind nurse in town", "a kind nurse in the town", None, tolerance)
    assert not texts_agree("a kind nurse", "somebody rich", None, tolerance)
