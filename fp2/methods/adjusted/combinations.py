"""Intersections of attributes: the sizes of all combinations, and their deviation from the additive model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import FloatArray, cell_means, read_entries


@dataclass(frozen=True)
class Intersection:
    """One combination of labels and its joined name; `eligible`: it has at least the required number of subjects."""

    group: str
    labels: tuple[str, ...]
    n_subjects: int
    n_images: int
    eligible: bool


def intersection_table(
    attributes: Mapping[str, Sequence[str]],
    subjects: ArrayLike,
    *,
    min_subjects: int = 10,
    joiner: str = " × ",
) -> tuple[list[str], list[Intersection]]:
    """Return the combined label of every line (n,), and all combinations with their sizes, largest first.

    Combinations of occurring labels that no line has are listed with 0 subjects: the data say nothing about them.

    Parameters
    ----------
    attributes
        Name -> one label per line (a multi-valued attribute is one line per label).
    subjects : (n,)

    Raises
    ------
    ValueError
        Without attributes, or if lengths differ.
    """
    columns = [[str(label) for label in labels] for labels in attributes.values()]
    subject = np.asarray(subjects)
    if not columns or any(len(column) != len(subject) for column in columns):
        raise ValueError("need at least one attribute, and one label per subject entry in each")
    rows = list(zip(*columns, strict=True))
    sizes: dict[tuple[str, ...], tuple[set[object], int]] = {}
    for key, person in zip(rows, subject.tolist(), strict=True):
        members, images = sizes.get(key, (set(), 0))
        members.add(person)
        sizes[key] = (members, images + 1)
    grid: list[tuple[str, ...]] = [()]
    for column in columns:
        grid = [(*head, label) for head in grid for label in sorted(set(column))]
    table = [
        Intersection(joiner.join(key), key, len(members), images, len(members) >= min_subjects)
        for key, (members, images) in ((key, sizes.get(key, (set(), 0))) for key in grid)
    ]
    return [joiner.join(line) for line in rows], sorted(table, key=lambda row: (-row.n_subjects, row.group))


def beyond_additive(
    values: ArrayLike,
    attributes: Mapping[str, Sequence[str]],
    subjects: ArrayLike,
    *,
    min_subjects: int = 10,
    joiner: str = " × ",
) -> dict[str, float]:
    """Return for each large enough intersection the residual of its mean in the additive model of its attributes.

    The model is fitted by least squares to the means over subjects, weighted by the number of subjects. The residuals
    are descriptive; `disparity` by the intersection tests for differences.

    Parameters
    ----------
    values, subjects : (n,)
        NaN = missing.
    attributes, joiner
        As in `intersection_table`.
    """
    groups, table = intersection_table(attributes, subjects, min_subjects=min_subjects, joiner=joiner)
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, None)
    cells = cell_means(entries)
    labels = {row.group: row.labels for row in table}
    large_groups, means, weights = [], [], []
    for code, name in enumerate(entries.names):
        y = cells.known_means(code, 0)
        if len(y) >= max(min_subjects, 2):
            large_groups.append(name)
            means.append(float(y.mean()))
            weights.append(float(len(y)))
    if not large_groups:
        return {}
    design = _dummies([labels[name] for name in large_groups])
    root = np.sqrt(np.array(weights))
    fit = np.linalg.lstsq(design * root[:, None], np.array(means) * root, rcond=None)[0]
    return {name: float(mean - dummies @ fit) for name, mean, dummies in zip(large_groups, means, design, strict=True)}


def _dummies(labels: Sequence[tuple[str, ...]]) -> FloatArray:
    """Return a constant and one column per label of every attribute; least squares handles the collinearity."""
    columns = [np.ones(len(labels))]
    for k in range(len(labels[0])):
        attribute = [label[k] for label in labels]
        columns += [np.array([x == label for x in attribute], dtype=np.float64) for label in sorted(set(attribute))]
    design: FloatArray = np.stack(columns, axis=1)
    return design
