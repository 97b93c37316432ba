"""Yes/no outcomes in FHIBE's pairwise analysis: shares in place of medians, which would be 0 or 1.

Shares are means over people of each person's own share; their intervals know that several pictures come from one
person (`fp2.stats.proportions`). The interval of a ratio of two shares combines those of the two (MOVER:
Donner and Zou 2012, Statistics in Medicine 31, section 2.2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from fp2.stats.proportions import Proportion


def shares_block(values: np.ndarray, groups: np.ndarray, subjects: np.ndarray, *, alpha: float, min_subjects: int,
                 worst: str | None, best: str | None) -> dict[str, Any]:  # fmt: skip
    """Return each group's share with its interval, and difference and ratio of the pair (worst, best) with theirs.

    values (0, 1 or NaN), groups, subjects (n,), one entry per (image, group).
    """
    from fp2.stats.proportions import proportions_by_group

    found = proportions_by_group(values, groups, subjects, alpha=alpha, min_subjects=min_subjects)
    by_name = {group.group: group for group in found.groups}
    rows = [
        {"group": g.group, "share": g.rate, "ci_low": g.ci_low, "ci_high": g.ci_high, "n_subjects": g.n_subjects,
         "n_images": g.n_images}
        for g in found.groups
    ]  # fmt: skip
    if worst not in by_name or best not in by_name:
        return {"groups": rows, "pair": None}
    a, b = by_name[str(worst)], by_name[str(best)]
    gap = next(pair for pair in found.pairs if {pair.first, pair.second} == {worst, best})
    turn = gap.first != worst
    low, high = ratio_interval(a, b)
    return {
        "groups": rows,
        "pair": {
            "worst": worst,
            "best": best,
            "difference": -gap.difference if turn else gap.difference,
            "difference_low": -gap.ci_high if turn else gap.ci_low,
            "difference_high": -gap.ci_low if turn else gap.ci_high,
            "ratio": a.rate / b.rate if b.rate > 0 else None,
            "ratio_low": low,
            "ratio_high": high,
            "dependent_groups": gap.dependent_groups,
        },
    }


def ratio_interval(a: Proportion, b: Proportion) -> tuple[float | None, float | None]:
    """Return the interval of a.rate / b.rate from the two intervals; None for an end that does not exist.

    The groups are taken as independent. With b's interval reaching 0 the ratio has no upper end.
    """
    if b.rate <= 0:
        return None, None
    if a.rate <= 0:
        return 0.0, a.ci_high / b.ci_low if b.ci_low > 0 else None
    product = a.rate * b.rate
    below = a.ci_low * (2 * a.rate - a.ci_low)
    low = below / (product + math.sqrt(max(0.0, product**2 - below * b.ci_high * (2 * b.rate - b.ci_high))))
    under = b.ci_low * (2 * b.rate - b.ci_low)
    above = product**2 - a.ci_high * (2 * a.rate - a.ci_high) * under
    return low, (product + math.sqrt(max(0.0, above))) / under if under > 0 else None
