"""The key of a server: read from an environment variable, never written, and masked wherever a server repeats it."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote, quote_plus

_SHORTEST = 8
"""Shorter keys (`none`, `EMPTY`) are no secret, and masking them would change ordinary answers."""
MASK = "KEY"


def spellings(key: str) -> tuple[str, ...]:
    """Return the forms in which a key may be repeated, the longest first: plain, for a URL, in hex and in base64.

    In base64 a text begins at one of three offsets; of each, the characters that depend on the key alone are returned.
    """
    if len(key) < _SHORTEST:
        return ()
    data = key.encode()
    forms = {key, quote(key, safe=""), quote_plus(key), data.hex(), data.hex().upper()}
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + data).decode("ascii")
        inner = whole[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
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
