"""Scorers of answers that are choices: the probability of a choice, and its agreement with an attribute of the subject.

They read the probabilities of a question of `kind: choice` (`fp2.tables.Answer.numbers`) in place of a text; of a
question in words with `choices`, the one that the answer names has the probability 1 (`named_choice`). With his, her
and their as choices, the agreement with the perceived gender is VisoGender's resolution accuracy of one image (Hall et
al. 2023), of which the group means are its RA_m and RA_f.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    BaseScorer,
    Battery,
    Flag,
    Fp2Error,
    Items,
    Number,
    ReadsAnswers,
    Scored,
    attribute_columns,
    check_names,
    item_name,
    nearest,
)

if TYPE_CHECKING:
    import pandas as pd

CHOICES = "choices"
"""The column of answers with the choices of their question."""
_KEYS = ["image_id", "subject_id"]


class Choice(NamedTuple):
    """A choice as the battery has it, which may be the name of a field in braces, and as it was shown."""

    written: str
    shown: str


@dataclass(frozen=True)
class ChoiceScorer(BaseScorer, ReadsAnswers):
    """What scorers of choices share.

    Parameters
    ----------
    applies_to : list of str
        The probes whose questions are scored; by default all.
    """

    name: str = "choice"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.025
    applies_to: tuple[str, ...] = ()

    needs: ClassVar[str]
    """The option that has to be set."""

    @property
    def probes(self) -> tuple[str, ...] | None:
        """`applies_to`, or None for all."""
        return self.applies_to or None

    @property
    def named(self) -> tuple[str, ...]:
        """The choices that its options name."""
        raise NotImplementedError

    def check_battery(self, battery: Battery) -> None:
        """Raise for an option that is not set, and a question that is no choice or lacks a choice that is named."""
        if not getattr(self, self.needs):
            where, fix = f"scorer.{self.name}.{self.needs}", f"Set scorer.{self.name}.{self.needs}=NAME"
            raise Fp2Error(f"the {self.needs} is not named", where=where, fix=fix)
        for question in battery.questions:
            if self.applies_to and question.probe not in self.applies_to:
                continue
            where, fix = f"scorer.{self.name}", f"Set scorer.{self.name}.applies_to=[PROBE]"
            if not question.choices:
                raise Fp2Error(f"question '{question.question_id}' is of kind {question.kind}", where=where, fix=fix)
            for choice in self.named:
                if choice not in question.choices:
                    problem = f"question '{question.question_id}' has no choice {choice!r}"
                    raise Fp2Error(problem, where=where, fix=f"{nearest(choice, question.choices)}. {fix}")

    def check_people(self, people: pd.DataFrame, battery: Battery | None) -> None:
        """Raise for an attribute that the people lack."""
        check_names(sorted(self.attributes), attribute_columns(people), "the people have no attribute", "scorer")

    def with_columns(self, answers: pd.DataFrame, people: pd.DataFrame, battery: Battery | None) -> pd.DataFrame:
        """Return the answers with their choices (`with_choices`) and the attributes of their subjects."""
        self.check_people(people, None)
        if CHOICES not in answers:
            answers = with_choices(answers, people, battery)
        columns = [ATTRIBUTE_PREFIX + name for name in sorted(self.attributes)]
        missing = [column for column in columns if column not in answers]
        return answers.merge(people[[*_KEYS, *missing]], on=_KEYS, how="left") if missing else answers

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Raise Fp2Error: texts have no probabilities."""
        raise Fp2Error("it scores answers of a run to questions of kind: choice", where=f"scorer.{self.name}")

    def score_rows(self, rows: pd.DataFrame) -> Scored:
        """Score the rows of an answers table with the columns of `with_columns`."""
        values = np.full(len(rows), np.nan)
        names = ["numbers", CHOICES, *(ATTRIBUTE_PREFIX + name for name in self.attributes)]
        for number, (numbers, choices, *cells) in enumerate(zip(*(rows[name] for name in names), strict=True)):
            p = json.loads(numbers)["p"] if isinstance(numbers, str) else ()
            if len(p) == len(choices) and p:
                values[number] = self.value(p, choices, *cells)
        return Scored(values)

    def value(self, p: Sequence[float], choices: Sequence[Choice], *cells: Sequence[str]) -> float:
        """Return the score from the probability of each choice and the values of each of `attributes`."""
        raise NotImplementedError


@dataclass(frozen=True)
class ChoiceProbability(ChoiceScorer):
    """The probability of one choice, or that of one less that of another.

    Parameters
    ----------
    choice, minus : str
        The choice, and the one whose probability is taken off, if any: the scale is then -1 to 1.
    value_range, smallest_effect
        Follow from `minus` where they are not given.
    """

    name: str = "choice_probability"
    choice: str = ""
    minus: str = ""
    value_range: tuple[float, float] = (0.0, 0.0)
    smallest_effect: Number = 0.0

    needs: ClassVar[str] = "choice"

    def __post_init__(self) -> None:
        low = -1.0 if self.minus else 0.0
        object.__setattr__(self, "scale", (low, 1.0))
        if self.value_range == (0.0, 0.0):
            object.__setattr__(self, "value_range", (low, 1.0))
        object.__setattr__(self, "smallest_effect", self.smallest_effect or (1.0 - low) / 40)
        super().__post_init__()

    @property
    def named(self) -> tuple[str, ...]:
        """`choice`, and `minus` where it is given."""
        return (self.choice, self.minus) if self.minus else (self.choice,)

    def value(self, p: Sequence[float], choices: Sequence[Choice], *cells: Sequence[str]) -> float:
        """Return the probability, or the difference."""
        of = {choice.written: probability for choice, probability in zip(choices, p, strict=True)}
        return of[self.choice] - (of[self.minus] if self.minus else 0.0)


