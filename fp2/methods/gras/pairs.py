"""Studentised differences of two group means, for all pairs of groups, questions and permutations at once.

A difference of means d has the standard error sqrt(s^2_g / n_g + s^2_h / n_h), with subjects (or images) as units. A
group's variance is averaged with the pooled variance, weighted as one degree of freedom, where that makes it larger: a
small group of skewed answers is constant by chance now and then, and a group of larger spread keeps its own variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fp2.extension import TIE, BoolArray, FloatArray
from fp2.methods.gras.group_sums import CentredSums
from fp2.methods.gras.resampling import TraitTests
from fp2.methods.gras.welch import VANISHING


@dataclass(frozen=True)
class PairTests:
    """The differences of all pairs of groups, with their distribution under B permutations of the labels.

    Attributes
    ----------
    gap, error : sequences of arrays, shape (P, Q)
        For each attribute, of its P pairs and Q questions: the difference and its standard error, infinite where one of
        the groups is not compared.
    groups, fewest : arrays, shape (A, Q)
        The number of groups that are compared, and the subjects of the smallest of them.
    permuted : array, shape (B, A, Q)
        The largest |d| / error of any pair, in each permutation.
    """

    gap: list[FloatArray]
    error: list[FloatArray]
    groups: FloatArray
    fewest: FloatArray
    permuted: FloatArray

    @classmethod
    def of(cls, tests: TraitTests, permutations: int) -> PairTests:
        """Return the tests of the answers of `tests`."""
        gaps, errors, groups, fewest = [], [], [], []
        for differences, large, subjects in _by_attribute(tests, [values.observed() for values in tests.values]):
            pairs = [(gap[0], error[0]) for gap, error in differences]
            gaps.append(np.stack([gap for gap, _ in pairs]))
            errors.append(np.stack([error for _, error in pairs]))
            groups.append(large.sum(axis=0))
            fewest.append(np.where(large, subjects, np.inf).min(axis=0))
        permuted = [
            np.stack([_largest(differences) for differences, *_ in _by_attribute(tests, batch)], axis=1)
            for batch in tests.permuted(permutations)
        ]
        return cls(gaps, errors, np.stack(groups), np.stack(fewest), np.concatenate(permuted))

    @property
    def composite_p(self) -> float:
        """The p-value of the mean over rows of the largest |d| / error: whether groups differ in anything."""
        with np.errstate(invalid="ignore"):
            largest = [(gap / error).max(axis=0) for gap, error in zip(self.gap, self.error, strict=True)]
        null = self.permuted.mean(axis=(1, 2), dtype=np.float64)
        return float((1 + (null >= np.mean(largest, dtype=np.float64) - TIE).sum()) / (len(null) + 1))


def _by_attribute(
    tests: TraitTests, sums: list[CentredSums]
) -> Iterator[tuple[Iterator[tuple[FloatArray, FloatArray]], BoolArray, FloatArray]]:
    """Yield for each attribute, in order, the differences of its pairs, which groups are compared, and their subjects.

    The latter two are (G, Q).
    """
    order = sorted(
        (number, index, span)
        for index, part in enumerate(tests.grouping.sets)
        for number, span in zip(part.attributes, part.spans, strict=True)
    )
    for number, index, span in order:
        values = tests.values[index]
        subjects = np.broadcast_to(values.subjects[span], (span.stop - span.start, values.n_questions))
        large = subjects >= tests.grouping.attributes[number].min_subjects
        yield _differences(sums[index].columns(span), values.scale, large), large, subjects


def _differences(sums: CentredSums, scale: FloatArray, large: BoolArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield for each pair of the groups of `sums` (b, G, Q) the difference of means and its standard error, (b, Q)."""
    valid = (sums.n >= 2) & large
    n = np.where(valid, sums.n, 2.0)
    mean = sums.total / n
    dof, square = n - 1.0, np.maximum(sums.squares - sums.total * mean, 0.0)
    used = np.where(valid, dof, 0.0).sum(axis=1, keepdims=True)
    pool = np.where(valid, square, 0.0).sum(axis=1, keepdims=True) / np.maximum(used, 1.0)
    variance = np.maximum(square / dof, (square + pool) / n) + VANISHING * scale + 1e-300
    of_mean = np.where(valid, variance / n, np.inf)
    for g, h in combinations(range(valid.shape[1]), 2):
        yield np.abs(mean[:, g] - mean[:, h]), np.sqrt(of_mean[:, g] + of_mean[:, h])


def _largest(differences: Iterator[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the largest studentised difference of any pair, (b, Q)."""
    largest: FloatArray | float = 0.0
    for gap, error in differences:
        largest = np.maximum(largest, gap / error)
    return np.asarray(largest, dtype=np.float32)
