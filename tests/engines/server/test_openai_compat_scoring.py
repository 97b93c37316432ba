"""P(Yes) and choices from a server: every scoring method, which one is taken, and that numbers depend on the image."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from fake_server import (
    FakeServer,
    Reply,
    Seen,
    biased,
    completion,
    darkness,
    decisions,
    named_decisions,
    serving,
    systemone,
    text_of,
    tokens,
    words,
)
from reference_keys import response_key

from fp2.data.pixels import open_rgb
from fp2.engines.build import build_engine
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.engines.server.replies import RefusedError
from fp2.engines.server.scoring import TopLogprobs
from fp2.errors import Fp2Error
from fp2.tables import BLIND, Answer, Decoding, ImageTask, Question

pytestmark = pytest.mark.package(name="server_scoring")

CHAT, SYSTEMONE, DECISIONS = "/v1/chat/completions", "/v1/systemone", "/v1/decisions"
DARK = Question("dark", "p", "Is this picture dark? Answer Yes or No.", "yes_no")
MOOD = Question("mood", "p", "Which is it?\n{options}", "choice", choices=("dark", "bright", "neither"))
IMAGES = partial(systemone, field_name="images", mass=True)
URLS = partial(systemone, field_name="urls", mass=True)
BLIND_TO_PICTURES = partial(systemone, field_name="none")

ROUTES: dict[str, dict[str, Any]] = {
    "systemone assets": {SYSTEMONE: systemone},
    "systemone images": {SYSTEMONE: IMAGES},
    "systemone urls": {SYSTEMONE: URLS},
    "decisions parts": {DECISIONS: decisions},
    "decisions options": {DECISIONS: named_decisions},
    "logprobs": {CHAT: tokens},
}
MASSES = {
    "systemone assets": None, "systemone images": 0.5, "systemone urls": 0.5, "decisions parts": None,
    "decisions options": 0.25,
}  # fmt: skip
METHODS = {
    "systemone assets": {"name": "systemone/1", "form": "assets"},
    "systemone images": {"name": "systemone/1", "form": "images"},
    "systemone urls": {"name": "systemone/1", "form": "urls"},
    "decisions parts": {"name": "decisions/1", "form": "parts"},
    "decisions options": {"name": "decisions/1", "form": "options"},
    "logprobs": {"name": "top_logprobs/2", "top": 20},
}


def engine(server: FakeServer, **options: Any) -> OpenAICompatEngine:
    decoding = options.pop("decoding", Decoding())
    held = {name: options.pop(name) for name in ("connection", "verify_files") if name in options}
    return OpenAICompatEngine(
        ServerSpec(server.url, "m"), decoding, ServerOptions(**{"attempts": 1, **options}), **held
    )


def ask(
    server: FakeServer, tasks: list[ImageTask], *questions: Question, **options: Any
) -> dict[tuple[str, str], Answer]:
    asked = [replace(task, questions=questions) for task in tasks]
    found = [answer for batch in engine(server, **options).answer(asked) for answer in batch]
    assert not [answer.error for answer in found if answer.error]
    return {(answer.image_id, answer.question_id): answer for answer in found}


def dark_of(task: ImageTask) -> float:
    return darkness(None if task.blind else open_rgb(task.path))


@pytest.mark.parametrize("name", [name for name in ROUTES if name != "logprobs"])
def test_typed_decisions_give_what_the_server_says(name: str, tasks: list[ImageTask]) -> None:
    asked = [*tasks[:2], replace(tasks[2], variant=BLIND)]
    with serving(ROUTES[name]) as server:
        answers = ask(server, asked, DARK, MOOD)
        assert engine(server).method(DARK) == METHODS[name]
        assert engine(server).method(MOOD, blind=True) == {**METHODS[name], "blind": "no picture"}
    for task in asked:
        p, mass = dark_of(task), MASSES[name]
        numbers = dict(answers[task.image_id, "dark"].numbers or {})
        assert numbers.pop("p_yes_norm") == pytest.approx(p)
        assert numbers.pop("logit_difference") == pytest.approx(math.log(p / (1 - p)))
        assert numbers.pop("mass") == mass
        assert numbers.pop("p_yes") == (None if mass is None else pytest.approx(p * mass))
        assert numbers.pop("p_no") == (None if mass is None else pytest.approx((1 - p) * mass))
        assert numbers == {"p_yes_first_token": None, "p_no_first_token": None}
        assert answers[task.image_id, "dark"].text == ("Yes" if p >= 0.5 else "No")
        shown = [biased([MOOD.choices[(i + k) % 3] for i in range(3)], p) for k in range(3)]
        expected = [math.fsum(spread[option] for spread in shown) / 3 for option in MOOD.choices]
        spans = [max(s[o] for s in shown) - min(s[o] for s in shown) for o in MOOD.choices]
        numbers = dict(answers[task.image_id, "mood"].numbers or {})
        assert numbers["p"] == pytest.approx(expected)
        assert numbers["order_range"] == pytest.approx(max(spans))
        assert (numbers["mass"], numbers["log_likelihood"]) == (mass, None)
        assert answers[task.image_id, "mood"].text == "dark"


def test_first_tokens_are_summed_over_spellings_and_letters(tasks: list[ImageTask]) -> None:
    with serving(ROUTES["logprobs"]) as server:
        answers = ask(server, tasks[:2], DARK, MOOD)
        assert engine(server).method(DARK) == METHODS["logprobs"]
    for task in tasks[:2]:
        p = dark_of(task)
        numbers = dict(answers[task.image_id, "dark"].numbers or {})
        assert numbers["p_yes"] == pytest.approx(0.8 * p)
        assert numbers["p_no"] == pytest.approx(0.8 * (1 - p))
        assert numbers["p_yes_first_token"] == pytest.approx(0.6 * p)
        assert numbers["p_yes_norm"] == pytest.approx(p)
        assert numbers["mass"] == pytest.approx(0.8)
        assert numbers["logit_difference"] == pytest.approx(math.log(p / (1 - p)))
        assert numbers["unlisted_max"] == pytest.approx(min(0.1, 0.6 * p, 0.2 * p, 0.8 * (1 - p)), abs=1e-9)
        numbers = dict(answers[task.image_id, "mood"].numbers or {})
        whole = 0.5 + 0.4 * p
        # each option stands once behind A, once behind B and once behind C, which is not listed
        assert numbers["p"] == pytest.approx([1 / 3] * 3)
        assert numbers["mass"] == pytest.approx(whole)
        assert numbers["order_range"] == pytest.approx(0.5 / whole)
        assert numbers["log_likelihood"] == [None] * 3
        assert numbers["unlisted_max"] == pytest.approx(min(0.05, 0.1 * p))


def test_all_orders_and_the_given_one(tasks: list[ImageTask]) -> None:
    five = replace(MOOD, choices=("dark", "a", "b", "c", "d"))
    with serving(ROUTES["systemone assets"]) as server:
        given = ask(server, tasks[:1], five, decoding=Decoding(choice_orders="given"))[tasks[0].image_id, "mood"]
        count = len(server.asked(SYSTEMONE))
        every = ask(server, tasks[:1], five, decoding=Decoding(choice_orders="all"))[tasks[0].image_id, "mood"]
        sent = [seen.body["questions"] for seen in server.asked(SYSTEMONE)][count:]
    assert (given.numbers or {})["p"] == pytest.approx(list(biased(list(five.choices), dark_of(tasks[0])).values()))
    assert (given.numbers or {})["order_range"] == 0
    sizes = [len(questions) for questions in sent if len(questions) > 1]
    assert sizes == [64, 56], "5! orders, in as many requests as the endpoint's limit wants"
    assert (
        len({tuple(q["criteria"]) for questions in sent for q in questions.values() if len(q["criteria"]) == 5}) == 120
    )
    assert (every.numbers or {})["p"][1:] == pytest.approx([(every.numbers or {})["p"][1]] * 4), "no place is favoured"


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ({SYSTEMONE: systemone, DECISIONS: decisions, CHAT: tokens}, METHODS["systemone assets"]),
        ({SYSTEMONE: IMAGES, DECISIONS: decisions, CHAT: tokens}, METHODS["systemone images"]),
        ({SYSTEMONE: BLIND_TO_PICTURES, DECISIONS: named_decisions, CHAT: tokens}, METHODS["decisions options"]),
        ({SYSTEMONE: BLIND_TO_PICTURES, CHAT: tokens}, METHODS["logprobs"]),
    ],
    ids=["the first", "another form", "a blind one is passed over", "what is left"],
)
def test_the_first_method_that_depends_on_the_image_is_taken(routes: dict[str, Any], expected: dict[str, Any]) -> None:
    with serving(routes) as server:
        assert engine(server).method(DARK) == expected
        assert engine(server).method(MOOD) == expected


def test_a_method_can_be_chosen_and_each_has_its_own_key() -> None:
    with serving({SYSTEMONE: systemone, DECISIONS: decisions, CHAT: tokens}) as server:
        found = {name: engine(server, scoring=name) for name in ("auto", "systemone", "decisions", "logprobs")}
        keys = {
            name: response_key(
                engine=asked.identity(),
                method=asked.method(DARK),
                question=DARK,
                pixel_sha256="0",
                variant="original",
                variant_params={},
                decoding=Decoding(),
                task_identity={},
            )
            for name, asked in found.items()
        }
    assert keys["auto"] == keys["systemone"]
    assert len(set(keys.values())) == 3
    model = {"base_url": "http://localhost/v1", "id": "m", "engine": "openai_compat"}
    for option, value, says in (
        ("scoring", "logprob", "'logprob' is not .*logprobs or sampled"),
        ("concurrency", 0, "0 is not at least 1"),
        ("timeout", 0, "0 is not more than 0"),
        ("attempts", 0, "0 is not at least 1"),
    ):
        with pytest.raises(Fp2Error, match=rf"{says} .*engine\.{option}"):
            build_engine(model, {"name": "openai_compat", option: value}, Decoding())


def test_a_list_of_twenty_that_is_refused_becomes_one_of_five() -> None:
    def few(seen: Seen, before: int) -> Reply:
        if seen.body.get("top_logprobs", 0) > 5:
            return Reply({"error": {"message": "top_logprobs must be at most 5"}}, 400)
        return tokens(seen, before)

    with serving({CHAT: few}) as server:
        assert engine(server).method(DARK) == {"name": "top_logprobs/2", "top": 5}


def test_a_server_without_probabilities_is_refused_in_one_line() -> None:
    with serving({CHAT: words, SYSTEMONE: BLIND_TO_PICTURES}) as server, pytest.raises(Fp2Error) as caught:
        engine(server).method(DARK)
    line = str(caught.value)
    assert "\n" not in line
    assert "the server returns no top_logprobs" in line
    assert "do not depend on the image" in line
    assert "/decisions: the server refused (404)" in line
    expected = r"asking for probabilities \(/systemone\): the server failed"
    down = {SYSTEMONE: lambda seen, before: Reply("down", 500)}
    with serving(down) as server, pytest.raises(Fp2Error, match=expected):
        engine(server).method(DARK)


def test_the_method_is_found_once() -> None:
    held = sqlite3.connect(":memory:", isolation_level=None)
    with serving({SYSTEMONE: systemone}) as server:
        assert engine(server, connection=held).method(DARK) == METHODS["systemone assets"]
        tried = len(server.asked(SYSTEMONE))
        assert tried == 3
        assert engine(server, connection=held).method(DARK) == METHODS["systemone assets"]
        assert len(server.asked(SYSTEMONE)) == tried
        engine(server, connection=held, verify_files=True).method(DARK)
        assert len(server.asked(SYSTEMONE)) == 2 * tried
        server.routes["/v1/models"] = lambda seen, before: Reply({"data": [{"id": "m", "owned_by": "new"}]})
        engine(server, connection=held).method(DARK)
        assert len(server.asked(SYSTEMONE)) == 3 * tried, "a server that tells something new is tried again"
        away = engine(server, connection=held)
    assert away.method(DARK) == METHODS["systemone assets"], "a run with all its answers needs no server"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"q0": {"type": "noul", "noul": 1.5}}, "probability outside 0 to 1"),
        ({"q0": {"type": "noul", "noul": "much"}}, "probability outside 0 to 1"),
        ({"q0": {"type": "noul"}}, "no probability of Yes"),
        ({}, "lacks the answer"),
        ([{"type": "refusal", "name": "q0"}], "declined"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_row(answers: Any, expected: str, tasks: list[ImageTask]) -> None:
    def route(seen: Seen, before: int) -> Reply:
        return systemone(seen, before) if before < 3 else Reply({"answers": answers})

    with serving({SYSTEMONE: route}) as server:
        asked = [replace(tasks[0], questions=(DARK,))]
        ((answer,),) = engine(server).answer(asked)
    assert answer.text is None
    assert expected in str(answer.error)


def test_neither_yes_nor_no_among_the_tokens_is_no_answer() -> None:
    top = [{"token": "I", "logprob": -0.1}, {"token": "The", "logprob": -3.0}]
    reply = completion("I", logprobs={"content": [{"top_logprobs": top}]})
    with pytest.raises(RefusedError, match="neither Yes nor No is among the 2 most likely"):
        TopLogprobs(20).read([reply], DARK, "given")
    reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"].append({"token": "No", "logprob": -4.0})
    only_no = TopLogprobs(20).read([reply], DARK, "given")
    assert only_no.text == "No"
    assert (only_no.numbers["p_yes"], only_no.numbers["p_yes_norm"], only_no.numbers["logit_difference"]) == (
        0,
        0,
        None,
    )
    assert only_no.numbers["unlisted_max"] == pytest.approx(min(math.exp(-4), 1 - sum(map(math.exp, (-0.1, -3, -4)))))


def spoilt(spoil: Any) -> Any:
    """Answer as `tokens` does, but spoil what is said about the one question that is asked in the end."""

    def route(seen: Seen, before: int) -> Reply:
        reply = tokens(seen, before)
        if DARK.text in text_of(seen.body):
            spoil(reply.body)
        return reply

    return route


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body["choices"][0]["logprobs"].update(content=["Yes"]),
        lambda body: body["choices"][0]["logprobs"].update(content={"token": "Yes"}),
        lambda body: body["choices"][0]["logprobs"]["content"][0].update(top_logprobs=[{"token": ["Yes"]}]),
        lambda body: body["choices"].insert(0, [["Yes"]]),
        lambda body: body.update(choices=7),
    ],
)
def test_a_reply_of_another_form_fails_one_answer_and_not_the_run(tasks: list[ImageTask], spoil: Any) -> None:
    task = replace(tasks[0], questions=(DARK, MOOD))
    with serving({CHAT: spoilt(spoil)}) as server:
        answers = {a.question_id: a for batch in engine(server, scoring="logprobs").answer([task]) for a in batch}
    assert answers["mood"].error is None
    assert answers["mood"].numbers is not None
    assert answers["dark"].text is None
    assert "server" in str(answers["dark"].error)


@pytest.mark.parametrize("value", [["dark"], {"a": 1}, None, 10**400])
def test_options_that_are_not_text_fail_one_answer(tasks: list[ImageTask], value: Any) -> None:
    def route(seen: Seen, before: int) -> Reply:
        reply = decisions(seen, before)
        if before > 5:
            for answer in reply.body["answers"]:
                answer["probabilities"] = [{"value": value, "probability": value}, {"value": "dark"}]
        return reply

    task = replace(tasks[0], questions=(MOOD,))
    with serving({DECISIONS: route}) as server:
        asked = engine(server, scoring="decisions")
        first = [a for batch in asked.answer([task]) for a in batch]
        for _ in range(8):
            last = [a for batch in asked.answer([task]) for a in batch]
    assert first[0].error is None
    assert "lacks the probability" in str(last[0].error)
