"""The draw of answers and its bound, and when two answers agree."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from fp2.methods.audit.agreement import (
    FALSE_ALARMS,
    REPEATS,
    TOLERANCES,
    Evidence,
    OddOnes,
    first_difference,
    is_odd_one_out,
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


@pytest.mark.parametrize(("differ", "power"), [(0, 0.5), (2, 0.8)])
def test_the_bound_holds_where_altered_answers_do_not_always_differ(differ: int, power: float) -> None:
    """With as many altered answers as it says, so few differ in 5 % of draws, by simulation."""
    result = bound(differ, 120, 900, power)
    random = np.random.default_rng(1)
    seen = random.binomial(random.hypergeometric(result.altered, 900 - result.altered, 120, 40_000), power)
    assert (seen <= differ).mean() == pytest.approx(0.05, abs=0.006)
    assert result.altered > 1.2 * bound(differ, 120, 900).altered
    assert result.share == pytest.approx(bound(differ, 120, 900).share / power)
    if not differ:
        assert (1 - result.share * power) ** 120 == pytest.approx(0.05)


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
    assert texts_agree(Evidence(tie=0.1, rest=0.2), tolerance)
    assert not texts_agree(Evidence(tie=2.0, rest=0.0), tolerance)
    assert not texts_agree(Evidence(tie=0.1, rest=9.0), tolerance)


@pytest.mark.thorough
def test_the_odd_one_out_is_the_stated_one_as_often_as_any_other() -> None:
    """Of exchangeable answers with ties; in 1,000 honest audits of 60 answers at most a few are said to differ."""
    words = ("a kind nurse", "a kind doctor", "a tall nurse", "somebody rich and famous", 0.3, 0.31, [0.2, 0.8])
    random = np.random.default_rng(0)
    wrong = stated = cases = 0
    for _ in range(1000):
        kind = slice(0, 4) if random.random() < 0.5 else slice(4, 6)
        drawn = random.choice(np.array(words[kind], dtype=object), (60, REPEATS + 1))
        odd = [is_odd_one_out(each, again, True, TOLERANCES["float32"]) for each, *again in drawn.tolist()]
        ones = OddOnes(len(odd) - odd.count(None), odd.count(True))
        stated, cases, wrong = stated + ones.stated, cases + ones.cases, wrong + (ones.p_value < FALSE_ALARMS)
    assert stated / cases == pytest.approx(1 / (REPEATS + 1), abs=4 * math.sqrt(0.16 / cases))
    assert wrong <= 5


def test_an_answer_unlike_all_others_is_the_odd_one_out() -> None:
    exact = TOLERANCES["float32"]
    for sampled in (True, False):
        assert is_odd_one_out("somebody rich", ["a kind nurse"] * 4, sampled, exact)
        assert is_odd_one_out(0.9, [0.1, 0.12, 0.1, 0.11], sampled, exact)
        others = ["a kind nurse", "a kind nurse", "a nurse", "somebody rich"]
        assert is_odd_one_out("a kind nurse", others, sampled, exact) is False
        assert is_odd_one_out("a", ["a"] * 4, sampled, exact) is None
        assert is_odd_one_out(0.5005, [0.5] * 4, sampled, exact) is None
    assert is_odd_one_out("a kind nurse in town", ["a kind nurse who helps"] * 4, False, exact) is None
    assert OddOnes(6, 5).p_value < 0.002 < OddOnes(6, 4).p_value
