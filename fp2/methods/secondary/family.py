"""Tests of a secondary analysis: outcomes of a block by all cuts, as one family of its own (step-down max-T)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import ComparedRun, Outcome, entries_of, members, outcomes_in

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import DisparityRow

PERMUTATIONS = 4_000
"""Step-down max-T needs no more for a larger family; the Monte-Carlo error of an adjusted p of 0.05 is 0.003."""


def n_permutations(run: ComparedRun) -> int:
    """Return the number of permutations of a secondary analysis."""
    return min(PERMUTATIONS, run.comparison.n_permutations)


def rate(smallest_effect: float, *, higher_is_better: bool = False) -> Outcome:
    """Return a yes/no outcome."""
    return Outcome(
        higher_is_better=higher_is_better, value_range=(0.0, 1.0), bins=2, yes_no=True, smallest_effect=smallest_effect
    )


@dataclass(frozen=True)
class TestedOutcome:
    """A column by one cut: the corrected row, and the values (n,) and images (n,) of its entries."""

    column: int
    cut: str
    row: DisparityRow
    values: np.ndarray
    images: np.ndarray


def tested(run: ComparedRun, columns: pd.DataFrame, outcomes: Sequence[Outcome]) -> list[TestedOutcome]:
    """Test every column of `columns`, (image, subject) x outcome, by every cut of the run.

    Returns
    -------
    list of TestedOutcome
        Cut by cut, with `adjusted_p`, `significant` and `verdict` of the family of all of them.
    """
    from fp2.extension import decide, disparity_panel, step_down

    settings = replace(run.comparison, n_permutations=n_permutations(run), n_bootstrap=0)
    entries = {cut.name: entries_of(columns, members(run.people, cut)) for cut in run.cuts}
    panels = [
        disparity_panel(e.values, e.groups, e.subjects, outcomes_in(e.values, outcomes), settings, images=e.images)
        for e in entries.values()
    ]
    rows = [row for panel in panels for row in panel.rows]
    indices, alpha = range(len(rows)), settings.alpha
    equal, smaller = step_down(panels, indices), step_down(panels, indices, minimum_effect=True)
    decided = iter(decide(rows, equal, smaller, [alpha / max(len(rows), 1)] * len(rows), alpha=alpha))
    return [
        TestedOutcome(j, cut, next(decided), e.values[:, j], e.images)
        for cut, e in entries.items()
        for j in range(len(outcomes))
    ]


def group_means(row: DisparityRow, name: str) -> list[dict[str, Any]]:
    """Return each group's mean over subjects under `name`, each one's images averaged first."""
    return [
        {"group": group.group, "n_subjects": group.n_subjects, name: group.mean}
        for group in row.groups
        if group.mean is not None
    ]
