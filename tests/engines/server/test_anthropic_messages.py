"""Anthropic's Messages API in place of chat completions, against a server that takes only what its reference lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_server import FakeServer, Reply, Seen, serving

from fp2.engines.server import client as server_http
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

MESSAGES = "/v1/messages"
KNOWN = {"model", "max_tokens", "messages", "temperature", "top_p", "thinking"}
KIND = Question("q", "p", "Is this person kind? Answer with Yes or No.", kind="yes_no")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key of an account")


def claude(*said: str, thinking: str = "enabled") -> Any:
    """Return a route: a model that reasons if it is asked to in the way that it knows, and gives these answers."""

    def refused(message: str) -> Reply:
        return Reply({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)

    def route(seen: Seen, before: int) -> Reply:
        body, headers = seen.body, {name.lower(): value for name, value in seen.headers.items()}
        if headers.get("x-api-key") != "a key of an account" or "authorization" in headers:
            return Reply({"type": "error", "error": {"type": "authentication_error", "message": "no key"}}, 401)
        if "anthropic-version" not in headers:
            return refused("anthropic-version: header is required")
        if unknown := set(body) - KNOWN:
            return refused(f"{min(unknown)}: Extra inputs are not permitted")
        if {"temperature", "top_p"} <= set(body):
            return refused("temperature and top_p cannot both be specified")
        (message,) = body["messages"]
        images = [part for part in message["content"] if part["type"] == "image"]
        if any(set(image["source"]) != {"type", "media_type", "data"} for image in images):
            return refused("messages.0.content.0.source: Input should be a valid image")
        thinks = body.get("thinking", {"type": "disabled"})
        if thinks["type"] not in ("disabled", thinking):
            return refused(f"thinking.type: {thinks['type']} is not supported for this model")
        if thinks["type"] != "disabled" and body.get("temperature", 1) != 1:
            return refused("`temperature` may only be set to 1 when thinking is enabled")
        if thinks["type"] == "enabled" and not 1024 <= thinks["budget_tokens"] < body["max_tokens"]:
            return refused("thinking.budget_tokens: Input should be at least 1024 and less than max_tokens")
        thought = [{"type": "thinking", "thinking": "Let me see.", "signature": "s"}]
        content = [
            *(thought if thinks["type"] != "disabled" else []),
            {"type": "text", "text": said[before % len(said)]},
        ]
        usage = {"input_tokens": 12 + 900 * len(images), "cache_read_input_tokens": 0, "output_tokens": 7}
        return Reply(
            {
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": content,
                "stop_reason": "end_turn",
                "usage": usage,
            }
        )

    return route


def engine(server: FakeServer, *, api: str | None = "messages", options: Any = None, **decoding: Any) -> Any:
    spec = ServerSpec(server.url, "claude", "ANTHROPIC_API_KEY", api=api)
    return OpenAICompatEngine(spec, Decoding(max_new_tokens=30, **decoding), options or ServerOptions(concurrency=1))


def ask(asked: OpenAICompatEngine, task: ImageTask, *questions: Question) -> list[Answer]:
    return [one for batch in asked.answer([replace(task, questions=questions)]) for one in batch]


def test_words_come_by_messages(tasks: list[ImageTask]) -> None:
    with serving({MESSAGES: claude("A nurse.")}) as server:
        asked = engine(server)
        answers = ask(asked, tasks[0], *tasks[0].questions[:2])
        last = server.asked(MESSAGES)[-1].body
        assert asked.method(tasks[0].questions[0])["api"] == "messages"
        assert "api" not in engine(server, api=None).method(tasks[0].questions[0])
    assert [(one.text, one.error, one.tokens) for one in answers] == [("A nurse.", None, 7)] * 2
    assert last["temperature"] == 0
    assert last["messages"][0]["content"][0]["source"]["media_type"] == "image/png"
    spent = asked.serving()["spent"]
    assert spent["tokens_in"] >= 2 * 912
    assert spent["unreported"] == 0


@pytest.mark.parametrize("thinking", ["enabled", "adaptive"])
def test_reasoning_is_switched_as_the_model_takes_it_and_kept_apart(thinking: str, tasks: list[ImageTask]) -> None:
    with serving({MESSAGES: claude("A nurse.", thinking=thinking)}) as server:
        (answer,) = ask(engine(server, reasoning="on"), tasks[0], tasks[0].questions[0])
        sent = server.asked(MESSAGES)[-1].body
    assert answer.text == "A nurse."
    assert answer.numbers is not None
    assert answer.numbers["reasoning"] == "Let me see."
    assert sent["thinking"]["type"] == thinking
    assert sent["max_tokens"] == 30 + 2048


@pytest.mark.package(name="server_scoring")
def test_probabilities_are_shares_of_samples(tasks: list[ImageTask]) -> None:
    with serving({MESSAGES: claude("Yes", "No", "Yes.", "Yes")}) as server:
        options = ServerOptions(scoring="sampled", samples=4, concurrency=1)
        (answer,) = ask(engine(server, options=options), tasks[0], KIND)
    assert answer.numbers is not None
    assert answer.numbers["p_yes"] == pytest.approx(3 / 4, abs=0.26)


def test_a_top_p_beside_the_temperature_is_refused_and_without_it_sent(tasks: list[ImageTask]) -> None:
    with serving({MESSAGES: claude("A nurse.")}) as server:
        address = (server.url, "claude", "ANTHROPIC_API_KEY")
        with pytest.raises(Fp2Error) as refused:
            ServerSpec(*address, options={"top_p": 0.9}, api="messages")
        assert refused.value.where == "model.options.top_p"
        ServerSpec(*address, options={"top_p": 0.9})
        spec = ServerSpec(*address, options={"top_p": 0.9, "temperature": None}, api="messages")
        asked = OpenAICompatEngine(spec, Decoding(max_new_tokens=30), ServerOptions(concurrency=1))
        (answer,) = ask(asked, tasks[0], tasks[0].questions[0])
        sent = server.asked(MESSAGES)[-1].body
    assert answer.error is None
    assert sent["top_p"] == 0.9
    assert "temperature" not in sent
