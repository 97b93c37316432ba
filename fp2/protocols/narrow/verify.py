"""Both protocols of face verification on the embeddings of a data set: by subgroup, and over all hard pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fp2.protocols.narrow.metrics import verification
from fp2.protocols.narrow.score_faces import Faces, accepted_share
from fp2.protocols.narrow.truth import Person
from fp2.tables import ATTRIBUTE_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

Floats = npt.NDArray[np.float64]
TONES = ("I", "II", "III", "IV", "V", "VI")
_TONE, _STYLE, _PRONOUN = ("apparent_skin_tone", "skin_tone"), ("hairstyle",), ("pronoun",)


def verify(
    faces: Faces, table: pd.DataFrame, cuts: Sequence[Cut], *, similarity: str, seed: int, min_subjects: int,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:  # fmt: skip
    """Return one row a face (see `accepted_share`) and the block of both protocols.

    Parameters
    ----------
    faces : Faces
        The faces with their embeddings.
    table : DataFrame
        The people table, for the attributes.
    similarity : {"cosine", "euclidean"}
        How two embeddings are compared.
    min_subjects : int
        A subgroup, or a pair of hairstyles, in whose pairs fewer people are is listed without a rate.
    """
    people = faces.people
    ready = verification.unit(faces.vectors, similarity)
    facts = _facts(people, table)
    whole, rows = _whole(faces, facts, ready, similarity, seed, min_subjects)
    groups = []
    for cut in cuts:
        groups += _groups(people, table, ready, similarity, cut, seed, min_subjects)
        tick()
    block = {
        "similarity": similarity,
        "far": verification.FAR,
        "n_faces": len(people),
        "whole": whole,
        "groups": groups,
    }
    return rows, block


def _facts(people: Sequence[Person], table: pd.DataFrame) -> dict[str, list[tuple[str, ...]]]:
    """Return for each face the values of pronoun, tone and hairstyle (empty where the data have none)."""
    keys = list(zip(table["image_id"], table["subject_id"], strict=True))
    facts: dict[str, list[tuple[str, ...]]] = {}
    for name, columns in (("pronoun", _PRONOUN), ("tone", _TONE), ("hairstyle", _STYLE)):
        column = next((f"{ATTRIBUTE_PREFIX}{c}" for c in columns if f"{ATTRIBUTE_PREFIX}{c}" in table), None)
        if column is None:
            continue
        values = dict(zip(keys, table[column], strict=True))
        facts[name] = [tuple(values[person.image_id, person.subject_id]) for person in people]
    return facts


def _whole(
    faces: Faces, facts: Mapping[str, list[tuple[str, ...]]], ready: Floats, similarity: str, seed: int,
    min_subjects: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """Return protocol (ii), and each face's share of accepted true pairs at its threshold."""
    subjects = [person.subject_id for person in faces.people]
    everyone = len(subjects)
    pronouns = [frozenset(own) for own in facts.get("pronoun", [("",)] * everyone)]
    tones = [_tone(own) for own in facts["tone"]] if "tone" in facts else [0] * everyone
    first, second = verification.same_pairs(subjects)
    same = verification.likeness(ready, first, second, similarity)
    blocks = list(verification.hard_pairs(subjects, pronouns, tones))
    one = np.concatenate([a for a, _ in blocks]) if blocks else np.zeros(0, dtype=np.int64)
    two = np.concatenate([b for _, b in blocks]) if blocks else np.zeros(0, dtype=np.int64)
    different = verification.likeness(ready, one, two, similarity)
    whose = np.array([subjects[index] for index in first], dtype=object)
    rates = verification.rates(same, different, whose, seed=seed)
    hard = [name for name in ("pronoun", "tone") if name in facts]
    block: dict[str, Any] = {**asdict(rates), "negatives_share": hard, "hairstyles": [], "by_hairstyle": []}
    if rates.threshold is None:
        rows = accepted_share(faces, (first[:0], second[:0]), np.zeros(0, dtype=bool))
        return block, rows
    accepted, wrong = same >= rates.threshold, different >= rates.threshold
    if "hairstyle" in facts and "pronoun" in facts:
        pairs = _Pairs(subjects, pronouns, facts["hairstyle"], min_subjects)
        block["hairstyles"] = pairs.errors((first, second, ~accepted), (one, two, wrong))
        block["by_hairstyle"] = pairs.same_or_not((first, second, ~accepted))
    return block, accepted_share(faces, (first, second), accepted)


def _tone(values: tuple[str, ...]) -> int | None:
    """Return the place of the one skin tone among the six; None without one."""
    return TONES.index(values[0]) if len(values) == 1 and values[0] in TONES else None


Judged = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]


