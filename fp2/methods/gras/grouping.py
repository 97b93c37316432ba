"""Which groups are compared, and how group labels are permuted.

Attributes that are known of the same images belong to one *image set* (GRAS: gender, race and age of the FairFace
images; the skin tone of the AI-Face images is a set of its own). Within a set, the *label row* of an image holds its
groups in all attributes. A *record* is all images of one subject with one label row (an exchangeable unit of
`fp2.stats.core.units`). Subjects with the same number of records exchange their rows, and the rows of one subject are
shuffled among its records, so that a label row moves as one. Subjects in none of the compared groups keep their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import BoolArray, Fp2Error, IntArray, Permuter, Units, unit_classes

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut
    from fp2.methods.gras.answers import GrasAnswers
    from fp2.methods.gras.options import GrasOptions


@dataclass(frozen=True)
class Attribute:
    """One attribute with its groups.

    Attributes
    ----------
    name : str
    groups : tuple of str
        The groups that are compared, in order. Where answers leave fewer than two large enough, they are those that
        were planned, and no test between them is defined.
    sizes : dict
        Group -> (images, subjects) with any answer, small groups included.
    min_subjects : int
        Subjects that a group needs to be compared.
    dependent : bool
        Whether a subject counts in several groups.
    """

    name: str
    groups: tuple[str, ...]
    sizes: dict[str, tuple[int, int]]
    min_subjects: int
    dependent: bool

    @property
    def small(self) -> list[str]:
        """The groups with too few subjects to be compared."""
        return [group for group in self.sizes if not self.large(group)]

    def large(self, group: str) -> bool:
        """Whether enough subjects of a group answered."""
        return self.sizes[group][1] >= self.min_subjects


@dataclass(frozen=True)
class ImageSet:
    """Images of which the same attributes are known: n images in C records, with W columns of labels.

    Attributes
    ----------
    attributes : tuple of int
        Their numbers in the grouping.
    images : array, shape (n,)
        Rows of the answers.
    subject : array, shape (n,)
        Subject of each image, coded from 0.
    record : array, shape (n,)
        Record of each image.
    units : Units
        The records with their label rows as label sets. Columns are the groups of the attributes one after the other,
        then one per attribute for all subjects whose value is known, in a compared group or not.
    exchanged : tuple of arrays, each of shape (S, k)
        The classes of the units without subjects that are in no compared group.
    spans : tuple of slices
        The columns of each attribute's groups.
    """

    attributes: tuple[int, ...]
    images: IntArray
    subject: IntArray
    record: IntArray
    units: Units
    exchanged: tuple[IntArray, ...]
    spans: tuple[slice, ...]

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return int(self.subject.max() + 1)

    def overall(self, place: int) -> int:
        """Return the column of all subjects whose attribute at `place` is known."""
        return int(self.spans[-1].stop) + place


@dataclass(frozen=True)
class Grouping:
    """The attributes, and the image sets in which they are known."""

    attributes: tuple[Attribute, ...]
    sets: tuple[ImageSet, ...]

    @property
    def names(self) -> list[str]:
        """Names of the attributes."""
        return [attribute.name for attribute in self.attributes]

    @property
    def one_image_each(self) -> bool:
        """Whether no subject is known to appear in two images."""
        return all(part.n_subjects == len(part.images) for part in self.sets)


def group_answers(
    answers: GrasAnswers, people: pd.DataFrame, attributes: Sequence[Cut], options: GrasOptions
) -> Grouping:
    """Return the grouping of the images that were asked about; sizes count images with an answer."""
    values = answers.columns.get(options.outcome)
    if values is None or not np.isfinite(values).any():
        raise Fp2Error(f"no answer has the outcome {options.outcome!r}", where="probe.options.outcome")
    if not attributes:
        raise Fp2Error("there is no attribute to compare groups by", where="cut")
    answered = np.asarray(np.isfinite(values).any(axis=(1, 2)))
    return group_images(answers.image_ids, answers.subject_ids, people, attributes, options.min_subjects, answered)


def group_images(
    image_ids: NDArray[Any],
    subject_ids: NDArray[Any],
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    min_subjects: int,
    answered: BoolArray | None = None,
) -> Grouping:
    """Return the grouping of images by the labels in `people`.

    Parameters
    ----------
    image_ids, subject_ids : arrays, shape (n,)
    people : DataFrame
        The people table.
    cuts : sequence of Cut
        Each is one attribute.
    min_subjects : int
        Subjects that a group needs to be compared.
    answered : array of bool, shape (n,), optional
        The images with any answer, in which sizes of groups are counted; all by default.
    """
    from fp2.extension import memberships

    place = {image: row for row, image in enumerate(image_ids)}
    subject = np.unique(np.asarray(subject_ids).astype(str), return_inverse=True)[1].astype(np.intp)
    here = people[people["image_id"].isin(place)]
    found: list[Attribute] = []
    masks: list[BoolArray] = []
    known = np.zeros((len(image_ids), len(cuts)), dtype=bool)
    there = np.ones(len(image_ids), dtype=bool) if answered is None else answered
    for number, cut in enumerate(cuts):
        table = memberships(here, cut)
        rows = np.array([place[image] for image in table["image_id"]], dtype=np.intp)
        names = sorted(set(table["group"]))
        code = {name: column for column, name in enumerate(names)}
        mask = np.zeros((len(image_ids), len(names)), dtype=bool)
        mask[rows, [code[name] for name in table["group"]]] = True
        found.append(_attribute(cut.name, names, mask, subject, min_subjects, there))
        masks.append(mask)
        everyone = memberships(here, replace(cut, groups=()))["image_id"]
        known[[place[image] for image in everyone], number] = True
    return Grouping(tuple(found), _sets(found, masks, known, subject))


def _attribute(
    name: str, groups: list[str], mask: BoolArray, subject: IntArray, min_subjects: int, answered: BoolArray
) -> Attribute:
    subjects = [np.unique(subject[own]) for own in mask.T]
    planned = tuple(group for group, own in zip(groups, subjects, strict=True) if len(own) >= min_subjects)
    here = (mask & answered[:, None]).T
    sizes = {group: (int(own.sum()), len(np.unique(subject[own]))) for group, own in zip(groups, here, strict=True)}
    large = tuple(group for group in planned if sizes[group][1] >= min_subjects)
    kept = large if len(large) >= 2 else planned
    if len(kept) < 2:
        raise Fp2Error(
            f"{name} has fewer than two groups of at least {min_subjects} subjects",
            where="cut",
            fix="Ask about more images, or leave the attribute out (cut.each)",
        )
    inside = np.concatenate([subjects[column] for column, group in enumerate(groups) if group in kept])
    return Attribute(name, kept, sizes, min_subjects, len(np.unique(inside)) < len(inside))


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
        numbers = sorted(joined)
        images = np.flatnonzero(known[:, numbers].any(axis=1)).astype(np.intp)
        parts, spans, start = [], [], 0
        for a in numbers:
            kept = np.isin(list(attributes[a].sizes), attributes[a].groups)
            parts.append(masks[a][images][:, kept])
            spans.append(slice(start, start + int(kept.sum())))
            start = spans[-1].stop
        table = np.concatenate([*parts, known[images][:, numbers]], axis=1)
        member, row = np.unique(table, axis=0, return_inverse=True)
        own = np.unique(subject[images], return_inverse=True)[1].astype(np.intp)
        pairs, record = np.unique(np.stack([own, row.reshape(-1)], axis=1), axis=0, return_inverse=True)
        units = Units(
            np.arange(member.shape[1]), member, pairs[:, 1].astype(np.intp), unit_classes(pairs[:, 0]), pairs[:, 0]
        )
        compared = np.asarray(member[pairs[:, 1], :start].any(axis=1))
        out.append(
            ImageSet(
                attributes=tuple(numbers),
                images=images,
                subject=own,
                record=record.reshape(-1).astype(np.intp),
                units=units,
                exchanged=tuple(c[compared[c].any(axis=1)] for c in units.classes),
                spans=tuple(spans),
            )
        )
    return tuple(out)


class LabelPermuter:
    """Draws permuted label rows of one image set, the same for all questions."""

    def __init__(self, part: ImageSet, seed: int, number: int) -> None:
        self._part, self._permuter = part, Permuter(part.units, seed, number, exchanged=part.exchanged)

    def draw(self, b: int) -> IntArray:
        """Return the label row of each record under `b` permutations, (b, C); batch sizes do not change the draws."""
        out = np.repeat(self._part.units.label_set[None], b, axis=0)
        for records, rows in zip(self._part.exchanged, self._permuter.draw(b), strict=True):
            out[:, records] = rows
        return out
