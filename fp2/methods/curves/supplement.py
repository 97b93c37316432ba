"""The block `multiverse`: would another analyst find the same?

Every claim of the primary scorer (a probe or the composite, by one cut) is tested under all specifications: every
combination of the choices that an analyst could defend. The specification curve orders their estimates (Simonsohn,
Simmons and Nelson 2020); the joint tests say whether so many significant specifications, or so small a median p-value,
would be expected if no group differed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fp2.extension import ComparedRun, Supplement, members
from fp2.methods.curves.choices import Choices, choices_of, outcomes_of
from fp2.methods.curves.curves import COMPOSITE, OK, SAME_DATA, Curve, Point, curves_of

if TYPE_CHECKING:
    from fp2.extension import Config

PERMUTATIONS = 1_999
"""The Monte-Carlo error of a p of 0.05 is 0.005; more where the family of joint tests needs them."""
STEPS = 20
"""Ticks of each cut."""
IMAGES_NOTE = (
    "Specifications with images as units weight images equally; their p-value still permutes subjects. A test that "
    "takes images of one subject as independent is not valid; its p-value (image_p) is given for comparison only."
)
DIGITS = 6


class Multiverse(Supplement):
    """The specification curve of every claim of the primary scorer."""

    def n_steps(self, config: Config, n_cuts: int) -> int:
        """Return `STEPS` a cut, where the curve is wanted."""
        return STEPS * n_cuts if config.analysis.multiverse else 0

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `multiverse`, or None without `analysis.multiverse` or any disparity."""
        from fp2.extension import adjust_p_values

        primary = run.comparison.primary
        if not run.config.analysis.multiverse or not run.disparities or run.battery.people != 1:
            return None
        probes = list(dict.fromkeys(row["probe"] for row in run.disparities if row["scorer"] == primary))
        tables = {cut.name: members(run.people, cut) for cut in run.cuts}
        choices = {cut.name: choices_of(run, cut, tables[cut.name]) for cut in run.cuts}
        tests = 2 * (len(probes) + (len(probes) > 1)) * len(run.cuts)  # as many permutations as their family needs
        n = min(max(PERMUTATIONS, math.ceil(2 * tests / run.comparison.alpha)), run.comparison.n_permutations)
        outcomes = outcomes_of(
            run, [specification for choice in choices.values() for specification in choice.specifications]
        )
        cuts, rows = [], []
        for cut in run.cuts:
            choice, table = choices[cut.name], tables[cut.name]
            curves = curves_of(run, cut, choice.specifications, outcomes, table, probes, n, _ticks(run.tick))
            cuts.append(
                {
                    "cut": cut.name,
                    "n_possible": choice.n_possible,
                    "choices": {name: [_plain(level) for level in levels] for name, levels in choice.levels().items()},
                    "specifications": [specification.to_dict() for specification in choice.specifications],
                }
            )
            rows += [_row(run, cut.name, curve, choice) for curve in curves]
        names = [(row, name) for row in rows for name in ("median_p", "share_p")]
        adjusted = adjust_p_values([row[name] for row, name in names])
        for (row, name), p in zip(names, adjusted, strict=True):
            row[f"adjusted_{name}"] = p
        return {
            "method": "specification curve; joint permutation tests over subjects, the same permutations for every one",
            "scorer": primary,
            "unit": "multiples of the smallest effect of interest of each scorer",
            "alpha": run.comparison.alpha,
            "n_permutations": n,
            "seed": run.comparison.seed,
            "family": "both joint tests of all curves of the block, Holm",
            "notes": [IMAGES_NOTE],
            "warnings": _too_few(n, 2 * len(rows), run.comparison.alpha),
            "cuts": cuts,
            "rows": rows,
        }


def _too_few(n: int, family: int, alpha: float) -> list[str]:
    """Return a warning where no joint test can be significant."""
    if family <= alpha * (n + 1):
        return []
    return [
        f"With {n} permutations no joint test of a family of {family} can be significant: raise analysis.permutations "
        f"to {math.ceil(family / alpha)}."
    ]


def _ticks(tick: Callable[[], None]) -> Callable[[float], None]:
    """Return a function that turns shares of the work into `STEPS` ticks."""
    done = [0.0, 0.0]

    def advance(share: float) -> None:
        done[0] += share * STEPS
        while done[1] < math.floor(done[0] + 1e-9):
            tick()
            done[1] += 1

    return advance


