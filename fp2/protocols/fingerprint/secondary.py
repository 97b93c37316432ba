"""Tests of a secondary analysis: outcomes of a block by all cuts, as one family of its own (step-down max-T)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.scorers.outcomes import OutcomeArrays, entries_of, members, value_ranges, yes_no_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.stats.rows import DisparityRow, Panel

PERMUTATIONS = 4_000
"""Step-down max-T needs no more for a larger family; the Monte-Carlo error of an adjusted p of 0.05 is 0.003."""


def n_permutations(run: ComparedRun) -> int:
    """Return the number of permutations of a secondary analysis."""
    return min(PERMUTATIONS, run.comparison.n_permutations)


@dataclass(frozen=True)
class Outcome:
    """What a column of a secondary analysis is: its scale, its smallest effect of interest, and its direction."""

    smallest_effect: float
    scale: tuple[float, float] = (0.0, 1.0)
    yes_no: bool = True
    higher_is_better: bool = False


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
    from fp2.stats.adjustment import decide, step_down

    panels: list[Panel] = []
    found: list[tuple[str, OutcomeArrays]] = []
    for cut in run.cuts:
        entries = entries_of(columns, members(run.people, cut))
        panels.append(_panel(entries, outcomes, run))
        found.append((cut.name, entries))
    m = len(outcomes)
    every, alpha = range(m * len(found)), run.comparison.alpha
    decided = decide(
        [row for panel in panels for row in panel.rows],
        step_down(panels, every),
        step_down(panels, every, minimum_effect=True),
        [alpha / max(len(every), 1)] * len(every),
        alpha=alpha,
    )
    return [
        TestedOutcome(j, cut, decided[k * m + j], entries.values[:, j], entries.images)
        for k, (cut, entries) in enumerate(found)
        for j in range(m)
    ]


def _panel(entries: OutcomeArrays, outcomes: Sequence[Outcome], run: ComparedRun) -> Panel:
    from fp2.stats.disparities import disparity_panel

    return disparity_panel(
        entries.values, entries.groups, entries.subjects, images=entries.images,
        higher_is_better=[one.higher_is_better for one in outcomes],
        value_ranges=value_ranges(entries.values, [one.scale for one in outcomes]), bins=2,
        yes_no=yes_no_columns(entries.values, [one.yes_no for one in outcomes]),
        smallest_effects=[one.smallest_effect for one in outcomes], n_permutations=n_permutations(run), n_bootstrap=0,
        seed=run.comparison.seed, alpha=run.comparison.alpha, min_subjects=run.comparison.min_subjects,
    )  # fmt: skip


def group_means(row: DisparityRow, name: str) -> list[dict[str, Any]]:
    """Return each group's mean over subjects under `name`, each one's images averaged first."""
    return [
        {"group": group.group, "n_subjects": group.n_subjects, name: group.mean}
        for group in row.groups
        if group.mean is not None
    ]
