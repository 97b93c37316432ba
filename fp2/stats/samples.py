"""One outcome as the samples that classical tests want: per group, one number a subject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.layout import make_cells, read_entries
from fp2.stats.rows import FloatArray


@dataclass(frozen=True)
class Sample:
    """One group: its name, the subject means (n,), and how many images with a value they come from."""

    name: str
    means: FloatArray
    n_images: int


@dataclass(frozen=True)
class Samples:
    """The groups that are large enough, by name; `dependent`: some subject counts in more than one of them."""

    groups: tuple[Sample, ...]
    dependent: bool


def subject_samples(values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, min_subjects: int = 10) -> Samples:
    """Average each subject's values within each group, and keep the groups with at least `min_subjects` of them.

    values, groups, subjects (n,): one entry per (answer, group), NaN = missing. Raises ValueError as `disparity` does.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {column.shape}")
    entries = read_entries(column, groups, subjects, None)
    cells = make_cells(entries)
    known = np.isfinite(cells.mean[:, 0])
    present = np.isfinite(entries.values[:, 0])
    kept, people = [], []
    for code, name in enumerate(entries.names):
        here = known & (cells.group == code)
        if here.sum() >= max(min_subjects, 2):
            images = int((present & (entries.group == code)).sum())
            kept.append(Sample(name, cells.mean[here, 0], images))
            people.append(cells.subject[here])
    everyone = np.concatenate(people) if people else np.zeros(0, dtype=np.intp)
    return Samples(tuple(kept), len(np.unique(everyone)) < len(everyone))
