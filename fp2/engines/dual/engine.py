"""A dual encoder as an engine: of the wordings that a question offers, which one is a picture most similar to?

It writes no words and reads no question: a `choice` question's options are the wordings, its text is for the reader.
The picture is embedded once for all questions and kept, as are the wordings (`fp2.engines.dual.encoder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fp2.engines.base import failed
from fp2.engines.dual.encoder import DualEncoder, Embedded
from fp2.engines.dual.zero_shot import cosine
from fp2.errors import Fp2Error
from fp2.tables import Answer, ImageTask, Question

METHOD = "zero_shot/1"  # raise the number whenever a change here can change an answer
_BATCH = 64  # pictures whose answers are kept together


class DualEngine:
    """Answers `choice` questions by cosine similarity between the picture and each option.

    Parameters
    ----------
    encoder : DualEncoder
        The model.
    """

    def __init__(self, encoder: DualEncoder) -> None:
        self.encoder = encoder

    @property
    def model_calls(self) -> int:
        """Passes through the model so far."""
        return self.encoder.model_calls

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an answer. Imports neither torch nor transformers."""
        return self.encoder.identity()

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return the version of the way an answer is found.

        Raises
        ------
        Fp2Error
            If the question is not a choice, or no picture is to be shown.
        """
        where = f"question '{question.question_id}'"
        if question.kind != "choice":
            fix = "Ask it as kind: choice (probe=fhibe_clip does), or choose a model that writes"
            raise Fp2Error("a dual encoder compares pictures with words and writes none", where=where, fix=fix)
        if blind:
            raise Fp2Error("a dual encoder cannot do without a picture", where="variant", fix="Use variant=grey")
        return {"name": METHOD}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return nothing: an answer hangs on the pixels and the wordings alone."""
        return {}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but never hashed."""
        return {**self.encoder.runtime(), "sharing": "picture"}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers, some pictures at a time.

        `numbers` holds, in the order of the options, `similarity` (cosine) and `p` (what the model itself makes of
        it: a softmax over the options for CLIP, a sigmoid for each by itself for SigLIP).
        """
        wordings: dict[str, np.ndarray] = {}
        batch: list[Answer] = []
        for shown, one in enumerate(self.encoder.embed(tasks), start=1):
            batch += self._answers(one, wordings)
            if shown % _BATCH == 0:
                yield batch
                batch = []
        if batch:
            yield batch

    def _answers(self, one: Embedded, wordings: dict[str, np.ndarray]) -> list[Answer]:
        if one.vector is None:
            return [failed(one.task, question, one.error or "no embedding") for question in one.task.questions]
        new = [w for question in one.task.questions for w in question.choices if w not in wordings]
        if new := list(dict.fromkeys(new)):
            wordings.update(zip(new, self.encoder.embed_texts(new), strict=True))
        return [self._answer(one, question, wordings) for question in one.task.questions]

    def _answer(self, one: Embedded, question: Question, wordings: dict[str, np.ndarray]) -> Answer:
        assert one.vector is not None
        texts = np.stack([wordings[wording] for wording in question.choices])
        similarity = cosine(one.vector[None], texts)[0]
        p = self.encoder.scale.probabilities(self.encoder.scale.logits(similarity))
        numbers = {"p": [float(x) for x in p], "similarity": [float(x) for x in similarity]}
        said = question.choices[int(similarity.argmax())]
        return Answer(one.task.image_id, question.question_id, said, numbers=numbers)
