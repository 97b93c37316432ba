"""Which supplied answer belongs to which planned one: by image, image variant and question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import CONTROLS, YES_NO_NUMBERS, Fp2Error, ImageTask, Question, normal_id, original_image_id
from fp2.methods.recorded.options import WHERE

if TYPE_CHECKING:
    from fp2.methods.recorded.table import Supplied

_VALUES = ("text", "numbers", *YES_NO_NUMBERS)
_KINDS: Mapping[str, tuple[str, ...]] = {"yes_no": YES_NO_NUMBERS, "choice": ("numbers",), "": _VALUES}
Codes = NDArray[np.int64]


def answered_by(kind: str) -> tuple[str, ...]:
    """Return the columns that a kind of question is answered by: probabilities, or the text."""
    return _KINDS.get(kind, ("text",))


@dataclass(frozen=True)
class Matches:
    """The rows of supplied answers that belong to a plan.

    Attributes
    ----------
    keys, rows : arrays (k,)
        Sorted numbers of (image, variant, question), and the row of each.
    places : mapping
        (image id, variant) of a stimulus -> its number.
    questions : mapping
        Question id -> its number.
    n_planned, n_missing : int
        Planned answers, and those that no row has.
    n_rows, n_blank, n_unmatched, n_repeated : int
        Rows; those without an answer, those that belong to nothing planned, and repetitions that are left out.
    first_unmatched : str
        Where the first row is that belongs to nothing planned; empty without any.
    """

    keys: Codes
    rows: Codes
    places: Mapping[tuple[str, str], int]
    questions: Mapping[str, int]
    n_planned: int
    n_missing: int
    n_rows: int
    n_blank: int
    n_unmatched: int
    n_repeated: int
    first_unmatched: str

    def of(self, task: ImageTask) -> dict[int, int]:
        """Return question number -> row of the answers about a stimulus."""
        place = self.places.get((original_image_id(task.image_id), task.variant), -1)
        if place < 0:
            return {}
        first = place * len(self.questions)
        start, end = np.searchsorted(self.keys, (first, first + len(self.questions)))
        return dict(zip((self.keys[start:end] - first).tolist(), self.rows[start:end].tolist(), strict=True))


def match(supplied: Supplied, tasks: Sequence[ImageTask], questions: Sequence[Question], duplicates: str) -> Matches:
    """Return which rows belong to the stimuli `tasks` and the `questions`.

    Parameters
    ----------
    duplicates : {"refuse", "first", "last"}
        Which of several different answers to one question counts; equal ones are one.

    Raises
    ------
    Fp2Error
        If no row belongs to any, it is not known which question a row answers, or two rows differ.
    """
    frame = supplied.frame
    variants = list(dict.fromkeys(task.variant for task in tasks))
    if shown := sorted(CONTROLS & set(variants)):
        what = f"answers about a control variant ({shown[0]}) have no image of their own to be matched by"
        raise Fp2Error(what, where="variant", fix="Ask the model: model=NAME")
    named = {original_image_id(task.image_id): task for task in tasks}
    images = _coded(frame["image"].tolist(), _image_names(named))
    shown_as = _variant_codes(supplied, variants)
    asked = _question_codes(supplied, questions)
    there = _answered(supplied, asked, questions)
    matched = (images >= 0) & (shown_as >= 0) & (asked >= 0)
    lost = np.flatnonzero(~matched & there)
    kept = np.flatnonzero(matched & there)
    if not len(kept):
        first = supplied.frame.iloc[0]
        about = ", ".join(f"{name} {first[name]!r}" for name in ("image", "question", "trait") if name in first)
        fix = (
            f"Here images are called such as {next(iter(named), '')!r} and questions {questions[0].question_id!r}; "
            "set engine.columns, engine.id_pattern or engine.index"
        )
        raise Fp2Error(
            f"none of the {len(supplied.frame)} answers belongs to this run; the first has {about}",
            where=WHERE,
            fix=fix,
        )
    keys = ((images * len(variants) + shown_as) * len(questions) + asked)[kept]
    keys, rows, repeated = _distinct(supplied, keys, kept, duplicates)
    places = {
        (image, variant): number * len(variants) + code
        for number, image in enumerate(named)
        for code, variant in enumerate(variants)
    }
    numbers = {question.question_id: index for index, question in enumerate(questions)}
    planned = len(tasks) * len(questions)
    return Matches(
        keys,
        rows,
        places,
        numbers,
        planned,
        planned - len(keys),
        len(frame),
        int((~there).sum()),
        len(lost),
        repeated,
        supplied.row(int(lost[0])) if len(lost) else "",
    )


def _answered(supplied: Supplied, asked: Codes, questions: Sequence[Question]) -> NDArray[np.bool_]:
    """Return which rows have an answer: a value of the question's kind, and no status that begins with "error".

    A row whose question is unknown needs any value.
    """
    frame = supplied.frame
    kinds = np.array([*(question.kind for question in questions), ""])[asked]
    there = np.zeros(len(frame), dtype=bool)
    for kind in set(kinds.tolist()):
        names = (name for name in answered_by(kind) if name in frame)
        for name in names:
            there |= (kinds == kind) & frame[name].notna().to_numpy()
    if "status" in frame:
        there &= ~frame["status"].astype("str").str.lower().str.startswith("error").to_numpy()
    return there


def _coded(names: Sequence[str | None], known: Callable[[str], int]) -> Codes:
    """Return the number of each name, -1 where it is unknown; every distinct name is looked up once."""
    numbers: dict[str | None, int] = {None: -1}
    for name in names:
        if name not in numbers:
            numbers[name] = known(str(name))
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _image_names(named: Mapping[str, ImageTask]) -> Callable[[str], int]:
    """Return the function from what a row calls an image to its number: by id, path, file name, or its stem.

    A file name that two images have names neither.
    """
    tasks = list(enumerate(named.items()))
    tiers = [
        _unique((image, place) for place, (image, _) in tasks),
        _unique((normal_id(task.path), place) for place, (_, task) in tasks),
        _unique((normal_id(task.path.name), place) for place, (_, task) in tasks),
        _unique((normal_id(task.path.stem), place) for place, (_, task) in tasks),
    ]
    return lambda name: next((tier[name] for tier in tiers if name in tier), -1)


def _unique(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return name -> number without the names that have two numbers."""
    found: dict[str, int] = {}
    twice = set()
    for name, number in pairs:
        if found.setdefault(name, number) != number:
            twice.add(name)
    return {name: number for name, number in found.items() if name not in twice}


