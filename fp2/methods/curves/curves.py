"""The curves of one cut: its specifications tested with the same permutations, claim by claim.

A claim is a probe, or the composite of all probes. Within a specification the probes and the composite are one family,
at the share of alpha that the run gives its primary scorer, divided by the number of cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import shares
from fp2.methods.adjusted.disparities import design_of
from fp2.methods.curves.choices import IMAGES, Outcomes, Specification

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import ComparedRun, Cut, DisparityRow, FloatArray, Panel
    from fp2.methods.curves.panel import SpecifiedPanel, SpecifiedTest

COMPOSITE = "composite"
OK = "ok"
NOT_SCORED, INCOMPLETE, SAME_DATA = "not_scored", "incomplete", "same_data"
"""Of points that do not count: no score for the probe (or for all), no test for all probes, and the data and test of
another specification."""
SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not_significant"


@dataclass(frozen=True)
class Point:
    """One specification of one claim; sizes in multiples of the scorer's smallest effect of interest.

    `gap`: max - min of the group means (of a composite their mean), above 0 by chance alone. `estimate`: corrected for
    noise, as the run reports it: `shrunken` of a row, the magnitude of a composite, with their intervals.
    """

    status: str
    gap: float | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    verdict: str | None = None
    same_direction: bool | None = None
    image_p: float | None = None


@dataclass(frozen=True)
class Curve:
    """One claim under every specification: a point each, and the gap and |T| of the computed ones under permutation."""

    claim: str
    points: list[Point]
    statistics: FloatArray
    permuted_gaps: FloatArray
    permuted: FloatArray


def curves_of(
    run: ComparedRun,
    cut: Cut,
    specifications: Sequence[Specification],
    outcomes: Outcomes,
    table: pd.DataFrame,
    probes: Sequence[str],
    n_permutations: int,
    tick: Callable[[float], None],
) -> list[Curve]:
    """Return the curve of every probe, and of the composite where there are several."""
    from fp2.methods.curves.panel import specification_panel

    tests, places = _tests(specifications, outcomes, probes)
    values, c = outcomes.values(table), run.comparison
    covariates = next((s.covariates for s in specifications if s.covariates), ())

    def adjustment(names: Sequence[str]) -> Any:
        return design_of(run, cut, covariates, table, list(names))

    tested = specification_panel(
        values,
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        table["image_id"].to_numpy(dtype=object),
        tests,
        smallest_effects=[run.scorers[name].smallest_effect for name in outcomes.scorers],
        yes_no=outcomes.yes_no(run, values),
        settings=replace(c, n_permutations=n_permutations),
        adjustment=adjustment,
        tick=tick,
    )
    images = _ImageTests(table, values)
    points: dict[str, list[Point]] = {claim: [] for claim in (*probes, COMPOSITE)}
    for specification, own in zip(specifications, places, strict=True):
        _add_points(points, run, cut, specification, own, tested, images)
    if len(probes) < 2:
        del points[COMPOSITE]
    chosen = {claim: _chosen(claim, places) for claim in points}
    return [
        _curve(claim, _once(found, chosen[claim]), specifications, chosen[claim], tested, run)
        for claim, found in points.items()
    ]


def _tests(
    specifications: Sequence[Specification], outcomes: Outcomes, probes: Sequence[str]
) -> tuple[list[SpecifiedTest], list[dict[str, int]]]:
    """Return the distinct tests, and for every specification the place of each probe's test."""
    from fp2.methods.curves.estimators import ADJUSTED
    from fp2.methods.curves.panel import SpecifiedTest

    known: dict[SpecifiedTest, int] = {}
    places = []
    for specification in specifications:
        own = {}
        for probe in probes:
            if (column := outcomes.place(specification, probe)) is not None:
                test = SpecifiedTest(
                    column, ADJUSTED if specification.covariates else specification.unit, specification.min_subjects
                )
                own[probe] = known.setdefault(test, len(known))
        places.append(own)
    return list(known), places


class _ImageTests:
    """Kruskal-Wallis tests that take images as independent, which they are not: for comparison only."""

    def __init__(self, table: pd.DataFrame, values: np.ndarray) -> None:
        sizes = table.groupby("group")["subject_id"].nunique()
        self._sizes = {str(group): int(size) for group, size in sizes.items()}
        self._rows = {group: (table["group"] == group).to_numpy() for group in self._sizes}
        self._values = values

    def p_value(self, column: int, least: int) -> float | None:
        """Return the p-value of one outcome over the groups of at least `least` subjects."""
        import numpy as np

        from fp2.extension import kruskal_wallis

        samples = [self._values[rows, column] for group, rows in self._rows.items() if self._sizes[group] >= least]
        samples = [known for sample in samples if len(known := sample[np.isfinite(sample)]) > 1]
        return kruskal_wallis(samples)[1] if len(samples) > 1 else None


