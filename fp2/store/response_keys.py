"""Response keys, under which answers are stored a row each; the response set identifies all answers of a run.

A response key contains everything that can change an answer, and nothing else: no group, no score, no path, no device.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fp2.hashing import canonical_json

if TYPE_CHECKING:
    from fp2.tables import Decoding, Question

_AT_ONCE = 1000  # keys

KEY_SCHEMA = 2


class ResponseKeys:
    """The response keys of many stimuli: what they have in common is hashed once.

    A key is the SHA-256 of the canonical JSON of all that it covers.

    Parameters
    ----------
    engine : Mapping
        `Engine.identity()`: engine and version family, model, weights, dtype, processor, chat template.
    questions : sequence of Question
        Their texts, kinds, choices and samples are hashed; ids, probes, templates and traits are not.
    methods : sequence of Mapping
        `Engine.method(question)` of each: how the answer is obtained, with version, prompt format and surface forms.
    decoding : Decoding
        Generation parameters with the seed, hashed for questions that are answered in words; and the orders in which
        options are shown, hashed for a choice.

    Raises
    ------
    ValueError
        If a float among the parameters, or those of `of`, is NaN or infinite.
    TypeError
        If a value is not a JSON value.
    """

    def __init__(
        self,
        engine: Mapping[str, object],
        questions: Sequence[Question],
        methods: Sequence[Mapping[str, object]],
        decoding: Decoding,
    ) -> None:
        heads = (
            _open_json({"decoding": decoding.in_key(question.kind), "engine": engine, "method": method})
            for question, method in zip(questions, methods, strict=True)
        )
        self._heads = [hashlib.sha256(head + b',"picture":') for head in heads]
        self._tails = [_tail(question) for question in questions]

    def asking(self, questions: Sequence[Question]) -> ResponseKeys:
        """Return those of the same questions with other texts or choices (the same kinds, in the same order)."""
        keys = copy.copy(self)
        keys._tails = [_tail(question) for question in questions]
        return keys

    def of(
        self, pixel_sha256: str, variant: str, variant_params: Mapping[str, object], task_identity: Mapping[str, object]
    ) -> bytes:
        """Return the keys of one stimulus with every question, 32 bytes each.

        Parameters
        ----------
        pixel_sha256 : str
            Digest of the decoded pixels of the original image.
        variant, variant_params : str, Mapping
            The image variant and its parameters.
        task_identity : Mapping
            `Engine.task_identity(task)`: empty for a real model.
        """
        stimulus = canonical_json({"pixels": pixel_sha256, "variant": variant, "params": dict(variant_params)})
        end = canonical_json(dict(task_identity)) + b"}"
        keys = bytearray()
        for head, tail in zip(self._heads, self._tails, strict=True):
            hasher = head.copy()
            hasher.update(stimulus + tail + end)
            keys += hasher.digest()
        return bytes(keys)


def _tail(question: Question) -> bytes:
    asked = {"text": question.text, "kind": question.kind, "choices": list(question.choices)}
    tail = _open_json({"question": asked, "sample_index": question.sample, "schema": KEY_SCHEMA})
    return b"," + tail[1:] + b',"task":'


def _open_json(value: Mapping[str, object]) -> bytes:
    """Return the canonical JSON of an object without its closing brace."""
    return canonical_json(
        {key: dict(value_of) if isinstance(value_of, Mapping) else value_of for key, value_of in value.items()}
    )[:-1]


def response_set(keys: Iterable[str]) -> str:
    """Return the digest of the set of `keys`, whatever their order and repetitions."""
    hasher, separator = hashlib.sha256(b"["), b""
    ordered = iter(sorted(set(keys)))
    while chunk := list(islice(ordered, _AT_ONCE)):  # as `digest` of the list, a part at a time
        hasher.update(separator + canonical_json(chunk)[1:-1])
        separator = b","
    hasher.update(b"]")
    return hasher.hexdigest()
