"""Where the published column and ours disagree, and why: the reasons are checked on the data, not guessed.

The two ask different things. The published one takes every picture for an independent person, compares medians pair by
pair and corrects within one attribute; ours takes means over people, permutes whole people and corrects over all
attributes of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.published import GroupScores, PairDisparity, person_level

if TYPE_CHECKING:
    from fp2.stats.rows import DisparityRow

BOTH, NEITHER, PUBLISHED_ONLY, OURS_ONLY, NOT_COMPARED = "both", "neither", "published_only", "ours_only", "none"

REASONS = {
    "images_as_people": "counting each person once, the same pair does not reach the published threshold",
    "family": "ours is significant alone, not after the correction over all cuts",
    "small": "the means of the two groups differ by less than the smallest effect: medians of coarse scores jump",
    "other_test": "pairs of medians against the largest gap of means: the tests differ, the data decide nothing here",
    "same_medians": "the pair differs by ranks, but both medians are the same, so its disparity is 0",
    "negative": "scores below 0: the published disparity does not exist",
    "strict_pairs": "no single pair passes Bonferroni's threshold over all pairs",
    "other_groups": "both find a difference, between other groups",
    "nobody": "nobody has a value of it",
    "too_few": "fewer than two groups have enough people",
    "constant": "everybody has the same score",
}
"""Code -> what is said of a disagreement."""


def compare(
    pair: PairDisparity | None, groups: Mapping[str, GroupScores], ours: DisparityRow, *, threshold: float | None,
    alpha: float, yes_no: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return `agreement` (both, neither, published_only, ours_only, none), `reasons` (codes) and `why` (words).

    `pair` is the published pair of highest disparity, `ours` a row with its verdict.
    """
    theirs = pair is not None
    if ours.status != "ok" and not theirs:
        code = "nobody" if not ours.n_subjects else "too_few" if len(groups) < 2 else "constant"
        return _said(NOT_COMPARED, [code])
    if theirs and ours.significant:
        return _said(BOTH, _of_both(pair, ours))
    if theirs:
        return _said(PUBLISHED_ONLY, _of_published(pair, groups, ours, threshold or alpha, alpha))
    if ours.significant:
        return _said(OURS_ONLY, ["strict_pairs"])
    return _said(NEITHER, [])


def _said(agreement: str, reasons: list[str]) -> dict[str, Any]:
    return {"agreement": agreement, "reasons": reasons, "why": "; ".join(REASONS[code] for code in reasons)}


def _of_both(pair: PairDisparity | None, ours: DisparityRow) -> list[str]:
    assert pair is not None
    reasons = []
    if pair.disparity is None:
        reasons.append("negative")
    elif pair.disparity == 0:
        reasons.append("same_medians")
    if (pair.worst, pair.best) != (ours.worst_group, ours.best_group):
        reasons.append("other_groups")
    return reasons


def _of_published(
    pair: PairDisparity | None, groups: Mapping[str, GroupScores], ours: DisparityRow, threshold: float, alpha: float
) -> list[str]:
    assert pair is not None
    reasons = []
    if person_level(groups, pair) >= threshold:
        reasons.append("images_as_people")
    elif ours.p_value is not None and ours.p_value <= alpha:
        reasons.append("family")
    gap = abs(float(groups[pair.best].subject_means.mean() - groups[pair.worst].subject_means.mean()))
    if gap < ours.smallest_effect:
        reasons.append("small")
    return reasons or ["other_test"]
