"""The response key of one answer, written out: `ResponseKeys` hashes parts of it once for many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.hashing import digest
from fp2.store.response_keys import KEY_SCHEMA
from fp2.tables import Decoding, Question


def response_key(
    *,
    engine: Mapping[str, Any],
    method: Mapping[str, Any],
    question: Question,
    pixel_sha256: str,
    variant: str,
    variant_params: Mapping[str, Any],
    decoding: Decoding,
    task_identity: Mapping[str, Any],
) -> str:
    """Return the hex SHA-256 under which an answer is stored (`fp2.store.response_keys.ResponseKeys`)."""
    return digest(
        {
            "schema": KEY_SCHEMA,
            "engine": dict(engine),
            "method": dict(method),
            "question": {"text": question.text, "kind": question.kind, "choices": list(question.choices)},
            "picture": {"pixels": pixel_sha256, "variant": variant, "params": dict(variant_params)},
            "decoding": decoding.in_key(question.kind),
            "sample_index": question.sample,
            "task": dict(task_identity),
        }
    )
