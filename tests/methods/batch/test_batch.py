"""`fp2 batch`: a run by files has the answers and keys of a run that asks, for the files of each vendor."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, fp2, results_of
from checkpoint_fixtures import picture_task
from fake_server import FakeServer, Reply, Seen, completion, serving, text_of, tokens

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.base import open_image, open_images
from fp2.engines.reasoning import Split
from fp2.engines.server.chat import png, read_completion, shown
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.methods.batch import vendors
from fp2.methods.batch.command import _write_files
from fp2.tables import Decoding, Question

pytestmark = pytest.mark.package(name="batch")
CHAT = "/v1/chat/completions"
YES_NO = Question("leader", "p", "Would this person be a leader?", "yes_no")
TEXT = Question("work", "p", "What does this person do?")
ASKED = ("model=openai_compat", "model.id=m", "probe.select=[trust]", "data.limit=6", "analysis.min_subjects=2")


def model(seen: Seen, before: int) -> Reply:
    """Answer yes/no questions in words too."""
    if text_of(seen.body) == YES_NO.text and not seen.body.get("logprobs"):
        return Reply(completion("Yes, he would."))
    return tokens(seen, before)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving({CHAT: model}) as running:
        yield running


def answered(body: dict[str, Any]) -> dict[str, Any]:
    """Return the chat completion of the mock model."""
    reply = model(Seen(CHAT, body, {}, 0.0), 0).body
    assert isinstance(reply, dict)
    return reply


def openai(path: Path) -> Iterator[dict[str, Any]]:
    """Answer a file of requests as OpenAI's batch API does."""
    for line in path.read_text().splitlines():
        request = json.loads(line)
        assert (request["method"], request["url"]) == ("POST", CHAT)
        response = {"status_code": 200, "request_id": "r", "body": answered(request["body"])}
        yield {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


def anthropic(path: Path) -> Iterator[dict[str, Any]]:
    """Answer as Anthropic's does: native requests, text and thinking in parts, other names of counts."""
    for request in json.loads(path.read_text())["requests"]:
        assert set(request) == {"custom_id", "params"}
        assert len(request["custom_id"]) <= 64
        params = request["params"]
        image, text = params["messages"][0]["content"]
        assert image["source"]["type"] == "base64"
        url = f"data:{image['source']['media_type']};base64,{image['source']['data']}"
        reply = answered(
            {**params, "messages": [{"content": [{"type": "image_url", "image_url": {"url": url}}, text]}]}
        )
        message = {
            "type": "message",
            "model": "m-2026",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": reply["choices"][0]["message"]["content"]}],
            "usage": {"input_tokens": 90, "cache_read_input_tokens": 9, "output_tokens": 3},
        }
        yield {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": message}}


def gemini(path: Path) -> Iterator[dict[str, Any]]:
    """Answer as Gemini's does: contents, a generation config, candidates."""
    for line in path.read_text().splitlines():
        request = json.loads(line)["request"]
        image, text = request["contents"][0]["parts"]
        assert request["generationConfig"]["maxOutputTokens"] > 0
        url = f"data:{image['inlineData']['mimeType']};base64,{image['inlineData']['data']}"
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text["text"]}]
        config = request["generationConfig"]
        more = {"logprobs": config.get("responseLogprobs"), "top_logprobs": config.get("logprobs")}
        reply = answered({"messages": [{"content": content}], **more})
        candidate = {
            "content": {"role": "model", "parts": [{"text": reply["choices"][0]["message"]["content"]}]},
            "finishReason": "STOP",
        }
        if more["logprobs"]:
            top = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            listed = [{"token": one["token"], "logProbability": one["logprob"]} for one in top]
            candidate["logprobsResult"] = {"topCandidates": [{"candidates": listed}]}
        usage = {"promptTokenCount": 99, "candidatesTokenCount": 3}
        response = {"candidates": [candidate], "modelVersion": "m-2026", "usageMetadata": usage}
        yield {"key": json.loads(line)["key"], "response": response}


MOCKS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "openai": openai, "anthropic": anthropic, "gemini": gemini,
}  # fmt: skip


