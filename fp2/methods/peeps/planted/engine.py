"""The simulator: answers by a subject's attributes with effects of known size, without opening an image.

For tests, and to calibrate statistics at any size. `simulate` and `simulate_yes_no` return the answers of a people
table directly, without the pipeline.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fp2.extension import (
    HIDES_PERSON,
    IN_WORDS,
    Answer,
    BaseEngine,
    Decoding,
    Fp2Error,
    ImageTask,
    ModelProfile,
    Positive,
    Question,
    WorkerOptions,
    digest,
    nearest,
)
from fp2.methods.peeps.planted.answers import (
    CHOICE_METHOD,
    TEXT_METHOD,
    YES_NO_METHOD,
    Case,
    SubjectImage,
    draw_choice,
    draw_text,
    draw_yes_no,
    hashed,
    unknown_trait,
)
from fp2.methods.peeps.planted.truth import PlantedTruth, PointSums, load_truth

if TYPE_CHECKING:
    import pandas as pd


NO_EFFECT = (
    "The simulator has no effect planted (model.truth adds nothing for any group): every difference between groups is "
    "chance."
)


@dataclass(frozen=True, kw_only=True)
class PlantedOptions(WorkerOptions):
    """The options of `engine=planted`.

    Attributes
    ----------
    batch_size : int
        Images whose answers are yielded together.
    device : {"auto", "cpu"}
        It computes on the CPU only.
    """

    batch_size: Positive = 256
    device: Literal["auto", "cpu"] = "cpu"

    def summary(self) -> dict[str, str]:
        """Return the batch size."""
        return {"batch size": str(self.batch_size)}


class PlantedEngine(BaseEngine):
    """Answers from a `PlantedTruth`; `batch_size` is the number of images whose answers are yielded together."""

    Options: ClassVar[type[Any]] = PlantedOptions
    serves: ClassVar[tuple[str, ...]] = ("planted",)
    planted: ClassVar[bool] = True

    def __init__(self, truth: PlantedTruth, *, batch_size: int = 256) -> None:
        self.truth = truth
        self.model_calls = 0
        self._batch_size = batch_size

    @classmethod
    def create(cls, model: Mapping[str, Any], options: Any, decoding: Decoding, **memory: Any) -> PlantedEngine:
        """Return the engine for a config; see `EngineFactory.create`."""
        return cls(load_truth(model.get("truth")), batch_size=options.batch_size)

    @property
    def notices(self) -> list[str]:
        """Whether there is an effect to find."""
        return [] if self.truth.has_effects else [NO_EFFECT]

    @property
    def limitations(self) -> list[str]:
        """The same for the reader of the results."""
        return self.notices

    def identity(self) -> dict[str, Any]:
        """Return the digest of the truth."""
        return {"engine": "planted", "truth": self.truth.digest}

    def most_images(self, question: Question) -> int:
        """Return 2: no image is opened."""
        return 2

    def profile(self) -> ModelProfile:
        """Return whether there is an effect to find."""
        return ModelProfile(without_effects=not self.truth.has_effects)

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return the version of the method; a blind answer is drawn for a subject without attributes."""
        if question.kind == "yes_no":
            return {"name": YES_NO_METHOD, "truth": self.truth.yes_no_digest}
        if question.kind == "choice":
            return {"name": CHOICE_METHOD, "truth": digest([self.truth.yes_no_digest, dict(self.truth.choices)])}
        return {"name": TEXT_METHOD}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return a digest of what an answer depends on: subject, image, and the attributes that the truth names."""
        used = {name: list(task.attributes.get(name, ())) for name in sorted(self.truth.attributes)}
        return {"person": digest([task.subject_id, task.image_id, used])}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but not hashed."""
        return {"device": "cpu", "batch_size": self._batch_size, "attention": None, "sharing": None}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers, some images at a time; a question that the truth does not know is a failed answer."""
        waiting = iter(tasks)
        while batch := list(itertools.islice(waiting, self._batch_size)):
            visible = [task for task in batch if task.variant not in HIDES_PERSON]
            if visible:
                _check_attributes(self.truth, {name for task in visible for name in task.attributes})
            self.model_calls += 1
            kinds = {question.kind for task in batch for question in task.questions}
            scored = self._yes_no(batch) if "yes_no" in kinds else ()
            yield [*self._in_words(batch), *scored, *(self._choices(batch) if "choice" in kinds else ())]

    def _in_words(self, batch: Sequence[ImageTask]) -> list[Answer]:
        pairs = [(task, question) for task in batch for question in task.questions if question.kind in IN_WORDS]
        cases = [Case(task.subject_id, task.image_id, q.text, task.attributes, q.sample) for task, q in pairs]
        return [
            Answer(task.image_id, q.question_id, drawn.text, drawn.error, tokens=len((drawn.text or "").split()))
            for (task, q), drawn in zip(pairs, draw_text(self.truth, cases) if cases else (), strict=True)
        ]

    def _yes_no(self, batch: Sequence[ImageTask]) -> Iterator[Answer]:
        """Yield the scored answers; images with the same open questions are drawn together."""
        groups: dict[tuple[Question, ...], list[ImageTask]] = {}
        for task in batch:
            questions = tuple(question for question in task.questions if question.kind == "yes_no")
            if questions:
                groups.setdefault(questions, []).append(task)
        for questions, tasks in groups.items():
            images = [SubjectImage(task.subject_id, task.image_id, task.attributes) for task in tasks]
            columns = draw_yes_no(self.truth, images, questions)
            reasons = [unknown_trait(self.truth.yes_no, question) or "planted error" for question in questions]
            for row, task in enumerate(tasks):
                values = {name: column[row].tolist() for name, column in columns.items()}
                for index, (question, reason) in enumerate(zip(questions, reasons, strict=True)):
                    numbers = {name: column[index] for name, column in values.items()}
                    yield _scored(task, question, numbers, reason)

    def _choices(self, batch: Sequence[ImageTask]) -> Iterator[Answer]:
        """Yield the answers to questions with options; their order changes none."""
        sums = PointSums()
        for task, question in ((t, q) for t in batch for q in t.questions if q.kind == "choice"):
            image = SubjectImage(task.subject_id, task.image_id, task.attributes)
            if (p := draw_choice(self.truth, image, question, sums)) is None:
                yield Answer(task.image_id, question.question_id, None, "planted error")
                continue
            numbers = {"p": p, "log_likelihood": np.log(p).tolist(), "mass": 1.0, "order_range": 0.0}
            chosen = question.choices[int(np.argmax(p))]
            yield Answer(task.image_id, question.question_id, chosen, tokens=1, numbers=numbers)


def simulate(people: pd.DataFrame, questions: Sequence[Question], truth: PlantedTruth) -> pd.DataFrame:
    """Return the answers of every subject of `people` to every question, as the engine would give them.

    Parameters
    ----------
    people : DataFrame
        Rows of the people table with their `attr_*` columns (lists of values); one answer per row and question.
    questions : sequence of Question
    truth : PlantedTruth

    Returns
    -------
    DataFrame
        The answers table, with a column `level` (-1 without one). `response_key` is a digest of (truth, subject, image,
        text): it is unique here, but is not the key that the store would use.
    """
    import pandas as pd

    subjects, images, known = _people(people, truth)
    cases = [
        Case(s, i, q.text, a, q.sample) for q in questions for s, i, a in zip(subjects, images, known, strict=True)
    ]
    drawn = draw_text(truth, cases)
    repeated = [question for question in questions for _ in subjects]
    return pd.DataFrame(
        {
            "response_key": [hashed(truth.digest, case.name[1:]).hex() for case in cases],
            "image_id": images * len(questions),
            "subject_id": subjects * len(questions),
            "variant": "original",
            "question_id": [question.question_id for question in repeated],
            "probe": [question.probe for question in repeated],
            "text": [one.text for one in drawn],
            "numbers": None,
            "status": ["answered" if one.error is None else "error" for one in drawn],
            "error": [one.error for one in drawn],
            "attempts": 1,
            "seconds": 0.0,
            "tokens": [len((one.text or "").split()) for one in drawn],
            "cached": False,
            "level": [one.level for one in drawn],
        }
    )


def simulate_yes_no(
    people: pd.DataFrame, questions: Sequence[Question], truth: PlantedTruth
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the numbers of the yes/no answers of every row of `people`: column -> (n_rows, n_questions)."""
    subjects, images, known = _people(people, truth)
    return draw_yes_no(truth, list(map(SubjectImage, subjects, images, known)), questions)


