"""Several servers of one model: an image stays with one; a server that dies costs no answer; a changed one is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from bench import Bench, every_byte, results_of
from fake_server import FakeServer, Reply, Seen, completion, serving, text_of, words

from fp2.engines.server import pool as server_pool
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec, parse_addresses
from fp2.engines.server.pool import FAILURES, FIRST_REST, LONGEST_REST, Pool, Server
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
DEAD = {"Content-Length": "100"}  # of a body that never comes


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pool, "FIRST_REST", 0.05)


def slow(seen: Seen, before: int) -> Reply:
    return Reply(words(seen, before).body, wait=0.02)


def listed(**entry: Any) -> Any:
    return lambda seen, before: Reply({"data": [{"id": "m", **entry}]})


@pytest.fixture
def pair() -> Iterator[list[FakeServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving({CHAT: slow, MODELS: listed(max_model_len=8)})) for _ in range(2)]


def engine(servers: list[FakeServer], **options: Any) -> OpenAICompatEngine:
    spec = ServerSpec([server.url for server in servers], "m")
    return OpenAICompatEngine(spec, Decoding(max_new_tokens=7), ServerOptions(**{"timeout": 2.0, **options}))


def asked(server: FakeServer) -> list[Seen]:
    return [seen for seen in server.asked(CHAT) if text_of(seen.body) != "Say yes."]


def answered(made: OpenAICompatEngine, tasks: list[ImageTask]) -> dict[tuple[str, str], Answer]:
    found = [answer for batch in made.answer(tasks) for answer in batch]
    by_key = {(answer.image_id, answer.question_id): answer for answer in found}
    assert len(by_key) == len(found) == sum(len(task.questions) for task in tasks), "every question once"
    return by_key


def texts(found: dict[tuple[str, str], Answer]) -> dict[tuple[str, str], str | None]:
    return {key: answer.text for key, answer in found.items()}


def pictures(server: FakeServer) -> set[str]:
    return {seen.body["messages"][0]["content"][0]["image_url"]["url"] for seen in asked(server)}


def test_every_image_is_asked_about_at_one_server(pair: list[FakeServer], tasks: list[ImageTask]) -> None:
    made = engine(pair, concurrency=2)
    found = answered(made, tasks)
    assert not pictures(pair[0]) & pictures(pair[1])
    assert min(len(pictures(server)) for server in pair) >= 2
    assert max(server.most_at_once for server in pair) <= 2
    assert [one["replies"] for one in made.serving()["servers"]] == [len(asked(server)) for server in pair]
    alone = engine(pair[:1])
    assert texts(found) == texts(answered(alone, tasks))
    assert made.identity() == alone.identity()


def test_a_server_that_dies_costs_no_answer_and_is_used_again(pair: list[FakeServer], tasks: list[ImageTask]) -> None:
    def mortal(seen: Seen, before: int) -> Reply:
        dead = 8 <= before < 12
        return Reply(None, stream=iter(()), headers=DEAD) if dead else slow(seen, before)

    pair[1].routes[CHAT] = mortal
    made = engine(pair, concurrency=2, attempts=1)
    found = answered(made, tasks)
    assert all(answer.error is None for answer in found.values())
    assert texts(found) == texts(answered(engine(pair[:1]), tasks))
    one, other = made.serving()["servers"]
    assert (one["failures"], one["replies"] + other["replies"]) == (0, 3 * len(tasks))
    assert 1 <= other["failures"] <= 4
    assert other["excluded"] == 0


def test_a_server_that_comes_back_as_another_gets_nothing(
    pair: list[FakeServer], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def restarted(seen: Seen, before: int) -> Reply:
        if before < 5:
            return slow(seen, before)
        pair[1].routes[MODELS] = listed(max_model_len=9)
        return Reply(None, stream=iter(()), headers=DEAD) if before < 7 else Reply(completion("another model"))

    pair[1].routes[CHAT] = restarted
    made = engine(pair, concurrency=1, attempts=1)
    monkeypatch.setattr(server_pool, "FIRST_REST", 0.0)
    found = answered(made, tasks)
    assert "another model" not in texts(found).values()
    assert all(answer.error is None for answer in found.values())
    assert made.serving()["servers"][1]["excluded"] == 1


def test_servers_that_differ_are_refused(pair: list[FakeServer]) -> None:
    pair[1].routes[MODELS] = listed(max_model_len=9)
    with pytest.raises(Fp2Error, match="different facts"):
        engine(pair).identity()


def test_a_server_that_is_down_at_the_start_is_said(pair: list[FakeServer], tasks: list[ImageTask]) -> None:
    made = OpenAICompatEngine(
        ServerSpec(["http://127.0.0.1:9/v1", pair[0].url], "m"), Decoding(max_new_tokens=7), ServerOptions(timeout=2.0)
    )
    made.identity()
    assert made.notices == ["Servers that do not answer: 1 of 2"]
    assert all(answer.error is None for answer in answered(made, tasks[:3]).values())
    assert made.serving()["servers"][0]["replies"] == 0


def test_the_share_of_prompts_from_the_prefix_cache_is_counted(pair: list[FakeServer], tasks: list[ImageTask]) -> None:
    known: set[str] = set()

    def caching(seen: Seen, before: int) -> Reply:
        reply, content = words(seen, before), seen.body["messages"][0]["content"][0]
        if content["type"] == "image_url":
            cached = 60 if content["image_url"]["url"] in known else 0
            known.add(content["image_url"]["url"])
            details = {"prompt_tokens_details": {"cached_tokens": cached} if cached else None}  # as vLLM does
            reply.body["usage"] |= {"prompt_tokens": 80, **details}
        return reply

    pair[0].routes[CHAT] = caching
    made = engine(pair[:1], concurrency=1)
    answered(made, tasks[:4])
    found = made.serving()
    assert (found["prompt_tokens"], found["cached_tokens"]) == (12 * 80, 8 * 60), "all but the first about an image"
    assert found["cached_share"] == 0.5


def test_a_run_records_the_servers_without_their_addresses(pair: list[FakeServer], bench: Bench) -> None:
    listed_urls = f"[{','.join(server.url for server in pair)}]"
    common = ("model=openai_compat", "model.id=m", "probe.select=[trust]", "data.limit=6", "analysis.min_subjects=2")
    assert bench.launch(*common, f"model.base_url={listed_urls}") == 0
    several = results_of(bench.run_folders()[-1])
    assert [one["failures"] for one in several["serving"]["servers"]] == [0, 0]
    assert sum(one["replies"] for one in several["serving"]["servers"]) == several["answers"]["answered"] == 6
    for path in bench.outputs.rglob("status.json"):  # stays on this machine
        path.unlink()
    written = every_byte(bench.outputs)
    assert not any(f":{server.port}".encode() in written for server in pair)
    assert bench.launch(*common, f"model.base_url={pair[0].url}") == 0
    again = results_of(bench.run_folders()[-1])
    assert again["config_hash"] == several["config_hash"]
    assert again["answers"]["cached"] == 6
    assert "serving" not in again


@pytest.mark.parametrize("given", [["http://a/v1", "http://a/v1/"], ["http://a/v1", "ftp://b"], ["http://u:p@a"], [1]])
def test_addresses_that_are_none_are_refused(given: list[Any]) -> None:
    with pytest.raises(Fp2Error, match="address"):
        parse_addresses(given)


def test_a_failed_server_rests_longer_each_time_and_then_gets_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pool, "FIRST_REST", FIRST_REST)
    now = [0.0]
    first, other = servers = [Server(a, asyncio.Semaphore(1)) for a in parse_addresses(["http://a", "http://b"])]
    pool = Pool(servers, clock=lambda: now[0])
    for n in range(1, 12):
        first.failed(now[0], silent=True, pause=None)
        first.failed(now[0], silent=True, pause=None)  # was on its way: the same failure
        rest = min(LONGEST_REST, FIRST_REST * 2.0 ** (n - 1))
        now[0] += 0.99 * rest
        assert pool.choose(first) is other
        assert not pool.takes(first)
        now[0] += 0.02 * rest
        assert pool.choose(first) is first
        first.outstanding = 1
        assert pool.choose(first) is other, "one at a time until one succeeds"
        first.outstanding = 0
    first.succeeded({})
    first.outstanding = 5
    assert pool.choose(first) is first
    for _ in range(FAILURES - 1):  # a server that replies may fail a question
        first.failed(now[0], silent=False, pause=None)
    assert pool.choose(first) is first
    first.failed(now[0], silent=False, pause=None)
    assert pool.choose(first) is other
    other.failed(now[0], silent=False, pause=500.0)
    assert pool.choose(first) is first, "if all rest, its own"
    assert pool.choose(first, [first]) is None
    other.excluded = first.excluded = "reports something else"
    assert pool.choose(first) is None
