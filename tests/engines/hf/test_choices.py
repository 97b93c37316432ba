"""Options: every order is shown, probabilities are averaged in the options' own order, and a bias of place cancels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from fp2.engines.hf.likelihoods import choice_numbers, log_sum, option_tokens, orders_of, text_in_order
from fp2.tables import Question

QUESTION = Question("q", "work", "Which?\n{options}\nAnswer:", kind="choice", choices=("cook", "nurse", "judge"))


def test_each_option_stands_once_in_each_place() -> None:
    orders = np.array(orders_of(QUESTION, "rotations"))
    assert sorted(map(tuple, orders)) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert len(set(orders_of(QUESTION, "all"))) == 6
    assert orders_of(QUESTION, "given") == ((0, 1, 2),)
    plain = Question("q", "work", "Cook, nurse or judge?", kind="choice", choices=QUESTION.choices)
    assert orders_of(plain, "all") == ((0, 1, 2),)
    assert text_in_order(QUESTION, (2, 0, 1)) == "Which?\n- judge\n- cook\n- nurse\nAnswer:"


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.floats(-40, 0), min_size=n, max_size=n), min_size=1)))
def test_likelihoods_are_normalised_over_the_options_and_averaged_over_the_orders(rows: list[list[float]]) -> None:
    found = choice_numbers(np.array(rows))
    p = scipy.special.softmax(np.array(rows), axis=1)
    assert found["p"] == pytest.approx(p.mean(axis=0), abs=1e-12)
    assert sum(found["p"]) == pytest.approx(1)
    assert found["log_likelihood"] == pytest.approx(np.mean(rows, axis=0))
    assert found["mass"] == pytest.approx(np.exp(rows).sum(axis=1).mean())
    assert found["order_range"] == pytest.approx(np.ptp(p, axis=0).max(), abs=1e-12)


def test_a_model_that_takes_the_first_in_the_list_prefers_nothing() -> None:
    orders = orders_of(QUESTION, "all")
    likely = np.array([[0.0 if place == order[0] else -3.0 for place in range(3)] for order in orders])
    found = choice_numbers(likely)
    assert found["p"] == pytest.approx([1 / 3] * 3)
    assert found["order_range"] > 0.8


def test_an_option_is_written_with_and_without_a_blank_once_each() -> None:
    class Letters:
        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, Any]:
            return {"input_ids": [ord(letter) for letter in text]}

    class Blind(Letters):
        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, Any]:
            return super().__call__(text.strip(), add_special_tokens)

    assert option_tokens(Letters(), "ab") == ((97, 98), (32, 97, 98))
    assert option_tokens(Blind(), "ab") == ((97, 98),)
    assert log_sum([np.log(0.25), np.log(0.5)]) == pytest.approx(np.log(0.75))
