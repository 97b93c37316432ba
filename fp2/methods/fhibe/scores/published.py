"""The published pairwise disparity, and where the subject-level analysis disagrees with it.

Source: Xiang et al. 2025, Methods, "Benchmarking analysis", and its evaluation code for what the text leaves open (both
medians 0: D = 0). Units are images, which takes several images of one subject as independent: these numbers are for
comparison with the paper. Medians of all pairs of groups are compared by Mann-Whitney tests, and corrected within one
attribute. The subject-level analysis beside it (`fp2.methods.fhibe.scores.benchmark`) compares means over subjects,
permutes group labels across subjects and corrects over all cuts of a score. Each reason for a disagreement is checked
on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import LABEL_JOIN, FloatArray
from fp2.methods.fhibe_release import vocab

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, DisparityRow

EQUAL_MEDIANS = (
    "equal_medians",
    2,
    ("*.published.*", "*.pairs.*", "*.top.*", "*.reasons.*", "*.why", "disparity_summary.*"),
)
"""Version 1: of equal medians the group of lower ranks was the worse one. Version 2: the evaluation code's rule."""
_EXACT_UP_TO = 8  # SciPy's own rule: exact p-values for small samples without ties
_COLUMNS = {"region": "ancestry", "subregion": "ancestry", "first_region": "ancestry"}


@dataclass(frozen=True)
class GroupScores:
    """A group: its scores, one per (image, subject), sorted; its number of subjects; the mean of each subject."""

    name: str
    scores: FloatArray
    n_subjects: int
    subject_means: FloatArray

    @property
    def median(self) -> float:
        """The median score."""
        return float(np.median(self.scores))


@dataclass(frozen=True)
class PairDisparity:
    """Two groups, the worse first; of equal centres the second group is the worse one, as in the evaluation code.

    `disparity` is None for scores below 0, of which it is not defined.
    """

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


def reverse(values: ArrayLike, *, higher_is_better: bool, high: float = 1.0) -> FloatArray:
    """Return scores of which higher values are better: max(0, high - x) if lower ones are (LPIPS: high = 1)."""
    array = np.asarray(values, dtype=np.float64)
    return array if higher_is_better else np.where(np.isnan(array), np.nan, np.maximum(0.0, high - array))


def group_scores(members: pd.DataFrame, min_subjects: int) -> list[GroupScores]:
    """Return the groups with at least `min_subjects` subjects who have a score, by name.

    members : columns `group, subject_id, score`, one row per (image, subject, group); NaN is a missing score.
    """
    groups = []
    for name, entries in members.dropna(subset=["score"]).groupby("group", sort=True):
        means = entries.groupby("subject_id", sort=True)["score"].mean()
        if len(means) >= min_subjects:
            scores = np.sort(entries["score"].to_numpy(dtype=np.float64))
            groups.append(GroupScores(str(name), scores, len(means), means.to_numpy(dtype=np.float64)))
    return groups


def disparity_of(worst: float, best: float) -> float | None:
    """Return D = 1 - worst / best: 0 if both are 0, 1 if only the worst is; None for negative numbers."""
    if min(worst, best) < 0:
        return None
    if best == 0:
        return 0.0
    return 1.0 - worst / best


def in_release_order(groups: Sequence[GroupScores], cut: Cut) -> list[GroupScores]:
    """Return the groups of a cut in the order of the evaluation code, which decides between equal medians.

    That is the order of the values' indices in the release: skin tones from VI to I. Other values are ordered by name.
    """
    return sorted(groups, key=lambda group: [*map(_rank, cut.by, group.name.split(LABEL_JOIN))])


def _rank(attribute: str, value: str) -> tuple[int, str]:
    if attribute.endswith("skin_tone") and value in vocab.SKIN_TONES:
        return -vocab.SKIN_TONES.index(value), value
    vocabulary = vocab.VOCABULARIES.get(_COLUMNS.get(attribute, attribute))
    return (vocabulary.index_of.get(value, len(vocabulary.values)) if vocabulary else 0), value


def all_pairs(groups: Sequence[GroupScores], *, by_share: bool = False, negative: bool = False) -> list[PairDisparity]:
    """Return every pair of groups with its two-sided Mann-Whitney p-value and its disparity.

    groups : in the order of `in_release_order`.
    by_share : compare means (the proportions of a binary outcome) in place of medians.
    negative : a score is below 0, so that no disparity is defined.
    """
    centre = {g.name: float(g.scores.mean()) if by_share else g.median for g in groups}
    out = []
    for a, b in combinations(groups, 2):
        u, p = mann_whitney(a.scores, b.scores)
        effect = 2 * u / (len(a.scores) * len(b.scores)) - 1  # > 0: a is higher
        worst, best = (a, b) if centre[a.name] < centre[b.name] else (b, a)
        low, high = centre[worst.name], centre[best.name]
        size = None if negative else disparity_of(low, high)
        out.append(PairDisparity(worst.name, best.name, low, high, size, p, abs(effect)))
    return out


