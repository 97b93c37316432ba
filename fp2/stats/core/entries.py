"""The input of every comparison: (answer, group) entries, checked, and averaged into cell means.

An answer that counts in several groups is one entry per group, with the same subject and image. A *cell* is one
(subject, group) pair; its mean over the subject's images in that group enters the group's mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fp2.stats.core.numeric import FloatArray, IntArray


@dataclass(frozen=True)
class Entries:
    """Checked input, sorted by (subject, image, group), so that the order of the rows does not matter.

    Attributes
    ----------
    values : (n, m)
        One column per outcome, NaN = missing.
    group, subject, image : (n,)
        Integer codes; `names[group]` are the group names.
    subject_image : (n,)
        Codes of the (subject, image) pairs.
    names : tuple of str
        Group names, sorted.
    images_given : bool
        False if every entry is an image of its own.
    """

    values: FloatArray
    group: IntArray
    subject: IntArray
    image: IntArray
    subject_image: IntArray
    names: tuple[str, ...]
    images_given: bool


@dataclass(frozen=True)
class Cells:
    """Cell means: subject, group (c,) codes, mean (c, m), NaN if unanswered; of_entry (n,): the cell of each entry."""

    subject: IntArray
    group: IntArray
    mean: FloatArray
    of_entry: IntArray

    def known_means(self, group: int, outcome: int) -> FloatArray:
        """Return the known subject means of one group, (n_g,)."""
        means = self.mean[self.group == group, outcome]
        finite: FloatArray = means[np.isfinite(means)]
        return finite


def read_entries(values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, images: ArrayLike | None) -> Entries:
    """Check and sort the input.

    Parameters
    ----------
    values : (n,) or (n, m)
        NaN = missing.
    groups, subjects, images : (n,)
        Labels. Without `images` every entry is an image of its own.

    Raises
    ------
    ValueError
        If lengths differ, a label is missing, a value is infinite, or one image has different values in two groups.
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
    _, subject_image = np.unique(np.stack([subject, image], axis=1), axis=0, return_inverse=True)
    subject_image = subject_image.reshape(-1)
    pairs, row = np.unique(np.stack([subject_image, group], axis=1), axis=0, return_inverse=True)
    count, total = count_and_sum(row.reshape(-1), len(pairs), table)
    mean = total / np.where(count > 0, count, np.nan)
    repeated = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if not np.allclose(mean[repeated], mean[repeated + 1], rtol=1e-9, atol=1e-12, equal_nan=True):
        raise ValueError("an image that counts in several groups must hold the same values in each of them")
    return Entries(table, group, subject, image, subject_image, names, images is not None)


def _codes(labels: ArrayLike, noun: str, n: int) -> tuple[IntArray, tuple[str, ...]]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.shape[0] != n:
        raise ValueError(f"{noun} must be one-dimensional with {n} entries, got shape {array.shape}")
    if array.dtype.kind == "O":
        if any(item is None or (isinstance(item, float) and item != item) or str(item) == "<NA>" for item in array):
            raise ValueError(f"{noun} holds a missing label")
        array = array.astype(str)
    elif array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{noun} holds a missing label")
    names, code = np.unique(array, return_inverse=True)
    return code.astype(np.intp), tuple(str(name) for name in names)


def count_and_sum(code: IntArray, size: int, values: NDArray[np.floating]) -> tuple[FloatArray, FloatArray]:
    """Return the number of finite values (n, m) of each code (n,) and their sum, both (size, m)."""
    m = values.shape[1]
    count, total = np.zeros((size, m)), np.zeros((size, m))
    present = np.isfinite(values)
    filled = np.where(present, values, 0.0)
    for column in range(m):
        count[:, column] = np.bincount(code, weights=present[:, column], minlength=size)
        total[:, column] = np.bincount(code, weights=filled[:, column], minlength=size)
    return count, total


def cell_means(entries: Entries) -> Cells:
    """Average each subject's images within each group."""
    pairs, cell = np.unique(np.stack([entries.subject, entries.group], axis=1), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    count, total = count_and_sum(cell, len(pairs), entries.values)
    mean = total / np.where(count > 0, count, np.nan)
    return Cells(pairs[:, 0].astype(np.intp), pairs[:, 1].astype(np.intp), mean, cell)


@dataclass(frozen=True)
class SubjectMeans:
    """One group's subject means (n_g,) of one outcome, and the number of images with a value behind them."""

    name: str
    means: FloatArray
    n_images: int


@dataclass(frozen=True)
class SubjectMeansByGroup:
    """The groups with enough subjects, by name; `dependent`: some subject counts in more than one of them."""

    groups: tuple[SubjectMeans, ...]
    dependent: bool


def subject_means_by_group(
    values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, min_subjects: int = 10
) -> SubjectMeansByGroup:
    """Return the subject means of one outcome in every group with at least `min_subjects` known ones.

    values, groups, subjects (n,): one entry per (answer, group), NaN = missing. Raises ValueError as `read_entries`.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {column.shape}")
    entries = read_entries(column, groups, subjects, None)
    cells = cell_means(entries)
    has_mean = np.isfinite(cells.mean[:, 0])
    present = np.isfinite(entries.values[:, 0])
    large_groups, members = [], []
    for code, name in enumerate(entries.names):
        in_group = has_mean & (cells.group == code)
        if in_group.sum() >= max(min_subjects, 2):
            images = int((present & (entries.group == code)).sum())
            large_groups.append(SubjectMeans(name, cells.mean[in_group, 0], images))
            members.append(cells.subject[in_group])
    everyone = np.concatenate(members) if members else np.zeros(0, dtype=np.intp)
    return SubjectMeansByGroup(tuple(large_groups), len(np.unique(everyone)) < len(everyone))
