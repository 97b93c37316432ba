"""Limits of a run on its servers: requests at a time, a minute's requests and tokens, cost; fields of the user's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from bench import Bench, results_of
from fake_server import FakeServer, Reply, Seen, serving, text_of, words

from fp2.engines.base import OverspentError
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.limits import Pace, Slots
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask

CHAT = "/v1/chat/completions"


def engine(server: FakeServer, fields: dict[str, Any] | None = None, **options: Any) -> OpenAICompatEngine:
    spec = ServerSpec(server.url, "m", options=fields or {})
    return OpenAICompatEngine(spec, Decoding(max_new_tokens=7), ServerOptions(**options))


def answers_of(made: OpenAICompatEngine, tasks: list[ImageTask]) -> list[Answer]:
    return [answer for batch in made.answer(tasks) for answer in batch]


def test_slots_follow_additive_increase_and_multiplicative_decrease() -> None:
    slots = Slots(8)
    began = time.monotonic()
    slots.overloaded(began)
    slots.overloaded(began)  # on its way when the first halved it
    assert slots.limit == 4
    for _ in range(4):
        slots.replied()
    assert 4.8 < slots.limit < 5, "a round of replies is one more"
    for _ in range(200):
        slots.replied()
    assert slots.limit == 8
    for _ in range(9):
        slots.overloaded(time.monotonic())
    assert slots.limit == 1, "never none"


def test_an_overloaded_server_gets_fewer_requests_at_a_time(tasks: list[ImageTask]) -> None:
    now, most = [0], list[int]()

    def limited(seen: Seen, before: int) -> Reply:
        now[0] += 1
        try:
            most.append(now[0])
            time.sleep(0.01)
            if now[0] > 2:
                return Reply({"error": {"message": "overloaded"}}, 529)
            return words(seen, before)
        finally:
            now[0] -= 1

    with serving({CHAT: limited}) as server:
        found = answers_of(engine(server, concurrency=8, attempts=9), tasks)
    assert all(answer.error is None for answer in found)
    assert max(most[len(most) // 2 :]) < max(most), "less at a time once it was overloaded"


def test_a_pace_spreads_amounts_over_time() -> None:
    async def took(amounts: list[float], per_minute: float | None) -> float:
        pace, started = Pace(per_minute), time.monotonic()
        for amount in amounts:
            await pace.take(amount)
        return time.monotonic() - started

    assert 0.2 <= asyncio.run(took([1, 1, 1], 600)) < 0.5
    assert 0.2 <= asyncio.run(took([100, 0], 30_000)) < 0.5
    assert asyncio.run(took([1] * 1000, None)) < 0.1


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute"])
def test_a_run_keeps_to_the_limit_of_a_minute(limit: str, tasks: list[ImageTask]) -> None:
    per_minute = {"requests_per_minute": 3000.0, "tokens_per_minute": 102.0 * 3000}[limit]
    with serving({CHAT: words}) as server:
        found = answers_of(engine(server, **{limit: per_minute}), tasks)
        at = sorted(seen.at for seen in server.asked(CHAT) if text_of(seen.body) != "Say yes.")
    assert all(answer.error is None for answer in found)
    assert at[-1] - at[0] > 0.018 * (len(at) - 1) * (0.5 if limit == "tokens_per_minute" else 1)


def test_a_run_stops_before_it_costs_more(tasks: list[ImageTask]) -> None:
    with serving({CHAT: words}) as server:
        made = engine(server, price_input=1e4, price_output=0.0, concurrency=2)
        made.spend_at_most(15.0)  # 1,020 tokens are assumed, 10.2; a question takes 99, 0.99
        batches = made.answer(tasks)
        found = next(batches)
        with pytest.raises(OverspentError):
            found.extend(answer for batch in batches for answer in batch)
        spent = made.serving()["spent"]
    assert 0 < len(found) < sum(len(task.questions) for task in tasks)
    assert all(answer.error is None for answer in found)
    assert spent["cost"] == pytest.approx(spent["tokens_in"] / 100)
    assert 3 < spent["cost"] <= 15
    assert spent["requests"] == len(found) + 2, "with the two that see whether images are used"


def test_a_stopped_run_keeps_what_it_has_and_goes_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def dear(seen: Seen, before: int) -> Reply:
        reply = words(seen, before)
        reply.body["usage"]["prompt_tokens"] = 9 if text_of(seen.body) == "Say yes." and before % 2 == 0 else 1500
        return reply

    with serving({CHAT: dear}) as server:
        asked = (
            "model=openai_compat",
            "model.id=m",
            f"model.base_url={server.url}",
            "probe.select=[trust]",
            "data.limit=6",
            "analysis.min_subjects=2",
            "engine.price_input=1e4",
            "engine.price_output=0",
        )
        assert bench.launch(*asked, "answers.max_cost=80") == 3, "6 questions of about 1,040 tokens were expected"
        assert "answers.max_cost" in capsys.readouterr().err
        first = results_of(bench.run_folders()[-1])
        assert 0 < first["answers"]["answered"] < 6
        assert not first["complete"]
        assert 60 < first["serving"]["spent"]["cost"] <= 80
        assert bench.launch(*asked) == 0
    again = results_of(bench.run_folders()[-1])
    assert (again["answers"]["answered"], again["answers"]["cached"]) == (6, first["answers"]["answered"])


def test_fields_of_the_user_are_in_every_request_and_key(tasks: list[ImageTask]) -> None:
    with serving({CHAT: words}) as server:
        made = engine(server, {"temperature": None, "service_tier": "flex"})
        assert all(answer.error is None for answer in answers_of(made, tasks[:1]))
        bodies = [seen.body for seen in server.asked(CHAT)]
        assert all("temperature" not in body and body["service_tier"] == "flex" for body in bodies)
        question = tasks[0].questions[0]
        assert made.method(question) != engine(server).method(question)
        assert len(made.limitations) == 1
    with pytest.raises(Fp2Error, match="set by the run") as caught:
        ServerSpec("http://localhost/v1", "m", options={"max_tokens": 3})
    assert caught.value.where == "model.options.max_tokens"


@pytest.mark.parametrize(
    ("fields", "message", "where"),
    [
        ({"flavour": "mild"}, "Unrecognized request argument supplied: flavour", "model.options.flavour"),
        ({}, "Unsupported value: 'temperature' does not support 0 with this model.", "model.options.temperature"),
    ],
)
def test_a_refused_field_ends_the_run(fields: Any, message: str, where: str, tasks: list[ImageTask]) -> None:
    refuses = {CHAT: lambda seen, before: Reply({"error": {"message": message}}, 400)}
    with serving(refuses) as server, pytest.raises(Fp2Error) as caught:
        answers_of(engine(server, fields), tasks)
    assert caught.value.where == where


def test_a_host_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    spec = ServerSpec("https://api.anthropic.com/v1", "m", "ANTHROPIC_API_KEY")
    with pytest.raises(Fp2Error, match="not set") as caught:
        OpenAICompatEngine(spec, Decoding()).identity()
    assert caught.value.where == "ANTHROPIC_API_KEY"
