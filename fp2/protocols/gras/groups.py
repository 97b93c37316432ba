"""Who is compared with whom, and how labels are permuted.

The attributes known of the same pictures belong to one *image set* (GRAS: gender, race and age of the FairFace
pictures; the skin tone of the AI-Face pictures is a set of its own). Within a set a picture's *label row* is its groups
in all attributes. A *slot* is all pictures of one subject with one label row; subjects with the same number of slots
exchange their rows, shuffled within the subject (A1 of the statistics page), so the row moves as one. Who is in none of
the groups compared keeps their row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Attribute:
    """One attribute: its compared groups in order, and the size of every group that it has.

    sizes: group -> (pictures, subjects) with any answer, small groups included. least: subjects that a group needs.
    dependent: a subject counts in several groups. Where answers leave fewer than two groups large enough, `groups` are
    those that were planned, and no test between them is defined.
    """

    name: str
    groups: tuple[str, ...]
    sizes: dict[str, tuple[int, int]]
    least: int
    dependent: bool

    @property
    def small(self) -> list[str]:
        """The groups with too few subjects to be compared."""
        return [group for group in self.sizes if not self.large(group)]

    def large(self, group: str) -> bool:
        """Whether enough subjects of a group answered."""
        return self.sizes[group][1] >= self.least


@dataclass(frozen=True)
class ImageSet:
    """Pictures of which the same attributes are known.

    attributes: their numbers in the design. images (n,): rows of the answers. subject (n,): codes from 0. slot (n,):
    slot of each picture. label_row (C,): label row of each slot. classes: for each number k of slots, an array (S, k)
    of slots; exchanged: the same, without subjects that are in no group compared. member (L, W): label row x column;
    the columns are the groups of the attributes one after the other, then one per attribute that holds everybody it is
    known of, in a group or not. spans: the slice of columns of each attribute's groups.
    """

    attributes: tuple[int, ...]
    images: IntArray
    subject: IntArray
    slot: IntArray
    label_row: IntArray
    classes: tuple[IntArray, ...]
    exchanged: tuple[IntArray, ...]
    member: FloatArray
    spans: tuple[slice, ...]

    @property
    def n_subjects(self) -> int:
        """How many people are in it."""
        return int(self.subject.max() + 1)

    def everybody(self, place: int) -> int:
        """The column of everybody whose attribute at `place` is known."""
        return int(self.spans[-1].stop) + place


@dataclass(frozen=True)
class Design:
    """The attributes and the image sets that they are known in."""

    attributes: tuple[Attribute, ...]
    sets: tuple[ImageSet, ...]

    @property
    def one_picture_each(self) -> bool:
        """Whether nobody is known to be in two pictures."""
        return all(part.n_subjects == len(part.images) for part in self.sets)


def make_design(
    image_ids: NDArray[Any], subject_ids: NDArray[Any], people: pd.DataFrame, cuts: Sequence[Cut], min_subjects: int,
    answered: BoolArray | None = None,
) -> Design:  # fmt: skip
    """Return the design of the pictures `image_ids` by the labels in `people`.

    answered (n,): the pictures with any answer; sizes of groups are counted in them. All by default.

    Raises
    ------
    Fp2Error
        If an attribute has fewer than two groups of at least `min_subjects` subjects, answered or not.
    """
    from fp2.cuts import memberships

    place = {image: row for row, image in enumerate(image_ids)}
    codes = np.unique(np.asarray(subject_ids).astype(str), return_inverse=True)[1].astype(np.intp)
    here = people[people["image_id"].isin(place)]
    found: list[Attribute] = []
    masks: list[BoolArray] = []
    known = np.zeros((len(image_ids), len(cuts)), dtype=bool)
    there = np.ones(len(image_ids), dtype=bool) if answered is None else answered
    for number, cut in enumerate(cuts):
        table = memberships(here, cut)
        rows = np.array([place[image] for image in table["image_id"]], dtype=np.intp)
        names = sorted(set(table["group"]))
        code = {name: number for number, name in enumerate(names)}
        mask = np.zeros((len(image_ids), len(names)), dtype=bool)
        mask[rows, [code[name] for name in table["group"]]] = True
        found.append(_attribute(cut.name, names, mask, codes, min_subjects, there))
        masks.append(mask)
        everybody = memberships(here, replace(cut, groups=()))["image_id"]
        known[[place[image] for image in everybody], number] = True
    return Design(tuple(found), _sets(found, masks, known, codes))


def _attribute(
    name: str, groups: list[str], mask: BoolArray, subject: IntArray, least: int, answered: BoolArray
) -> Attribute:
    of = [np.unique(subject[own]) for own in mask.T]
    planned = tuple(group for group, people in zip(groups, of, strict=True) if len(people) >= least)
    here = (mask & answered[:, None]).T
    sizes = {group: (int(own.sum()), len(np.unique(subject[own]))) for group, own in zip(groups, here, strict=True)}
    large = tuple(group for group in planned if sizes[group][1] >= least)
    kept = large if len(large) >= 2 else planned
    if len(kept) < 2:
        raise Fp2Error(
            f"{name} has fewer than two groups of at least {least} subjects",
            where="cut",
            fix="Ask about more pictures, or leave the attribute out (cut.each)",
        )
    inside = np.concatenate([of[column] for column, group in enumerate(groups) if group in kept])
    return Attribute(name, kept, sizes, least, len(np.unique(inside)) < len(inside))


def _sets(
    attributes: Sequence[Attribute], masks: Sequence[BoolArray], known: BoolArray, subject: IntArray
) -> tuple[ImageSet, ...]:
    """Split the attributes into those that are known together, directly or through others."""
    left, out = list(range(len(attributes))), []
    while left:
        joined = {left.pop(0)}
        while more := [a for a in left if (known[:, a] & known[:, sorted(joined)].any(axis=1)).any()]:
            joined.update(more)
            left = [a for a in left if a not in more]
        out.append(_set(sorted(joined), attributes, masks, known, subject))
    return tuple(out)


def _set(
    numbers: list[int], attributes: Sequence[Attribute], masks: Sequence[BoolArray], known: BoolArray, subject: IntArray
) -> ImageSet:
    images = np.flatnonzero(known[:, numbers].any(axis=1)).astype(np.intp)
    parts, spans, start = [], [], 0
    for a in numbers:
        kept = np.isin(list(attributes[a].sizes), attributes[a].groups)
        parts.append(masks[a][images][:, kept])
        spans.append(slice(start, start + int(kept.sum())))
        start = spans[-1].stop
    table = np.concatenate([*parts, known[images][:, numbers]], axis=1)
    member, row = np.unique(table, axis=0, return_inverse=True)
    person = np.unique(subject[images], return_inverse=True)[1].astype(np.intp)
    pairs, slot = np.unique(np.stack([person, row.reshape(-1)], axis=1), axis=0, return_inverse=True)
    _, first, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    classes = tuple(
        (first[count == k][:, None] + np.arange(k)[None, :]).astype(np.intp) for k in sorted(set(count.tolist()))
    )
    compared = np.asarray(member[pairs[:, 1], :start].any(axis=1))
    return ImageSet(
        attributes=tuple(numbers),
        images=images,
        subject=person,
        slot=slot.reshape(-1).astype(np.intp),
        label_row=pairs[:, 1].astype(np.intp),
        classes=classes,
        exchanged=tuple(c[compared[c].any(axis=1)] for c in classes),
        member=member.astype(np.float64),
        spans=tuple(spans),
    )


class Relabeller:
    """Draws permuted label rows of one image set: (b, C), one row per slot, the same for all questions."""

    def __init__(self, part: ImageSet, seed: int, number: int) -> None:
        from fp2.stats.core.numeric import stream

        self._part = part
        self._streams = [
            (stream(seed, number, c.shape[1], 0), stream(seed, number, c.shape[1], 1)) for c in part.exchanged
        ]

    def draw(self, b: int) -> IntArray:
        """Return `b` relabellings; the result does not depend on how they are cut into batches."""
        part = self._part
        out = np.repeat(part.label_row[None], b, axis=0)
        for slots, (people, places) in zip(part.exchanged, self._streams, strict=True):
            own = part.label_row[slots]
            order = people.permuted(np.broadcast_to(np.arange(len(own)), (b, len(own))), axis=1)
            rows = own[order]
            out[:, slots] = rows if slots.shape[1] == 1 else places.permuted(rows, axis=2)
        return out