def mann_whitney(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return U of `x` (both sorted) and its two-sided p-value, as `scipy.stats.mannwhitneyu` does.

    The same formula (tie and continuity correction); SciPy's function takes about a second for a thousand pairs.
    """
    below, upto = np.searchsorted(y, x, "left"), np.searchsorted(y, x, "right")
    u = float(below.sum() + upto.sum()) / 2
    n, m = len(x), len(y)
    _, ties = np.unique(np.concatenate([x, y]), return_counts=True)
    if min(n, m) <= _EXACT_UP_TO and int(ties.max()) == 1:
        from scipy.stats import mannwhitneyu

        return u, float(mannwhitneyu(x, y, alternative="two-sided").pvalue)
    t = ties.astype(np.float64)
    variance = n * m / 12 * ((n + m + 1) - float((t**3 - t).sum()) / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return u, 1.0
    z = (max(u, n * m - u) - n * m / 2 - 0.5) / math.sqrt(variance)
    return u, float(min(1.0, math.erfc(z / math.sqrt(2))))


def highest(pairs: list[PairDisparity], alpha: float) -> tuple[list[PairDisparity], float | None]:
    """Return the significant pairs, largest disparity first, and the Bonferroni threshold alpha / number of pairs.

    Ties are ordered by p-value, then by name.
    """
    if not pairs:
        return [], None
    threshold = alpha / len(pairs)
    significant = [pair for pair in pairs if pair.p_value < threshold]
    return sorted(significant, key=lambda p: (-(p.disparity or 0.0), p.p_value, p.worst, p.best)), threshold


def p_of_subject_means(groups: Mapping[str, GroupScores], pair: PairDisparity) -> float:
    """Return the Mann-Whitney p-value of a pair with one value per subject, the mean of its scores."""
    a, b = (np.sort(np.round(groups[name].subject_means, 12)) for name in (pair.worst, pair.best))
    return mann_whitney(a, b)[1]


BOTH, NEITHER, PUBLISHED_ONLY, OURS_ONLY, NOT_COMPARED = "both", "neither", "published_only", "ours_only", "none"

REASONS = {
    "images_as_people": "with one value per subject, the pair does not reach the published threshold",
    "family": "the subject-level test is significant before the correction over all cuts, not after it",
    "small": "the group means differ by less than the smallest effect of interest; medians of discrete scores jump",
    "other_test": "the tests differ: medians of a pair against the largest difference of means",
    "same_medians": "the distributions differ, but both medians are equal, so that D = 0",
    "negative": "D is not defined for scores below 0",
    "strict_pairs": "no single pair reaches the Bonferroni threshold over all pairs",
    "other_groups": "both are significant, for different groups",
    "nobody": "no subject has a value",
    "too_few": "fewer than two groups have enough subjects",
    "constant": "all scores are equal",
}
"""Code of a reason -> its text."""


def compare_analyses(
    pair: PairDisparity | None,
    groups: Mapping[str, GroupScores],
    ours: DisparityRow,
    *,
    threshold: float | None,
    alpha: float,
) -> dict[str, Any]:
    """Return `agreement` (both, neither, published_only, ours_only, none), `reasons` (codes) and `why` (their text).

    pair : the significant pair of highest published disparity; None if there is none.
    ours : the row of the subject-level analysis, with its verdict.
    """
    if pair is None and ours.status != "ok":
        code = "nobody" if not ours.n_subjects else "too_few" if len(groups) < 2 else "constant"
        return _result(NOT_COMPARED, [code])
    if pair is None:
        return _result(OURS_ONLY, ["strict_pairs"]) if ours.significant else _result(NEITHER, [])
    if ours.significant:
        return _result(BOTH, _of_both(pair, ours))
    reasons = []
    if p_of_subject_means(groups, pair) >= (threshold or alpha):
        reasons.append("images_as_people")
    elif ours.p_value is not None and ours.p_value <= alpha:
        reasons.append("family")
    difference = abs(float(groups[pair.best].subject_means.mean() - groups[pair.worst].subject_means.mean()))
    if difference < ours.smallest_effect:
        reasons.append("small")
    return _result(PUBLISHED_ONLY, reasons or ["other_test"])


def _result(agreement: str, reasons: list[str]) -> dict[str, Any]:
    return {"agreement": agreement, "reasons": reasons, "why": "; ".join(REASONS[code] for code in reasons)}


def _of_both(pair: PairDisparity, ours: DisparityRow) -> list[str]:
    reasons = []
    if pair.disparity is None:
        reasons.append("negative")
    elif pair.disparity == 0:
        reasons.append("same_medians")
        if {pair.worst, pair.best} == {ours.worst_group, ours.best_group}:
            return reasons  # with D = 0 neither is the worse one
    if (pair.worst, pair.best) != (ours.worst_group, ours.best_group):
        reasons.append("other_groups")
    return reasons
