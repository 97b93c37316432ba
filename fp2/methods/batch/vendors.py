"""The files of each vendor's batch API: requests from chat completions, and results as chat completions.

OpenAI (and Azure, and `vllm run-batch`): API reference, "The request input object"; at most 50,000 requests and 200 MB.
Anthropic: API reference, "Create a Message Batch"; 100,000 requests or 256 MB; the file is the body of the call.
Gemini: "Batch API", input file with `key` and `request` a line; 2 GB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.extension import OF_THE_RUN, SAMPLING, Fp2Error, as_chat, messages_body
from fp2.methods.recorded.form import form_of, place

Body = Mapping[str, Any]
Result = tuple[str, Body | None, str]
"""Id of a request, its chat completion (None: it failed), and why it failed."""


@dataclass(frozen=True)
class Vendor:
    """The form of one vendor's files.

    Attributes
    ----------
    request : callable
        (id, chat completion request) -> one request of the file.
    results : callable
        Yields the results in a file.
    suffix : str
    begin, between, end : str
        What stands around the requests of a file.
    most_requests, most_bytes : int
        Of one file.
    """

    request: Callable[[str, Body], Body]
    results: Callable[[Path], Iterator[Result]]
    suffix: str = ".jsonl"
    begin: str = ""
    between: str = "\n"
    end: str = "\n"
    most_requests: int = 50_000
    most_bytes: int = 200_000_000


def _openai_request(name: str, body: Body) -> Body:
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def _openai_results(path: Path) -> Iterator[Result]:
    """Yield the results of a file in the form `openai_batch`, which supplied answers have too."""
    table = form_of(path, "openai_batch").read(path)
    columns = [
        place(table, name) or [None] * len(table)
        for name in ("custom_id", "response.body", "error.message", "response.body.error.message")
    ]
    for name, body, *reasons, status in zip(*columns, table["status"], strict=True):
        reason = next((str(one) for one in reasons if one), str(status))
        yield str(name), body if status == "answered" else None, reason


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict):
                raise Fp2Error("not a result of a batch", where=f"{path}:{number}", fix="Download it again")
            yield value


def _base64(part: Body) -> tuple[str, str]:
    """Return the media type and the data of a part with a data URL."""
    head, _, data = str(part["image_url"]["url"]).partition(";base64,")
    return head.removeprefix("data:"), data


def _anthropic_request(name: str, body: Body) -> Body:
    return {"custom_id": name, "params": messages_body(body)}


def _anthropic_results(path: Path) -> Iterator[Result]:
    for line in _lines(path):
        result = _mapping(line, "result")
        message = _mapping(result, "message")
        if result.get("type") != "succeeded":
            error = _mapping(_mapping(result, "error"), "error") or _mapping(result, "error")
            yield str(line.get("custom_id")), None, str(error.get("message") or result.get("type"))
            continue
        yield str(line.get("custom_id")), as_chat(message), ""


def _mapping(value: Body, name: str) -> Body:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


_GEMINI_NAMES = {"temperature": "temperature", "top_p": "topP", "seed": "seed", "top_logprobs": "logprobs"}


def _gemini_request(name: str, body: Body) -> Body:
    parts = [
        {"text": part["text"]}
        if part["type"] == "text"
        else {"inlineData": dict(zip(("mimeType", "data"), _base64(part), strict=True))}
        for part in body["messages"][0]["content"]
    ]
    names = {**_GEMINI_NAMES, "logprobs": "responseLogprobs"}
    config: dict[str, Any] = {"maxOutputTokens": int(body.get("max_tokens") or body["max_completion_tokens"])}
    config |= {new: body[name] for name, new in names.items() if name in body}
    # the user's own fields are taken to be the vendor's
    rest = {name: value for name, value in body.items() if name not in OF_THE_RUN and name not in SAMPLING}
    if "reasoning_effort" in rest:
        off = rest.pop("reasoning_effort") == "none"
        config["thinkingConfig"] = {"thinkingBudget": 0} if off else {"includeThoughts": True}
    return {
        "key": name,
        "request": {"contents": [{"role": "user", "parts": parts}], "generationConfig": {**config, **rest}},
    }


def _gemini_results(path: Path) -> Iterator[Result]:
    for line in _lines(path):
        response, error = _mapping(line, "response"), _mapping(line, "error") or _mapping(line, "status")
        candidates = response.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        if not isinstance(first, Mapping):
            blocked = _mapping(response, "promptFeedback").get("blockReason")
            yield str(line.get("key")), None, str(error.get("message") or blocked or "no candidate")
            continue
        parts = [part for part in _mapping(first, "content").get("parts") or () if isinstance(part, Mapping)]
        usage = _mapping(response, "usageMetadata")
        thoughts = usage.get("thoughtsTokenCount") or 0
        reasons = {"MAX_TOKENS": "length", "STOP": "stop"}
        message = {
            "role": "assistant",
            "content": "".join(str(part.get("text", "")) for part in parts if not part.get("thought")),
            "reasoning_content": "".join(str(part.get("text", "")) for part in parts if part.get("thought")),
        }
        body = {
            "model": response.get("modelVersion"),
            "choices": [
                {
                    "message": message,
                    "finish_reason": reasons.get(str(first.get("finishReason")), "content_filter"),
                    "logprobs": _gemini_logprobs(first),
                }
            ],
            "usage": {
                "prompt_tokens": usage.get("promptTokenCount"),
                "completion_tokens": (usage.get("candidatesTokenCount") or 0) + thoughts,
                "completion_tokens_details": {"reasoning_tokens": thoughts},
            },
        }
        yield str(line.get("key")), body, ""


def _gemini_logprobs(candidate: Body) -> Body | None:
    """Return the log-probabilities of the first token, in the form of a chat completion."""
    tops = _mapping(candidate, "logprobsResult").get("topCandidates")
    listed = tops[0].get("candidates") if isinstance(tops, list) and tops and isinstance(tops[0], Mapping) else None
    if not listed:
        return None
    top = [{"token": one.get("token"), "logprob": one.get("logProbability")} for one in listed]
    return {"content": [{**top[0], "top_logprobs": top}]}


VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(_openai_request, _openai_results),
    "anthropic": Vendor(
        _anthropic_request, _anthropic_results, ".json", '{"requests": [\n', ",\n", "\n]}\n", 100_000, 256_000_000
    ),
    "gemini": Vendor(_gemini_request, _gemini_results, most_requests=1_000_000, most_bytes=2_000_000_000),
}
