"""Where the published and the subject-level analysis disagree, and why; each reason is checked on the data.

The published analysis takes images as independent, compares medians of all pairs of groups and corrects within one
attribute. The subject-level analysis compares means over subjects, permutes group labels across subjects and corrects
over all cuts of a score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.published import GroupScores, PairDisparity, p_of_subject_means

if TYPE_CHECKING:
    from fp2.stats.rows import DisparityRow

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


def compare(
    pair: PairDisparity | None, groups: Mapping[str, GroupScores], ours: DisparityRow, *, threshold: float | None,
    alpha: float,
) -> dict[str, Any]:  # fmt: skip
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
    return _result(PUBLISHED_ONLY, _of_published(pair, groups, ours, threshold or alpha, alpha))


def _result(agreement: str, reasons: list[str]) -> dict[str, Any]:
    return {"agreement": agreement, "reasons": reasons, "why": "; ".join(REASONS[code] for code in reasons)}


def _of_both(pair: PairDisparity, ours: DisparityRow) -> list[str]:
    reasons = []
    if pair.disparity is None:
        reasons.append("negative")
    elif pair.disparity == 0:
        reasons.append("same_medians")
    if (pair.worst, pair.best) != (ours.worst_group, ours.best_group):
        reasons.append("other_groups")
    return reasons


def _of_published(
    pair: PairDisparity, groups: Mapping[str, GroupScores], ours: DisparityRow, threshold: float, alpha: float
) -> list[str]:
    reasons = []
    if p_of_subject_means(groups, pair) >= threshold:
        reasons.append("images_as_people")
    elif ours.p_value is not None and ours.p_value <= alpha:
        reasons.append("family")
    difference = abs(float(groups[pair.best].subject_means.mean() - groups[pair.worst].subject_means.mean()))
    if difference < ours.smallest_effect:
        reasons.append("small")
    return reasons or ["other_test"]
