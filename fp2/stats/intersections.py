"""Intersections of attributes: the sizes of all combinations, and a test of what they add to their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import FloatArray, IntArray, stream
from fp2.stats.core.permutation import permutation_p

METHOD = ("interaction", 2, ("p_value", "adjusted_p", "largest", "meaning", "family", "n_permutations"))
"""Name, version and keys of the method. Version 1 had no test."""


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
    lines = list(zip(*columns, strict=True))
    found: dict[tuple[str, ...], tuple[set[object], int]] = {}
    for key, one in zip(lines, subject.tolist(), strict=True):
        members, images = found.get(key, (set(), 0))
        members.add(one)
        found[key] = (members, images + 1)
    grid: list[tuple[str, ...]] = [()]
    for column in columns:
        grid = [(*head, label) for head in grid for label in sorted(set(column))]
    table = [
        Intersection(joiner.join(key), key, len(members), images, len(members) >= min_subjects)
        for key, (members, images) in ((key, found.get(key, (set(), 0))) for key in grid)
    ]
    return [joiner.join(line) for line in lines], sorted(table, key=lambda row: (-row.n_subjects, row.group))


@dataclass(frozen=True)
class Interaction:
    """What combinations add to the effects of their parts.

    beyond: combination -> residual of its mean in the additive model. p_value: of the permutation test of all
    residuals; None without a degree of freedom or spread. largest: the combination with the largest |T|.
    """

    beyond: dict[str, float]
    p_value: float | None = None
    largest: str | None = None


def interaction(
    values: ArrayLike,
    attributes: Mapping[str, Sequence[str]],
    subjects: ArrayLike,
    *,
    n_permutations: int,
    seed: int,
    min_subjects: int = 10,
    joiner: str = " × ",
) -> Interaction:
    """Return the residuals of the large enough intersections in the additive model of their attributes, and their test.

    The model is fitted by least squares to the means over subjects, weighted by the number of subjects. The test
    permutes the residuals of the subjects' means across subjects (Freedman and Lane 1983), so that the main effects
    stay; its statistic is the largest residual of a combination over its standard error. A subject in several
    combinations keeps its residuals together, and exchanges them with subjects in as many.

    Parameters
    ----------
    values, subjects : (n,)
        NaN = missing.
    attributes, joiner
        As in `intersection_table`.
    n_permutations, seed : int
        0 permutations: no test.
    """
    groups, table = intersection_table(attributes, subjects, min_subjects=min_subjects, joiner=joiner)
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, None)
    cells = cell_means(entries)
    labels = {row.group: row.labels for row in table}
    known = np.isfinite(cells.mean[:, 0])
    size = np.bincount(cells.group[known], minlength=len(entries.names))
    kept = np.flatnonzero(size >= max(min_subjects, 2))
    if not len(kept):
        return Interaction({})
    names = [entries.names[code] for code in kept]
    inside = known & np.isin(cells.group, kept)
    code, subject, y = np.searchsorted(kept, cells.group[inside]), cells.subject[inside], cells.mean[inside, 0]
    n = size[kept].astype(np.float64)
    means = np.bincount(code, weights=y) / n
    design, root = _dummies([labels[name] for name in names]), np.sqrt(n)
    # residuals of the means are `rest` @ means
    fit = design @ np.linalg.pinv(design * root[:, None]) * root
    rest = np.eye(len(names)) - fit
    beyond = rest @ means
    found = dict(zip(names, beyond.tolist(), strict=True))
    residual = y - (fit @ means)[code]
    if np.abs(rest).max() < 1e-9 or residual.std() <= 1e-12 * max(1.0, float(np.abs(y).max())) or not n_permutations:
        return Interaction(found)
    indicator = (code == np.arange(len(names))[:, None]).astype(np.float64)
    seen = _studentised(residual[None], indicator, n, rest)
    permuted = _studentised(_permuted(residual, subject, n_permutations, seed), indicator, n, rest)
    p = permutation_p(float(seen.max()), permuted.max(axis=1))
    return Interaction(found, p, names[int(seen[0].argmax())])


def _studentised(residual: FloatArray, indicator: FloatArray, n: FloatArray, rest: FloatArray) -> FloatArray:
    """Return |residual of each combination's mean| over its standard error, (b, C), from residuals (b, cells)."""
    sums, squares = residual @ indicator.T, residual**2 @ indicator.T
    within = np.maximum(squares - sums**2 / n, 0.0)
    pooled = within.sum(axis=1, keepdims=True) / max(float((n - 1).sum()), 1.0)
    # one degree of freedom of the pooled variance, as in the test of a row
    error = np.sqrt((within + pooled) / n / n @ (rest**2).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        t: FloatArray = np.where(error > 0, np.abs(sums / n @ rest.T) / error, 0.0)
    return t


def _permuted(residual: FloatArray, subject: IntArray, n_permutations: int, seed: int) -> FloatArray:
    """Return residuals (B, cells) permuted across the subjects with as many combinations, and within a subject."""
    order = np.argsort(subject, kind="stable")
    _, start, size = np.unique(subject[order], return_index=True, return_counts=True)
    out = np.empty((n_permutations, len(residual)))
    for k in sorted(set(size.tolist())):
        cells = order[start[size == k][:, None] + np.arange(k)]
        rng = stream(seed, k, 3)
        rows = rng.permuted(np.broadcast_to(np.arange(len(cells)), (n_permutations, len(cells))), axis=1)
        drawn = residual[cells][rows]
        out[:, cells.reshape(-1)] = rng.permuted(drawn, axis=2).reshape(n_permutations, -1)
    return out


def _dummies(labels: Sequence[tuple[str, ...]]) -> FloatArray:
    """Return a constant and one column per label of every attribute; least squares handles the collinearity."""
    columns = [np.ones(len(labels))]
    for place in range(len(labels[0])):
        own = [label[place] for label in labels]
        columns += [np.array([x == label for x in own], dtype=np.float64) for label in sorted(set(own))]
    design: FloatArray = np.stack(columns, axis=1)
    return design
