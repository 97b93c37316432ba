"""Answers that exist already in place of a model: the same pipeline, without a question being asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from fp2.extension import (
    NEVER,
    NOT_SUPPLIED,
    SOMETIMES,
    YES_NO_NUMBERS,
    Answer,
    BaseEngine,
    Decoding,
    Fp2Error,
    ImageTask,
    ModelProfile,
    Question,
    check_names,
    in_number,
)
from fp2.methods.recorded.options import OF_CHOICES, WHERE, RecordedOptions

if TYPE_CHECKING:
    import pandas as pd

    from fp2.methods.recorded.match import Matches
    from fp2.methods.recorded.table import Supplied

METHOD = "recorded/1"
"""The version of how rows become answers: raise it when a change here can change one."""
_BATCH, _CHARACTERS = 64, 200_000
"""At most so many images have answers that are stored together, fewer if their texts are longer: an interrupted run
scores what was stored."""


class RecordedEngine(BaseEngine):
    """Gives the answers of a file to the questions that a run plans (see `fp2.engines.base.SuppliesAnswers`).

    Parameters
    ----------
    model : str
        The model that gave the answers, as the user names it.
    options : RecordedOptions
        Where the answers are, and how they are read.
    frame : DataFrame, optional
        The answers, in place of files.
    """

    Options: ClassVar[type[Any]] = RecordedOptions
    serves: ClassVar[tuple[str, ...]] = ("recorded",)

    def __init__(self, model: str, options: RecordedOptions, frame: pd.DataFrame | None = None) -> None:
        self._model, self._options, self._frame = model, options, frame
        self._matches: Matches | None = None
        self.model_calls = 0

    @classmethod
    def create(cls, model: Mapping[str, Any], options: Any, decoding: Decoding, **memory: Any) -> RecordedEngine:
        """Return the engine for a config; see `EngineFactory.create`.

        Raises
        ------
        Fp2Error
            If there is no file of answers, or it cannot be read.
        """
        if options.content is not None:
            what = "the answers are a DataFrame, which a config does not hold"
            raise Fp2Error(what, where=WHERE, fix="Call fp2.evaluate with it again, or write it to a file")
        options.identity()
        return cls(str(model.get("id") or model.get("name")), options)

    def read(self, tick: Callable[[int, int], None]) -> None:
        """Read the files; `tick` is called with (files read, files).

        Raises
        ------
        Fp2Error
            Naming the first thing that is wrong with them.
        """
        from fp2.methods.recorded.table import frame_answers, read_answers

        if self._frame is not None:
            self.__dict__["_supplied"] = frame_answers(self._frame, self._options)
        else:
            self.__dict__["_supplied"] = read_answers(self._options, tick)

    @cached_property
    def _supplied(self) -> Supplied:
        self.read(lambda done, total: None)
        found: Supplied = self.__dict__["_supplied"]
        return found

    def match(self, tasks: Sequence[ImageTask], questions: Sequence[Question]) -> Sequence[str]:
        """Find which answers belong to what is planned; return what the user should know of the others.

        Raises
        ------
        Fp2Error
            If none belongs to it, or it is not clear which.
        """
        from fp2.methods.recorded.match import match

        self._matches = found = match(self._supplied, tasks, questions, self._options.duplicates)
        complete = [] if found.n_missing else [f"All {found.n_planned:,} planned answers are supplied."]
        unmatched = [f"The first that belongs to none is {found.first_unmatched}."] if found.first_unmatched else []
        return [*complete, *self.limitations, *unmatched]

    @property
    def limitations(self) -> Sequence[str]:
        """What was left out of the supplied rows, without naming any."""
        found = self._matches
        if found is None:
            return ()
        repeated = f"and [was|were] left out (engine.duplicates={self._options.duplicates})"
        lines = [
            (
                found.n_missing,
                f"of {found.n_planned:,} planned answers [was|were] not supplied, and [counts|count] as missing.",
            ),
            (
                found.n_unmatched,
                "supplied [row belongs|rows belong] to no planned question and image, and [was|were] left out.",
            ),
            (found.n_blank, "supplied [row has|rows have] no answer."),
            (found.n_repeated, f"supplied [row repeats|rows repeat] a question about an image, {repeated}."),
        ]
        return [in_number(n, f"{n:,} {text}") for n, text in lines if n]

    def provenance(self) -> dict[str, Any]:
        """Return digest and forms of the files, and what became of their rows."""
        found = self._matches
        counts = (
            {}
            if found is None
            else {
                "rows": found.n_rows,
                "used": len(found.keys),
                "unmatched": found.n_unmatched,
                "blank": found.n_blank,
                "repeated": found.n_repeated,
            }
        )
        return {"digest": self._options.digest, "forms": list(self._supplied.forms), **counts}

    def identity(self) -> dict[str, Any]:
        """Return the model's name, the digest of the answers, and how they are read."""
        marked = {"planted": True} if self._planted & {"true", "none"} else {}
        return {"engine": "recorded", "model": self._model, **self._options.identity(), **marked}

    @cached_property
    def _planted(self) -> set[str]:
        """What the answers say of effects planted in their model (`fp2 export` writes it): `true`, or `none`."""
        frame = self._supplied.frame
        return set(frame["planted_effects"].astype("str").str.lower()) if "planted_effects" in frame else set()

    def profile(self) -> ModelProfile:
        """Return whether the answers are those of a simulator without planted effects."""
        return ModelProfile(without_effects=self._planted & {"true", "none"} == {"none"})

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return the version of the method, and the question's id: two questions may have one text.

        Raises
        ------
        Fp2Error
            If the answers lack what this kind of question is answered by.
        """
        from fp2.methods.recorded.match import answered_by

        names = answered_by(question.kind)
        if not any(self._supplied.has(name) for name in names):
            what = f"the answers have no {names[0]}, which a question of kind {question.kind} is answered by"
            column = OF_CHOICES[0] if question.kind == "choice" else names[0]
            fix = f"Set engine.columns={{{column}: COLUMN}}"
            raise Fp2Error(what, where=f"question '{question.question_id}'", fix=fix)
        return {"name": METHOD, "question": question.question_id}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return the image's id: two images of the same pixels may have different answers."""
        return {"image": task.image_id}

    def lacking(self, question: Question) -> Mapping[str, str]:
        """Return the numbers of yes/no answers that no row has, or not every row."""
        frame = self._supplied.frame
        if question.kind != "yes_no":
            return {}
        there = {name: int(frame[name].notna().sum()) if name in frame else 0 for name in YES_NO_NUMBERS}
        most = max(there.values())
        return {name: SOMETIMES if n else NEVER for name, n in there.items() if n < most}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but not hashed: nothing was computed here."""
        return {"device": None, "batch_size": None, "attention": None, "sharing": None}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the supplied answers, some images at a time; what was not supplied has the error `NOT_SUPPLIED`."""
        if self._matches is None:
            raise ValueError("answers are matched to a plan before they are given")
        columns = {str(name): values.tolist() for name, values in self._supplied.frame.items()}
        batch: list[Answer] = []
        images = characters = 0
        for task in tasks:
            answers = list(self._of(task, self._matches, columns))
            batch += answers
            images += 1
            characters += sum(len(answer.text or "") for answer in answers)
            if images == _BATCH or characters > _CHARACTERS:
                yield batch
                batch, images, characters = [], 0, 0
        if batch:
            yield batch

    def _of(self, task: ImageTask, matches: Matches, columns: Mapping[str, list[Any]]) -> Iterator[Answer]:
        rows = matches.of(task)
        for question in task.questions:
            row = rows.get(matches.questions[question.question_id])
            found = None if row is None else _answer(task, question, row, columns)
            yield found or Answer(task.image_id, question.question_id, None, NOT_SUPPLIED)


