"""Chat completions: the request for an answer in words, and how its reply is read (`/chat/completions`).

Form of the endpoint: OpenAI's API reference, "Create chat completion"; vLLM, SGLang, llama.cpp, Ollama and
`transformers serve` have the same.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.engines.reasoning import THINK, Split, split_reasoning
from fp2.engines.server import anthropic_messages
from fp2.engines.server.client import Channel
from fp2.engines.server.replies import RefusedError, reasoning_count, token_count
from fp2.tables import STILL_REASONING, Decoding

if TYPE_CHECKING:
    from PIL import Image

METHOD = "server_chat/1"  # raise the number with every change that can change an answer
PATH = "/chat/completions"
NEWER_LIMIT = "max_completion_tokens"
DATA_URL = "data:image/png;base64,"
_PROBE_SIDE = 64  # pixels
Shown = str | tuple[str, ...] | None
"""The image that a request shows, as the base64 of a PNG; several; or none."""


def png(image: Image.Image) -> str:
    """Return an image as the base64 of a PNG, which is lossless."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


@functools.cache
def probe_images() -> dict[str, str]:
    """Return a black and a white image, as `png` encodes them."""
    from PIL import Image

    return {name: png(Image.new("RGB", (_PROBE_SIDE, _PROBE_SIDE), name)) for name in ("black", "white")}


def shown(images: Sequence[Image.Image]) -> Shown:
    """Return the images of a prompt as requests have them."""
    pngs = tuple(map(png, images))
    return pngs[0] if len(pngs) == 1 else pngs


def messages(text: str, image: Shown) -> list[dict[str, object]]:
    """Return the conversation: the images, then the question."""
    images = () if image is None else (image,) if isinstance(image, str) else image
    content: list[dict[str, object]] = [
        {"type": "image_url", "image_url": {"url": DATA_URL + encoded}} for encoded in images
    ]
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]


def chat_body(model: str, text: str, image: Shown, decoding: Decoding, seed: int) -> dict[str, object]:
    """Return the request for an answer in words: greedy, or sampled with `seed`."""
    sampling = {"top_p": 1.0, "seed": seed} if decoding.sampled else {}
    return {"model": model, "messages": messages(text, image), **sampling, **decoding.request()}


async def post_chat(channel: Channel, body: Mapping[str, object], *, also: bool = True) -> dict[str, object]:
    """Send a chat completion; if the server accepts `max_tokens` by its newer name only, use that from then on.

    `also`: with the fields that every question of the run has (`ServerClient.also`). `ServerClient.fields` are in every
    request.

    Raises
    ------
    RefusedError, UnreachableError
    """
    body = with_fields(body, {**(channel.client.also if also else {}), **channel.client.fields})
    if channel.client.messages:
        message = await channel.post(anthropic_messages.PATH, anthropic_messages.messages_body(body))
        return anthropic_messages.as_chat(message)
    try:
        return await channel.post(PATH, with_limit(body, channel.client.token_limit))
    except RefusedError as error:
        if channel.client.token_limit == NEWER_LIMIT or NEWER_LIMIT not in str(error):
            raise
    channel.client.token_limit = NEWER_LIMIT
    return await channel.post(PATH, with_limit(body, channel.client.token_limit))


def with_fields(body: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """Return a request with these fields in place of its own, and without those that are None."""
    return {name: value for name, value in {**body, **fields}.items() if value is not None}


def with_limit(body: Mapping[str, object], limit: str) -> dict[str, object]:
    """Return a request with its limit of new tokens under this name."""
    return {limit if name == "max_tokens" else name: value for name, value in body.items()}


def first_choice(reply: Mapping[str, object]) -> Mapping[str, object]:
    """Return the (only) completion in a reply.

    Raises
    ------
    RefusedError
        If there is none.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise RefusedError("the server's reply has no completion")
    return choices[0]


@dataclass(frozen=True)
class Completion:
    """What a reply says.

    Attributes
    ----------
    split : Split
        The reasoning and the answer.
    tokens, reasoning_tokens : int
        Generated in all, and of the reasoning; 0 if the server does not report them.
    cut : bool
        Whether it ends at the limit of tokens.
    """

    split: Split
    tokens: int
    reasoning_tokens: int
    cut: bool


def read_completion(reply: Mapping[str, object], decoding: Decoding) -> Completion:
    """Return the answer of a completion and the reasoning before it.

    The reasoning is in a field of its own (`reasoning_content` of vLLM, SGLang and llama.cpp, `reasoning` of
    OpenRouter, Ollama and newer vLLM, a part of type `thinking` of Anthropic), between the marks `<think>` in the
    text, or kept back and only counted. A refusal that the server reports in a field of its own is an answer.

    Raises
    ------
    RefusedError
        If there is no text (a content filter removed it), or far more of it than the tokens asked for make.
    """
    choice = first_choice(reply)
    message, reason = choice.get("message"), choice.get("finish_reason")
    if reason == "content_filter":
        raise RefusedError("the server's content filter withheld the answer")
    message = message if isinstance(message, dict) else {}
    text = message.get("content") if message.get("content") is not None else message.get("refusal")
    named = [message.get(name) for name in ("reasoning_content", "reasoning")]
    if isinstance(text, list):  # some servers answer in parts
        text_items = [item for item in text if isinstance(item, dict)]
        named += [_joined(item.get("thinking")) for item in text_items]
        text = "".join(str(item.get("text", "")) for item in text_items)
    reasoning_tokens = reasoning_count(reply)
    split = split_reasoning(text if isinstance(text, str) else "", THINK)
    if stated := next(
        (text_value.strip() for text_value in named if isinstance(text_value, str) and text_value.strip()), None
    ):
        split = Split(stated, split.answer)
    elif split.reasoning is None and reasoning_tokens:
        split = split._replace(reasoning="")
    tokens, cut = token_count(reply, "completion_tokens") or 0, reason == "length"
    used_up = reasoning_tokens > 0 and tokens - reasoning_tokens >= decoding.max_new_tokens
    if split.reasoning is not None and cut and not used_up:  # the reasoning has left too few tokens to the answer
        split = split._replace(answer=None)
    elif not isinstance(text, str) or (not text and cut):
        raise RefusedError(f"the server answered without text (finish reason: {reason})")
    if (length := len(split.answer or "")) > decoding.longest_answer:
        size = f"{length} characters, far more than {decoding.max_new_tokens} tokens make"
        raise RefusedError(f"the server answered with {size}")
    return Completion(split, tokens, reasoning_tokens, cut)


def _joined(thinking: object) -> str | None:
    """Return the text of a part of type `thinking`, which Mistral gives as a list of texts."""
    if isinstance(thinking, list):
        return "".join(str(item.get("text", "")) for item in thinking if isinstance(item, dict))
    return thinking if isinstance(thinking, str) else None


def read_text(reply: Mapping[str, object], decoding: Decoding) -> tuple[str, int]:
    """Return the answer of a completion without its reasoning, and all its tokens (see `read_completion`).

    Raises
    ------
    RefusedError
        Also if all tokens went into reasoning.
    """
    completion = read_completion(reply, decoding)
    if completion.split.answer is None:
        raise RefusedError(STILL_REASONING)
    return completion.split.answer, completion.tokens
