"""Association between attributes of the subjects: Cramer's V with bias correction, and the balance table of all pairs.

If the groups of a cut also differ in another attribute, a gap cannot be attributed to one of the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import FloatArray

Label = str | Collection[str] | None


@dataclass(frozen=True)
class Association:
    """Two attributes: Cramer's V, the bias-corrected V, and the contingency table behind them.

    table (rows of `first_labels`, columns of `second_labels`): numbers of subjects; one with several labels counts in
    parts. `confounded`: the corrected V reaches the threshold.
    """

    first: str
    second: str
    v: float | None
    v_corrected: float | None
    n_subjects: int
    first_labels: tuple[str, ...]
    second_labels: tuple[str, ...]
    table: tuple[tuple[float, ...], ...]
    confounded: bool


def cramers_v(table: ArrayLike, corrected: bool = True) -> float | None:
    """Return Cramer's V of a contingency table (r, c), bias-corrected as in Bergsma (2013).

    The table may hold fractions of subjects. Empty rows and columns are dropped; None with fewer than two left. Raises
    ValueError if the table is not two-dimensional or has a negative count.
    """
    counts = np.asarray(table, dtype=np.float64)
    if counts.ndim != 2 or (counts < 0).any():
        raise ValueError("a contingency table is two-dimensional and not negative")
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    r, c = counts.shape
    n = float(counts.sum())
    if min(r, c) < 2:
        return None
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / n
    phi2 = float(((counts - expected) ** 2 / expected).sum()) / n
    if not corrected:
        return float(np.sqrt(min(1.0, phi2 / (min(r, c) - 1))))
    if n <= 1:
        return None
    phi2 = max(0.0, phi2 - (r - 1) * (c - 1) / (n - 1))
    r_less, c_less = r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)
    room = min(r_less, c_less) - 1
    return float(np.sqrt(min(1.0, phi2 / room))) if room > 0 else None


def contingency(
    first: Sequence[Label], second: Sequence[Label], subjects: ArrayLike
) -> tuple[tuple[str, ...], tuple[str, ...], FloatArray]:
    """Return the labels of both attributes and the number of subjects with each combination, (r, c).

    A subject has weight 1, divided equally among its images with both labels, and an image's part equally among the
    combinations of its labels.

    Parameters
    ----------
    first, second, subjects : (n,)
        One line per image; a label is a string, a collection of strings (multi-valued), or None.

    Raises
    ------
    ValueError
        If lengths differ.
    """
    sets = [[_labels(label) for label in attribute] for attribute in (first, second)]
    subject = np.unique(np.asarray(subjects), return_inverse=True)[1].reshape(-1)
    if not len(sets[0]) == len(sets[1]) == len(subject):
        raise ValueError(f"lengths differ: {len(sets[0])}, {len(sets[1])} and {len(subject)}")
    names = [tuple(sorted({label for labels in attribute for label in labels})) for attribute in sets]
    position = [{name: k for k, name in enumerate(names_of_axis)} for names_of_axis in names]
    labelled = np.array([bool(a) and bool(b) for a, b in zip(*sets, strict=True)], dtype=bool)
    images = np.bincount(subject[labelled], minlength=int(subject.max(initial=-1)) + 1)
    table = np.zeros((len(names[0]), len(names[1])))
    for i in np.flatnonzero(labelled).tolist():
        rows, columns = ([position[k][label] for label in sets[k][i]] for k in (0, 1))
        table[np.ix_(rows, columns)] += 1.0 / (images[subject[i]] * len(rows) * len(columns))
    return names[0], names[1], table


def _labels(label: Label) -> tuple[str, ...]:
    if label is None or (isinstance(label, float) and label != label):
        return ()
    return (label,) if isinstance(label, str) else tuple(sorted({str(x) for x in label}))


def balance_table(
    attributes: Mapping[str, Sequence[Label]], subjects: ArrayLike, *, threshold: float = 0.3
) -> list[Association]:
    """Return the association of every pair of attributes (name -> one label per image), strongest first.

    `threshold` on the corrected V marks a pair as confounded (0.3: a medium effect for two groups, Cohen 1988).
    """
    out = []
    for a, b in combinations(attributes, 2):
        first, second, table = contingency(attributes[a], attributes[b], subjects)
        v, corrected = cramers_v(table, corrected=False), cramers_v(table)
        rows = tuple(tuple(float(x) for x in row) for row in table)
        n = round(float(table.sum()))
        out.append(
            Association(a, b, v, corrected, n, first, second, rows, corrected is not None and corrected >= threshold)
        )
    return sorted(out, key=lambda row: -(row.v_corrected or 0.0))