def _answer(task: ImageTask, question: Question, row: int, columns: Mapping[str, list[Any]]) -> Answer | None:
    """Return the answer in a row; None if it lacks what the question is answered by."""
    text = columns["text"][row] if "text" in columns else None
    if question.kind == "choice":
        of_options = dict(columns["numbers"][row] or {})
        for name in OF_CHOICES:
            if name in of_options:
                of_options["p"] = _over_choices(question, name, of_options.pop(name))
        p = of_options.get("p")
        if not isinstance(p, list) or len(p) != len(question.choices):
            return None
        chosen = question.choices[max(range(len(p)), key=p.__getitem__)]
        return Answer(task.image_id, question.question_id, chosen, numbers=of_options)
    if question.kind != "yes_no":
        return None if text is None else Answer(task.image_id, question.question_id, text)
    own = {name: columns[name][row] for name in YES_NO_NUMBERS if name in columns}
    numbers = {
        name: None if (value := own.get(name)) is None or math.isnan(value) else value for name in YES_NO_NUMBERS
    }
    if all(value is None for value in numbers.values()):
        return None
    return Answer(task.image_id, question.question_id, text or _yes_or_no(numbers), numbers=numbers)


def _yes_or_no(numbers: Mapping[str, float | None]) -> str:
    leading = numbers["logit_difference"]
    if leading is not None:
        return "Yes" if leading >= 0 else "No"
    p, norm = numbers["p_yes"], numbers["p_yes_norm"]
    return "Yes" if (norm if norm is not None else p or 0.0) >= 0.5 else "No"


def _over_choices(question: Question, name: str, of_choices: Mapping[str, float]) -> list[float] | None:
    """Return probabilities of the question's choices that sum to 1; None where none has any."""
    check_names(question.choices, of_choices, f"{name} has no", f"question '{question.question_id}'")
    values = [of_choices[choice] for choice in question.choices]
    if name == "logits":
        highest = max(values)
        values = [math.exp(value - highest) for value in values]
    total = sum(values)
    return [value / total for value in values] if total > 0 else None
