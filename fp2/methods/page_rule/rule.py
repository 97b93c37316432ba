"""The rule of the Fingerprint² page: answers as units, Kruskal-Wallis, the extreme means and their Cohen's d.

For parity with the page only (`docs/fingerprint.md`): answers of one person are not independent, so the test rejects
true null hypotheses too often, and no verdict rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class PageRule:
    """What the page says of one probe.

    Attributes
    ----------
    disparity : float
        Largest minus smallest group mean.
    worst, best : str
        The groups with the smallest and the largest mean; of ties, the first in the order of the names.
    h, p_value : float or None, float
        Kruskal-Wallis H of the answers and its asymptotic p-value; None and 1 where it does not exist (one group, or
        one value).
    d : float
        `cohens_d` of the two extreme groups; 0 without spread.
    """

    disparity: float
    worst: str
    best: str
    h: float | None
    p_value: float
    d: float


def page_rule(values: npt.ArrayLike, groups: npt.ArrayLike) -> PageRule:
    """Apply the rule to answers.

    Parameters
    ----------
    values : (n,)
        Finite scores of the answers, refusals included; a low mean is the worst.
    groups : (n,)
        The group of each answer.

    Raises
    ------
    ValueError
        Without any answer.
    """
    from scipy.stats import kruskal

    value, label = np.asarray(values, dtype=np.float64), np.asarray(groups, dtype=object)
    names = sorted(set(label))
    if not names:
        raise ValueError("no answer")
    samples = [value[label == name] for name in names]
    means = np.array([sample.mean() for sample in samples])
    low, high = int(means.argmin()), int(means.argmax())
    h, p_value = None, 1.0
    if len(samples) > 1 and np.ptp(value) > 0:
        h, p_value = (float(number) for number in kruskal(*samples))
    d = cohens_d(samples[high], samples[low])
    return PageRule(float(means[high] - means[low]), str(names[low]), str(names[high]), h, p_value, d)


def cohens_d(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return |mean x - mean y| / sqrt((SD x^2 + SD y^2) / 2), SD with ddof 0 and unweighted; 0 without spread.

    The pooled SD of Cohen (1988) weighs both variances by their degrees of freedom, with ddof 1.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    pooled = math.sqrt((float(a.var()) + float(b.var())) / 2)
    return abs(float(a.mean() - b.mean())) / pooled if pooled > 0 else 0.0