def _people(people: pd.DataFrame, truth: PlantedTruth) -> tuple[list[str], list[str], list[dict[str, Sequence[str]]]]:
    """Return subjects, images, and the attributes that the truth names."""
    from fp2.extension import ATTRIBUTE_PREFIX, attribute_columns

    _check_attributes(truth, set(attribute_columns(people)))
    used = sorted(truth.attributes)
    columns = [people[ATTRIBUTE_PREFIX + name].tolist() for name in used]
    subjects, images = people["subject_id"].astype(str).tolist(), people["image_id"].astype(str).tolist()
    known = [dict(zip(used, values, strict=True)) for values in zip(*columns, strict=True)] or [{} for _ in subjects]
    return subjects, images, known


def _scored(task: ImageTask, question: Question, numbers: dict[str, float], reason: str) -> Answer:
    if math.isnan(numbers["logit_difference"]):
        return Answer(task.image_id, question.question_id, None, reason)
    text = "Yes" if numbers["logit_difference"] >= 0 else "No"
    return Answer(task.image_id, question.question_id, text, tokens=1, numbers=numbers)


def _check_attributes(truth: PlantedTruth, there: set[str]) -> None:
    """Raise for an attribute that no subject has: a misspelt effect would silently be no effect."""
    for name in sorted(truth.attributes - there):
        raise Fp2Error(
            f"the truth names the attribute {name!r}, which these people do not have",
            where="model.truth",
            fix=nearest(name, there) if there else "These people have no attributes",
        )
