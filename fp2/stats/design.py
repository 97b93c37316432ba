"""Planning: how large a gap a sample can find, before anything is asked.

Effective numbers follow from images per subject and ICC (Kish 1965). Power is that of the largest studentised pair:
the critical value is the studentised range's over all pairs (Tukey), the pair itself is noncentral t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def design_effect(images_per_subject: float, icc: float) -> float:
    """Return 1 + (m - 1) ICC: how many times more images are needed than independent ones; ICC below 0 counts as 0."""
    if images_per_subject < 1:
        raise ValueError(f"need at least one image a subject, got {images_per_subject}")
    return 1 + (images_per_subject - 1) * min(max(icc, 0.0), 1.0)


def effective_n(n_images: float, images_per_subject: float, icc: float) -> float:
    """Return the number of independent images that carry as much: n / (1 + (m - 1) ICC)."""
    return n_images / design_effect(images_per_subject, icc)


def subject_sd(sd: float, images_per_subject: float, icc: float) -> float:
    """Return the SD of subject means of `images_per_subject` answers with SD `sd` each."""
    return sd * math.sqrt(design_effect(images_per_subject, icc) / images_per_subject)


def power_of_gap(
    gap: float,
    sizes: Sequence[int],
    sd: float,
    *,
    images_per_subject: float = 1.0,
    icc: float = 0.0,
    alpha: float = 0.05,
    n_tests: int = 1,
) -> float:
    """Return the probability that a gap between the two smallest groups is found.

    gap, sd: in the outcome's units, sd of one answer; sizes: subjects per group; n_tests: Bonferroni over that many
    rows, a lower bound of Holm's power. Raises ValueError for fewer than two groups or a group of fewer than two.
    """
    critical, error, df = _precision(sizes, sd, images_per_subject, icc, alpha, n_tests)
    return _power(abs(gap) / error, critical, df)


def minimum_detectable_gap(
    sizes: Sequence[int],
    sd: float,
    *,
    images_per_subject: float = 1.0,
    icc: float = 0.0,
    alpha: float = 0.05,
    n_tests: int = 1,
    power: float = 0.8,
) -> float:
    """Return the smallest gap between any two groups that is found with `power` (options as in `power_of_gap`)."""
    from scipy.optimize import brentq

    if not alpha < power < 1:
        raise ValueError(f"power must lie between alpha and 1, got {power}")
    critical, error, df = _precision(sizes, sd, images_per_subject, icc, alpha, n_tests)
    return float(brentq(lambda delta: _power(delta, critical, df) - power, 0.0, critical + 10, xtol=1e-10)) * error


def _precision(
    sizes: Sequence[int], sd: float, images: float, icc: float, alpha: float, n_tests: int
) -> tuple[float, float, float]:
    """Return the critical |t|, the standard error of the least precise pair, and the degrees of freedom."""
    from scipy.stats import studentized_range, t

    if len(sizes) < 2 or min(sizes) < 2 or not sd > 0 or not 0 < alpha < 1 or n_tests < 1:
        raise ValueError("need two groups of at least two subjects, sd > 0, 0 < alpha < 1 and n_tests >= 1")
    level, df = alpha / n_tests, float(sum(sizes) - len(sizes))
    if len(sizes) == 2:
        critical = float(t.isf(level / 2, df))
    else:
        critical = float(studentized_range.isf(level, len(sizes), df)) / math.sqrt(2)
    smallest = sorted(sizes)[:2]
    return critical, subject_sd(sd, images, icc) * math.sqrt(1 / smallest[0] + 1 / smallest[1]), df


def _power(delta: float, critical: float, df: float) -> float:
    from scipy.special import nctdtr

    other_tail = float(nctdtr(df, delta, -critical))
    # far from 0 the other tail is nothing, and the library's number with it
    return float(1 - nctdtr(df, delta, critical)) + (other_tail if math.isfinite(other_tail) else 0.0)
