"""Servers whose model reasons: where each kind of server has the reasoning, and how it is switched."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from bench import Bench, fp2
from fake_server import FakeServer, Reply, Seen, serving, text_of

from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.engines.server.reasoning import PARAMETERS
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

CHAT = "/v1/chat/completions"
THOUGHT, SAID = "hate", "kind"


def _message(form: str, thought: str | None, said: str) -> tuple[dict[str, Any], int]:
    """Return the message of a kind of server, and its count of reasoning tokens."""
    messages: dict[str, dict[str, Any]] = {
        "vllm": {"content": said or None, "reasoning_content": thought},
        "openrouter": {"content": said, "reasoning": thought},
        "anthropic": {"content": [{"type": "thinking", "thinking": thought or ""}, {"type": "text", "text": said}]},
        "marks": {"content": (f"<think>\n{thought}\n" if thought else "") + (f"</think>\n\n{said}" if said else "")},
        "openai": {"content": said},
        "opened": {"content": f"{thought}\n" + (f"</think>\n\n{said}" if said else "")},  # `<think>` ends the prompt
    }
    if form in ("marks", "opened") and thought is None:
        return {"content": said}, 0
    return messages[form], 40 if form == "openai" and thought else 0


def model(form: str, *, needs: int = 60, listens_to: str | None = None, reasons: bool = True) -> Any:
    """Return a route: a model that takes `needs` tokens to reason, in the form of a kind of server.

    `listens_to` is the parameter that switches it; it ignores the others.
    """

    def route(seen: Seen, before: int) -> Reply:
        body = seen.body
        thinks = reasons
        if listens_to is not None:
            for on in (True, False):
                fields = PARAMETERS[listens_to](on, 0)
                if all(_same(body.get(name), value) for name, value in fields.items()):
                    thinks = on
        short = thinks and body["max_tokens"] < needs
        message, reasoning_tokens = _message(form, THOUGHT if thinks else None, "" if short else SAID)
        image = any(isinstance(part, dict) and part["type"] == "image_url" for part in body["messages"][0]["content"])
        usage = {
            "completion_tokens": body["max_tokens"] if short else needs if thinks else 2,
            "prompt_tokens": 10 + 100 * image,
            "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        }
        choice = {"message": {"role": "assistant", **message}, "finish_reason": "length" if short else "stop"}
        return Reply({"choices": [choice], "usage": usage})

    return route


def _same(sent: Any, wanted: Any) -> bool:
    """Whether a field of a request switches as `wanted` does, whatever its budget."""
    if isinstance(wanted, dict):
        return isinstance(sent, dict) and all(
            sent.get(name) == value for name, value in wanted.items() if not name.endswith("tokens")
        )
    return bool(sent == wanted)


def engine(server: FakeServer, reasoning: Any = "auto", **options: Any) -> OpenAICompatEngine:
    decoding = Decoding(max_new_tokens=8, reasoning=reasoning)
    return OpenAICompatEngine(ServerSpec(server.url, "some/model"), decoding, ServerOptions(**options))


def ask(server: FakeServer, tasks: list[ImageTask], reasoning: Any = "auto", **options: Any) -> list[Answer]:
    asked = [replace(task, questions=task.questions[:2]) for task in tasks[:3]]
    return [one for batch in engine(server, reasoning, **options).answer(asked) for one in batch]


FORMS = ["vllm", "openrouter", "anthropic", "marks", "openai", "opened"]


@pytest.mark.parametrize("form", FORMS)
def test_the_reasoning_is_kept_apart_wherever_a_server_has_it(form: str, tasks: list[ImageTask]) -> None:
    with serving({CHAT: model(form)}) as server:
        answers = ask(server, tasks)
    assert [one.text for one in answers] == [SAID] * 6
    thought = "" if form == "openai" else THOUGHT
    tokens = 40 if form == "openai" else 0
    assert all(one.numbers == {"reasoning": thought, "reasoning_tokens": tokens} for one in answers)
    assert {one.tokens for one in answers} == {60}


def test_a_model_that_turns_out_to_reason_is_asked_again_with_tokens_for_it(tasks: list[ImageTask]) -> None:
    with serving({CHAT: model("vllm")}) as server:
        answers = ask(server, tasks, concurrency=1)
        limits = [seen.body["max_tokens"] for seen in server.asked(CHAT) if text_of(seen.body) != "Say yes."]
    assert [one.error for one in answers] == [None] * 6
    assert limits.count(8 + 2048) == 6
    assert 1 <= limits.count(8) <= 2  # those that were sent before the first reply came


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_is_still_reasoned_about_at_the_limit_has_failed(form: str, tasks: list[ImageTask]) -> None:
    with serving({CHAT: model(form, needs=500)}) as server:
        answers = ask(server, tasks, 16 if form != "openai" else "auto")
    if form == "openai":  # the longer request suffices
        assert [one.text for one in answers] == [SAID] * 6
        return
    assert [one.text for one in answers] == [None] * 6
    assert all(str(one.error).startswith("the model was still reasoning after 24 tokens") for one in answers)


@pytest.mark.parametrize("parameter", [name for name in PARAMETERS if name != "nothing"])
@pytest.mark.parametrize("mode", ["on", "off", 300])
def test_the_parameter_that_a_server_follows_is_found(parameter: str, mode: Any, tasks: list[ImageTask]) -> None:
    with serving({CHAT: model("vllm", listens_to=parameter, reasons=mode == "off")}) as server:
        asked = engine(server, mode)
        answers = [
            one for batch in asked.answer([replace(tasks[0], questions=tasks[0].questions[:1])]) for one in batch
        ]
        method = asked.method(Question("q", "p", "What?"))
        sent = server.asked(CHAT)[-1].body
    assert [one.text for one in answers] == [SAID]
    assert (answers[0].numbers is not None) == (mode != "off")
    fields = PARAMETERS[parameter](mode != "off", 300 if mode == 300 else 0 if mode == "off" else 2048)
    assert method["reasoning"] == (
        "off" if mode == "off" else {"fields": fields, "budget": 300 if mode == 300 else 2048}
    )
    assert {name: sent[name] for name in fields} == fields


def test_nothing_is_sent_where_the_model_does_it_anyway(tasks: list[ImageTask]) -> None:
    with serving({CHAT: model("vllm", reasons=False)}) as server:
        assert [one.text for one in ask(server, tasks, "off")] == [SAID] * 6
        known = {"model", "messages", "temperature", "max_tokens"}
        assert all(set(seen.body) == known for seen in server.asked(CHAT))


@pytest.mark.parametrize(("mode", "message"), [("on", "cannot be switched on"), ("off", "cannot be switched off")])
def test_what_a_server_does_not_follow_is_refused_before_a_question_is_asked(mode: Any, message: str) -> None:
    with serving({CHAT: model("vllm", reasons=mode == "off")}) as server:
        with pytest.raises(Fp2Error, match=message):
            engine(server, mode).method(Question("q", "p", "What?"))
        assert len(server.asked(CHAT)) == len(PARAMETERS)


def test_probabilities_of_a_model_that_is_to_reason_are_refused() -> None:
    with serving({CHAT: model("vllm")}) as server, pytest.raises(Fp2Error, match="reasons before it answers"):
        engine(server, "on").method(Question("q", "p", "Is it?", kind="yes_no"))


@pytest.mark.package(name="planning")
def test_the_plan_states_the_cost_with_and_without_reasoning(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    prices = ["engine.price_input=0", "engine.price_output=1000", "probe.decoding.reasoning=300"]
    with serving({CHAT: model("vllm", listens_to="reasoning_effort", reasons=False)}) as server:
        asked = ["model=openai_compat", "model.id=some/model", f"model.base_url={server.url}"]
        assert fp2("plan", *bench.words(*asked, *prices)) == 0
    costs = [float(cost) for cost in re.findall(r"about ([\d.]+) for 432 requests", capsys.readouterr().out)]
    tokens = [1000 * cost / 432 for cost in costs]
    assert tokens[0] - tokens[1] == pytest.approx(300, rel=0.01)
