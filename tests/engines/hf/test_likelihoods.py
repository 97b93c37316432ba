"""Answers read from next-token probabilities: yes/no questions and choices, against sums over the whole vocabulary."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import epsilons

from fp2.engines.hf.likelihoods import (
    YesNoForms,
    choice_numbers,
    likelier,
    log_sum,
    option_tokens,
    orders_of,
    read_yes_no,
    text_in_order,
    yes_no_forms,
)
from fp2.errors import Fp2Error
from fp2.tables import Question

FORMS = YesNoForms(yes=(1, 2), no=(3, 4, 5), yes_first=1, no_first=3, spellings={})


class Vocabulary:
    """A tokenizer of whole words: what the reader of forms asks of one."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens

    def get_vocab(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def decode(self, ids: list[int]) -> str:
        return "".join(self.tokens[index] for index in ids).replace("\u0120", " ").replace("\u2581", " ")

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.tokens[index] for index in ids]

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, Any]:
        return {"input_ids": [self.tokens.index(text)] if text in self.tokens else [self.tokens.index(text[0]), 0]}


@given(st.lists(st.floats(-30, 30), min_size=8, max_size=8))
def test_the_numbers_are_those_of_a_softmax_over_the_whole_vocabulary(values: list[float]) -> None:
    (numbers,) = read_yes_no(torch.tensor([values], dtype=torch.float32), FORMS)
    p = scipy.special.softmax(np.array(values, dtype=np.float32).astype(np.float64))
    assert numbers["p_yes"] == pytest.approx(p[1] + p[2], rel=1e-4, abs=1e-12)
    assert numbers["p_no"] == pytest.approx(p[3:6].sum(), rel=1e-4, abs=1e-12)
    assert numbers["p_yes_first_token"] == pytest.approx(p[1], rel=1e-4, abs=1e-12)
    assert numbers["p_no_first_token"] == pytest.approx(p[3], rel=1e-4, abs=1e-12)
    assert numbers["mass"] == pytest.approx(p[1:6].sum(), rel=1e-4, abs=1e-12)
    assert numbers["p_yes_norm"] == pytest.approx(p[1:3].sum() / p[1:6].sum(), rel=1e-4)
    expected = scipy.special.logsumexp(values[1:3]) - scipy.special.logsumexp(values[3:6])
    assert numbers["logit_difference"] == pytest.approx(expected, abs=1e-4)
    assert likelier(numbers) == ("Yes" if numbers["logit_difference"] >= 0 else "No")


def test_one_logit_of_yes_is_worth_what_it_should() -> None:
    """Only Yes and No, one logit apart: P(Yes) is the logistic function of 1, and the difference is +1."""
    logits = torch.full((1, 6), -torch.inf)
    logits[0, 1], logits[0, 3] = 1.0, 0.0
    (numbers,) = read_yes_no(logits, FORMS)
    assert numbers["p_yes"] == pytest.approx(1 / (1 + math.exp(-1)), abs=epsilons(16))
    assert numbers["logit_difference"] == pytest.approx(1.0, abs=epsilons(16))
    assert numbers["mass"] == pytest.approx(1.0, abs=epsilons(16))
    assert likelier(numbers) == "Yes"


def test_a_low_precision_row_is_read_in_float32() -> None:
    """A softmax in bfloat16 would round P(Yes) to steps of 0.004."""
    logits = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    (numbers,) = read_yes_no(logits, FORMS)
    p = scipy.special.softmax(logits[0].double().numpy())
    assert numbers["p_yes_first_token"] == pytest.approx(p[1], rel=1e-5)


def test_every_spelling_of_yes_and_no_counts_and_nothing_else() -> None:
    words = (
        "Yes",
        "\u0120Yes",
        "yes",
        "\u2581YES",
        "\u010ano",
        "No",
        "\u0120NO",
        "nope",
        "yesterday",
        "Y",
        "n",
        "\u0120",
    )
    forms = yes_no_forms(Vocabulary(*words))
    assert forms.yes == (0, 1, 2, 3)
    assert forms.no == (5, 6)
    assert (forms.yes_first, forms.no_first) == (0, 5)
    assert forms.spellings["yes"] == ("Yes", "\u0120Yes", "yes", "\u2581YES")


def test_a_first_token_that_is_not_the_whole_word_is_kept_as_the_published_number() -> None:
    forms = yes_no_forms(Vocabulary("", "yes", "no", "Y", "N"))
    assert (forms.yes, forms.no) == ((1,), (2,))
    assert (forms.yes_first, forms.no_first) == (3, 4)


@pytest.mark.parametrize(("words", "lacks"), [(("no", "maybe"), "yes"), (("Yes", "maybe"), "no")])
def test_a_vocabulary_without_them_is_refused(words: tuple[str, ...], lacks: str) -> None:
    with pytest.raises(Fp2Error, match=f"no token of this model's vocabulary reads '{lacks}'"):
        yes_no_forms(Vocabulary(*words))


QUESTION = Question("q", "work", "Which?\n{options}\nAnswer:", kind="choice", choices=("cook", "nurse", "judge"))


def test_each_option_stands_once_in_each_place() -> None:
    orders = np.array(orders_of(QUESTION, "rotations"))
    assert sorted(map(tuple, orders)) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert len(set(orders_of(QUESTION, "all"))) == 6
    assert orders_of(QUESTION, "given") == ((0, 1, 2),)
    asked = [replace(QUESTION, text=f"{number}: {QUESTION.text}") for number in range(60)]
    drawn = Counter(order for question in asked for order in orders_of(question, 42))
    assert len(drawn) == 6
    assert max(drawn.values()) < 25
    assert orders_of(QUESTION, 42) == orders_of(QUESTION, 42) != orders_of(QUESTION, 7)
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
