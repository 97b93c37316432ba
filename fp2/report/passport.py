"""The Bias Passport: a statement about a run (see `statement`) as canonical JSON, signed with Ed25519.

DSSE envelope: https://github.com/secure-systems-lab/dsse. The signature is over `DSSEv1 <len type> <type> <len payload>
<payload>`; the payload is RFC 8785 canonical JSON, so equal statements are equal bytes.
"""

from __future__ import annotations

import copy
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rfc8785
from securesystemslib.dsse import Envelope

from fp2.artifacts import PASSPORT
from fp2.errors import Fp2Error
from fp2.report.keys import SigningKey
from fp2.report.statement import build_statement

PAYLOAD_TYPE = "application/vnd.in-toto+json"

__all__ = ["PAYLOAD_TYPE", "build_statement", "canonical_bytes", "countersign", "sign", "write_passport"]


def canonical_bytes(statement: Mapping[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of `statement`.

    Raises
    ------
    Fp2Error
        Naming the first NaN, infinity, integer beyond 2^53 - 1, or value that is not JSON.
    """
    try:
        return rfc8785.dumps(dict(statement))
    except (rfc8785.CanonicalizationError, TypeError, RecursionError) as error:
        place = _first_not_finite(statement, "statement")
        what = "a number is not finite" if place else f"a value cannot be written as canonical JSON: {error}"
        raise Fp2Error(f"the passport cannot be signed: {what}", where=place or "statement") from error


def sign(statement: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """Return the signed DSSE envelope; equal statements and keys give equal envelopes, byte for byte.

    Raises
    ------
    Fp2Error
        If the statement cannot be written canonically (`canonical_bytes`).
    """
    envelope = Envelope(canonical_bytes(statement), PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    return dict(envelope.to_dict())


def countersign(envelope: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """Return the envelope with a further signature (an auditor's, for instance) over the same payload bytes.

    Raises
    ------
    Fp2Error
        If `envelope` is not a DSSE envelope.
    """
    try:
        read = Envelope.from_dict(copy.deepcopy(dict(envelope)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fp2Error("not a signed passport: it has no DSSE envelope") from error
    read.sign(key.signer)
    return dict(read.to_dict())


def write_passport(
    folder: Path, results: Mapping[str, Any], artifacts: Mapping[str, Path], extra: Mapping[str, Any], key: SigningKey
) -> Path:
    """Build, sign and write `passport.json` in `folder` (atomically); return its path.

    Raises
    ------
    Fp2Error
        As `build_statement` and `sign` do, or if the file cannot be written.
    """
    envelope = sign(build_statement(results, artifacts, extra), key)
    path = folder / PASSPORT
    try:
        write_atomically(path, json.dumps(envelope, indent=2) + "\n")
    except OSError as error:
        raise Fp2Error(f"the passport cannot be written: {error.strerror or error}", where=str(path)) from error
    return path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to a temporary file and rename it to `path`."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _first_not_finite(value: Any, place: str) -> str | None:
    """Return the place of the first NaN or infinity, as `statement.predicate.disparities[3].raw`, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        items = [(f"{place}.{key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
    return next((found for name, item in items if (found := _first_not_finite(item, name))), None)