def _variant_codes(supplied: Supplied, variants: Sequence[str]) -> Codes:
    """Return the number of each row's variant; rows that name none have the only one there is."""
    frame = supplied.frame
    if not supplied.has("variant"):
        if len(variants) > 1:
            fix = f"Set engine.columns={{variant: COLUMN}} with {', '.join(variants)}"
            raise Fp2Error("the answers do not say which image variant was shown", where=WHERE, fix=fix)
        return np.zeros(len(frame), dtype=np.int64)
    return _coded(frame["variant"].tolist(), lambda name: variants.index(name) if name in variants else -1)


def _question_codes(supplied: Supplied, questions: Sequence[Question]) -> Codes:
    frame = supplied.frame
    if supplied.has("question"):
        return _coded(frame["question"].tolist(), _question_names(questions))
    if supplied.has("trait"):
        templates = dict.fromkeys(question.template for question in questions)
        if not supplied.has("template") and len(templates) > 1:
            fix = f"Set engine.columns={{template: COLUMN}} with {', '.join(templates)}"
            raise Fp2Error("the answers do not say which template was asked", where=WHERE, fix=fix)
        given = frame["template"].tolist() if supplied.has("template") else [next(iter(templates))] * len(frame)
        known = _unique((f"{q.template}\0{q.trait}", index) for index, q in enumerate(questions))
        pairs = [f"{one}\0{trait}" for one, trait in zip(given, frame["trait"].tolist(), strict=True)]
        return _coded(pairs, lambda name: known.get(name, -1))
    if len(questions) == 1:
        return np.zeros(len(frame), dtype=np.int64)
    fix = "Set engine.columns={question: COLUMN}, engine.id_pattern or engine.index; the ids are: "
    listed = ", ".join(question.question_id for question in questions[:8])
    raise Fp2Error("the answers do not say which question they answer", where=WHERE, fix=f"{fix}{listed}")


def _question_names(questions: Sequence[Question]) -> Callable[[str], int]:
    """Return the function from what a row calls a question to its number.

    It may be the id, the text, the probe where it has one question, or a prompt that contains the text of one question.
    """
    pairs = list(enumerate(questions))
    texts = _unique((" ".join(question.text.split()), place) for place, question in pairs)
    tiers = [
        _unique((question.question_id, place) for place, question in pairs),
        texts,
        _unique((question.probe, place) for place, question in pairs),
    ]

    def number(name: str) -> int:
        plain = " ".join(name.split())
        for tier in tiers:
            if name in tier or plain in tier:
                return tier.get(name, tier.get(plain, -1))
        inside = {place: len(text) for text, place in texts.items() if text in plain}
        longest = [place for place, length in inside.items() if length == max(inside.values())]
        return longest[0] if len(longest) == 1 else -1

    return number


def _distinct(supplied: Supplied, keys: Codes, rows: Codes, duplicates: str) -> tuple[Codes, Codes, int]:
    """Return one row of each key, sorted by key, and how many were left out."""
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    same = keys[1:] == keys[:-1]
    if same.any() and duplicates == "refuse":
        before, after = rows[:-1][same], rows[1:][same]
        one, other = _said(supplied, before), _said(supplied, after)
        differing = next((index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
        if differing is not None:
            pair = f"{supplied.row(int(before[differing]))} and {supplied.row(int(after[differing]))}"
            fix = "Remove one, or set engine.duplicates=first or last"
            raise Fp2Error(f"{pair} answer the same question about one image differently", where=WHERE, fix=fix)
    keep = np.ones(len(keys), dtype=bool)
    if duplicates == "last":
        keep[:-1] = ~same
    else:
        keep[1:] = ~same
    return keys[keep], rows[keep], int((~keep).sum())


def _said(supplied: Supplied, rows: Codes) -> list[tuple[Any, ...]]:
    """Return the answers of some rows as comparable values."""
    names = [name for name in _VALUES if name in supplied.frame]
    chosen = supplied.frame.iloc[rows]
    return list(zip(*(chosen[name].astype("str").tolist() for name in names), strict=True))