def _row(run: ComparedRun, cut: str, curve: Curve, choices: Choices) -> dict[str, Any]:
    """Return one curve: its joint tests, what the specifications conclude, and every point."""
    import numpy as np

    from fp2.methods.curves.panel import curve_test

    points, alpha = curve.points, run.comparison.alpha
    computed = [point for point in points if point.status == OK]
    row: dict[str, Any] = {
        "cut": cut,
        "probe": None if curve.claim == COMPOSITE else curve.claim,
        "verdict": _verdict(run, cut, curve),
        "n_specifications": len(points),
        "n_computed": len(computed),
        "not_computed": _counts(point.status for point in points if point.status != OK),
        "verdicts": _counts(point.verdict for point in computed),
        "n_same_verdict": None,
        "n_same_direction": sum(point.same_direction is True for point in computed),
        "n_compared_direction": sum(point.same_direction is not None for point in computed),
        **dict.fromkeys(("median_estimate", "median_gap", "median_gap_null", "median_p", "share_significant")),
        **dict.fromkeys(("share_significant_null", "share_p", "adjusted_median_p", "adjusted_share_p")),
        "by_choice": {},
        "points": [_point(point) for point in points],
    }
    if not computed:
        return row
    row["n_same_verdict"] = sum(point.verdict == row["verdict"] for point in computed)
    gaps = np.array([point.gap for point in computed], dtype=np.float64)
    found = curve_test(gaps, curve.permuted_gaps, curve.statistics, curve.permuted, alpha)
    image = [point.image_p for point in computed if point.image_p is not None]
    return row | {
        "median_estimate": _round(
            float(np.median([point.estimate for point in computed if point.estimate is not None]))
        ),
        "median_gap": _round(found.median),
        "median_gap_null": _round(found.median_null),
        "median_p": found.median_p,
        "share_significant": found.share,
        "share_significant_null": _round(found.share_null),
        "share_p": found.share_p,
        "n_image_tests": len(image),
        "n_image_tests_significant": sum(p <= alpha for p in image),
        "by_choice": _by_choice(choices, points, alpha, row["verdict"]),
    }


def _verdict(run: ComparedRun, cut: str, curve: Curve) -> str | None:
    """Return the verdict of the run's row; of a composite, that of the run's own specification."""
    if curve.claim == COMPOSITE:
        return curve.points[0].verdict
    key = (curve.claim, run.comparison.primary, cut)
    return next((row["verdict"] for row in run.disparities if (row["probe"], row["scorer"], row["cut"]) == key), None)


def _counts(names: Any) -> dict[str, int]:
    out: dict[str, int] = {}
    for name in names:
        out[str(name)] = out.get(str(name), 0) + 1
    return out


def _by_choice(
    choices: Choices, points: Sequence[Point], alpha: float, verdict: str | None
) -> dict[str, list[dict[str, Any]]]:
    """Return for every level of every choice how many specifications were computed, and what they say."""
    out: dict[str, list[dict[str, Any]]] = {}
    for name, levels in choices.levels().items():
        out[name] = []
        for level in levels:
            own = [
                point
                for point, s in zip(points, choices.specifications, strict=True)
                if point.status in (OK, SAME_DATA) and getattr(s, name) == level
            ]
            estimates = [point.estimate for point in own if point.estimate is not None]
            out[name].append(
                {
                    "level": _plain(level),
                    "n": len(own),
                    "n_same_verdict": sum(point.verdict == verdict for point in own),
                    "n_significant": sum(point.p_value is not None and point.p_value <= alpha for point in own),
                    "median_estimate": _round(statistics.median(estimates) if estimates else None),
                }
            )
    return out


def _point(point: Point) -> dict[str, Any]:
    names = ("estimate", "low", "high", "gap", "p_value", "image_p")
    numbers = {name: _round(getattr(point, name)) for name in names if getattr(point, name) is not None}
    same = {} if point.same_direction is None else {"same_direction": point.same_direction}
    verdict = {} if point.verdict is None else {"verdict": point.verdict}
    return {"status": point.status, **numbers, **verdict, **same}


def _plain(level: Any) -> Any:
    return list(level) if isinstance(level, tuple) else level


def _round(value: float | None) -> float | None:
    return float(f"{value:.{DIGITS}g}") if value is not None and math.isfinite(value) else None
