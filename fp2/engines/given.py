"""Models that the caller of the Python interface holds as objects: a function, or an engine of the caller's."""

from __future__ import annotations

import itertools
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Unpack

from fp2.engines.base import BaseEngine, Remembered, failed, open_image
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    import torch
    from PIL import Image

NAME = "python"
"""The engine's name in configs and results."""
METHOD = "function/1"


class GivenEngine(BaseEngine):
    """Stands in a config for an engine that was given as an object: it cannot be made from the config."""

    serves: ClassVar[tuple[str, ...]] = (NAME,)

    @classmethod
    def create(
        cls, model: Mapping[str, object], options: object, decoding: Decoding, **memory: Unpack[Remembered]
    ) -> GivenEngine:
        """Raise: a config does not hold the object.

        Raises
        ------
        Fp2Error
            Always.
        """
        problem = f"the model {model.get('name')!r} is a Python object, which a config does not hold"
        raise Fp2Error(problem, where="engine", fix="Call fp2.evaluate with the object again")


_VERSIONS: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()


def _version_of(function: object) -> str:
    """Return a version that a function object has in this process; a new one if it cannot be remembered."""
    try:
        return _VERSIONS.setdefault(function, uuid.uuid4().hex)
    except TypeError:
        return uuid.uuid4().hex


class FunctionEngine(GivenEngine):
    """A function from an image and a question to an answer.

    Parameters
    ----------
    function : callable
        Called as `function(image, question)` with a PIL image in RGB (None where the variant shows none) and the
        question's text; returns the answer's text.
    name : str
    version : str, optional
        Names what the function does. Stored answers are used again only under the same name and version; without one
        they are used again in this process only, for the same function object.
    """

    def __init__(
        self, function: Callable[[Image.Image | None, str], str], name: str, version: str | None = None
    ) -> None:
        self._function, self._name = function, name
        self._version = version or _version_of(function)
        self.model_calls = 0

    def identity(self) -> dict[str, object]:
        """Return name and version."""
        return {"engine": NAME, "model": self._name, "version": self._version}

    def method(self, question: Question, blind: bool = False) -> dict[str, object]:
        """Return the version of the method.

        Raises
        ------
        Fp2Error
            If the question is answered by probabilities, which a function does not return.
        """
        if question.kind not in ("text", "number"):
            problem = f"a function answers in words, and cannot score a question of kind '{question.kind}'"
            raise Fp2Error(problem, where=f"question '{question.question_id}'", fix="Give a (model, processor) pair")
        return {"name": METHOD}

    def runtime(self) -> dict[str, object]:
        """Return what is recorded but not hashed."""
        return {"device": None, "batch_size": 1, "attention": None, "sharing": None}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers about one image after the other; an error of the function is that answer's error."""
        for task in tasks:
            try:
                image = None if task.blind else open_image(task)
            except Exception as error:  # whatever a decoder raises
                yield [failed(task, question, f"the image cannot be read: {error}") for question in task.questions]
                continue
            yield [self._answer(task, image, question) for question in task.questions]

    def _answer(self, task: ImageTask, image: Image.Image | None, question: Question) -> Answer:
        started = time.perf_counter()
        self.model_calls += 1
        try:
            text = self._function(image, question.text)
        except Exception as error:  # the caller's code can raise anything
            return failed(task, question, f"{type(error).__name__}: {error}")
        if not isinstance(text, str):
            return failed(task, question, f"the function returned {type(text).__name__}, not a text")
        return Answer(task.image_id, question.question_id, text, seconds=time.perf_counter() - started)


def weights_digest(model: torch.nn.Module) -> str:
    """Return the SHA-256 over names, types and bytes of the weights of a torch module."""
    import hashlib

    import torch

    hasher = hashlib.sha256()
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        hasher.update(plain.numpy().tobytes())
    return hasher.hexdigest()
