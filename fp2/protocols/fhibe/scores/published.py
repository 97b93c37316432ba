"""FHIBE's pairwise disparity as its authors compute it: one score per (image, subject), Mann-Whitney, medians.

Source: the paper's Methods, "Benchmarking analysis", and its evaluation code for what the text leaves open (both
medians 0: D = 0). Images are the units here, which takes several pictures of one person for independent: the numbers
are for comparison with the paper, and `fp2.protocols.fhibe.scores.benchmark` puts statistics with people as units beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
_EXACT_UP_TO = 8  # SciPy's own rule: exact p-values for small samples without ties


@dataclass(frozen=True)
class GroupScores:
    """One group: its scores, one per (image, subject), sorted; how many people they are of; each subject's mean."""

    name: str
    scores: FloatArray
    n_subjects: int
    subject_means: FloatArray

    @property
    def centre(self) -> float:
        """The median score."""
        return float(np.median(self.scores))


@dataclass(frozen=True)
class PairDisparity:
    """Two groups, the worse first. `disparity` is None where the scores do not allow it (negative ones)."""

    worst: str
    best: str
    worst_value: float
    best_value: float
    disparity: float | None
    p_value: float
    rank_biserial: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return dict(vars(self))


def turned(values: ArrayLike, *, higher_is_better: bool, high: float = 1.0) -> FloatArray:
    """Return scores of which more is better: max(0, high - x) for those of which less is (LPIPS: high = 1)."""
    found = np.asarray(values, dtype=np.float64)
    return found if higher_is_better else np.where(np.isnan(found), np.nan, np.maximum(0.0, high - found))


def group_scores(members: pd.DataFrame, min_subjects: int) -> list[GroupScores]:
    """Return the groups with at least `min_subjects` people who have a score, by name.

    `members` has the columns `group, subject_id, score`, one row per (image, subject, group); NaN is no score.
    """
    found = []
    for name, part in members.dropna(subset=["score"]).groupby("group", sort=True):
        by_person = part.groupby("subject_id", sort=True)["score"].mean()
        if len(by_person) >= min_subjects:
            scores = np.sort(part["score"].to_numpy(dtype=np.float64))
            found.append(GroupScores(str(name), scores, len(by_person), by_person.to_numpy(dtype=np.float64)))
    return found


def disparity_of(worst: float, best: float) -> float | None:
    """Return D = 1 - worst / best: 0 where both are 0, 1 where only the worst is; None for negative numbers."""
    if min(worst, best) < 0:
        return None
    if best == 0:
        return 0.0
    return 1.0 - worst / best


def all_pairs(groups: list[GroupScores], *, by_share: bool = False, negative: bool = False) -> list[PairDisparity]:
    """Return every pair with its two-sided Mann-Whitney p-value and its disparity.

    `by_share` compares means (the shares of a yes/no outcome) in place of medians. `negative`: some score of the whole
    table is below 0, and no disparity exists.
    """
    centre = {g.name: float(g.scores.mean()) if by_share else g.centre for g in groups}
    out = []
    for a, b in combinations(groups, 2):
        u, p = mann_whitney(a.scores, b.scores)
        effect = 2 * u / (len(a.scores) * len(b.scores)) - 1  # > 0: a is higher
        swap = (
            (centre[a.name], effect) > (centre[b.name], 0.0)
            if centre[a.name] == centre[b.name]
            else (centre[a.name] > centre[b.name])
        )
        worst, best = (b, a) if swap else (a, b)
        low, high = centre[worst.name], centre[best.name]
        size = None if negative else disparity_of(low, high)
        out.append(PairDisparity(worst.name, best.name, low, high, size, p, abs(effect)))
    return out


def mann_whitney(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return U of `x` (both sorted) and its two-sided p-value, as `scipy.stats.mannwhitneyu` gives them.

    The same formula (ties and continuity corrected), without the second or so that SciPy takes for a thousand pairs.
    """
    below, upto = np.searchsorted(y, x, "left"), np.searchsorted(y, x, "right")
    u = float(below.sum() + upto.sum()) / 2
    n, m = len(x), len(y)
    _, ties = np.unique(np.concatenate([x, y]), return_counts=True)
    if min(n, m) <= _EXACT_UP_TO and int(ties.max()) == 1:
        from scipy.stats import mannwhitneyu

        return u, float(mannwhitneyu(x, y, alternative="two-sided").pvalue)
    t = ties.astype(np.float64)
    spread = n * m / 12 * ((n + m + 1) - float((t**3 - t).sum()) / ((n + m) * (n + m - 1)))
    if spread <= 0:
        return u, 1.0
    z = (max(u, n * m - u) - n * m / 2 - 0.5) / math.sqrt(spread)
    return u, float(min(1.0, math.erfc(z / math.sqrt(2))))


def highest(pairs: list[PairDisparity], alpha: float) -> tuple[list[PairDisparity], float | None]:
    """Return the significant pairs, largest disparity first, and the Bonferroni threshold alpha / number of pairs.

    Ties go to the smaller p-value, then to the names.
    """
    if not pairs:
        return [], None
    threshold = alpha / len(pairs)
    found = [pair for pair in pairs if pair.p_value < threshold]
    return sorted(found, key=lambda p: (-(p.disparity or 0.0), p.p_value, p.worst, p.best)), threshold


def person_level(groups: Mapping[str, GroupScores], pair: PairDisparity) -> float:
    """Return the Mann-Whitney p-value of a pair on subject means: one number per person."""
    a, b = (np.sort(np.round(groups[name].subject_means, 12)) for name in (pair.worst, pair.best))
    return mann_whitney(a, b)[1]
