"""The response key, which identifies one answer, and the response set, which identifies all answers of a run.

The key contains everything that can change an answer, and nothing else: no group, no score, no path, no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fp2.hashing import digest

if TYPE_CHECKING:
    from fp2.tables import Decoding, Question

KEY_SCHEMA = 2


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
    sample_index: int = 0,
) -> str:
    """Return the hex SHA-256 under which one answer is stored.

    Parameters
    ----------
    engine : Mapping
        `Engine.identity()`: engine and version family, model, weights, dtype, processor, chat template.
    method : Mapping
        `Engine.method(question)`: how the answer is obtained, with version, prompt format and surface forms.
    question : Question
        Its text, kind and choices are hashed; its id, probe, template and trait are not.
    pixel_sha256 : str
        Digest of the decoded pixels of the original image.
    variant, variant_params : str, Mapping
        The image variant and its parameters.
    decoding : Decoding
        Generation parameters with the seed, hashed for questions that are answered in words; and the orders in which
        options are shown, hashed for a choice.
    task_identity : Mapping
        `Engine.task_identity(task)`: empty for a real model.
    sample_index : int
        The index among several sampled answers.

    Raises
    ------
    ValueError
        If a float among the parameters is NaN or infinite.
    TypeError
        If a value is not a JSON value.
    """
    return digest(
        {
            "schema": KEY_SCHEMA,
            "engine": dict(engine),
            "method": dict(method),
            "question": {"text": question.text, "kind": question.kind, "choices": list(question.choices)},
            "picture": {"pixels": pixel_sha256, "variant": variant, "params": dict(variant_params)},
            "decoding": _decoding(question, decoding),
            "sample_index": sample_index,
            "task": dict(task_identity),
        }
    )


def _decoding(question: Question, decoding: Decoding) -> dict[str, Any]:
    """Return the part of `decoding` that can change the answer to this kind of question."""
    if question.kind == "yes_no":
        return {}
    if question.kind == "choice":
        return {"choice_orders": decoding.choice_orders}
    return {name: value for name, value in asdict(decoding).items() if name != "choice_orders"}


def response_set(keys: Iterable[str]) -> str:
    """Return the digest of the set of `keys`, whatever their order and repetitions."""
    return digest(sorted(set(keys)))
