"""Reading a server's reply: bodies of bounded length, messages of errors, and how long it asks to wait."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

MAX_REPLY = 16_000_000  # bytes, decompressed


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


async def read_body(reply: Any) -> bytes:
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
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message", "detail"):
        while isinstance(found, dict) and name in found:
            found = found[name]
    if isinstance(found, list):  # FastAPI lists the errors, with the input beside each
        found = "; ".join(str(item.get("msg", "")) if isinstance(item, dict) else str(item) for item in found)
    return found if isinstance(found, str) else text