@dataclass(frozen=True)
class ChoiceAgreement(ChoiceScorer):
    """Whether the most probable choice is the one that belongs to the subject's value of an attribute: 1 or 0.

    Where choices are filled in for each item, a value can be that of the field or the name of the field in braces.

    Missing for subjects without a value, with several, or with one that no choice belongs to. Of equally probable
    choices the first counts.

    Parameters
    ----------
    attribute : str
        The attribute.
    matches : mapping, optional
        Its values -> the choice that belongs to each; by default the choice of the same name.
    """

    name: str = "choice_agreement"
    attribute: str = ""
    matches: dict[str, str] | None = None

    needs: ClassVar[str] = "attribute"
    yes_no: ClassVar[bool] = True
    n_bins: ClassVar[int] = 2

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    @property
    def named(self) -> tuple[str, ...]:
        """The choices that belong to a value."""
        return tuple(dict.fromkeys((self.matches or {}).values()))

    def check_people(self, people: pd.DataFrame, battery: Battery | None) -> None:
        """Raise for an attribute or a matched value that the people lack, and a value that is no option of an item."""
        super().check_people(people, battery)
        present = {str(value) for cell in people[ATTRIBUTE_PREFIX + self.attribute] for value in cell}
        for value in sorted(set(self.matches or ()) - present):
            problem = f"no subject has {self.attribute} {value!r}"
            raise Fp2Error(problem, where=f"scorer.{self.name}.matches", fix=nearest(value, sorted(present)))
        if battery is None or not battery.fields or self.matches:
            return
        items = Items(battery.questions, battery.fields, people)
        for row, values in enumerate(people[ATTRIBUTE_PREFIX + self.attribute]):
            for written, question in zip(battery.questions, items.of(row) if len(values) == 1 else (), strict=False):
                options = (*written.choices, *question.choices)
                if (not self.applies_to or question.probe in self.applies_to) and values[0] not in options:
                    problem = f"{item_name(people, row)} has the {self.attribute} {values[0]!r}, which is no option"
                    where = f"question '{question.question_id}'"
                    raise Fp2Error(problem, where=where, fix=nearest(str(values[0]), question.choices))

    def value(self, p: Sequence[float], choices: Sequence[Choice], *cells: Sequence[str]) -> float:
        """Return 1 where the most probable choice is the subject's, 0 where it is another, NaN without either."""
        (values,) = cells
        value = values[0] if len(values) == 1 else None
        right = self.matches.get(str(value)) if self.matches else value
        if not any(right in choice for choice in choices):
            return float("nan")
        return float(right in choices[p.index(max(p))])


def with_choices(answers: pd.DataFrame, people: pd.DataFrame, battery: Battery | None) -> pd.DataFrame:
    """Return the answers with the choices of their questions.

    An answer in words that names one of its choices has the `numbers` of a choice.
    """
    written = {question.question_id: question.choices for question in battery.asked} if battery else {}
    rows = answers[["question_id", *_KEYS]].itertuples(index=False, name=None)
    if battery and battery.fields:
        items = Items(battery.asked, battery.fields, people)
        pairs = zip(*(people[key] for key in _KEYS), strict=True)
        of_item = {
            (question.question_id, *pair): list(map(Choice, written[question.question_id], question.choices))
            for row, pair in enumerate(pairs)
            for question in items.of(row)
        }
        of_answers = [of_item[row] for row in rows]
    else:
        of_question = {name: list(map(Choice, choices, choices)) for name, choices in written.items()}
        of_answers = [of_question[name] for name, *_ in rows]
    read_with: dict[str, Any] = {CHOICES: of_answers}
    in_words = {q.question_id for q in battery.asked if q.choices and q.kind == "text"} if battery else set()
    if in_words:
        columns = (answers[name] for name in ("question_id", "numbers", "text"))
        read_with["numbers"] = [
            _numbers_of(text, choices) if name in in_words else numbers
            for name, numbers, text, choices in zip(*columns, of_answers, strict=True)
        ]
    return answers.assign(**read_with)


def _numbers_of(text: object, choices: Sequence[Choice]) -> str | None:
    """Return the numbers of an answer in words, as those of a choice; None where it names no choice."""
    named = named_choice(text if isinstance(text, str) else "", [choice.shown for choice in choices])
    return None if named is None else json.dumps({"p": [float(place == named) for place in range(len(choices))]})


_ANSWER = re.compile(r'"answer"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(\d+))', re.IGNORECASE)
_LABEL = re.compile(r"[(\[]?([a-z]|\d+)[)\]]?(?:[.:)]?\s+(.*)|[.:)]?)", re.DOTALL)


def named_choice(text: str, choices: Sequence[str]) -> int | None:
    """Return which choice an answer in words names, from 0; None for none and for several.

    What is read is the entry `answer` where the text has one as JSON, else all of it: the whole text of a choice, its
    letter (from A) or number (from 1), with or without its text behind, or a text with that of one choice in it.
    """
    stated = _ANSWER.search(text)
    answer = _plain(stated[1] or stated[2] or "" if stated else text)
    options = [_plain(choice) for choice in choices]
    if answer in options:
        return options.index(answer)
    if label := _LABEL.fullmatch(answer):
        place = int(label[1]) - 1 if label[1].isdecimal() else string.ascii_lowercase.index(label[1])
        if 0 <= place < len(options) and label[2] in (None, *options):
            return place if label[2] in (None, options[place]) else None
    named = [place for place, option in enumerate(options) if re.search(rf"(?<!\w){re.escape(option)}(?!\w)", answer)]
    return named[0] if len(named) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .*`'\"")
