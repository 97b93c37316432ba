"""Refusals and missing answers as outcomes of their own, beside the scores of what was answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.bounds import refusal_bounds
from fp2.stats.panel import disparity
from fp2.stats.rows import DisparityRow


@dataclass(frozen=True)
class TwoPart:
    """(i) who is refused oftener, (ii) the score given an answer, (iii) what the refused answers could have made of it.

    `refusal` and `answered` are one family of two for `adjust`. bounds_low, bounds_high: the least and the largest
    max - min if each refused answer were worth anything on the scale; None with fewer than two large groups.
    """

    refusal: DisparityRow
    answered: DisparityRow
    bounds_low: float | None
    bounds_high: float | None


def two_part_model(
    values: ArrayLike,
    refused: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool = True,
    value_range: tuple[float, float] = (-1.0, 1.0),
    smallest_effect: float = 0.05,
    smallest_refusal_effect: float = 0.02,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> TwoPart:
    """Compare groups on refusals and on the score given an answer.

    values (n,): the score, whatever it is where `refused` (n,) is true; an error is NaN and not refused, and enters
    neither part. The rest as in `disparity`.
    """
    y, hidden = np.asarray(values, dtype=np.float64), np.asarray(refused, dtype=bool)
    if y.shape != hidden.shape or y.ndim != 1:
        raise ValueError(f"values and refused must be (n,), got {y.shape} and {hidden.shape}")
    flag = np.where(hidden, 1.0, np.where(np.isnan(y), np.nan, 0.0))
    refusal = disparity(
        flag, groups, subjects, images=images, higher_is_better=False, value_range=(0.0, 1.0), yes_no=True,
        smallest_effect=smallest_refusal_effect, alpha=alpha, n_permutations=n_permutations,
        n_bootstrap=n_bootstrap, seed=seed, min_subjects=min_subjects,
    )  # fmt: skip
    answered = disparity(
        np.where(hidden, np.nan, y), groups, subjects, images=images, higher_is_better=higher_is_better,
        value_range=value_range, smallest_effect=smallest_effect, alpha=alpha, n_permutations=n_permutations,
        n_bootstrap=n_bootstrap, seed=seed, min_subjects=min_subjects,
    )  # fmt: skip
    low, high = refusal_bounds(y, hidden, groups, subjects, value_range=value_range, min_subjects=min_subjects)
    return TwoPart(refusal, answered, low, high)


def missing_by_group(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    smallest_effect: float = 0.02,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> DisparityRow:
    """Compare groups on how often a value is missing (errors, parse failures, nothing matched): 1 = missing is worse.

    values (n,), NaN = missing. A row without any missing value is `uninformative`: there is nothing to compare.
    """
    absent = np.isnan(np.asarray(values, dtype=np.float64)).astype(np.float64)
    return disparity(
        absent, groups, subjects, images=images, higher_is_better=False, value_range=(0.0, 1.0), yes_no=True,
        smallest_effect=smallest_effect, n_permutations=n_permutations, n_bootstrap=n_bootstrap, seed=seed,
        alpha=alpha, min_subjects=min_subjects,
    )  # fmt: skip
