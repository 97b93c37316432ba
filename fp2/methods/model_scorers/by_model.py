"""Scorers that ask a model about the text of an answer: what it returns is kept in the response store like an answer.

Each distinct text is asked about once, under a key of everything that can change the value: the model, how it is asked,
the question (where the scorer reads it) and the text. The keys are recorded as derived from the images of the answers,
so that a purge removes what is stored under them. Without a store (`fp2.score`) nothing is kept.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fp2.extension import (
    NOBODY,
    SCORED_BY,
    Answer,
    AsksModel,
    Battery,
    Config,
    Fp2Error,
    LabelScale,
    Leases,
    Number,
    Progress,
    ResponseStore,
    Scored,
    Withdrawn,
    add_derived,
    answered_keys,
    check_lengths,
    digest,
    equal_bins,
    is_blank,
    local_salt,
    parts,
    salted,
    take_answers,
    writing,
)

if TYPE_CHECKING:
    import pandas as pd

KEY_SCHEMA = 1
EARLY_TRIES = 20
"""After so many texts asking ends if most of them failed."""
_CLAIMED_AT_ONCE = 200  # texts: runs that start together share them
_POLL = 1.0  # seconds between looks at what another run is asking about
Asked = Mapping[str, tuple[str, str]]
"""Key -> question and text."""


@dataclass(frozen=True)
class Reading:
    """The value that is read from what a model returned, NaN where there is none, and what it was read from."""

    value: float
    details: Mapping[str, Any]


@dataclass(frozen=True)
class Resources:
    """What a scorer that asks a model is given by a run.

    Attributes
    ----------
    store : ResponseStore, optional
        Where values are kept; None keeps nothing.
    progress : Progress
    questions : Mapping
        Question id -> text.
    salt : bytes, optional
        With which image ids are salted; None where they are salted keys already.
    error_budget : float
        Texts that may fail: a share up to 1, a count above.
    verify_files : bool
        Do not trust what is remembered of files and servers (`--verify-inputs`).
    state : Path, optional
        The state folder, which has the list of withdrawn people; with None nobody is withdrawn.
    """

    store: ResponseStore | None = None
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))
    questions: Mapping[str, str] = field(default_factory=dict)
    salt: bytes | None = None
    error_budget: float = 0.05
    verify_files: bool = False
    state: Path | None = None

    def writing(self) -> AbstractContextManager[Withdrawn]:
        """Hold the lock under which something of people is stored; give who is withdrawn."""
        return nullcontext(NOBODY) if self.state is None else writing(self.state)


@dataclass(frozen=True)
class ModelScorer(AsksModel):
    """What scorers that ask a model share (see `fp2.scorers.base.Scorer`). Building one asks and loads nothing.

    Parameters
    ----------
    name : str
        The key in the config.
    value_range : (float, float)
        Smallest and largest possible value; follows from the other options, and is checked where it is given.
    smallest_effect : float
        The smallest difference between groups that matters; a fortieth of the range if 0.
    """

    value_range: tuple[float, float] = (0.0, 0.0)
    smallest_effect: Number = 0.0

    method: ClassVar[str]
    """How the model is asked and read, with a version: part of every key."""
    reads_question: ClassVar[bool] = False
    probes: ClassVar[tuple[str, ...] | None] = None
    n_people: ClassVar[int] = 1
    uses_subject_attributes: ClassVar[bool] = False
    label_scale: ClassVar[LabelScale | None] = None
    resources: ClassVar[Resources] = Resources()

    # -- what a subclass defines

    def model_identity(self) -> dict[str, Any]:
        """Return everything that can change a value besides question and text (JSON values, no paths)."""
        raise NotImplementedError

    def ask(self, asked: Asked) -> Generator[list[Answer], None, None]:
        """Yield an answer for each key (`Answer.image_id`), in batches; one that failed has an error."""
        raise NotImplementedError

    def read(self, text: str, numbers: Mapping[str, Any]) -> Reading:
        """Return the value of a stored answer."""
        raise NotImplementedError

    def missing(self, state: str) -> Reading:
        """Return the reading of a text that has no value: `blank`, or the answer `failed`."""
        raise NotImplementedError

    # -- members of a scorer; a subclass has `higher_is_better`, a field or a property

    @property
    def yes_no(self) -> bool:
        """Whether every value is 0 or 1."""
        return False

    @property
    def lexicon(self) -> dict[str, str] | None:
        """Name, version and sha256 of a list of words or a rubric; None without one."""
        return None

    @property
    def bins(self) -> tuple[float, ...]:
        """Edges of ten equal bins over the range."""
        return equal_bins(*self.value_range, 10)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the key of every value contains besides question and text."""
        return {"method": self.method, **self.model_identity()}

    @cached_property
    def version(self) -> str:
        """The method's version, and a digest of everything that can change a value."""
        return f"{self.method.rpartition('/')[2]}+{self._digest[:12]}"

    @cached_property
    def _digest(self) -> str:
        return digest(self.identity)

    def using(self, resources: Resources) -> Self:
        """Return the scorer with what a run gives it, checked (see `check`)."""
        scorer = copy.copy(self)
        object.__setattr__(scorer, "resources", resources)
        scorer.check()
        return scorer

    def of_run(
        self, config: Config, store: ResponseStore, progress: Progress, battery: Battery | None, *, keyed: bool = False
    ) -> Self:
        """Return the scorer with the resources of a run, checked; `keyed`: image ids are salted keys already."""
        questions = {question.question_id: question.text for question in battery.asked} if battery else {}
        state = Path(config.paths.state)
        salt = None if keyed else local_salt(state)
        budget = config.answers.error_budget
        return self.using(Resources(store, progress, questions, salt, budget, config.verify_inputs, state))

    def check_battery(self, battery: Battery) -> None:
        """Raise Fp2Error for questions that differ between items, where the scorer reads them."""
        if battery.fields and self.reads_question:
            problem = f"the scorer '{self.name}' reads the question, which differs between items"
            raise Fp2Error(problem, where=f"probe={battery.name}", fix="Leave the scorer out")

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score texts whose images are not known; a probe's question is sent where `resources` has one of its name."""
        check_lengths(texts, probes)
        questions = self.resources.questions if self.reads_question else {}
        return self.score_answers(texts, [questions.get(probe, "") for probe in probes])

    def score_rows(self, rows: pd.DataFrame) -> Scored:
        """Score the rows of an answers table; `details` say what the model returned."""
        return self.score_answers(rows["text"].tolist(), self._questions_of(rows), rows["image_id"].tolist())

    def score_answers(
        self, texts: Sequence[str], questions: Sequence[str], images: Sequence[str] | None = None
    ) -> Scored:
        """Score `texts`, answers to `questions` about `images` (ids)."""
        requests = self.asked(texts, questions)
        keys = [requests[pair] for pair in zip(questions, texts, strict=True)]
        images_of = self._record_origins(images, keys) if images is not None else {}
        wanted = {key: pair for pair, key in requests.items() if key is not None}
        readings_of = self.stored(wanted)
        remaining = {key: pair for key, pair in wanted.items() if key not in readings_of}
        readings_of |= self._ask(remaining, len(wanted), images_of)
        blank, failed = self.missing("blank"), self.missing("failed")
        readings = [blank if key is None else readings_of.get(key, failed) for key in keys]
        return Scored(
            np.array([reading.value for reading in readings], dtype=np.float64),
            {name: np.array([reading.details[name] for reading in readings]) for name in blank.details},
        )

    def left(self, rows: pd.DataFrame) -> Asked:
        """Return what the store lacks for the rows of an answers table; nothing is asked."""
        requests = self.asked(rows["text"].tolist(), self._questions_of(rows))
        wanted = {key: pair for pair, key in requests.items() if key is not None}
        stored = self.stored(wanted)
        return {key: pair for key, pair in wanted.items() if key not in stored}

    def asked(self, texts: Sequence[str], questions: Sequence[str]) -> dict[tuple[str, str], str | None]:
        """Return question and text of each score, with its key; None for a blank text, which is not asked about."""
        pairs = zip(questions, texts, strict=True)
        return {pair: None if is_blank(pair[1]) else self._key(*pair) for pair in dict.fromkeys(pairs)}

    def stored(self, keys: Asked) -> dict[str, Reading]:
        """Return what the store has, after copying from its seeds what it lacks."""
        store = self.resources.store
        if store is None:
            return {}
        take_answers(store, keys)
        return {
            key: self.read(answer.text, dict(json.loads(answer.numbers)) if answer.numbers else {})
            for key, answer in store.get_many(keys).items()
        }

    def _questions_of(self, rows: pd.DataFrame) -> list[str]:
        """Return the question of each row of an answers table, where the scorer reads it."""
        if not self.reads_question:
            return [""] * len(rows)
        questions = self.resources.questions
        if unknown := set(rows["question_id"]) - set(questions):
            raise Fp2Error(f"the text of the question {min(unknown)!r} is not known", where=f"scorer.{self.name}")
        return [questions[name] for name in rows["question_id"]]

    def _key(self, question: str, text: str) -> str:
        return digest({"schema": KEY_SCHEMA, "scorer": self._digest, "question": question, "text": text})

    def _record_origins(self, images: Sequence[str], keys: Sequence[str | None]) -> dict[str, set[str]]:
        """Record, before anything is asked, which images (salted) the keys are derived from; return those of each."""
        store, salt = self.resources.store, self.resources.salt
        if store is None:
            return {}
        names = images if salt is None else salted(images, salt, "image")
        by_image: dict[str, list[str]] = {}
        images_of: dict[str, set[str]] = {}
        for name, key in zip(names, keys, strict=True):
            if key is not None:
                by_image.setdefault(name, []).append(key)
                images_of.setdefault(key, set()).add(name)
        with self.resources.writing() as withdrawn:
            present = {name: own_keys for name, own_keys in by_image.items() if name not in withdrawn.images}
            add_derived(store.connection, store.path, present)
        return images_of

    def _ask(self, unanswered: Asked, n_texts: int, images_of: Mapping[str, set[str]]) -> dict[str, Reading]:
        """Ask about what the store lacks; what another run is asking about is left to it and taken over."""
        if not unanswered:
            return {}
        readings_of: dict[str, Reading] = {}
        failed: dict[str, str] = {}
        store, budget = self.resources.store, self.resources.error_budget
        with ExitStack() as stack:
            tick = stack.enter_context(self.resources.progress.count_up(f"Scoring: {self.name}", len(unanswered)))
            leases = stack.enter_context(Leases(store.path, answered_keys)) if store is not None else None
            while waiting := [key for key in unanswered if key not in readings_of and key not in failed]:
                for batch in parts(waiting, _CLAIMED_AT_ONCE):
                    mine = batch if leases is None else leases.claim(batch)
                    texts = {key: unanswered[key] for key in batch if key in mine}
                    self._ask_some(texts, readings_of, failed, tick, images_of)
                elsewhere = self.stored(
                    {key: unanswered[key] for key in waiting if key not in readings_of and key not in failed}
                )
                readings_of |= elsewhere
                tick(len(elsewhere))
                if all(key not in readings_of and key not in failed for key in waiting):
                    time.sleep(_POLL)
        if len(failed) > (budget * n_texts if budget <= 1 else budget):
            raise self._too_many(failed, n_texts)
        return readings_of

    def _ask_some(
        self,
        asked_texts: Asked,
        readings_of: dict[str, Reading],
        failed: dict[str, str],
        tick: Callable[[int], None],
        images_of: Mapping[str, set[str]],
    ) -> None:
        """Ask about some texts; each batch is stored, and added to `readings_of` or (with a reason) `failed`.

        What is derived from nothing but withdrawn images (`images_of`: those of each key) is not stored.
        """
        if not asked_texts:
            return
        with contextlib.closing(self.ask(asked_texts)) as batches:
            for batch in batches:
                # two stores may differ in the method (`fp2.store.merge`)
                marked = [replace(a, numbers={**(a.numbers or {}), SCORED_BY: self.method}) for a in batch]
                rows = [(answer.image_id, answer) for answer in marked]
                if self.resources.store is not None:
                    with self.resources.writing() as withdrawn:
                        everybody = frozenset({""})  # of a text whose images are not known
                        present = [row for row in rows if not images_of.get(row[0], everybody) <= withdrawn.images]
                        self.resources.store.put_many(present, self.runtime())
                for key, answer in rows:
                    if answer.error is None and answer.text is not None:
                        readings_of[key] = self.read(answer.text, answer.numbers or {})
                    else:
                        failed[key] = str(answer.error)
                tick(len(batch))
                if (tried := len(readings_of) + len(failed)) >= EARLY_TRIES and len(failed) > tried / 2:
                    raise self._too_many(failed, len(asked_texts))

    def _too_many(self, failed: Mapping[str, str], n_texts: int) -> Fp2Error:
        reason = next(iter(failed.values()))
        message = f"{len(failed)} of {n_texts} texts could not be scored, more than the run allows; the first: {reason}"
        fix = "What was scored is kept; fix the cause and run the same command again"
        return Fp2Error(message, where=f"scorer.{self.name}", fix=fix if self.resources.store is not None else "")

    def settle(self, low: float, high: float, smallest_effect: float = 0.0) -> None:
        """Set range and smallest effect, where they are not given; called at the end of `__post_init__`."""
        where = f"scorer.{self.name}"
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise Fp2Error("every value would be the same, or is not finite", where=where)
        if tuple(self.value_range) not in ((0.0, 0.0), (low, high)):
            message = "value_range is not the one that follows from the other options"
            raise Fp2Error(message, where=where, fix=f"Leave it out, or write [{low:g}, {high:g}]")
        effect = self.smallest_effect or smallest_effect or (high - low) / 40
        if not 0 < effect < high - low:
            raise Fp2Error("smallest_effect must be above 0 and below the width of the scale", where=where)
        object.__setattr__(self, "value_range", (low, high))
        object.__setattr__(self, "smallest_effect", effect)

    def about(self, error: Fp2Error, key: str = "id") -> Fp2Error:
        """Return an error about a model's settings as one about this scorer's; `key` is its name of `model.id`."""
        where, fix = error.where, error.fix
        for old, new in (("model.id", key), ("model.", ""), ("engine.", "")):
            where, fix = (text.replace(old, f"scorer.{self.name}.{new}") for text in (where, fix))
        return Fp2Error(error.what, where=where, fix=fix)

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside a value and not hashed."""
        return {}
