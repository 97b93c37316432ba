"""Reading a server's reply: bodies of bounded length, messages of errors, how long it asks to wait.

The key of a server is masked wherever a reply repeats it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    import httpx2

MAX_REPLY = 16_000_000  # bytes, decompressed
_SHORTEST = 8
"""Shorter keys (`none`, `EMPTY`) are no secret, and masking them would change ordinary answers."""
MASK = "KEY"


class RefusedError(Exception):
    """The server refuses a request, or its reply cannot be read; another attempt would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())


async def read_body(reply: httpx2.Response) -> bytes:
    """Return the body of a reply, decompressed; no more than `MAX_REPLY` bytes are ever held.

    Raises
    ------
    RefusedError
        If it is larger, or in an encoding that was not asked for.
    """
    encoding = str(reply.headers.get("content-encoding", "identity")).strip().lower()
    if encoding not in ("identity", "", "gzip", "deflate"):
        raise RefusedError("the server's reply is in an encoding that was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
    content = bytearray()
    async for chunk in reply.aiter_raw():
        content += unpack.decompress(chunk, MAX_REPLY + 1 - len(content)) if unpack else chunk
        if len(content) > MAX_REPLY:
            raise RefusedError(f"the server's reply is longer than {MAX_REPLY / 1e6:.0f} MB")
    return bytes(content)


def error_message(text: str) -> str:
    """Return the message of an error body: `error.message`, `message` or `detail`; else the body itself."""
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message", "detail"):
        while isinstance(content, dict) and name in content:
            content = content[name]
    if isinstance(content, list):  # FastAPI lists the errors, with the input beside each
        content = "; ".join(str(item.get("msg", "")) if isinstance(item, dict) else str(item) for item in content)
    return content if isinstance(content, str) else text


def spellings(key: str) -> tuple[str, ...]:
    """Return the forms in which a key may be repeated, the longest first: plain, for a URL, in hex and in base64.

    In base64 a text begins at one of three offsets; of each, the characters that depend on the key alone are returned.
    """
    if len(key) < _SHORTEST:
        return ()
    data = key.encode()
    forms = {key, quote(key, safe=""), quote_plus(key), data.hex(), data.hex().upper()}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode("ascii")
        inner = encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= _SHORTEST), key=len, reverse=True))


def masked(value: Any, secrets: tuple[str, ...]) -> Any:
    """Return a JSON value of a server without `secrets` and without unpaired surrogates (`\\ud800`).

    No file and no database stores such a surrogate.
    """
    if isinstance(value, str):
        text = value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        for secret in secrets:
            text = text.replace(secret, MASK)
        return text
    if isinstance(value, list):
        return [masked(item, secrets) for item in value]
    if isinstance(value, dict):
        return {masked(name, secrets): masked(item, secrets) for name, item in value.items()}
    return value


def reasoning_count(reply: Mapping[str, object]) -> int:
    """Return how many tokens of a reply are of reasoning; 0 where it does not say."""
    usage = reply.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    return token_count({"usage": details}, "reasoning_tokens") or 0


def token_count(reply: Mapping[str, object], name: str) -> int | None:
    """Return a count of the reply's `usage`, or None if it is missing or not a count."""
    usage = reply.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else None
