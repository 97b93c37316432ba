"""Yes/no outcomes: rates by group, with intervals that account for several images of one subject.

Wilson's interval with the effective sample size of clustered data (Korn and Graubard 1998; Dean and Pagano 2015), and
Newcombe's hybrid interval (1998, method 10) of the difference of two rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import FloatArray, subject_means_by_group, wilson


@dataclass(frozen=True)
class Proportion:
    """One group's rate: the unweighted mean of its subjects' rates, with its interval.

    `effective_n`: the number of independent yes/no answers with the same standard error, between the number of subjects
    (all answers of a subject agree) and of images.
    """

    group: str
    rate: float
    ci_low: float
    ci_high: float
    n_subjects: int
    n_images: int
    effective_n: float


@dataclass(frozen=True)
class ProportionPair:
    """Two groups: first - second with its interval; `dependent_groups`: some subject counts in more than one group."""

    first: str
    second: str
    difference: float
    ci_low: float
    ci_high: float
    dependent_groups: bool


@dataclass(frozen=True)
class Proportions:
    """Rates of all groups with enough subjects, and all pairs of them."""

    groups: tuple[Proportion, ...]
    pairs: tuple[ProportionPair, ...]


def proportions_by_group(
    values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, *, alpha: float = 0.05, min_subjects: int = 10
) -> Proportions:
    """Return the rates of a 0/1 outcome by group. Their difference is tested by `disparity(..., yes_no=True)`.

    Parameters
    ----------
    values : (n,)
        0, 1 or NaN, one entry per (answer, group).
    groups, subjects : (n,)
    alpha : float
        1 - confidence level. The intervals of pairs take the groups as independent; for dependent groups they are too
        wide if a subject's answers agree.

    Raises
    ------
    ValueError
        For other values.
    """
    y = np.asarray(values, dtype=np.float64)
    if not (np.isnan(y) | (y == 0) | (y == 1)).all():
        raise ValueError("a yes/no outcome holds values other than 0 and 1")
    by_group = subject_means_by_group(y, groups, subjects, min_subjects)
    rates, pairs = [], []
    for sample in by_group.groups:
        rate = float(sample.means.mean())
        size = _effective_n(sample.means, rate, sample.n_images)
        limits = wilson(rate, size, alpha)
        rates.append(Proportion(sample.name, rate, *limits, len(sample.means), sample.n_images, size))
    for a, b in combinations(rates, 2):
        gap = a.rate - b.rate
        low = gap - math.hypot(a.rate - a.ci_low, b.ci_high - b.rate)
        high = gap + math.hypot(a.ci_high - a.rate, b.rate - b.ci_low)
        pairs.append(ProportionPair(a.group, b.group, gap, max(low, -1.0), min(high, 1.0), by_group.dependent))
    return Proportions(tuple(rates), tuple(pairs))


def _effective_n(means: FloatArray, rate: float, n_images: int) -> float:
    """Return rate (1 - rate) over the squared standard error of the mean of subject rates; n with one image each."""
    n = len(means)
    if rate in (0.0, 1.0):
        # all the same: no evidence that the answers of a subject are independent
        return float(n)
    square = float(means.var())  # ddof 0: with one image a subject this is rate (1 - rate)
    if square <= 1e-15:
        return float(n_images)
    return float(np.clip(n * rate * (1 - rate) / square, n, max(n_images, n)))
