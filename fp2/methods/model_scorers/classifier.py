"""A text classifier of the user's as a scorer: a checkpoint of transformers with a head for sequences.

With `labels`, the value is the mean of the labels' numbers under the softmax of the logits. With `hypotheses`, the
checkpoint is one of natural language inference, and a hypothesis is as probable as transformers' zero-shot pipeline
makes it (Yin, Hay and Roth 2019): the softmax of the logits of entailment over the hypotheses. With `multi_label` each
label has the sigmoid of its logit, each hypothesis the softmax of entailment against contradiction, and the value is
the sum of number times probability.

Computed in float32; values are rounded to `DECIMALS`, since the last digits depend on what is computed together.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from fp2.extension import Answer, Flag, FloatArray, Fp2Error, Local, Number, check_names
from fp2.methods.model_scorers.by_model import Asked, ModelScorer, Reading
from fp2.methods.model_scorers.sequence_classifier import Loaded, check_head, entailment, label_names, load

if TYPE_CHECKING:
    from fp2.extension import Checkpoint

DECIMALS = 6


@dataclass(frozen=True)
class Classifier(ModelScorer):
    """The expected number of a text's label, or of the hypotheses that it entails.

    Parameters
    ----------
    higher_is_better : bool
        Whether higher values are better for the person described.
    model : str
        A folder, or a repository of the hub.
    revision : str, optional
        The commit of a hub model; by default the pinned one.
    labels : mapping, optional
        Label of the checkpoint -> number, for every label.
    hypotheses : mapping, optional
        Sentence -> number.
    multi_label : bool
        Whether labels or hypotheses do not exclude each other.
    max_tokens : int, optional
        Most tokens of a text that are read, special ones and a hypothesis included.
    device : str
        `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
    batch_size : int
        Texts computed together; halved when memory runs out.
    """

    name: str = "classifier"
    higher_is_better: Flag = True
    model: str | None = None
    revision: str | None = None
    labels: dict[str, Number] | None = None
    hypotheses: dict[str, Number] | None = None
    multi_label: Flag = False
    max_tokens: Annotated[int, Ge(8)] | None = None
    device: Annotated[str, Local()] = "auto"
    batch_size: Annotated[int, Ge(1), Local()] = 32

    method: ClassVar[str] = "classifier/1"

    def __post_init__(self) -> None:
        """Work out the range from the numbers; nothing is known of the checkpoint yet."""
        numbers = [float(value) for value in (self._numbers or {"": 0.0, " ": 1.0}).values()]
        if self._independent:
            self.settle(sum(min(0.0, number) for number in numbers), sum(max(0.0, number) for number in numbers))
        else:
            self.settle(min(numbers), max(numbers))

    @property
    def _numbers(self) -> Mapping[str, float]:
        """The numbers by label or hypothesis; empty where neither is given."""
        return self.labels or self.hypotheses or {}

    @property
    def _independent(self) -> bool:
        """Whether labels or hypotheses have probabilities of their own; a single hypothesis always has."""
        return self.multi_label or (not self.labels and len(self.hypotheses or {}) == 1)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint, of which the small files are read."""
        from fp2.extension import FileDigests, resolve_checkpoint

        if not self.model:
            fix = f"Give scorer.{self.name}.model=FOLDER, or a repository of the hub"
            raise Fp2Error("no checkpoint is given", where=f"scorer.{self.name}.model", fix=fix)
        store = self.resources.store
        connection = store.connection if store is not None else None
        try:
            digests = FileDigests(connection, verify=self.resources.verify_files)
            return resolve_checkpoint(self.model, self.revision, digests)
        except Fp2Error as error:
            raise self.about(error, "model") from error

    def check(self) -> None:
        """Load the checkpoint, and compare its labels with those that have numbers."""
        where = f"scorer.{self.name}"
        if bool(self.labels) == bool(self.hypotheses):
            fix = "Give labels={POSITIVE: 1, NEGATIVE: -1}, or hypotheses for a checkpoint of inference"
            raise Fp2Error("either labels or hypotheses have to be given", where=where, fix=fix)
        labels = label_names(self.checkpoint.config)
        if self.labels:
            self._check_labels(labels)
        else:
            entailment(labels, where)
        loaded = self._loaded()
        limit = self._limit(loaded)
        if self.hypotheses:
            longest = max(len(ids) for ids in loaded.tokenizer(list(self.hypotheses))["input_ids"])
            if 2 * longest > limit:
                message = f"a hypothesis has {longest} tokens, more than half of what is read ({limit})"
                raise Fp2Error(message, where=f"{where}.hypotheses", fix="Shorten it")
        self._device()
        try:
            (answer,) = self._compute(loaded, "cpu", [""], ["They may be a teacher."])
            reason = answer.error
        except Exception as error:  # the model's own code: many kinds, one line
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if reason:
            cannot = f"the checkpoint cannot score a text ({reason})"
            raise Fp2Error(cannot, where=f"scorer.{self.name}.model", fix="Check its tokenizer and its weights")

    def _check_labels(self, labels: Sequence[str]) -> None:
        where = f"scorer.{self.name}.labels"
        assert self.labels is not None
        check_names(self.labels, labels, "the checkpoint has no label", where)
        if missing := [name for name in labels if name not in self.labels]:
            message = f"the checkpoint's label {', '.join(missing)} has no number"
            raise Fp2Error(message, where=where, fix="Give every label one; 0 where it counts as neutral")
        kind = self.checkpoint.config.get("problem_type")
        if kind == "regression":
            message = "the checkpoint is a regression: its values have no range"
            raise Fp2Error(message, where=f"scorer.{self.name}.model")
        independent = kind == "multi_label_classification" or len(labels) == 1
        if independent != self.multi_label:
            message = (
                "the checkpoint's labels do not exclude each other"
                if independent
                else ("the checkpoint's labels exclude each other")
            )
            fix = f"Set scorer.{self.name}.multi_label={str(independent).lower()}"
            raise Fp2Error(message, where=f"scorer.{self.name}.multi_label", fix=fix)

    def model_identity(self) -> dict[str, Any]:
        """Return the checkpoint's identity, the numbers, and how much of a text is read."""
        kind = "labels" if self.labels else "hypotheses"
        return {
            "checkpoint": self.checkpoint.identity(),
            "kind": kind,
            "numbers": {name: float(value) for name, value in self._numbers.items()},
            "multi_label": self._independent,
            "max_tokens": self.max_tokens,
        }

    def ask(self, asked: Asked) -> Generator[list[Answer], None, None]:
        """Yield the values of batches of texts of similar length."""
        from fp2.extension import is_out_of_memory

        loaded, device = self._loaded(), self._device()
        ordered = sorted(asked, key=lambda key: (len(asked[key][1]), asked[key][1]))
        size = self.batch_size
        try:
            while ordered:
                some = ordered[:size]
                try:
                    loaded.model.to(device)
                    batch = self._compute(loaded, device, some, [asked[key][1] for key in some])
                except Exception as error:
                    if not is_out_of_memory(error):
                        raise
                    if size == 1:
                        where, fix = f"scorer.{self.name}.device", f"Set scorer.{self.name}.device=cpu"
                        raise Fp2Error("the classifier does not fit into memory", where=where, fix=fix) from error
                    size = max(1, size // 2)
                    continue
                ordered = ordered[len(some) :]
                yield batch
        finally:
            loaded.model.to("cpu")

    def _device(self) -> str:
        from fp2.extension import resolve_device

        return resolve_device(self.device, f"scorer.{self.name}.device")

    def read(self, text: str, numbers: Mapping[str, Any]) -> Reading:
        """Return the stored value."""
        details = {"label": text, "tokens": int(numbers["tokens"]), "truncated": bool(numbers["truncated"])}
        return Reading(float(numbers["value"]), details)

    def missing(self, state: str) -> Reading:
        """Return the reading of a text without a value."""
        return Reading(float("nan"), {"label": "", "tokens": 0, "truncated": False})

    def note(self, details: Sequence[Mapping[str, Any]]) -> str:
        """Say what the values are, and how many texts were not read to their end."""
        name = Path(str(self.model)).name if self.model else "checkpoint"
        kind = "its labels" if self.labels else "hypotheses that a text entails"
        line = f"values are means over {kind}, by the probabilities of the classifier {name}."
        if count := sum(bool(detail.get("truncated")) for detail in details):
            line += f" {count} of {len(details)} answers are longer than it reads: their first tokens were scored."
        return line

    def runtime(self) -> dict[str, Any]:
        """Return the versions of the libraries."""
        from fp2.extension import versions

        return {"device": self.device, "batch_size": self.batch_size, "versions": versions(("torch", "transformers"))}

    def _loaded(self) -> Loaded:
        where = f"scorer.{self.name}.model"
        check_head(self.checkpoint, where)
        try:
            return load(self.checkpoint, str(self.model))
        except Fp2Error as error:
            raise self.about(error, "model") from error

    def _limit(self, loaded: Loaded) -> int:
        if loaded.limit is None and self.max_tokens is None:
            fix = f"Set scorer.{self.name}.max_tokens"
            raise Fp2Error("the checkpoint does not say how long a text it reads", where=f"scorer.{self.name}", fix=fix)
        return min(one for one in (loaded.limit, self.max_tokens) if one is not None)

    def _compute(self, loaded: Loaded, device: str, keys: Sequence[str], texts: Sequence[str]) -> list[Answer]:
        limit = self._limit(loaded)
        pairs = list(self.hypotheses) if self.hypotheses else [None]
        logits, tokens = [], np.zeros(len(texts), dtype=np.int64)
        for second in pairs:
            found, lengths = loaded.logits(texts, second, limit, device)
            logits.append(found)
            tokens = np.maximum(tokens, lengths)
        if self.hypotheses:
            names, p = pairs, self._entailed(np.stack(logits, axis=1), label_names(self.checkpoint.config))
        else:
            names = label_names(self.checkpoint.config)
            p = _sigmoid(logits[0]) if self._independent else _softmax(logits[0])
        weights = np.array([float(self._numbers[str(name)]) for name in names])
        values = np.clip(np.round(p @ weights, DECIMALS), *self.value_range)
        rows = zip(keys, values.tolist(), tokens.tolist(), p.argmax(axis=1).tolist(), strict=True)
        return [
            Answer(
                key,
                self.name,
                str(names[best]),
                tokens=n,
                numbers={"value": value, "tokens": n, "truncated": n > limit},
            )
            if math.isfinite(value)
            else Answer(key, self.name, None, "the checkpoint returns no finite numbers")
            for key, value, n, best in rows
        ]

    def _entailed(self, logits: FloatArray, labels: Sequence[str]) -> FloatArray:
        """Return the probability of each hypothesis; `logits` are (texts, hypotheses, labels)."""
        yes, no = entailment(labels, f"scorer.{self.name}")
        if not self._independent:
            return _softmax(logits[..., yes])
        return _softmax(logits[..., [no, yes]])[..., 1]


def _softmax(logits: FloatArray) -> FloatArray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def _sigmoid(logits: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-logits)))
