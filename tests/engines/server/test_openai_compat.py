"""The engine for OpenAI-compatible servers against a small one that fails on demand: requests, retries and errors."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2
from fake_server import FakeServer, Reply, Seen, completion, serving, text_of, words
from PIL import ImageOps

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec, parse_addresses
from fp2.engines.server.replies import retry_after
from fp2.errors import Fp2Error
from fp2.runs.local_paths import overrides_without_places, with_places, without_places
from fp2.tables import BLIND, Answer, Decoding, ImageTask, Question

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
KEY = "sk-a-secret-that-stays-here"


def engine(server: FakeServer | str, **options: Any) -> OpenAICompatEngine:
    url = server if isinstance(server, str) else server.url
    spec = ServerSpec(url, options.pop("id", "some/model"), revision=options.pop("revision", None))
    decoding, connection = options.pop("decoding", Decoding(max_new_tokens=7)), options.pop("connection", None)
    return OpenAICompatEngine(spec, decoding, ServerOptions(**options), connection=connection)


def collect(batches: Iterable[list[Answer]]) -> dict[tuple[str, str], Answer]:
    answers = [answer for batch in batches for answer in batch]
    found = {(answer.image_id, answer.question_id): answer for answer in answers}
    assert len(found) == len(answers), "every question once"
    return found


def one(server: FakeServer, task: ImageTask, **options: Any) -> Answer:
    (answer,) = collect(engine(server, **options).answer([replace(task, questions=task.questions[:1])])).values()
    return answer


def chats(server: FakeServer) -> list[Seen]:
    """Return what was asked but the two requests that find out whether images are looked at."""
    return [seen for seen in server.asked(CHAT) if text_of(seen.body) != "Say yes."]


def listed(**entry: Any) -> Any:
    return lambda seen, before: Reply({"data": [{"id": "other"}, {"id": "some/model", **entry}]})


def test_pixels_and_text_arrive_unchanged(tasks: list[ImageTask]) -> None:
    turned, _changed, blind = tasks[3], tasks[4], tasks[5]
    changed = replace(_changed, variant="mirrored", change=ImageOps.mirror)
    asked = [turned, changed, replace(blind, variant=BLIND, path=Path("/nowhere"))]
    with serving({CHAT: words}) as server:
        answers = collect(engine(server).answer(asked))
        bodies = [seen.body for seen in chats(server)]
    shown = {turned.image_id: turned.pixel_sha256, blind.image_id: "nothing"}
    shown[changed.image_id] = pixel_sha256(ImageOps.mirror(open_rgb(changed.path)))
    expected = {(t.image_id, q.question_id): f"{shown[t.image_id]} {q.text}" for t in asked for q in t.questions}
    assert {key: answer.text for key, answer in answers.items()} == expected
    assert all(answer.tokens == 3 and answer.seconds > 0 and answer.numbers is None for answer in answers.values())
    assert {(b["model"], b["temperature"], b["max_tokens"], "seed" in b) for b in bodies} == {
        ("some/model", 0, 7, False)
    }


def test_sampled_answers_have_a_seed_of_their_own_whatever_the_order(tasks: list[ImageTask]) -> None:
    hot = Decoding(temperature=0.7, seed=3)

    def seeds(asked: list[ImageTask], decoding: Decoding) -> dict[str, int]:
        with serving({CHAT: words}) as server:
            collect(engine(server, decoding=decoding).answer(asked))
            return {
                words(seen, 0).body["choices"][0]["message"]["content"]: seen.body["seed"] for seen in chats(server)
            }

    first = seeds(tasks[:3], hot)
    assert len(set(first.values())) == 9
    assert first == seeds(tasks[2::-1], hot)
    assert not set(first.values()) & set(seeds(tasks[:3], replace(hot, seed=4)).values())
    assert all(0 <= seed < 2**31 for seed in first.values())


def test_transient_errors_are_retried_after_the_pause_that_the_server_asks_for(tasks: list[ImageTask]) -> None:
    troubles = [
        Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0.4"}),
        Reply("upstream fell over", 503),
        Reply("{not json"),
    ]

    def route(seen: Seen, before: int) -> Reply:
        return troubles[before - 2] if 2 <= before < 5 else words(seen, before)  # the first two look for its sight

    with serving({CHAT: route}) as server:
        answer = one(server, tasks[0])
        times = [seen.at for seen in server.asked(CHAT)][2:]
    assert answer.error is None
    assert len(times) == 4
    assert times[1] - times[0] >= 0.4
    assert times[3] - times[1] < 0.4


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply("boom", 500), "failed (500): boom (tried 3 times)"),
        (Reply({"error": {"message": "later"}}, 429, {"Retry-After": "4000"}), "it asks to wait 4000 s"),
        (Reply("<html>", 200), "reply is not JSON"),
        (Reply({"choices": []}), "has no completion"),
        (Reply(completion(None, finish_reason="length")), "without text (finish reason: length)"),
        (Reply(completion("", finish_reason="content_filter")), "content filter"),
        (Reply({}, 302, {"Location": "http://elsewhere/"}), "server redirects (302)"),
        (Reply(completion("late"), wait=0.8), "did not answer within 0.3 s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_permanent_error_fails_its_answer(reply: Reply, expected: str, tasks: list[ImageTask]) -> None:
    with serving({CHAT: lambda seen, before: reply if before >= 2 else words(seen, before)}) as server:
        answer = one(server, tasks[0], attempts=3, timeout=0.3)
    assert answer.text is None
    assert expected in str(answer.error)


def test_errors_repeat_neither_image_nor_key_nor_address(
    tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def route(seen: Seen, before: int) -> Reply:
        if before < 2 or text_of(seen.body) == "A leader?":
            return words(seen, before)
        where = f"http://{seen.headers['Host']}/v1 and {seen.headers['Host']}"
        echo = [{"msg": f"no images for {KEY} at {where}: {seen.body['messages'][0]['content']}", "input": seen.body}]
        return Reply({"detail": echo}, 422)

    with serving({CHAT: route}) as server:
        answers = collect(engine(server).answer(tasks[:2]))
        assert {seen.headers["Authorization"] for seen in server.asked(CHAT)} == {f"Bearer {KEY}"}
        refused = [str(answer.error) for answer in answers.values() if answer.error is not None]
        assert (len(answers), len(refused)) == (6, 4)
        for line in refused:
            assert "refused (422): no images for KEY at the server and the server: " in line
            assert "\n" not in line
            assert not any(secret in line for secret in (KEY, "iVBORw0KGgo", str(server.port), "127.0.0.1"))


@pytest.mark.parametrize(
    ("status", "message", "where"),
    [(401, "wrong key", "model.api_key_env"), (404, "no model some/model", "model.id")],
)
def test_an_error_of_every_question_ends_the_run(status: int, message: str, where: str, tasks: list[ImageTask]) -> None:
    with serving({CHAT: lambda seen, before: Reply({"error": {"message": message}}, status)}) as server:
        with pytest.raises(Fp2Error, match=message) as caught:
            collect(engine(server).answer(tasks))
        assert caught.value.where == where
        assert len(server.asked(CHAT)) < 5
    closed = {path: lambda seen, before: Reply({}, 401) for path in (MODELS, CHAT)}
    with serving(closed) as server, pytest.raises(Fp2Error, match="401"):
        engine(server).identity()
    with serving({**closed, CHAT: words}) as server:  # its list of models needs other credentials
        assert engine(server).identity()["server"] == {}


def test_a_server_that_ignores_images_is_refused(tasks: list[ImageTask]) -> None:
    with serving({CHAT: lambda seen, before: Reply(completion("I see nothing", prompt=12))}) as server:
        with pytest.raises(Fp2Error, match="ignores images"):
            collect(engine(server).answer(tasks))
        blind = [replace(task, variant=BLIND) for task in tasks[:2]]
        assert {answer.text for answer in collect(engine(server).answer(blind)).values()} == {"I see nothing"}


def test_the_newer_name_of_the_token_limit_is_used(tasks: list[ImageTask]) -> None:
    def route(seen: Seen, before: int) -> Reply:
        if "max_tokens" in seen.body:
            return Reply({"error": {"message": "Use 'max_completion_tokens' instead."}}, 400)
        assert seen.body["max_completion_tokens"] in (1, 7)
        return words(seen, before)

    with serving({CHAT: route}) as server:
        answers = collect(engine(server, concurrency=1).answer(tasks[:2]))
        assert all(answer.error is None for answer in answers.values())
        assert sum("max_tokens" in seen.body for seen in server.asked(CHAT)) == 1


def test_many_at_once_but_never_more_than_asked_for(tasks: list[ImageTask]) -> None:
    def slow(seen: Seen, before: int) -> Reply:
        return replace(words(seen, before), wait=0.05)

    with serving({CHAT: slow}) as server:
        assert len(collect(engine(server, concurrency=4).answer(tasks))) == 21
        assert server.most_at_once == 4


def test_an_image_that_changed_or_cannot_be_read_fails_alone(tasks: list[ImageTask], tmp_path: Path) -> None:
    broken = replace(tasks[0], image_id="broken", path=tmp_path / "broken.png")
    broken.path.write_bytes(b"no picture")
    other = replace(tasks[1], image_id="other", pixel_sha256="0" * 64)
    with serving({CHAT: words}) as server:
        answers = collect(engine(server).answer([broken, other, tasks[2]]))
    errors = {image: answer.error for (image, _), answer in answers.items()}
    assert "cannot be read" in str(errors["broken"])
    assert "broken.png" not in str(errors["broken"])
    assert str(tmp_path) not in str(errors["broken"])
    assert "the file changed" in str(errors["other"])
    assert errors[tasks[2].image_id] is None


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_at_once(tasks: list[ImageTask]) -> None:
    def slow(seen: Seen, before: int) -> Reply:
        return replace(words(seen, before), wait=0.0 if before < 4 else 20.0)

    with serving({CHAT: slow}) as server:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        got: list[Answer] = []
        with pytest.raises(KeyboardInterrupt):
            got.extend(answer for batch in engine(server, concurrency=3).answer(tasks) for answer in batch)
        assert time.monotonic() - started < 3
        assert len(got) == 2
        assert not [thread for thread in threading.enumerate() if thread.name == "server requests"]


def test_the_servers_report_is_the_identity(tmp_path: Path) -> None:
    version = {"/version": lambda seen, before: Reply({"version": "0.32.1"})}
    told = listed(owned_by="vllm", root="/data/ckpt/llava", max_model_len=4096, created=time.time())
    with serving({MODELS: told, **version}) as server:
        plain = engine(server).identity()
        assert plain["model"] == "some/model"
        expected = {"id": "some/model", "owned_by": "vllm", "root": "llava", "max_model_len": 4096}
        assert plain["server"] == {"model": expected, "version": "0.32.1"}
        assert engine(server, revision="mine").identity() != plain
        assert engine(server, id="other").identity() != plain
    with serving(
        {MODELS: listed(owned_by="vllm", root="/data/elsewhere/llava", max_model_len=4096), **version}
    ) as again:
        assert again.port != server.port
        other = engine(again).identity()
        assert other["server"] == plain["server"]
        assert other != plain, "two folders of one name are two models"
    with serving({MODELS: told, **version}) as moved:
        assert engine(moved).identity() == plain, "the same server at another address"
    with serving({MODELS: lambda seen, before: Reply("cache not found", 500)}) as silent:
        assert engine(silent, id="/home/me/ckpt").identity()["model"] == "ckpt"
        assert "/home" not in json.dumps(engine(silent, id="/home/me/ckpt").identity())
        assert engine(silent, id="/home/me/ckpt").identity() != engine(silent, id="/home/you/ckpt").identity()


def test_the_report_of_an_absent_server_is_remembered_and_a_change_noticed(
    tasks: list[ImageTask], tmp_path: Path
) -> None:
    held = sqlite3.connect(":memory:", isolation_level=None)
    with serving({MODELS: listed(owned_by="a"), CHAT: words}) as server:
        known = engine(server, connection=held).identity()
        url = server.url
    away = engine(url, connection=held)
    assert away.identity() == known
    assert "does not answer" in away.notices[0]
    with pytest.raises(Fp2Error, match="no connection"):
        collect(away.answer(tasks))
    with pytest.raises(Fp2Error, match="Start the server"):
        engine(url).identity()
    with pytest.raises(Fp2Error, match="never asked for probabilities"):
        away.method(Question("y", "y", "Is it?", "yes_no"))
    with serving({MODELS: listed(owned_by="b"), CHAT: words}) as changed:
        away.addresses = parse_addresses(changed.url)
        with pytest.raises(Fp2Error, match="report has changed"):
            collect(away.answer(tasks))


def test_retry_after_is_a_number_or_a_date() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after("7", now) == 7
    assert retry_after("Sat, 21 Nov 2026 12:00:09 GMT", now) == 9
    assert retry_after("Sat, 21 Nov 2026 11:00:00 GMT", now) == 0
    assert retry_after("soon", now) is None


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.8.8.8/v1", True),
        ("http://[::1]:80/v1", True),
        ("https://api.example.org/v1", False),
        ("http://192.168.1.5:8000/v1", False),
        ("http://localhost.example.org/v1", False),
    ],
)
def test_a_notice_says_when_images_leave_this_machine(url: str, loopback: bool) -> None:
    asked = engine(url)
    assert asked.addresses[0].loopback == loopback
    assert bool(asked.notices) != loopback
    if not loopback:
        assert asked.addresses[0].host in asked.notices[0]
        assert ("unencrypted" in asked.notices[0]) == url.startswith("http:")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://h/v1", "http://", "http://me:pw@h/v1", "http://h/v1?key=k"])
def test_an_address_that_is_none_or_carries_a_secret_is_refused(url: str) -> None:
    with pytest.raises(Fp2Error, match="address"):
        engine(url)


def test_the_address_stays_on_this_machine() -> None:
    plain, places = without_places({"model": {"base_url": "http://gpu7:8000/v1", "id": "m"}})
    assert plain == {"model": {"base_url": "local:server", "id": "m"}}
    assert with_places(plain, places)["model"]["base_url"] == "http://gpu7:8000/v1"
    assert overrides_without_places(["model.base_url=http://gpu7:8000/v1"]) == ["model.base_url=local:server"]


def test_a_whole_run_leaks_nothing_and_needs_no_server_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from fp2.compose import config_hash

    monkeypatch.setenv("MY_KEY", KEY)
    asked = ["model=openai_compat", "model.id=some/model", "model.api_key_env=MY_KEY", "data.limit=8"]
    with serving({MODELS: listed(owned_by="me"), CHAT: words}) as server:
        there = [*asked, f"model.base_url={server.url}"]
        outcome = bench.run(*there, "report=default", "report.figures=false")
        assert {seen.headers["Authorization"] for seen in server.seen} == {f"Bearer {KEY}"}
    assert outcome.results["answers"]["answered"] == outcome.results["answers"]["planned"] == 48
    assert outcome.results["model"]["server"] == {"model": {"id": "some/model", "owned_by": "me"}}
    assert "cannot be verified" in outcome.results["limitations"][0]
    written = [path for path in outcome.folder.rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in [*written, bench.store]:
        data = path.read_bytes()
        assert KEY.encode() not in data
        assert path == bench.store or f":{server.port}".encode() not in data
    again = bench.run(*there)
    assert again.results["answers"]["cached"] == 48
    assert again.results["response_set"] == outcome.results["response_set"]
    assert config_hash(bench.config(*there)) == config_hash(bench.config(*asked))


def test_unpaired_surrogates_and_huge_counts_can_be_stored(tasks: list[ImageTask]) -> None:
    def route(seen: Seen, before: int) -> Reply:
        body = completion("a fine \ud83d day \ud83d\ude00", prompt=9 if before == 0 else 99)
        body["usage"]["completion_tokens"] = 10**30 if before > 1 else 3
        return Reply(json.dumps(body | {"model": "m\udc00"}))

    with serving({CHAT: route, MODELS: listed(root="r\ud800")}) as server:
        asked = engine(server)
        asked.identity()
        (answer,) = [a for b in asked.answer([replace(tasks[0], questions=tasks[0].questions[:1])]) for a in b]
        told = json.dumps([asked.identity(), asked.runtime()], ensure_ascii=False)
    assert (answer.text, answer.tokens) == ("a fine \ufffd day \U0001f600", 0)
    assert told.encode()


def test_a_deeply_nested_reply_fails_its_answer_only(tasks: list[ImageTask]) -> None:
    def route(seen: Seen, before: int) -> Reply:
        if text_of(seen.body) == tasks[0].questions[0].text:
            return Reply('{"choices": ' + "[" * 200_000 + "]" * 200_000 + "}")
        return words(seen, before)

    with serving({CHAT: route}) as server:
        answers = collect(engine(server, attempts=1).answer(tasks[:1]))
    failed = {key for key, answer in answers.items() if answer.error is not None}
    assert failed == {(tasks[0].image_id, tasks[0].questions[0].question_id)}


@pytest.mark.package(name="planning")
def test_the_cost_is_planned_and_capped_before_anything_is_asked(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the most that is generated at first, by the tokens of stored answers later."""
    monkeypatch.setenv("COLUMNS", "250")
    with serving({MODELS: listed(owned_by="me"), CHAT: words}) as server:
        asked = ["model=openai_compat", "model.id=some/model", f"model.base_url={server.url}"]
        prices = ["engine.price_input=2", "engine.price_output=8"]
        assert fp2("plan", *bench.words(*asked, *prices)) == 0
        out = capsys.readouterr().out
        assert "for 432 requests" in out
        assert "the most that is generated" in out
        assert "on a few images first" in out
        assert fp2("plan", *bench.words(*asked, "engine.rate=0.1")) == 0
        assert "72 minutes (at the stated 0.1 answers a second)" in capsys.readouterr().out
        with pytest.raises(Fp2Error, match=r"would cost about 1\.\d\d for 432 requests.*answers\.max_cost=0\.5"):
            bench.run(*asked, *prices, "answers.max_cost=0.5")
        with pytest.raises(Fp2Error, match="price of an answer is unknown"):
            bench.run(*asked, "answers.max_cost=0.5")
        with pytest.raises(Fp2Error, match="both prices"):
            bench.run(*asked, "engine.price_input=2")
        assert not chats(server)
        assert bench.run(*asked, *prices, "answers.max_cost=5", "data.limit=2").results["complete"]
        assert fp2("plan", *bench.words(*asked, *prices)) == 0
        assert "as stored answers have" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("listed", "fits"),
    [(["m"], True), (["m:latest"], True), (["*"], True), ([], True), (["llava", "other"], False)],
)
def test_a_model_that_the_server_does_not_list_is_refused_before_anything_is_asked(
    listed: list[str], fits: bool
) -> None:
    with serving({MODELS: lambda seen, before: Reply({"data": [{"id": name} for name in listed]})}) as server:
        engine = OpenAICompatEngine(ServerSpec(server.url, "m"), Decoding())
        if fits:
            engine.check_machine()
        else:
            with pytest.raises(Fp2Error, match=r"no model 'm'.*llava, other"):
                engine.check_machine()
        assert len(server.seen) == len(server.asked(MODELS)) + len(server.asked("/version"))
