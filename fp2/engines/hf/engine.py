"""The generic engine: any image-text-to-text model of transformers answers questions about images.

What the questions about an image have in common is computed once (`shared_prefix`, or `whole_prompts` for models that
do not allow it). Images are decoded and encoded ahead while the model works. An error about one image or one answer is
that answer's error, and a batch that does not fit into memory is split.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

from annotated_types import Ge, Le

from fp2.engines.base import (
    ESTIMATED,
    BaseEngine,
    ModelProfile,
    Positive,
    Remembered,
    failed,
    prefetched,
    remote_code,
    versions,
)
from fp2.engines.checkpoint import Checkpoint, FileDigests, resolve_checkpoint
from fp2.engines.hf.adapters import adapter_identity
from fp2.engines.hf.families import FamilyFacts, facts_for
from fp2.engines.hf.loading import load, prompt_format_class
from fp2.engines.hf.model import NEEDS_ID, HfSpec, LoadedModel, free_memory, is_out_of_memory
from fp2.engines.hf.placement import GPU_BATCH, LocalOptions, Placement, default_threads, resolve_device
from fp2.engines.hf.prefix_policy import Sharing
from fp2.engines.hf.prompts import PromptFormat
from fp2.engines.reasoning import WITHOUT_REASONING, scored_while_reasoning
from fp2.errors import Fp2Error
from fp2.tables import IN_WORDS, Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    import sqlite3

    from fp2.engines.hf.inputs import ImageQuestions
    from fp2.engines.hf.session import Session

REMOTE_CODE = "Code of the checkpoint runs with the rights of the user (model.trust_remote_code=true)"
UNKNOWN_FAMILY = "What the questions about an image may share is not known for this family; the model is checked first"
GENERATE = "generate/2"  # raise the number with every change that can change an answer
_SMALL_MODEL = 50_000_000  # parameters
_AHEAD = 16  # images encoded before the model needs them
_PENDING_BYTES = 1 << 30
_PENDING_BATCHES = 4  # images of one layout are collected from this many batches


@dataclass(frozen=True, kw_only=True)
class HfOptions(LocalOptions):
    """The options of `engine=hf`: those of `LocalOptions`, and three more.

    Attributes
    ----------
    batch_size : int, optional
        Most (image, question) pairs that are generated together; by model size if not given; halved when memory runs
        out.
    max_tokens : int, optional
        Most tokens in one pass when probabilities are read; by device if not given; halved likewise.
    sharing : {"auto", "tree", "prefix", "vision", "none"}
        What the questions about an image share. `auto` is the most that is exact for the model's family.
    samples : int
        Reasonings that are sampled for P(Yes) of a model that reasons.
    """

    max_tokens: Positive | None = None
    sharing: Sharing = "auto"
    samples: Annotated[int, Ge(2), Le(1000)] = 5


class HfEngine(BaseEngine):
    """Answers from a model of transformers, loaded when the first question arrives.

    Parameters
    ----------
    spec : HfSpec
    decoding : Decoding
        Greedy unless `temperature` is above 0; then each answer is sampled with its own seed, so that it does not
        depend on the rest of the batch.
    options : HfOptions, optional
    connection : sqlite3.Connection, optional
        Where the digests of weight files are remembered.
    verify_files : bool
        Read the files of a checkpoint folder again even if their digests are remembered.
    """

    Options = HfOptions
    serves: ClassVar[tuple[str, ...]] = ("hf",)
    needs: ClassVar[Mapping[str, str]] = NEEDS_ID
    takes: ClassVar[tuple[str, ...]] = ("adapter", "softmax_dtype", "yes_no")
    from_hub: ClassVar[bool] = True
    reads_after_reasoning: ClassVar[bool] = True
    """Whether P(Yes) can be read after sampled reasonings."""

    def __init__(
        self,
        spec: HfSpec,
        decoding: Decoding,
        options: HfOptions | None = None,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        self.spec, self.decoding, self.options = spec, decoding, options or HfOptions()
        self._digests = FileDigests(connection, verify=verify_files)
        self._stored: Mapping[str, Sequence[str]] = {}
        self._switched_off = self._reads_traces = False

    @classmethod
    def create(
        cls, model: Mapping[str, object], options: HfOptions, decoding: Decoding, **memory: Unpack[Remembered]
    ) -> HfEngine:
        """Return the engine for a config; see `EngineFactory.create`."""
        placement = Placement.of(options) if isinstance(options, LocalOptions) else Placement()
        return cls(HfSpec.of(model, placement), decoding, options, **memory)

    @classmethod
    def family_sharing(cls, family: str) -> str | None:
        """Return the prefix sharing with `engine.sharing=auto`."""
        return facts_for({"model_type": family}).expected

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the model's name, resolved at first use (without torch)."""
        return resolve_checkpoint(self.spec.id, self.spec.revision, self._digests)

    @functools.cached_property
    def facts(self) -> FamilyFacts:
        """The facts about the model's family."""
        return facts_for(self.checkpoint.config)

    @functools.cached_property
    def prompt_format(self) -> PromptFormat:
        """How questions are written."""
        kind = prompt_format_class(self.checkpoint, self.spec)
        return kind(self.checkpoint, self.facts, self.spec.chat, self.spec.prompt, reasoning=self.decoding.reasoning)

    @property
    def model_calls(self) -> int:
        """Forward passes and generate calls so far."""
        session = self.__dict__.get("_session")
        return session.model_calls if session else 0

    @property
    def limitations(self) -> Sequence[str]:
        """Whose code runs with the model, if any does, and how its probabilities are read if it can reason."""
        code = remote_code(self.identity())
        estimated = (ESTIMATED(samples=self.options.samples, of="reasonings"),) if self._reads_traces else ()
        return (
            *((f"{REMOTE_CODE}: {code}",) if code else ()),
            *((WITHOUT_REASONING,) if self._switched_off else ()),
            *estimated,
        )

    @property
    def notices(self) -> Sequence[str]:
        """The same, before it runs, and a family of which nothing is known."""
        if self.facts.expected != "auto" or self.options.sharing != "auto":
            return self.limitations
        return (*self.limitations, f"{UNKNOWN_FAMILY}: {self.checkpoint.model_type}")

    def most_images(self, question: Question) -> int:
        """Return 2 with a chat template, which says where each image of a prompt is; else 1."""
        return 2 if self.prompt_format.form == "chat" else 1

    def profile(self) -> ModelProfile:
        """Return what the checkpoint says without being loaded."""
        checkpoint = self.checkpoint
        return ModelProfile(
            self.facts.expected,
            checkpoint.weight_bytes,
            family=checkpoint.model_type or None,
            parameters=checkpoint.n_parameters,
        )

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an answer. Imports neither torch nor transformers."""
        identity = {
            "engine": "hf",
            "family": self.spec.version_families(),
            **self.checkpoint.identity(),
            "dtype": self.spec.dtype,
            "quantisation": self.spec.quantisation,
        }
        if self.spec.adapter:
            identity["adapter"] = adapter_identity(self.checkpoint, self.spec.adapter, self._digests)
        if self.spec.trust_remote_code and self.checkpoint.code:
            identity["code"] = "the checkpoint's own"
        identity["processor"]["backend"] = self.spec.image_backend
        return identity

    def method(self, question: Question, blind: bool = False) -> dict[str, object]:
        """Return how a question is asked and its answer read. Imports neither torch nor transformers."""
        from fp2.engines.hf.likelihoods import CHOICE_METHOD, YES_NO_METHOD, YES_NO_RULE

        name = {"yes_no": YES_NO_METHOD, "choice": CHOICE_METHOD}.get(question.kind, GENERATE)
        method: dict[str, object] = {"name": name, "prompt": self.prompt_format.identity()}
        if question.kind == "yes_no":
            method["surface_forms"] = YES_NO_RULE
            if self.spec.yes_no not in (None, ("Yes", "No")):
                method["first_tokens_of"] = list(self.spec.yes_no or ())
            if self.spec.softmax_dtype != "float32":
                method["softmax"] = self.spec.softmax_dtype
        template = self.prompt_format.template
        if question.kind not in IN_WORDS and not self._reasons:
            if template.switch:
                method["reasoning"] = "off"
                self._switched_off |= template.by_default and self.decoding.reasoning == "auto"
        elif question.kind not in IN_WORDS:
            if question.kind == "choice" or not self.reads_after_reasoning:
                switch = template.switch is not None
                raise scored_while_reasoning(self.spec.id, switch=switch, where=f"question '{question.question_id}'")
            method |= {"reasoning": {"budget": self.decoding.reasoning_budget}, "samples": self.options.samples}
            method |= {"seed": self.decoding.seed, **self.decoding.of_reasoning()}
            self._reads_traces = True
        elif template.possible:
            budget = self.decoding.reasoning_budget
            method["reasoning"] = {"mode": self.decoding.reasoning, "budget": budget} if budget else "off"
        if blind:
            method["blind"] = "no picture" if self.facts.text_only else "grey picture"  # hashed: do not reword
        return method

    @property
    def _reasons(self) -> bool:
        return self.prompt_format.template.always or self.decoding.reasoning not in ("off", "auto")

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but not hashed."""
        session = self.__dict__.get("_session")
        return {
            "device": self.options.device,
            "batch_size": self.options.batch_size,
            "attention": None,
            "sharing": self.options.sharing,
            "versions": versions((*self.spec.version_families(), "pillow")),
            **(session.runtime() if session else {}),
        }

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Take stored answers, by question id, from which further ones are drafted."""
        self._stored = texts

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers batch by batch: every question of every task once, in any order."""
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        session = self._session
        pending: list[ImageQuestions] = []
        for inputs in prefetched(map(session.build_inputs, itertools.chain([first], tasks)), _AHEAD):
            if inputs.failed:
                yield inputs.failed
            pending += inputs.groups
            enough = sum(len(group.questions) for group in pending) >= _PENDING_BATCHES * session.batch_size
            if enough or sum(group.encoded.nbytes for group in pending) > _PENDING_BYTES:
                yield from self._ask_together(pending)
                pending = []
        yield from self._ask_together(pending)

    def check_machine(self) -> None:
        """Raise if this machine lacks the device, or the attention."""
        self.spec.placement.check_machine(self.options.device, self.spec.dtype)

    def _load(self) -> LoadedModel:
        return load(self.checkpoint, self.spec, resolve_device(self.options.device))

    @functools.cached_property
    def _session(self) -> Session:
        import torch

        from fp2.engines.hf.session import Session

        loaded = self._load()
        device = loaded.device
        small = loaded.model.num_parameters() < _SMALL_MODEL
        if threads := self.options.threads or default_threads(small):
            torch.set_num_threads(threads)
        return (loaded.session or Session)(
            loaded,
            self.spec,
            self.prompt_format.with_processor(loaded.processor),
            self.decoding,
            sharing=self.options.sharing,
            batch_size=self.options.batch_size or (96 if small else 16 if device == "cpu" else GPU_BATCH),
            max_tokens=self.options.max_tokens or (512 if device == "cpu" else 2048),
            stored=self._stored,
            **({"samples": self.options.samples} if self._reasons else {}),
        )

    def _ask_together(self, pending: Sequence[ImageQuestions]) -> Iterator[list[Answer]]:
        alike: dict[object, list[ImageQuestions]] = {}
        for group in pending:
            alike.setdefault((group.encoded.layout, group.scored and group.questions), []).append(group)
        for groups in alike.values():
            start = 0
            while start < len(groups):
                rows = self._session.images_together(groups[0])
                yield from self._ask(groups[start : start + rows])
                start += rows

    def _ask(self, batch: list[ImageQuestions]) -> Iterator[list[Answer]]:
        """Ask a batch; split it if memory runs out, and ask one by one after another error to find its cause."""
        try:
            yield _timed(batch, self._session.ask)
            return
        except Fp2Error:
            raise
        except Exception as caught:  # a model can raise anything; its cause is found below
            error = caught.with_traceback(None)  # the traceback would keep the batch's tensors alive
        if is_out_of_memory(error):
            yield from self._ask_smaller(batch, error)
        elif len(batch) > 1:
            for group in batch:
                yield from self._ask([group])
        elif len(batch[0].questions) > 1:
            for group in batch[0].one_by_one():
                yield from self._ask([group])
        else:
            yield _failures(batch[0], error)

    def _ask_smaller(self, batch: list[ImageQuestions], error: Exception) -> Iterator[list[Answer]]:
        """Ask in smaller parts; if the smallest does not fit, only this image fails."""
        free_memory()
        half = len(batch) // 2
        if half:
            if batch[0].scored:
                self._session.shrink(scored=True)
            else:
                self._session.limit_batch_size(half * len(batch[0].questions))
            yield from self._ask(batch[:half])
            yield from self._ask(batch[half:])
            return
        before = self._session.limits.copy()
        while self._session.shrink(scored=batch[0].scored):
            try:
                answers = _timed(batch, self._session.ask)
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
        yield _failures(batch[0], error)


def _timed(batch: list[ImageQuestions], ask: Callable[[list[ImageQuestions]], list[Answer]]) -> list[Answer]:
    started = time.perf_counter()
    answers = ask(batch)
    share = (time.perf_counter() - started) / max(1, len(answers))
    for answer in answers:
        answer.seconds = share
    return answers


def _failures(group: ImageQuestions, error: Exception) -> list[Answer]:
    reason = f"the model failed: {type(error).__name__}: {error}"
    return [failed(group.task, question, reason) for question in group.questions]
