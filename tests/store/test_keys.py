"""The response key: every single ingredient changes it, and nothing else does."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_keys import response_key

from fp2.store.response_keys import ResponseKeys, response_set
from fp2.tables import Decoding, Question

ENGINE = {
    "engine": "hf",
    "family": {"transformers": "5.23", "torch": "2.13"},
    "model": "org/name",
    "revision": "abc",
    "weights": None,
    "dtype": "float32",
    "quantisation": None,
    "processor": {"class": "LlavaProcessor", "backend": "pil", "digest": "d"},
    "chat_template": "t",
}
BASE: dict[str, Any] = {
    "engine": ENGINE,
    "method": {"name": "generate/1", "prompt": "chat"},
    "question": Question("q", "work", "What is their job?"),
    "pixel_sha256": "0" * 64,
    "variant": "original",
    "variant_params": {"radius": 3},
    "decoding": Decoding(),
    "task_identity": {"subject": "s"},
}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict):
        return [leaf for key, child in value.items() for leaf in _leaves(child, (*path, key))]
    return [path]


@pytest.mark.parametrize("path", _leaves(ENGINE), ids="/".join)
def test_each_part_of_the_engines_identity_counts(path: tuple[str, ...]) -> None:
    changed = copy.deepcopy(ENGINE)
    spot: Any = changed
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = "other"
    assert response_key(**{**BASE, "engine": changed}) != response_key(**BASE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("question", Question("q", "work", "What is their job")),
        ("question", Question("q", "work", "What is their job?", kind="number")),
        ("pixel_sha256", "1" * 64),
        ("variant", "blurred"),
        ("variant_params", {"radius": 4}),
        ("variant_params", {}),
        ("decoding", Decoding(max_new_tokens=65)),
        ("decoding", Decoding(temperature=0.1)),
        ("decoding", Decoding(seed=1)),
        ("task_identity", {"subject": "t"}),
        ("method", {"name": "generate/2", "prompt": "chat"}),
        ("method", {"name": "generate/1", "prompt": "raw"}),
        ("question", Question("q", "work", "What is their job?", sample=1)),
    ],
)
def test_each_other_ingredient_counts(field: str, value: Any) -> None:
    assert response_key(**{**BASE, field: value}) != response_key(**BASE)


@pytest.mark.parametrize(
    ("kind", "decoding", "counts"),
    [
        ("yes_no", Decoding(max_new_tokens=65, temperature=0.5, seed=1, choice_orders="all"), False),
        ("choice", Decoding(max_new_tokens=65, temperature=0.5, seed=1), False),
        ("choice", Decoding(choice_orders="all"), True),
        ("choice", Decoding(choice_orders=42), True),
        ("text", Decoding(choice_orders="all"), False),
        ("text", Decoding(samples=5), False),
    ],
)
def test_decoding_counts_where_it_can_change_the_answer(kind: Any, decoding: Decoding, counts: bool) -> None:
    base = {**BASE, "question": replace(BASE["question"], kind=kind, choices=("a", "b"))}
    assert (response_key(**{**base, "decoding": decoding}) != response_key(**base)) == counts
    swapped = replace(base["question"], choices=("b", "a"))
    assert response_key(**{**base, "question": swapped}) != response_key(**base)


@pytest.mark.parametrize("field", ["question_id", "probe", "template", "trait"])
def test_our_own_names_for_a_question_do_not_count(field: str) -> None:
    renamed = replace(BASE["question"], **{field: "renamed"})
    assert response_key(**{**BASE, "question": renamed}) == response_key(**BASE)


def test_key_order_does_not_count() -> None:
    assert response_key(**{**BASE, "engine": dict(reversed(ENGINE.items()))}) == response_key(**BASE)


def test_the_key_is_stable_across_versions_of_this_program() -> None:
    """A changed digest would silently orphan every stored answer: raise KEY_SCHEMA on purpose instead."""
    assert response_key(**BASE) == "31e53235433cc99a515084e2ca4264f5d877b224c37d52afb41b9fae1faa977c"


@given(st.lists(st.text(alphabet="abcdef0123456789", min_size=4, max_size=8), min_size=1), st.randoms())
def test_the_response_set_is_a_set(keys: list[str], random: Any) -> None:
    shuffled = [*keys, keys[0]]
    random.shuffle(shuffled)
    assert response_set(shuffled) == response_set(keys)
    assert response_set([*keys, "another"]) != response_set(keys)


@given(
    text=st.text(max_size=20),
    pixels=st.text("0123456789abcdef", max_size=64),
    params=st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    ),
    kind=st.sampled_from(["text", "yes_no", "choice", "number"]),
)
def test_keys_of_many_stimuli_are_those_of_each(text: str, pixels: str, params: dict[str, Any], kind: Any) -> None:
    questions = [Question("a", "p", text, kind, choices=("x", text)), Question("b", "p", 'quo"te, \u2028', sample=3)]
    methods: list[dict[str, Any]] = [{"name": text, "z": [1, {"b": 2, "a": None}]}, {}]
    keys = ResponseKeys(ENGINE, questions, methods, Decoding(seed=3)).of(pixels, "blurred", params, params)
    assert [keys[:32].hex(), keys[32:].hex()] == [
        response_key(
            engine=ENGINE,
            method=method,
            question=question,
            pixel_sha256=pixels,
            variant="blurred",
            variant_params=params,
            decoding=Decoding(seed=3),
            task_identity=params,
        )
        for question, method in zip(questions, methods, strict=True)
    ]
