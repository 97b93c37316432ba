"""What makes one answer the same answer: the response key, and the digest of all the keys that a run planned.

The key holds everything that can change the words of a model, and nothing else: no group, no score, no path, no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fp2.hashing import digest

if TYPE_CHECKING:
    from fp2.engines.base import Decoding, Question

KEY_SCHEMA = 1


def response_key(
    *,
    engine: Mapping[str, Any],
    question: Question,
    pixel_sha256: str,
    variant: str,
    variant_params: Mapping[str, Any],
    decoding: Decoding,
    task_identity: Mapping[str, Any],
    surface_forms: Sequence[str] = (),
    option_order: Sequence[str] = (),
    sample_index: int = 0,
) -> str:
    """Return the hex SHA-256 that one answer is kept under.

    Parameters
    ----------
    engine : Mapping
        `Engine.identity()`: engine and version family, model, weights, dtype, processor, chat template, scoring method.
    question : Question
        Its text and kind count. Its id, probe, template and trait are our names for it, and do not.
    pixel_sha256 : str
        Digest of the decoded pixels of the original picture.
    variant, variant_params : str, Mapping
        How the picture was changed before it was shown, and with what parameters.
    decoding : Decoding
        Generation parameters, the seed among them.
    task_identity : Mapping
        `Engine.task_identity(task)`: empty for a real model.
    surface_forms, option_order : sequence of str
        Spellings that count as an answer, and the order in which options are shown (questions with fixed options).
    sample_index : int
        Which of several sampled answers this is.

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
            "question": {
                "text": question.text,
                "kind": question.kind,
                "surface_forms": list(surface_forms),
                "option_order": list(option_order),
            },
            "picture": {"pixels": pixel_sha256, "variant": variant, "params": dict(variant_params)},
            "decoding": asdict(decoding),
            "sample_index": sample_index,
            "task": dict(task_identity),
        }
    )


def response_set(keys: Iterable[str]) -> str:
    """Return the digest of the set of `keys`: the same for any order, and for keys given twice."""
    return digest(sorted(set(keys)))
