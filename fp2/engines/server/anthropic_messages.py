"""Anthropic's Messages API: requests from chat completions, and messages as chat completions.

Form: API reference, "Create a Message". Anthropic's OpenAI-compatible endpoint does not return the reasoning of a model
(its documentation, "OpenAI SDK compatibility", 28 November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.engines.server.options import SAMPLING

PATH = "/messages"
VERSION = "2023-06-01"
"""Of the API: the header `anthropic-version`."""
_OURS = {"model", "messages", "max_tokens", "max_completion_tokens", *SAMPLING}


def headers(key: str) -> dict[str, str]:
    """Return the headers with the key of an account."""
    return {"x-api-key": key, "anthropic-version": VERSION}


def messages_body(body: Mapping[str, Any]) -> dict[str, object]:
    """Return a chat completion request, of one message, as a request for a message.

    Neither seed nor both of temperature and top-p are taken (`ServerSpec`), and with reasoning no temperature. Fields
    that chat completions of ours do not have are taken to be Anthropic's.
    """
    content = [
        {"type": "text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "image", "source": _source(str(part["image_url"]["url"]))}
        for part in body["messages"][0]["content"]
    ]
    rest = {name: value for name, value in body.items() if name not in _OURS}
    thinks = (rest.get("thinking") or {}).get("type") not in (None, "disabled")
    sampling = "temperature" if "temperature" in body else "top_p"
    return {
        "model": body["model"],
        "max_tokens": int(body.get("max_tokens") or body["max_completion_tokens"]),
        "messages": [{"role": "user", "content": content}],
        **({sampling: body[sampling]} if sampling in body and not thinks else {}),
        **rest,
    }


def _source(url: str) -> dict[str, str]:
    """Return an image with a data URL as Anthropic has it."""
    head, _, data = url.partition(";base64,")
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}


def as_chat(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message as a chat completion: its content keeps the parts of type `thinking`."""
    usage = message.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    cached = [usage.get(f"cache_{name}_input_tokens") or 0 for name in ("read", "creation")]
    reason = "length" if message.get("stop_reason") == "max_tokens" else "stop"
    return {
        "model": message.get("model"),
        "choices": [{"message": {"role": "assistant", "content": message.get("content")}, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": None if "input_tokens" not in usage else (usage["input_tokens"] or 0) + sum(cached),
            "completion_tokens": usage.get("output_tokens"),
        },
    }
