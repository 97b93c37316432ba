"""The generic adapter: any image-text-to-text model of transformers answers questions about pictures.

Everything that the questions about a picture have in common is computed once (`shared_prefix`, or `whole_prompts` for
models that do not allow it). Pictures are decoded and prepared ahead while the model works. Answers come back as they
are got; what goes wrong with one picture or one answer becomes that answer's error, and what does not fit into memory
is asked in smaller parts.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fp2.engines.base import failed
from fp2.engines.checkpoint import Checkpoint, resolve_checkpoint
from fp2.engines.file_digests import FileDigests
from fp2.engines.hf.custom_code.loading import CodePrompt, asked_by_code, session_class
from fp2.engines.hf.families import FamilyFacts, facts_for
from fp2.engines.hf.loading import HfSpec, default_threads, is_out_of_memory, load, resolve_device
from fp2.engines.hf.model_cache import free_memory
from fp2.engines.hf.prefix_policy import Sharing, check_sharing
from fp2.engines.hf.prompts import PromptFormat
from fp2.engines.packages import families, versions
from fp2.engines.prefetch import ahead
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.inputs import Ready
    from fp2.engines.hf.session import Session

GENERATE = "generate/2"  # raise the number whenever a change here can change an answer
_SMALL_MODEL = 50_000_000  # parameters
_AHEAD = 16  # pictures made ready before the model wants them
_HELD_BYTES = 1 << 30
_HELD_BATCHES = 4  # pictures of one layout are looked for among this many batches


class HfEngine:
    """Answers from a transformers model, loaded when the first open question arrives.

    Parameters
    ----------
    spec : HfSpec
        Which model, in which numbers.
    decoding : Decoding
        Greedy unless `temperature` is above 0; then every answer is drawn with a seed of its own, so that it does not
        depend on what goes side by side with it.
    batch_size : int, optional
        Most (picture, question) pairs that are generated side by side; by the model's size when not given; halved for
        good when memory runs out.
    max_tokens : int, optional
        Most tokens in one pass when probabilities are read; by device when not given; halved likewise.
    sharing : {"auto", "tree", "vision", "none"}
        What the questions about a picture share. `auto` is the most that is exact for the model's family.
    device : str
        `auto` (a GPU if torch sees one), `cpu`, `cuda`, `cuda:N` or `mps`.
    threads : int, optional
        CPU threads; when not given, one for a small model and else all cores that the process may use.
    connection : sqlite3.Connection, optional
        Where the digests of weight files are remembered.
    verify_files : bool
        Read the files of a checkpoint folder again even when their digests are remembered.
    """

    def __init__(
        self,
        spec: HfSpec,
        decoding: Decoding,
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        sharing: Sharing = "auto",
        device: str = "auto",
        threads: int | None = None,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise Fp2Error(f"{name} is {value}", where=f"engine.{name}", fix="Use 1 or more")
        check_sharing(sharing)
        self.spec, self.decoding = spec, decoding
        self._batch_size, self._max_tokens, self._sharing = batch_size, max_tokens, sharing
        self._device, self._threads = device, threads
        self._digests = FileDigests(connection, verify=verify_files)

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """Which files the model's name stands for (found out at first use; no torch)."""
        return resolve_checkpoint(self.spec.id, self.spec.revision, self._digests)

    @functools.cached_property
    def facts(self) -> FamilyFacts:
        """What the model's family is like."""
        return facts_for(self.checkpoint.config)

    @functools.cached_property
    def prompt_format(self) -> PromptFormat:
        """How questions are written."""
        kind = CodePrompt if asked_by_code(self.checkpoint, self.spec) else PromptFormat
        return kind(self.checkpoint, self.facts, self.spec.chat, self.spec.prompt)

    @property
    def model_calls(self) -> int:
        """Forward passes and generate calls so far."""
        session = self.__dict__.get("_session")
        return session.model_calls if session else 0

    def identity(self) -> dict[str, Any]:
        """Return everything about the model side that can change an answer. Imports neither torch nor transformers."""
        identity = {
            "engine": "hf",
            "family": families(self.spec),
            **self.checkpoint.identity(),
            "dtype": self.spec.dtype,
            "quantisation": self.spec.quantisation,
        }
        if self.spec.trust_remote_code and self.checkpoint.code:
            identity["code"] = "the checkpoint's own"
        identity["processor"]["backend"] = self.spec.image_backend
        return identity

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is put to the model and its answer read. Imports neither torch nor transformers."""
        from fp2.engines.hf import choices, yes_no

        name = {"yes_no": yes_no.METHOD, "choice": choices.METHOD}.get(question.kind, GENERATE)
        method: dict[str, Any] = {"name": name, "prompt": self.prompt_format.identity()}
        if question.kind == "yes_no":
            method["surface_forms"] = yes_no.RULE
        if blind:
            method["blind"] = "no picture" if self.facts.text_only else "grey picture"
        return method

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return nothing: a real model sees the pixels only."""
        return {}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but never hashed."""
        session = self.__dict__.get("_session")
        return {
            "device": self._device,
            "batch_size": self._batch_size,
            "attention": None,
            "sharing": self._sharing,
            "versions": versions((*families(self.spec), "pillow")),
            **(session.runtime() if session else {}),
        }

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers batch by batch: every question of every task once, in any order.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded, the device is not there, the chat template cannot be filled in, or the fast
            way of asking gives other numbers than the plain one.
        """
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        session = self._session
        held: list[Ready] = []
        for made in ahead(map(session.make_ready, itertools.chain([first], tasks)), _AHEAD):
            if made.failed:
                yield made.failed
            for ready in made.ready:
                if ready.scored:
                    yield from self._in_parts([ready])
                else:
                    held.append(ready)
            enough = sum(len(ready.questions) for ready in held) >= _HELD_BATCHES * session.batch_size
            if enough or sum(ready.shown.nbytes for ready in held) > _HELD_BYTES:
                yield from self._words(held)
                held = []
        yield from self._words(held)

    @functools.cached_property
    def _session(self) -> Session:
        """The model, loaded now if it was not."""
        import torch

        device = resolve_device(self._device)
        loaded = load(self.checkpoint, self.spec, device)
        small = loaded.model.num_parameters() < _SMALL_MODEL
        threads = self._threads or default_threads(small)
        if threads:
            torch.set_num_threads(threads)
        return session_class(loaded)(
            loaded,
            self.spec,
            self.prompt_format.with_processor(loaded.processor),
            self.decoding,
            sharing=self._sharing,
            batch_size=self._batch_size or (96 if small else 16 if device == "cpu" else 64),
            max_tokens=self._max_tokens or (512 if device == "cpu" else 2048),
        )

    def _words(self, held: Sequence[Ready]) -> Iterator[list[Answer]]:
        """Generate for the pictures held, those of one layout side by side."""
        alike: dict[Any, list[Ready]] = {}
        for ready in held:
            alike.setdefault(ready.shown.layout, []).append(ready)
        for group in alike.values():
            start = 0
            while start < len(group):
                rows = max(1, self._session.batch_size // len(group[0].questions))
                yield from self._in_parts(group[start : start + rows])
                start += rows

    def _in_parts(self, group: list[Ready]) -> Iterator[list[Answer]]:
        """Ask; in smaller parts when memory runs out; alone where something else fails, so that it spoils no other."""
        try:
            yield self._timed(group, self._session.ask)
            return
        except Fp2Error:
            raise
        except Exception as caught:  # a model can raise anything; which answer it was is found out below
            error = caught.with_traceback(None)  # the traceback would keep the batch's tensors alive
        if is_out_of_memory(error):
            yield from self._smaller(group, error)
        elif len(group) > 1:
            for ready in group:
                yield from self._in_parts([ready])
        elif len(group[0].questions) > 1:
            for part in group[0].alone():
                yield from self._in_parts([part])
        else:
            yield _failures(group[0], error)

    def _smaller(self, group: list[Ready], error: Exception) -> Iterator[list[Answer]]:
        """Ask in smaller parts; what does not fit in the smallest is this picture's failure, and no other's."""
        free_memory()
        half = len(group) // 2
        if half:
            self._session.fit(half * len(group[0].questions))
            yield from self._in_parts(group[:half])
            yield from self._in_parts(group[half:])
            return
        before = self._session.limits.copy()
        while self._session.shrink(scored=group[0].scored):
            try:
                answers = self._timed(group, self._session.ask)
            except Fp2Error:
                raise
            except Exception as caught:
                error = caught.with_traceback(None)
                if not is_out_of_memory(error):
                    break
                free_memory()
            else:
                yield answers
                return
        self._session.limits = before
        yield _failures(group[0], error)

    @staticmethod
    def _timed(group: list[Ready], ask: Callable[[list[Ready]], list[Answer]]) -> list[Answer]:
        """Ask, and share the wall time equally among the answers."""
        started = time.perf_counter()
        answers = ask(group)
        share = (time.perf_counter() - started) / max(1, len(answers))
        for answer in answers:
            answer.seconds = share
        return answers


def _failures(ready: Ready, error: Exception) -> list[Answer]:
    """Return the rows of a picture's questions that the model failed at."""
    reason = f"the model failed: {type(error).__name__}: {error}"
    return [failed(ready.task, question, reason) for question in ready.questions]
