"""What is sent to a server and read from its reply when an answer is wanted in words, by `/chat/completions`.

Form of the endpoint: OpenAI's API reference, "Create chat completion"; served alike by vLLM, SGLang, llama.cpp, Ollama
and `transformers serve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.engines.server.client import RefusedError, ServerClient
from fp2.tables import Decoding

METHOD = "server_chat/1"  # raise the number whenever a change here can change an answer
PATH = "/chat/completions"
NEWER_LIMIT = "max_completion_tokens"
DATA_URL = "data:image/png;base64,"


def messages(text: str, picture: str | None) -> list[dict[str, Any]]:
    """Return the conversation: the picture (base64 of a PNG; None shows none), then the question."""
    content: list[dict[str, Any]] = []
    if picture is not None:
        content.append({"type": "image_url", "image_url": {"url": DATA_URL + picture}})
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]


def words_body(model: str, text: str, picture: str | None, decoding: Decoding, seed: int) -> dict[str, Any]:
    """Return the request for an answer in words: greedy, or sampled with `seed`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": messages(text, picture),
        "max_tokens": decoding.max_new_tokens,
        "temperature": decoding.temperature,
    }
    return body if decoding.temperature <= 0 else {**body, "top_p": 1.0, "seed": seed}


async def post_chat(client: ServerClient, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a chat completion; where the server knows `max_tokens` by its newer name only, use that from then on.

    Raises
    ------
    RefusedError, UnreachableError
    """
    try:
        return await client.post(PATH, _renamed(body, client.token_limit))
    except RefusedError as error:
        if client.token_limit == NEWER_LIMIT or NEWER_LIMIT not in str(error):
            raise
    client.token_limit = NEWER_LIMIT
    return await client.post(PATH, _renamed(body, client.token_limit))


def _renamed(body: Mapping[str, Any], limit: str) -> dict[str, Any]:
    return {limit if name == "max_tokens" else name: value for name, value in body.items()}


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the (only) completion in a reply.

    Raises
    ------
    RefusedError
        If there is none.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise RefusedError("the server's answer holds no completion")
    return choices[0]


def read_words(reply: Mapping[str, Any]) -> tuple[str, int]:
    """Return the words, and of how many tokens they are (0 if the server does not say).

    A refusal that the server tells apart from the content is the model's answer all the same.

    Raises
    ------
    RefusedError
        If there are no words: a content filter took them away, or all tokens went into reasoning.
    """
    choice = first_choice(reply)
    message, reason = choice.get("message"), choice.get("finish_reason")
    if reason == "content_filter":
        raise RefusedError("the server's content filter withheld the answer")
    text = None
    if isinstance(message, dict):
        text = message.get("content") if message.get("content") is not None else message.get("refusal")
    if isinstance(text, list):  # some servers answer in parts
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    if not isinstance(text, str) or (not text and reason == "length"):
        raise RefusedError(f"the server answered without words (finish reason: {reason})")
    return text.strip(), count_of(reply, "completion_tokens") or 0


def count_of(reply: Mapping[str, Any], name: str) -> int | None:
    """Return a count from the reply's `usage`, or None if it is not told (or is none)."""
    usage = reply.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else None