def write_results(folder: Path, form: str, wanted: slice = slice(None)) -> Path:
    lines = [line for path in sorted(folder.glob("requests-*")) for line in MOCKS[form](path)][wanted]
    path = folder / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def batch(bench: Bench, server: FakeServer, *words: str) -> int:
    return fp2("batch", *words, *bench.words(*ASKED, f"model.base_url={server.url}"))


def test_a_run_by_files_has_the_answers_of_a_run_that_asks(
    bench: Bench, tmp_path: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    form = "openai"
    to = tmp_path / "batch"
    assert batch(bench, server, "write", "--form", form, "--to", str(to)) == 0
    (written,) = to.glob("requests-*")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    part = write_results(to, form, slice(4))
    prices = ("engine.price_input=2", "engine.price_output=10")
    assert batch(bench, server, "read", str(part), "--form", form, "--json", *prices) == 0
    told = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert (told["answers"], told["failed"], told["missing"], told["of_others"]) == (4, 0, 2, 0)
    stated = [json.loads(line)["response"]["body"]["usage"] for line in part.read_text().splitlines()]
    tokens_in, tokens_out = (sum(one[name] for one in stated) for name in ("prompt_tokens", "completion_tokens"))
    assert told["spent"]["requests"] == 4
    assert (told["spent"]["tokens_in"], told["spent"]["tokens_out"]) == (tokens_in, tokens_out)
    assert told["spent"]["cost"] == pytest.approx((2 * tokens_in + 10 * tokens_out) / 1e6 / 2)
    rest = tmp_path / "rest"
    assert batch(bench, server, "write", "--form", form, "--to", str(rest)) == 0
    assert batch(bench, server, "read", str(write_results(rest, form)), str(part), "--form", form) == 0
    before = len(server.asked(CHAT))
    assert bench.launch(*ASKED, f"model.base_url={server.url}") == 0
    assert len(server.asked(CHAT)) == before, "all from the store"
    assert results_of(bench.run_folders()[-1])["answers"]["cached"] == 6
    shown = {pixel_sha256(open_rgb(path)) for path in bench.pictures.glob("*.png")}
    texts = pd.read_parquet(bench.run_folders()[-1] / "responses.parquet")["text"]
    assert texts.nunique() == 6
    assert {text.split()[0] for text in texts} <= shown, "the mock answers with the digest of the image it was shown"


def test_failed_and_foreign_results(
    bench: Bench, tmp_path: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "batch"
    assert batch(bench, server, "write", "--to", str(to)) == 0
    assert batch(bench, server, "write", "--to", str(to)) == 2, "no file is written over"
    results = write_results(to, "openai")
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    lines[0]["response"] = {"status_code": 500, "body": {"error": {"message": "it broke"}}}
    lines[1] |= {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    lines[2]["custom_id"] = "another-0"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert batch(bench, server, "read", str(results), "--json") == 0
    told = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert (told["answers"], told["failed"], told["missing"], told["of_others"]) == (3, 2, 1, 1)
    other = fp2("batch", "read", str(results), *bench.words(*ASKED, "model.id=n", f"model.base_url={server.url}"))
    assert other == 2
    assert "is of this run" in capsys.readouterr().err
    results.write_text("{}\nnot json\n")
    for form in MOCKS:
        assert batch(bench, server, "read", str(results), "--form", form) == 2
    for words_ in (["read"], ["write", "file.jsonl"], ["send"], ["read", "nowhere.jsonl"], ["write", "--form", "x"]):
        assert batch(bench, server, *words_) == 2
    assert fp2("batch", "write", *bench.words("model=planted")) == 2


@pytest.mark.parametrize("form", MOCKS)
@pytest.mark.parametrize(("question", "scoring"), [(TEXT, "auto"), (YES_NO, "logprobs"), (YES_NO, "sampled")])
def test_answers_by_files_are_those_of_requests(
    form: str, question: Question, scoring: Any, tmp_path: Path, server: FakeServer
) -> None:
    if (form, scoring) == ("anthropic", "logprobs"):  # it has none
        scoring = "sampled"
    made = OpenAICompatEngine(ServerSpec(server.url, "m"), Decoding(), ServerOptions(scoring=scoring, samples=2))
    task = replace(picture_task(tmp_path / "0.png", seed=0), questions=(question,))
    ((live,),) = made.answer([task])
    vendor = vendors.VENDORS[form]
    bodies = made.requests(task, question, png(open_image(task)))
    requests = [(str(number), body) for number, body in enumerate(bodies)]
    _write_files(vendor, requests, tmp_path)
    results = {name: body for name, body, _ in vendor.results(write_results(tmp_path, form))}
    by_file = made.read(task, question, [results[name] or {} for name, _ in requests])
    assert live.error is None
    assert by_file == replace(live, seconds=by_file.seconds)


@pytest.mark.parametrize("form", MOCKS)
def test_a_request_shows_both_images_in_their_order(form: str, tmp_path: Path, server: FakeServer) -> None:
    first, second = (picture_task(tmp_path / f"{seed}.png", seed=seed) for seed in (0, 1))
    both = replace(first, questions=(TEXT,), second=second.path, variant_params={"second": second.pixel_sha256})
    engine = OpenAICompatEngine(ServerSpec(server.url, "m"), Decoding(), ServerOptions())
    (body,) = engine.requests(both, TEXT, shown(open_images(both)))
    line = json.dumps(vendors.VENDORS[form].request("0", body))
    places = [line.find(png(open_image(task))) for task in (first, second)]
    assert 0 < places[0] < places[1]


def test_results_with_reasoning_and_without_an_answer(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "Let me see."}
    usage = {"input_tokens": 9, "output_tokens": 30}
    of_anthropic = [
        {
            "custom_id": "a",
            "result": {
                "type": "succeeded",
                "message": {
                    "content": [thought, {"type": "text", "text": "A nurse."}],
                    "usage": usage,
                    "stop_reason": "end_turn",
                },
            },
        },
        {
            "custom_id": "b",
            "result": {
                "type": "succeeded",
                "message": {"content": [thought], "usage": usage, "stop_reason": "max_tokens"},
            },
        },
        {"custom_id": "c", "result": {"type": "errored", "error": {"type": "error", "error": {"message": "too big"}}}},
        {"custom_id": "d", "result": {"type": "expired"}},
    ]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 10, "thoughtsTokenCount": 20}
    parts = [{"text": "Let me see.", "thought": True}, {"text": "A nurse."}]
    of_gemini = [
        {
            "key": "a",
            "response": {"usageMetadata": usage, "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]},
        },
        {
            "key": "b",
            "response": {
                "usageMetadata": usage,
                "candidates": [{"content": {"parts": parts[:1]}, "finishReason": "MAX_TOKENS"}],
            },
        },
        {"key": "c", "error": {"code": 3, "message": "too big"}},
        {"key": "d", "response": {"promptFeedback": {"blockReason": "SAFETY"}}},
    ]
    for form, lines in (("anthropic", of_anthropic), ("gemini", of_gemini)):
        path = tmp_path / form
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found = {name: (body, reason) for name, body, reason in vendors.VENDORS[form].results(path)}
        completion = read_completion(found["a"][0] or {}, Decoding())
        assert (completion.split, completion.tokens) == (Split("Let me see.", "A nurse."), 30)
        assert read_completion(found["b"][0] or {}, Decoding()).split.answer is None, "no answer, and no score"
        assert [found[name][0] for name in "cd"] == [None, None]
        assert [found[name][1] for name in "cd"] == ["too big", "expired" if form == "anthropic" else "SAFETY"]


def test_files_keep_to_the_limits_of_a_vendor(tmp_path: Path) -> None:
    body = {"model": "m", "max_tokens": 3, "messages": [{"content": [{"type": "text", "text": "x" * 50}]}]}
    requests = [(f"k-{i}", body) for i in range(7)]
    few = replace(vendors.VENDORS["openai"], most_requests=3)
    assert list(_write_files(few, requests, tmp_path).values()) == [3, 3, 1]
    (tmp_path / "small").mkdir()
    small = replace(vendors.VENDORS["anthropic"], most_bytes=400)
    counts = _write_files(small, requests, tmp_path / "small")
    sizes = {name: (tmp_path / "small" / name).stat().st_size for name in counts}
    assert sum(counts.values()) == 7
    assert max(sizes.values()) <= 400
    asked = [
        one["custom_id"] for name in counts for one in json.loads((tmp_path / "small" / name).read_text())["requests"]
    ]
    assert asked == [name for name, _ in requests]
