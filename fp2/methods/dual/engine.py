"""A dual encoder as an engine: which of a question's options is an image most similar to?

It generates no text and does not read the question: the options of a `choice` question are the texts that are compared
with the image. Each image is embedded once for all questions and kept, as are the options (`fp2.methods.dual.encoder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from fp2.extension import (
    NEEDS_ID,
    Answer,
    BaseEngine,
    Decoding,
    Fp2Error,
    HfSpec,
    ImageTask,
    LocalOptions,
    ModelProfile,
    Placement,
    Question,
    failed,
)
from fp2.methods.dual.encoder import DualEncoder, ImageEmbedding
from fp2.methods.dual.loading import cosine

METHOD = "zero_shot/1"  # raise the number with every change that can change an answer
_BATCH = 64  # images whose answers are yielded together


class DualEngine(BaseEngine):
    """Answers `choice` questions by the cosine similarity between the image and each option."""

    Options: ClassVar[type[Any]] = LocalOptions
    serves: ClassVar[tuple[str, ...]] = ("dual",)
    needs: ClassVar[Mapping[str, str]] = NEEDS_ID
    from_hub: ClassVar[bool] = True

    def __init__(self, encoder: DualEncoder) -> None:
        self.encoder = encoder

    @classmethod
    def create(cls, model: Mapping[str, Any], options: Any, decoding: Decoding, **memory: Any) -> DualEngine:
        """Return the engine for a config; see `EngineFactory.create`."""
        spec = HfSpec.of(model, Placement.of(options))
        return cls(DualEncoder(spec, options, **memory))

    @property
    def model_calls(self) -> int:
        """Passes through the model so far."""
        return self.encoder.model_calls

    def profile(self) -> ModelProfile:
        """Return what the checkpoint says without being loaded."""
        checkpoint = self.encoder.checkpoint
        return ModelProfile(
            weight_bytes=checkpoint.weight_bytes,
            family=checkpoint.model_type or None,
            parameters=checkpoint.n_parameters,
        )

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an answer. Imports neither torch nor transformers."""
        return self.encoder.identity()

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return the version of the method."""
        if question.kind != "choice":
            fix = "Ask it as kind: choice, or choose a model that generates text"
            message = "a dual encoder compares images with texts and generates none"
            raise Fp2Error(message, where=f"question '{question.question_id}'", fix=fix)
        if blind:
            raise Fp2Error("a dual encoder needs an image", where="variant", fix="Use variant=grey")
        return {"name": METHOD}

    def check_machine(self) -> None:
        """Raise if this machine lacks the device, or the attention."""
        self.encoder.spec.placement.check_machine(self.encoder.options.device, self.encoder.spec.dtype)

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but not hashed."""
        return {**self.encoder.runtime(), "sharing": "picture"}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers, some images at a time.

        `numbers` has, in the order of the options, `similarity` (cosine) and `p` (a softmax over the options for CLIP,
        a sigmoid of each for SigLIP).
        """
        texts: dict[str, np.ndarray] = {}
        batch: list[Answer] = []
        for index, embedding in enumerate(self.encoder.embed(tasks), start=1):
            batch += self._answers(embedding, texts)
            if index % _BATCH == 0:
                yield batch
                batch = []
        if batch:
            yield batch

    def _answers(self, embedding: ImageEmbedding, texts: dict[str, np.ndarray]) -> list[Answer]:
        task = embedding.task
        if embedding.vector is None:
            return [failed(task, question, embedding.error or "no embedding") for question in task.questions]
        new = [option for question in task.questions for option in question.choices if option not in texts]
        if new := list(dict.fromkeys(new)):
            texts.update(zip(new, self.encoder.embed_texts(new), strict=True))
        answers = []
        for question in task.questions:
            similarity = cosine(embedding.vector[None], np.stack([texts[option] for option in question.choices]))[0]
            p = self.encoder.scale.probabilities(self.encoder.scale.logits(similarity))
            numbers = {"p": [float(x) for x in p], "similarity": [float(x) for x in similarity]}
            best = question.choices[int(similarity.argmax())]
            answers.append(Answer(task.image_id, question.question_id, best, numbers=numbers))
        return answers