class _Pairs:
    """Errors of pairs by pronoun and by the two hairstyles (Extended Data Fig. 8)."""

    def __init__(
        self, subjects: Sequence[str], pronouns: Sequence[frozenset[str]], styles: Sequence[tuple[str, ...]],
        min_subjects: int,
    ) -> None:  # fmt: skip
        self._least = min_subjects
        self._subjects = np.array(subjects, dtype=object)
        self._words = sorted({word for own in pronouns for word in own})
        self._says = np.array([[word in own for word in self._words] for own in pronouns], dtype=bool)
        self._names = sorted({own[0] for own in styles if own})
        place = {name: number for number, name in enumerate(self._names)}
        self._style = np.array([place[own[0]] if own else -1 for own in styles], dtype=np.int64)

    def _each(self, judged: Judged) -> list[tuple[str, npt.NDArray[np.int64], npt.NDArray[np.bool_], Any]]:
        """Return per pronoun the codes of hairstyle pairs, which pairs are errors, and the two faces of each (2, n)."""
        first, second, wrong = judged
        found = []
        for number, word in enumerate(self._words):
            both = self._says[first, number] & self._says[second, number]
            both &= (self._style[first] >= 0) & (self._style[second] >= 0)
            a, b = self._style[first[both]], self._style[second[both]]
            code = np.minimum(a, b) * len(self._names) + np.maximum(a, b)
            found.append((word, code, wrong[both], np.stack([first[both], second[both]])))
        return found

    def errors(self, same: Judged, different: Judged) -> list[dict[str, Any]]:
        """Return a row per pronoun and pair of hairstyles with the error rates of both kinds of pairs."""
        size = len(self._names) ** 2
        rows = []
        for (word, code, wrong, face), (_, other, false, others) in zip(
            self._each(same), self._each(different), strict=True
        ):
            people = self._n_people(face)
            n, bad = np.bincount(code, minlength=size), np.bincount(code[wrong], minlength=size)
            m, fooled = np.bincount(other, minlength=size), np.bincount(other[false], minlength=size)
            for pair in np.flatnonzero(n):
                n_subjects, n_others = self._n_people(face[:, code == pair]), self._n_people(others[:, other == pair])
                rows.append(
                    {
                        "pronoun": word,
                        "first": self._names[pair // len(self._names)],
                        "second": self._names[pair % len(self._names)],
                        "n_subjects": n_subjects,
                        "share_of_subjects": n_subjects / people,
                        "n_same": int(n[pair]),
                        "missed": float(bad[pair] / n[pair]) if n_subjects >= self._least else None,
                        "n_different": int(m[pair]),
                        "confused": float(fooled[pair] / m[pair]) if m[pair] and n_others >= self._least else None,
                    }
                )
        return rows

    def same_or_not(self, same: Judged) -> list[dict[str, Any]]:
        """Return per pronoun the share of missed true pairs with one hairstyle and with two."""
        rows = []
        for word, code, wrong, face in self._each(same):
            alike = code // len(self._names) == code % len(self._names)
            for name, part in (("same", alike), ("different", ~alike)):
                if part.any():
                    n_subjects = self._n_people(face[:, part])
                    rows.append(
                        {
                            "pronoun": word,
                            "hairstyles": name,
                            "n_subjects": n_subjects,
                            "n_same": int(part.sum()),
                            "missed": float(wrong[part].mean()) if n_subjects >= self._least else None,
                        }
                    )
        return rows

    def _n_people(self, faces: npt.NDArray[np.int64]) -> int:
        return len(set(self._subjects[faces].ravel().tolist()))


def _groups(
    people: Sequence[Person], table: pd.DataFrame, ready: Floats, similarity: str, cut: Cut, seed: int,
    min_subjects: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return protocol (i) for one cut: pairs and threshold of each group its own; pictures of two are left out."""
    from fp2.cuts import memberships

    place = {(p.image_id, p.subject_id): n for n, p in enumerate(people) if p.n_people == 1}
    rows = []
    for group, part in memberships(table, cut).groupby("group", sort=True):
        keys = zip(part["image_id"], part["subject_id"], strict=True)
        own = np.array([place[key] for key in keys if key in place], dtype=np.int64)
        subjects = [people[index].subject_id for index in own]
        row: dict[str, Any] = {"cut": cut.name, "group": str(group), "n_faces": len(own), "n_group": len(set(subjects))}
        (a, b), (c, d) = verification.drawn_pairs(subjects, seed)
        whose = np.array([subjects[index] for index in a], dtype=object)
        n_subjects = len(set(whose.tolist()))  # whom the rate is of: those with one face only are in no pair
        if n_subjects >= min_subjects:
            same = verification.likeness(ready, own[a], own[b], similarity)
            different = verification.likeness(ready, own[c], own[d], similarity)
            row |= asdict(verification.rates(same, different, whose, seed=seed))
        else:
            row |= asdict(verification.Rates(len(a), len(c), n_subjects, None, None, None))
        rows.append(row)
    return rows
