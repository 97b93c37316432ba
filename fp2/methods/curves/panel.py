"""Outcomes x estimators x least group sizes as one panel of tests, from the same permutations of the subjects.

Specifications of one claim analyse the same answers, so that their estimates are correlated, and a count of significant
ones proves nothing by itself. `curve_test` tests a specification curve as a whole (Simonsohn, Simmons and Nelson 2020,
Nature Human Behaviour 4, 1208-1214): their joint distribution without any difference is that under permutation of the
group labels across subjects, the same permutation for every specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import (
    OK,
    TIE,
    TOO_FEW,
    UNINFORMATIVE,
    DisparityRow,
    Entries,
    FloatArray,
    IntArray,
    Panel,
    PanelSettings,
    cell_means,
    count_and_sum,
    permutation_p,
    prepare,
    read_entries,
    shrunken_range,
)
from fp2.methods.adjusted.model import Design
from fp2.methods.curves.estimators import (
    ADJUSTED,
    IMAGES,
    SUBJECTS,
    AdjustedMeans,
    Estimator,
    Found,
    GroupMeans,
    draws,
)

Adjustment = Callable[[Sequence[str]], tuple[Design, np.ndarray]]
"""Returns what is known of the subjects named, and who has all covariates."""


class SpecifiedTest(NamedTuple):
    """One outcome (a column), tested by one estimator over the groups of at least `least` subjects."""

    outcome: int
    estimator: str
    least: int


@dataclass(frozen=True)
class SpecifiedPanel:
    """A panel of tests: its rows in the order of the tests, and the group means of each test."""

    tests: Sequence[SpecifiedTest]
    panel: Panel
    means: list[dict[str, float]]

    def part(self, places: Sequence[int]) -> Panel:
        """Return the panel of some tests."""
        p, chosen = self.panel, list(places)
        return Panel(
            [p.rows[k] for k in chosen],
            p.max_t[chosen],
            p.raw_permuted[:, chosen],
            p.max_t_permuted[:, chosen],
            p.influence[:, chosen],
        )


@dataclass(frozen=True)
class Statistics:
    """Tests as observed, and their gaps and |T| under the joint permutations, (B, tests) each."""

    estimators: Mapping[str, Estimator]
    found: list[Found]
    gaps: FloatArray
    permuted: FloatArray


def joint_statistics(
    entries: Entries,
    names: Sequence[str],
    tests: Sequence[SpecifiedTest],
    *,
    yes_no: Sequence[bool],
    settings: PanelSettings,
    adjustment: Adjustment | None = None,
    tick: Callable[[float], None] = lambda share: None,
) -> Statistics | None:
    """Return the statistics of every test; None if fewer than two groups are large enough for any.

    Parameters are those of `specification_panel`; `names` are the subjects in the order of their codes in `entries`.
    """
    p = prepare(entries, cell_means(entries), min(test.least for test in tests))
    if p is None:
        return None
    binary = np.asarray(yes_no, dtype=bool)
    kinds, estimators = {test.estimator for test in tests}, dict[str, Estimator]()
    for name in (SUBJECTS, IMAGES):
        if name in kinds:
            estimators[name] = GroupMeans(p, entries, binary, by_image=name == IMAGES)
    if ADJUSTED in kinds:
        if adjustment is None:
            raise ValueError("an adjusted test needs covariates")
        estimators[ADJUSTED] = AdjustedMeans(_subject_means(entries), *adjustment(names))
    b_all = settings.n_permutations
    raw, t = np.full((b_all, len(tests)), np.nan), np.full((b_all, len(tests)), np.nan)
    places = {name: [k for k, test in enumerate(tests) if test.estimator == name] for name in estimators}
    start = 0
    for draw in draws(p, len(names), b_all, settings.seed):
        b = len(draw.given)
        for name, estimator in estimators.items():
            wanted = [(tests[k].outcome, tests[k].least) for k in places[name]]
            raw[start : start + b, places[name]], t[start : start + b, places[name]] = estimator.permuted(draw, wanted)
        start += b
        tick(b / b_all)
    found = [estimators[test.estimator].observed(test.outcome, test.least) for test in tests]
    return Statistics(estimators, found, raw, t)


def specification_panel(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    images: ArrayLike,
    tests: Sequence[SpecifiedTest],
    *,
    smallest_effects: Sequence[float],
    yes_no: Sequence[bool],
    settings: PanelSettings,
    adjustment: Adjustment | None = None,
    tick: Callable[[float], None] = lambda share: None,
) -> SpecifiedPanel:
    """Run every test.

    Parameters
    ----------
    values : (n, m)
        One line per (image, group), one column per outcome; NaN = missing.
    groups, subjects, images : (n,)
    tests : sequence of SpecifiedTest
    smallest_effects, yes_no
        One per outcome: smallest effect of interest, and whether all its values are 0 or 1.
    adjustment : callable, optional
        Returns the design of the subjects named (and who has all covariates), for tests with covariates held constant.
    tick : callable
        Called with the share of the permutations that a batch was.

    Raises
    ------
    ValueError
        As `fp2.stats.disparities.disparity_panel`.
    """
    entries = read_entries(values, groups, subjects, images)
    names = [str(name) for name in np.unique(np.asarray(subjects).astype(str))]
    joint = joint_statistics(entries, names, tests, yes_no=yes_no, settings=settings, adjustment=adjustment, tick=tick)
    if joint is None:
        tick(1.0)
        return _nothing(entries, tests, smallest_effects, settings.n_permutations)
    spread, influence = _spread(entries), np.zeros((len(names), len(tests)))
    rows = []
    for k, (one, test) in enumerate(zip(joint.found, tests, strict=True)):
        influence[: len(one.influence), k] = one.influence
        estimator, smallest = joint.estimators[test.estimator], smallest_effects[test.outcome]
        rows.append(_row(one, test, estimator, joint.permuted[:, k], smallest, spread[test.outcome], settings))
    panel = Panel(rows, np.array([one.max_t for one in joint.found]), joint.gaps, joint.permuted, influence)
    return SpecifiedPanel(tests, panel, [one.means for one in joint.found])


def _subject_means(entries: Entries) -> FloatArray:
    """Return the mean of each subject over its images, (S, m); an image in several groups counts once."""
    first: IntArray = np.unique(entries.subject_image, return_index=True)[1]
    count, total = count_and_sum(entries.subject[first], int(entries.subject.max()) + 1, entries.values[first])
    means: FloatArray = total / np.where(count > 0, count, np.nan)
    return means


def _spread(entries: Entries) -> list[float]:
    """Return the range of the values of each outcome; NaN where there is none."""
    high, low = (extreme.reduce(entries.values, axis=0, initial=np.nan) for extreme in (np.fmax, np.fmin))
    spread: list[float] = (high - low).tolist()
    return spread


def _row(
    found: Found,
    test: SpecifiedTest,
    estimator: Estimator,
    permuted: FloatArray,
    smallest: float,
    spread: float,
    settings: PanelSettings,
) -> DisparityRow:
    """Return the row of one test, without the numbers that no specification curve shows."""
    none = _untested(smallest, found.n_subjects, settings.n_permutations, found.status)
    if not np.isfinite(spread) or spread <= 1e-12:
        return replace(none, status=UNINFORMATIVE)
    if found.status != OK:
        return none
    gap = estimator.test(test.outcome, test.least, permuted)
    if gap is None:
        return replace(none, status=TOO_FEW)
    means, alpha = np.array(list(found.means.values())), settings.alpha
    shrunken = shrunken_range(means, found.errors)
    return replace(
        none,
        status=OK,
        raw=found.raw,
        max_t=found.max_t,
        p_value=permutation_p(found.max_t, permuted),
        shrunken=shrunken,
        ci_low=min(gap.low(alpha), found.raw),
        ci_high=max(gap.high(alpha), found.raw),
        minimum_effect_p=gap.exceeds_p(smallest),
        equivalence_p=gap.equivalence_p(smallest),
        test=gap,
    )


def _nothing(
    entries: Entries, tests: Sequence[SpecifiedTest], smallest_effects: Sequence[float], n_permutations: int
) -> SpecifiedPanel:
    """Return tests of which none could be made, since fewer than two groups are large enough."""
    spread, nothing = _spread(entries), np.full((n_permutations, len(tests)), np.nan)
    rows = [
        _untested(
            smallest_effects[test.outcome],
            0,
            n_permutations,
            TOO_FEW if np.isfinite(spread[test.outcome]) else UNINFORMATIVE,
        )
        for test in tests
    ]
    panel = Panel(rows, np.full(len(tests), np.nan), nothing, nothing.copy(), np.zeros((0, len(tests))))
    return SpecifiedPanel(tests, panel, [{} for _ in tests])


def _untested(smallest: float, n_subjects: int, n_permutations: int, status: str) -> DisparityRow:
    return DisparityRow(
        dependent_groups=False,
        smallest_effect=smallest,
        n_images=0,
        n_subjects=n_subjects,
        n_missing=0,
        n_permutations=n_permutations,
        status=status,
        groups=(),
    )


@dataclass(frozen=True)
class CurveTest:
    """Median gap and share of significant specifications, their means under permutation, and the joint p-values.

    `median_p` tests the median of the specifications' p-values, not that of the gaps: a gap is not studentised, so that
    a small group with a larger spread than the others would be found to differ.
    """

    median: float
    median_null: float
    median_p: float
    share: float
    share_null: float
    share_p: float


def p_values(observed: FloatArray, permuted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the p-values of statistics: as observed (s,), and under each permutation (B, s).

    Each value is ranked among the observed one and all permuted ones, so that observed and permuted statistics are
    judged by one rule: p = #{T >= t} / (B + 1) for all B + 1 of them. NaN counts as the largest.
    """
    pooled = np.concatenate([observed[None], permuted])
    pooled = np.where(np.isnan(pooled), np.inf, pooled)
    total, out = len(pooled), np.empty(pooled.shape)
    for k in range(pooled.shape[1]):
        known = np.isfinite(pooled[:, k])
        least = np.where(known, pooled[:, k] - TIE * (1 + np.abs(np.where(known, pooled[:, k], 0.0))), np.inf)
        out[:, k] = (total - np.searchsorted(np.sort(pooled[:, k]), least, side="left")) / total
    return out[0], out[1:]


