"""Notes: what a reader has to know of a run, each a sentence with the record it is made from.

A run states its limitations as sentences (`limitations` in `results.json`) and, in the same order, as records
(`notes`): a code, the parameters, and the stage of the pipeline that states it. Code compares records and never reads a
sentence; a run that is scored or analysed again replaces the notes of the stages that are repeated. A plug-in may give
plain sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Stage(StrEnum):
    """Who states a note."""

    RUN = "run"
    DATA = "data"
    QUESTIONS = "questions"
    SCORERS = "scorers"
    SCORES = "scores"
    TABLES = "tables"
    ANALYSIS = "analysis"
    HISTORY = "history"


TEXT = "text"
"""The code of a sentence that has no record: of a plug-in, or of a version before records."""


class Note(str):
    """A sentence for the reader, with its record.

    Attributes
    ----------
    code : str
        What is stated.
    parameters : mapping
        JSON values.
    stage : Stage or None
        Who states it; None where that is not known.
    """

    __slots__ = ("code", "parameters", "stage")
    code: str
    parameters: Mapping[str, object]
    stage: Stage | None

    def __new__(
        cls, text: str, code: str = TEXT, parameters: Mapping[str, object] | None = None, stage: str | None = None
    ) -> Note:
        """Return the sentence `text` with its record."""
        note = super().__new__(cls, text)
        note.code, note.parameters = code, dict(parameters or {})
        note.stage = Stage(stage) if stage is not None else None
        return note

    @property
    def identity(self) -> tuple[str, str]:
        """What two versions of one note have in common: the code, and the sentence of one that has only that."""
        return self.code, str(self) if self.code == TEXT else ""

    def record(self) -> dict[str, object]:
        """Return the note as it stands in `notes` of `results.json`, whose sentence is in `limitations`."""
        return {"code": self.code, "stage": self.stage, "parameters": self.parameters}


@dataclass(frozen=True)
class NoteKind:
    """A kind of note: called with its parameters, it returns the note.

    Attributes
    ----------
    code : str
        Unique among the kinds.
    stage : Stage
        Who states it.
    words : str or callable
        A format string or a function of the parameters; lists are joined by commas in a format string.
    """

    code: str
    stage: Stage
    words: str | Callable[..., str]

    def __call__(self, **parameters: object) -> Note:
        """Return the note with these parameters (JSON values)."""
        if callable(self.words):
            text = self.words(**parameters)
        else:
            listed = {key: ", ".join(map(str, value)) for key, value in parameters.items() if isinstance(value, list)}
            text = self.words.format(**{**parameters, **listed})
        return Note(text, self.code, parameters, self.stage)


def as_notes(lines: Iterable[str], stage: Stage) -> list[Note]:
    """Return sentences as notes; those without a record are stated by `stage`."""
    return [limitation if isinstance(limitation, Note) else Note(limitation, stage=stage) for limitation in lines]


class HasNotes(Protocol):
    """The content of `results.json`."""

    def __getitem__(self, key: str, /) -> Any:
        """Return the value of a key."""

    def __contains__(self, key: object, /) -> bool:
        """Return whether there is a key."""


def read_notes(results: HasNotes) -> list[Note]:
    """Return the notes of `results.json`; of runs before records, those that `_EARLIER` recognises have codes."""
    if "notes" not in results:
        return [_recognised(limitation) for limitation in results["limitations"]]
    pairs = zip(results["limitations"], results["notes"], strict=True)
    return [Note(limitation, note["code"], note["parameters"], note["stage"]) for limitation, note in pairs]


def logged(notes: Sequence[Note]) -> dict[str, object]:
    """Return the keys of `results.json` that state the notes: `limitations` and `notes`."""
    return {"limitations": [str(note) for note in notes], "notes": [note.record() for note in notes]}


def without(notes: Sequence[Note], *stages: Stage) -> list[Note]:
    """Return the notes but for those of these stages, which are repeated."""
    return [note for note in notes if note.stage not in stages]


_AFTER = {stage: place for place, stage in enumerate(("tables", "data", "questions", "analysis", "scores", "history"))}


def in_order(notes: Iterable[Note]) -> list[Note]:
    """Return the notes as they are read: those on every such run first, then on the data, then on the analysis."""
    return sorted(notes, key=lambda note: _AFTER.get(note.stage or "", -1))


_EARLIER: tuple[tuple[str, str, Stage], ...] = (
    (r"Cut \S+: no comparison", "small_groups", Stage.ANALYSIS),
    (r"Cut \S+: ", "group_membership", Stage.TABLES),
    (r".* (are associated in these images|go together in these pictures) \(Cramer's V", "confounded", Stage.TABLES),
    (r".* is known together with .*: whether they are confounded", "association_unknown", Stage.TABLES),
    (r".* (is that|is told as) of the first run: the tables", "association_of_first_run", Stage.TABLES),
    (r"Scored by a model \(", "scored_by_model", Stage.SCORES),
    (r".* permutations the smallest adjusted p-value", "too_few_permutations", Stage.ANALYSIS),
    (r"Look \d+ of \d+", "look", Stage.ANALYSIS),
    (r"Valence is VADER's", "vader", Stage.SCORERS),
    (r"Lexicons and the va", "english", Stage.SCORERS),
    (r"These answers were analysed in ", "earlier_looks", Stage.RUN),
    (r"the sets that vary in (?P<cut>\S+) also vary in ", "sets_also_vary", Stage.DATA),
)
"""Beginnings of the sentences of 0.3.0 and 0.4.0 (dev), which logged no records, with their codes and stages."""


def _recognised(limitation: str) -> Note:
    for pattern, code, stage in _EARLIER:
        if match := re.match(pattern, limitation):
            return Note(limitation, code, match.groupdict(), stage)
    return Note(limitation)
