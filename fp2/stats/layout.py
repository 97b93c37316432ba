"""From (answer, group) entries to the tables that the tests need: subjects, label sets, slots and cells.

An image's *label set* is the set of groups that it counts in. A *slot* is all images of one subject that carry one
label set; a subject with an attribute that never changes has one slot. A *cell* is one (subject, group) pair: the mean
over the subject's images in that group is the number that enters the group's mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.rows import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Entries:
    """Checked input, sorted by (subject, image, group) so that the order of the rows given does not matter.

    values (n, m); group, subject, image: integer codes; `picture` codes (subject, image) pairs; `names`: group names
    sorted; `images_given`: False when every entry stands for a picture of its own.
    """

    values: FloatArray
    group: IntArray
    subject: IntArray
    image: IntArray
    picture: IntArray
    names: tuple[str, ...]
    images_given: bool


@dataclass(frozen=True)
class Cells:
    """One line per (subject, group): subject, group codes and the mean over images (n_cells, m), NaN if unanswered."""

    subject: IntArray
    group: IntArray
    mean: FloatArray
    of_entry: IntArray


@dataclass(frozen=True)
class Slots:
    """What is permuted. G groups in an order that does not depend on their names.

    kept (G,): codes of the groups; label_sets (L, G); classes: for each number k of slots a subject has, an array
    (S, k) of slot indices; label_set (C,): the slot's label set; count, total (C, m): answered images and the sum of
    their values; picture_slot (P,), picture_values (P, m): one line per answered image, for histograms.
    """

    kept: IntArray
    label_sets: BoolArray
    classes: tuple[IntArray, ...]
    label_set: IntArray
    count: FloatArray
    total: FloatArray
    picture_slot: IntArray
    picture_values: FloatArray

    @property
    def dependent(self) -> bool:
        """Whether some subject counts in more than one group."""
        return any(c.shape[1] > 1 for c in self.classes) or bool((self.label_sets.sum(axis=1) > 1).any())


def _codes(labels: ArrayLike, what: str, n: int) -> tuple[IntArray, tuple[str, ...]]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.shape[0] != n:
        raise ValueError(f"{what} must be one-dimensional with {n} entries, got shape {array.shape}")
    if array.dtype.kind == "O":
        if any(item is None or (isinstance(item, float) and item != item) or str(item) == "<NA>" for item in array):
            raise ValueError(f"{what} holds a missing label")
        array = array.astype(str)
    elif array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{what} holds a missing label")
    names, code = np.unique(array, return_inverse=True)
    return code.astype(np.intp), tuple(str(name) for name in names)


def read_entries(values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, images: ArrayLike | None) -> Entries:
    """Check and sort the input.

    Parameters: values (n,) or (n, m), NaN = missing; groups, subjects, images (n,). Raises ValueError on lengths that
    differ, missing labels, infinite values, and one image whose values differ between the groups it counts in.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2:
        raise ValueError(f"values must be (entries,) or (entries, outcomes), got shape {table.shape}")
    if np.isinf(table).any():
        raise ValueError("values hold an infinite number")
    n = table.shape[0]
    group, names = _codes(groups, "groups", n)
    subject, _ = _codes(subjects, "subjects", n)
    image = np.arange(n) if images is None else _codes(images, "images", n)[0]
    order = np.lexsort((group, image, subject)) if images is not None else np.lexsort((group, subject))
    table, group, subject, image = table[order], group[order], subject[order], image[order]
    _, picture = np.unique(np.stack([subject, image], axis=1), axis=0, return_inverse=True)
    entries = Entries(table, group, subject, image, picture.reshape(-1), names, images is not None)
    _check_one_value_per_image(entries)
    return entries


