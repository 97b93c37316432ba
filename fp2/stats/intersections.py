"""Intersections of attributes: which combinations are large enough, and whether they add something to their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.layout import make_cells, read_entries
from fp2.stats.rows import FloatArray


@dataclass(frozen=True)
class Intersection:
    """One combination of labels, joined as `cut` names it; `eligible`: it has the least number of subjects."""

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

    attributes: name -> one label per line (a multi-valued attribute is one line per label). Combinations that no line
    has, of labels that occur, are listed with 0 subjects: what the data cannot speak about. Raises ValueError without
    attributes or on lengths that differ.
    """
    columns = [[str(label) for label in labels] for labels in attributes.values()]
    people = np.asarray(subjects)
    if not columns or any(len(column) != len(people) for column in columns):
        raise ValueError("need at least one attribute, and one label per subject entry in each")
    lines = list(zip(*columns, strict=True))
    found: dict[tuple[str, ...], tuple[set[object], int]] = {}
    for key, person in zip(lines, people.tolist(), strict=True):
        who, images = found.get(key, (set(), 0))
        who.add(person)
        found[key] = (who, images + 1)
    grid: list[tuple[str, ...]] = [()]
    for column in columns:
        grid = [(*head, label) for head in grid for label in sorted(set(column))]
    table = [
        Intersection(joiner.join(key), key, len(who), images, len(who) >= min_subjects)
        for key, (who, images) in ((key, found.get(key, (set(), 0))) for key in grid)
    ]
    return [joiner.join(line) for line in lines], sorted(table, key=lambda row: (-row.n_subjects, row.group))


def beyond_additive(
    values: ArrayLike,
    attributes: Mapping[str, Sequence[str]],
    subjects: ArrayLike,
    *,
    min_subjects: int = 10,
    joiner: str = " × ",
) -> dict[str, float]:
    """Return for each large enough intersection its mean less what the sum of its parts' effects makes it.

    values, labels, subjects (n,), NaN = missing. The additive model is fitted by least squares to the means over
    subjects of the large intersections, each weighted by its subjects. Where all are 0 the intersection adds nothing.
    The result describes; whether it is more than chance is a question for `disparity` on the intersection.
    """
    groups, table = intersection_table(attributes, subjects, min_subjects=min_subjects, joiner=joiner)
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, None)
    cells = make_cells(entries)
    labels = {row.group: row.labels for row in table}
    kept, means, weights = [], [], []
    for code, name in enumerate(entries.names):
        y = cells.mean[cells.group == code, 0]
        y = y[np.isfinite(y)]
        if len(y) >= max(min_subjects, 2):
            kept.append(name)
            means.append(float(y.mean()))
            weights.append(float(len(y)))
    if not kept:
        return {}
    design = _dummies([labels[name] for name in kept])
    root = np.sqrt(np.array(weights))
    fit = np.linalg.lstsq(design * root[:, None], np.array(means) * root, rcond=None)[0]
    return {name: float(mean - line @ fit) for name, mean, line in zip(kept, means, design, strict=True)}


def _dummies(labels: Sequence[tuple[str, ...]]) -> FloatArray:
    """A constant and one column per label of every attribute; least squares takes care of what is redundant."""
    columns = [np.ones(len(labels))]
    for place in range(len(labels[0])):
        own = [label[place] for label in labels]
        columns += [np.array([x == label for x in own], dtype=np.float64) for label in sorted(set(own))]
    design: FloatArray = np.stack(columns, axis=1)
    return design