def curve_test(
    effects: FloatArray, permuted_effects: FloatArray, statistics: FloatArray, permuted: FloatArray, alpha: float = 0.05
) -> CurveTest:
    """Test a curve of s specifications.

    Parameters
    ----------
    effects, permuted_effects : (s,), (B, s)
        Effects in a unit that all specifications share, as observed and under the joint permutations.
    statistics, permuted : (s,), (B, s)
        The statistics whose permutation p-values are tested jointly; p <= `alpha` is significant.

    Raises
    ------
    ValueError
        Without a specification, or for other shapes.
    """
    s = len(effects)
    shapes = {permuted_effects.shape, permuted.shape}
    if not s or len(statistics) != s or len(shapes) > 1 or permuted.shape[1] != s:
        raise ValueError(f"need (s,) and (B, s) for s >= 1, got {effects.shape}, {statistics.shape} and {shapes}")
    p, p_permuted = p_values(statistics, permuted)
    share, shares = float((p <= alpha + 1e-9).mean()), (p_permuted <= alpha + 1e-9).mean(axis=1)
    gaps = np.median(np.where(np.isnan(permuted_effects), np.inf, permuted_effects), axis=1)
    return CurveTest(
        median=float(np.median(effects)),
        median_null=float(gaps.mean()),
        median_p=permutation_p(-float(np.median(p)), -np.median(p_permuted, axis=1)),
        share=share,
        share_null=float(shares.mean()),
        share_p=permutation_p(share, shares),
    )