def _check_one_value_per_image(entries: Entries) -> None:
    pairs, line = np.unique(np.stack([entries.picture, entries.group], axis=1), axis=0, return_inverse=True)
    count, total = group_sums(line.reshape(-1), len(pairs), entries.values)
    mean = total / np.where(count > 0, count, np.nan)
    again = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if not np.allclose(mean[again], mean[again + 1], rtol=1e-9, atol=1e-12, equal_nan=True):
        raise ValueError("an image that counts in several groups must hold the same values in each of them")


def group_sums(line: IntArray, size: int, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (count, total), both (size, m): how many finite values fall on each line, and their sum."""
    m = values.shape[1]
    count, total = np.zeros((size, m)), np.zeros((size, m))
    present = np.isfinite(values)
    filled = np.where(present, values, 0.0)
    for column in range(m):
        count[:, column] = np.bincount(line, weights=present[:, column], minlength=size)
        total[:, column] = np.bincount(line, weights=filled[:, column], minlength=size)
    return count, total


def make_cells(entries: Entries) -> Cells:
    """Average each subject's images within each group (definitions.md: per (subject, group) first)."""
    pairs, line = np.unique(np.stack([entries.subject, entries.group], axis=1), axis=0, return_inverse=True)
    line = line.reshape(-1)
    count, total = group_sums(line, len(pairs), entries.values)
    mean = total / np.where(count > 0, count, np.nan)
    return Cells(pairs[:, 0].astype(np.intp), pairs[:, 1].astype(np.intp), mean, line)


def make_slots(entries: Entries, kept: BoolArray) -> Slots:
    """Build what A1 permutes from the groups that are large enough; `kept` (n_groups,) marks them.

    The labels of small groups are dropped first, and an image left without a label with them.
    """
    inside = kept[entries.group]
    _, picture = np.unique(entries.picture[inside], return_inverse=True)
    group, values = entries.group[inside], entries.values[inside]
    n_pictures = int(picture.max()) + 1
    member = np.zeros((n_pictures, len(kept)), dtype=bool)
    member[picture, group] = True
    label_sets, picture_set = np.unique(member, axis=0, return_inverse=True)
    picture_set = picture_set.reshape(-1)
    first = np.unique(picture, return_index=True)[1]
    # several answers to one image share its first group's entries; the others repeat them
    use = group == group[first][picture]
    picture, values = picture[use], values[use]
    subject = entries.subject[inside][first]
    slot, slot_subject, slot_set = _number_slots(subject, picture_set, entries.images_given)
    count, total = group_sums(slot[picture], len(slot_set), values)
    order = _name_free_order(label_sets[slot_set])
    return Slots(
        kept=order,
        label_sets=label_sets[:, order],
        classes=_classes(slot_subject),
        label_set=slot_set,
        count=count,
        total=total,
        picture_slot=slot[picture],
        picture_values=values,
    )


def _number_slots(subject: IntArray, label_set: IntArray, by_image: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Number the (subject, label set) pairs: by subject, then by their first image, so that names play no part."""
    pairs, first, slot = np.unique(
        np.stack([subject, label_set], axis=1), axis=0, return_index=True, return_inverse=True
    )
    rank = np.lexsort((first if by_image else pairs[:, 1], pairs[:, 0]))
    place = np.empty_like(rank)
    place[rank] = np.arange(len(rank))
    return place[slot.reshape(-1)], pairs[rank, 0].astype(np.intp), pairs[rank, 1].astype(np.intp)


def _name_free_order(member: BoolArray) -> IntArray:
    """Order the groups by the first slot that they appear in; groups without a slot are left out."""
    used = np.flatnonzero(member.any(axis=0))
    return used[np.argsort(member[:, used].argmax(axis=0), kind="stable")].astype(np.intp)


def _classes(slot_subject: IntArray) -> tuple[IntArray, ...]:
    _, start, size = np.unique(slot_subject, return_index=True, return_counts=True)
    return tuple(
        (start[size == k][:, None] + np.arange(k)[None, :]).astype(np.intp) for k in sorted(set(size.tolist()))
    )