def _add_points(
    points: dict[str, list[Point]],
    run: ComparedRun,
    cut: Cut,
    specification: Specification,
    own: dict[str, int],
    tested: SpecifiedPanel,
    images: _ImageTests,
) -> None:
    """Add the point of one specification to every curve."""
    from fp2.extension import composite_test

    panel = tested.part(list(own.values()))
    part = _share(run) / len(run.cuts)
    m = len(own)
    rows = dict(zip(own, _decided(panel, part * m / (m + 1), run), strict=True))
    primary = run.comparison.primary
    by_probe = {row["probe"]: row for row in run.disparities if (row["scorer"], row["cut"]) == (primary, cut.name)}
    higher = run.scorers[specification.scorer].higher_is_better
    for claim in points:
        if claim == COMPOSITE:
            continue
        if claim not in own:
            points[claim].append(Point(NOT_SCORED))
            continue
        same = _same_direction(by_probe.get(claim), tested.means[own[claim]], higher)
        image_p = None
        if specification.unit == IMAGES:
            test = tested.tests[own[claim]]
            image_p = images.p_value(test.outcome, test.least)
        points[claim].append(_row_point(rows[claim], same, image_p))
    incomplete = len(own) < len(points) - 1 or any(row.status != OK for row in rows.values())
    if incomplete:
        points[COMPOSITE].append(Point(NOT_SCORED if len(own) < len(points) - 1 else INCOMPLETE))
        return
    found = composite_test(panel, range(m), run.comparison.alpha)
    unit = run.scorers[specification.scorer].smallest_effect
    p = found.p_value
    level = min(1.0, p * (m + 1) / part) if p is not None else None
    points[COMPOSITE].append(
        Point(
            OK,
            _over(found.value, unit),
            _over(found.magnitude, unit),
            _over(found.magnitude_low, unit),
            _over(found.magnitude_high, unit),
            p,
            SIGNIFICANT if level is not None and level <= run.comparison.alpha else NOT_SIGNIFICANT,
        )
    )


def _share(run: ComparedRun) -> float:
    """Return the share of alpha of the tests of the primary scorer."""
    if run.comparison.correction == "none":
        return 1.0
    names, primary = list(run.scorers), run.comparison.primary
    return sum(part for name, part in zip(names, shares(names, run.comparison), strict=True) if name == primary)


def _decided(panel: Panel, part: float, run: ComparedRun) -> list[DisparityRow]:
    """Return the rows of one specification with their verdicts, corrected by step-down max-T over its probes."""
    from fp2.extension import decide, step_down

    every, alpha = range(len(panel.rows)), run.comparison.alpha

    def corrected(p_values: Sequence[float | None]) -> list[float | None]:
        return [None if p is None else min(1.0, p / part) for p in p_values]

    rows = [
        replace(row, equivalence_p=None if row.equivalence_p is None else min(1.0, row.equivalence_p / part))
        for row in panel.rows
    ]
    if run.comparison.correction == "none":
        adjusted, larger = ([getattr(row, name) for row in rows] for name in ("p_value", "minimum_effect_p"))
        method = "none"
    else:
        adjusted = corrected(step_down([panel], every))
        larger = corrected(step_down([panel], every, minimum_effect=True))
        method = "holm"
    return decide(rows, adjusted, larger, [alpha * part / len(rows)] * len(rows), method=method, alpha=alpha)


def _same_direction(row: Any, means: dict[str, float], higher_is_better: bool) -> bool | None:
    """Return whether the worst group of the run's row ranks below its best one; None where one is not compared."""
    worst, best = (means.get(row[name]) for name in ("worst_group", "best_group")) if row else (None, None)
    if worst is None or best is None:
        return None
    return (best > worst) == higher_is_better


def _row_point(row: DisparityRow, same: bool | None, image_p: float | None) -> Point:
    if row.status != OK:
        return Point(row.status)
    gap, estimate, low, high = (_over(x, row.smallest_effect) for x in (row.raw, row.shrunken, row.ci_low, row.ci_high))
    return Point(OK, gap, estimate, low, high, row.p_value, row.verdict, same, image_p)


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _chosen(claim: str, places: Sequence[dict[str, int]]) -> list[tuple[int, ...]]:
    """Return the tests behind one claim, for every specification."""
    if claim == COMPOSITE:
        return [tuple(own.values()) for own in places]
    return [(own[claim],) if claim in own else () for own in places]


def _once(points: Sequence[Point], chosen: Sequence[tuple[int, ...]]) -> list[Point]:
    """Return the points; of several from the same tests only the first counts."""
    seen: set[tuple[int, ...]] = set()
    out = []
    for point, tests in zip(points, chosen, strict=True):
        out.append(replace(point, status=SAME_DATA) if point.status == OK and tests in seen else point)
        seen.add(tests)
    return out


def _curve(
    claim: str,
    points: list[Point],
    specifications: Sequence[Specification],
    chosen: Sequence[tuple[int, ...]],
    tested: SpecifiedPanel,
    run: ComparedRun,
) -> Curve:
    """Return a curve with the gaps and |T| under permutation of the specifications that count."""
    import numpy as np

    statistics, gaps, permuted = [], [], []
    for point, specification, tests in zip(points, specifications, chosen, strict=True):
        if point.status != OK:
            continue
        unit = run.scorers[specification.scorer].smallest_effect
        panel = tested.part(tests)
        statistics.append(panel.max_t.mean())
        gaps.append(panel.raw_permuted.mean(axis=1) / unit)
        permuted.append(panel.max_t_permuted.mean(axis=1))
    n = len(tested.panel.max_t_permuted)
    columns = (np.stack(part, axis=1) if part else np.zeros((n, 0)) for part in (gaps, permuted))
    return Curve(claim, points, np.array(statistics), *columns)
