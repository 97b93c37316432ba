"""A simulator with a known truth: it answers by a person's attributes, and never opens a picture.

The level of an answer is `clip(floor(base + points + subject noise + image noise + 1/2), 0, 9)`, and the answer is the
probe's sentence of that level. All chance comes from hashes of (seed, subject, image, question text): neither order nor
batches nor how many people there are changes any answer. For tests, and for calibrating statistics at any size.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.engines.planted.truth import EVERY_PROBE, LEVELS, PlantedTruth
from fp2.engines.planted.truth_reading import Points, PointSums, Rate
from fp2.engines.planted.yes_no import METHOD as YES_NO_METHOD
from fp2.engines.planted.yes_no import Seen, draw_yes_no, unknown_trait
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.tables import HIDES_PERSON, Answer, ImageTask, Question

if TYPE_CHECKING:
    import pandas as pd

METHOD = "planted/1"
_NO_RATE = Rate(0.0, {})
_NOTHING: Points = {}

Floats = npt.NDArray[np.float64]


class Ask(NamedTuple):
    """One question about one picture of one person."""

    subject_id: str
    image_id: str
    text: str
    attributes: Mapping[str, Sequence[str]]


class Drawn(NamedTuple):
    """What the simulator gave: level (0-9, or -1 without one), words or None, error or None."""

    level: int
    text: str | None
    error: str | None


class PlantedEngine:
    """Answers from a `PlantedTruth`; `batch_size` is the number of pictures whose answers are yielded together."""

    def __init__(self, truth: PlantedTruth, *, batch_size: int = 256) -> None:
        if batch_size < 1:
            raise Fp2Error(f"a batch of {batch_size} is no batch", where="engine.batch_size", fix="Use 1 or more")
        self.truth = truth
        self.model_calls = 0
        self._batch_size = batch_size

    def identity(self) -> dict[str, Any]:
        """Return the digest of the truth and the version of the way answers are drawn from it."""
        return {"engine": "planted", "truth": self.truth.digest}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return the version of the way answers are drawn; a blind answer is drawn like any other, of nobody.

        Raises
        ------
        Fp2Error
            If the question gives choices: a truth holds sentences and log odds of Yes, and no likelihoods of options.
        """
        if question.kind == "yes_no":
            return {"name": YES_NO_METHOD, "truth": self.truth.yes_no.digest}
        if question.kind not in ("text", "number"):
            raise Fp2Error(
                f"the simulator answers in words or Yes and No, and cannot score a question of kind '{question.kind}'",
                where=f"question '{question.question_id}'",
                fix="Ask it in words (kind: text), or choose a model",
            )
        return {"name": METHOD}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return a digest of what an answer depends on: person, picture, and the attributes that the truth names."""
        used = {name: list(task.attributes.get(name, ())) for name in sorted(self.truth.attributes)}
        return {"person": digest([task.subject_id, task.image_id, used])}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but never hashed."""
        return {"device": "cpu", "batch_size": self._batch_size, "attention": None, "sharing": None}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers, some pictures at a time; a question that the truth does not know is an error row.

        Raises
        ------
        Fp2Error
            If the truth names an attribute that nobody who is shown in a batch has.
        """
        waiting = iter(tasks)
        while batch := list(itertools.islice(waiting, self._batch_size)):
            seen = [task for task in batch if task.variant not in HIDES_PERSON]
            if seen:
                _check_attributes(self.truth, {name for task in seen for name in task.attributes})
            self.model_calls += 1
            yield [*self._in_words(batch), *self._yes_no(batch)]

    def _in_words(self, batch: Sequence[ImageTask]) -> list[Answer]:
        pairs = [(task, question) for task in batch for question in task.questions if question.kind != "yes_no"]
        asks = [Ask(task.subject_id, task.image_id, q.text, task.attributes) for task, q in pairs]
        return [
            Answer(task.image_id, q.question_id, drawn.text, drawn.error, tokens=len((drawn.text or "").split()))
            for (task, q), drawn in zip(pairs, draw(self.truth, asks) if asks else (), strict=True)
        ]

    def _yes_no(self, batch: Sequence[ImageTask]) -> Iterator[Answer]:
        """Yield the scored answers; pictures with the same open questions are drawn together."""
        groups: dict[tuple[Question, ...], list[ImageTask]] = {}
        for task in batch:
            open_ones = tuple(question for question in task.questions if question.kind == "yes_no")
            groups.setdefault(open_ones, []).append(task)
        for questions, tasks in groups.items():
            seen = [Seen(task.subject_id, task.image_id, task.attributes) for task in tasks]
            columns = draw_yes_no(self.truth, seen, questions) if questions else {}
            reasons = [unknown_trait(self.truth.yes_no, question) or "planted error" for question in questions]
            for row, task in enumerate(tasks):
                values = {name: column[row].tolist() for name, column in columns.items()}
                for place, (question, reason) in enumerate(zip(questions, reasons, strict=True)):
                    numbers = {name: column[place] for name, column in values.items()}
                    yield _scored(task, question, numbers, reason)


def _scored(task: ImageTask, question: Question, numbers: dict[str, float], reason: str) -> Answer:
    if math.isnan(numbers["logit_difference"]):
        return Answer(task.image_id, question.question_id, None, reason)
    said = "Yes" if numbers["logit_difference"] >= 0 else "No"
    return Answer(task.image_id, question.question_id, said, tokens=1, numbers=numbers)


def draw(truth: PlantedTruth, asks: Sequence[Ask]) -> list[Drawn]:
    """Return what the simulator says to each of `asks`, in their order."""
    probes = [truth.probe_of.get(ask.text) for ask in asks]
    table = _Table(truth)
    points = np.array([table.points(probe, ask.attributes) for probe, ask in zip(probes, asks, strict=True)])
    refusal = np.array([table.refusal(probe, ask.attributes) for probe, ask in zip(probes, asks, strict=True)])
    failure = np.array([table.failure(ask.attributes) for ask in asks])
    chance = _uniforms(truth.seed, [("image", ask.subject_id, ask.image_id, ask.text) for ask in asks])
    noise = _subject_noise(truth, asks) + truth.image_sd * _normal(chance[:, 0])
    levels = np.clip(np.floor(truth.base + points + noise + 0.5), 0, LEVELS - 1).astype(np.int64)
    refused, failed = chance[:, 1] < refusal, chance[:, 2] < failure
    return [
        _words(truth, ask.text, probe, int(level), bool(no), bool(bad))
        for ask, probe, level, no, bad in zip(asks, probes, levels, refused, failed, strict=True)
    ]


def simulate(people: pd.DataFrame, questions: Sequence[Question], truth: PlantedTruth) -> pd.DataFrame:
    """Return the answers of everybody in `people` to every question: what the engine would give, without the pipeline.

    Parameters
    ----------
    people : DataFrame
        Rows of the people table with their `attr_*` columns (lists of values); one row per answer and question.
    questions : sequence of Question
        What is asked.
    truth : PlantedTruth
        What is planted.

    Returns
    -------
    DataFrame
        The answers table, with the planted `level` beside it (-1 where there is none). `response_key` is a digest of
        (truth, subject, image, text): it is unique here, but is not the key that the store would use.

    Raises
    ------
    Fp2Error
        If the truth names an attribute that `people` lacks.
    """
    import pandas as pd

    subjects, images, known = _people(people, truth)
    asks = [Ask(s, i, q.text, a) for q in questions for s, i, a in zip(subjects, images, known, strict=True)]
    drawn = draw(truth, asks)
    repeated = [question for question in questions for _ in subjects]
    return pd.DataFrame(
        {
            "response_key": [_hash(truth.digest, ask[:3]).hex() for ask in asks],
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
    """Return the numbers of the yes/no answers of everybody in `people`: column -> (n_people, n_questions).

    Raises
    ------
    Fp2Error
        If the truth names an attribute that `people` lacks.
    """
    subjects, images, known = _people(people, truth)
    return draw_yes_no(truth, [Seen(*one) for one in zip(subjects, images, known, strict=True)], questions)


def _people(people: pd.DataFrame, truth: PlantedTruth) -> tuple[list[str], list[str], list[dict[str, Sequence[str]]]]:
    """Return subjects, pictures and the attributes that the truth names, checked to be there."""
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    _check_attributes(truth, set(attribute_columns(people)))
    used = sorted(truth.attributes)
    columns = [people[ATTRIBUTE_PREFIX + name].tolist() for name in used]
    subjects, images = people["subject_id"].astype(str).tolist(), people["image_id"].astype(str).tolist()
    known = [dict(zip(used, values, strict=True)) for values in zip(*columns, strict=True)] or [{} for _ in subjects]
    return subjects, images, known


def _words(truth: PlantedTruth, text: str, probe: str | None, level: int, refused: bool, failed: bool) -> Drawn:
    if probe is None:
        return Drawn(-1, None, f"the simulator does not know the question {text[:80]!r}")
    if failed:
        return Drawn(-1, None, "planted error")
    if refused:
        return Drawn(-1, truth.refusal_texts[probe], None)
    return Drawn(level, truth.sentences[probe][level], None)


class _Table:
    """What a person's attributes are worth, for each probe."""

    def __init__(self, truth: PlantedTruth) -> None:
        self._truth = truth
        self._sums = PointSums()

    def points(self, probe: str | None, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the level points of somebody with `attributes`."""
        tables = [self._truth.effects.get(name, _NOTHING) for name in (probe or "", EVERY_PROBE)]
        return sum(self._sums.of(table, attributes) for table in tables)

    def refusal(self, probe: str | None, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the probability of a refusal."""
        rates = [self._truth.refusals.get(name, _NO_RATE) for name in (probe or "", EVERY_PROBE)]
        return sum(self._sums.rate(rate, attributes) for rate in rates)

    def failure(self, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the probability of an error."""
        return self._sums.rate(self._truth.errors, attributes)


def _subject_noise(truth: PlantedTruth, asks: Sequence[Ask]) -> Floats:
    """Return each person's offset: part of it common to all questions, part drawn anew for each, as planted."""
    whole = _grouped(truth.seed, [("person", ask.subject_id) for ask in asks])
    single = _grouped(truth.seed, [("person", ask.subject_id, ask.text) for ask in asks])
    mixed: Floats = truth.subject_sd * (np.sqrt(truth.shared) * whole + np.sqrt(1 - truth.shared) * single)
    return mixed


def _grouped(seed: int, names: Sequence[tuple[str, ...]]) -> Floats:
    """Return a standard normal number per name, the same for equal names, hashing each name once."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    numbers = _normal(_uniforms(seed, list(places))[:, 0])
    return numbers[[places[name] for name in names]]


def _uniforms(seed: int, names: Sequence[tuple[str, ...]]) -> Floats:
    """Return (n, 4) independent uniform numbers strictly between 0 and 1, decided by `seed` and each name."""
    data = b"".join(_hash(str(seed), name) for name in names)
    words = np.frombuffer(data, dtype="<u8").reshape(-1, 4)
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _hash(head: str, name: Sequence[str]) -> bytes:
    return hashlib.blake2b("\x1f".join((METHOD, head, *name)).encode("utf-8", "replace"), digest_size=32).digest()


def _normal(uniform: Floats) -> Floats:
    """Return standard normal numbers by the inverse distribution function."""
    from scipy.special import ndtri

    numbers: Floats = ndtri(uniform)
    return numbers


def _check_attributes(truth: PlantedTruth, there: set[str]) -> None:
    """Refuse an attribute that nobody has: a misspelt effect would silently be no effect."""
    for name in sorted(truth.attributes - there):
        raise Fp2Error(
            f"the truth names the attribute {name!r}, which these people do not have",
            where="model.truth",
            fix=nearest(name, there) if there else "These people have no attributes",
        )
