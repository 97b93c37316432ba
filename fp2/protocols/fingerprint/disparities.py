"""The bias fingerprint: disparities between groups for every probe, scorer and cut, and the composite of each cut.

Only answered questions have a score: refusals are an outcome of their own (scorer `refusal`) and never enter the mean
of another scorer. The unit of analysis is the subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fp2.protocols.fingerprint.family import corrected
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.scorers.outcomes import (
    REFUSAL,
    OutcomeArrays,
    entries_of,
    members,
    outcome_columns,
    question_adjusted,
    samples_averaged,
    value_ranges,
    yes_no_columns,
)
from fp2.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats.bounds import GapBounds
    from fp2.stats.disparities import CompositeTest
    from fp2.stats.rows import DisparityRow, Panel

SEVERITIES = ("none", "low", "moderate", "high")
NO_COMPOSITE: Mapping[str, Any] = {
    "value": None, "null_mean": None, "null_p95": None, "excess": None, "p_value": None, "adjusted_p": None,
    "magnitude": None, "magnitude_low": None, "magnitude_high": None, "severity": None, "probes": [], "groups": [],
}  # fmt: skip
"""The composite of a cut without any value."""


def composite(disparities: Mapping[str, float]) -> float:
    """Return the mean of the disparities given (probe -> max - min), as the Fingerprint² page defines it.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> round(composite({"occupation": 0.020, "education": 0.020, "trust": 0.029}), 3)
    0.023
    """
    if not disparities:
        raise ValueError("a composite needs at least one disparity")
    return float(sum(disparities.values()) / len(disparities))


def severity(
    p_value: float | None, low: float | None, high: float | None, bounds: Mapping[str, float], alpha: float
) -> str | None:
    """Return the labels that the interval of a composite's magnitude reaches: `moderate`, or `low to moderate`.

    None where p > alpha, unless even the upper end is below the bound of `low`. Each bound belongs to the level above
    it.
    """
    if p_value is None or low is None or high is None:
        return None
    ends = [[level for level in SEVERITIES if end >= bounds.get(level, -1.0)][-1] for end in (low, high)]
    if p_value > alpha:
        return SEVERITIES[0] if ends[1] == SEVERITIES[0] else None
    return " to ".join(dict.fromkeys(ends))


@dataclass(frozen=True)
class Disparities:
    """The result of a comparison.

    Attributes
    ----------
    disparities : list of dict
        One row per probe x scorer x cut. `bounds_low` and `bounds_high` are the least and the largest `raw` that the
        refused answers could have led to, `bounds_ci_low` and `bounds_ci_high` an interval that takes account of
        sampling error, and `holds_under_refusals` whether the verdict holds whatever the refused answers were.
    composites : dict
        Cut -> composite of the primary scorer.
    coverage : list of dict
        Per group and outcome, the number of images with a value.
    """

    disparities: list[dict[str, Any]]
    composites: dict[str, dict[str, Any]]
    coverage: list[dict[str, Any]]


def fingerprint(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    comparison: ComparisonSettings,
    bounds: Mapping[str, float],
    tick: Callable[[], None] = lambda: None,
) -> Disparities:
    """Compare groups on every score.

    Parameters
    ----------
    scores, people : DataFrame
        The scores table and the people table.
    cuts : sequence of Cut
        The composite of the first is the run's.
    scorers : mapping
        Name -> scorer, which has the direction, the scale and the smallest effect of interest.
    comparison : ComparisonSettings
    bounds : mapping
        Severity bounds on the composite's magnitude.
    tick : callable
        Called after each cut.

    Returns
    -------
    Disparities
        Without the primary scorer, composites have no value. Without any answer there are no disparities.

    Raises
    ------
    Fp2Error
        If no subject has a value for a cut.
    """
    if not scorers:
        return Disparities([], {}, [])
    wide = outcome_columns(scores)
    rows: list[tuple[str, str, str, DisparityRow]] = []
    composites: dict[str, dict[str, Any]] = {}
    coverage: list[dict[str, Any]] = []
    worst: list[GapBounds | None] = []
    panels: list[Panel] = []
    columns = [(str(probe), str(scorer)) for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns))]
    ends = _refusal_ends(scores, columns, scorers)
    for cut in cuts:
        table = members(people, cut)
        entries = entries_of(wide, table)
        if not columns:
            composites[cut.name] = dict(NO_COMPOSITE)
            continue
        panel = _panel(entries, columns, scorers, comparison)
        panels.append(panel)
        rows += [(probe, scorer, cut.name, row) for (probe, scorer), row in zip(columns, panel.rows, strict=True)]
        composites[cut.name] = _composite(panel, entries, columns, scorers, comparison)
        coverage += _coverage(entries, columns, cut.name)
        worst += [_refusal_bounds(outcome, table, comparison) for outcome in ends]
        tick()
    disparities = corrected(rows, panels, composites, comparison)
    for row, found in zip(disparities, worst, strict=True):
        row.update(_bounds_of(row, found))
    for one in composites.values():
        reach = one["magnitude_low"], one["magnitude_high"]
        one["severity"] = severity(one["adjusted_p"], *reach, bounds, comparison.alpha)
    return Disparities(disparities, composites, coverage)


def _panel(
    entries: OutcomeArrays, columns: list[tuple[str, str]], scorers: Mapping[str, Scorer], c: ComparisonSettings
) -> Any:
    from fp2.stats.disparities import disparity_panel

    used = [scorers[scorer] for _, scorer in columns]
    return disparity_panel(
        entries.values,
        entries.groups,
        entries.subjects,
        images=entries.images,
        higher_is_better=[s.higher_is_better for s in used],
        value_ranges=value_ranges(entries.values, [s.value_range for s in used]),
        bins=[len(s.bins) - 1 for s in used],
        yes_no=yes_no_columns(entries.values, [s.yes_no for s in used]),
        smallest_effects=[s.smallest_effect for s in used],
        n_permutations=c.n_permutations,
        n_bootstrap=c.n_bootstrap,
        seed=c.seed,
        alpha=c.alpha,
        min_subjects=c.min_subjects,
    )


def _composite(
    panel: Panel, entries: OutcomeArrays, columns: list[tuple[str, str]], scorers: Mapping[str, Scorer],
    comparison: ComparisonSettings,
) -> dict[str, Any]:  # fmt: skip
    """Return the composite of the primary scorer over the probes present, with its joint-permutation test (A5).

    `groups` are those that count in every one of these probes. Where a probe has others too, because values are
    missing, the probes are compared again without them: the composite is about the same groups in all probes. Without
    two such groups it has no value.
    """
    import numpy as np

    from fp2.stats.disparities import composite_test

    present = [
        j for j, (_, scorer) in enumerate(columns) if scorer == comparison.primary and panel.rows[j].raw is not None
    ]
    compared = [{g.group for g in panel.rows[j].groups if g.eligible} for j in present]
    groups = sorted(set.intersection(*compared)) if compared else []
    probes, chosen = [columns[j][0] for j in present], present
    if any(len(one) > len(groups) for one in compared):
        if len(groups) < 2:
            return {**NO_COMPOSITE, "probes": probes, "groups": groups}
        here = np.isin(entries.groups.astype(str), groups)
        values = entries.values[here][:, present]
        part = OutcomeArrays(values, entries.groups[here], entries.subjects[here], entries.images[here])
        panel, chosen = _panel(part, [columns[j] for j in present], scorers, comparison), list(range(len(present)))
    test: CompositeTest = composite_test(panel, chosen, comparison.alpha)
    raw = {probe: panel.rows[j].raw for probe, j in zip(probes, chosen, strict=True)}
    known = {probe: value for probe, value in raw.items() if value is not None}
    return {
        "value": composite(known) if known else None,
        "null_mean": test.null_mean,
        "null_p95": test.null_p95,
        "excess": test.excess,
        "p_value": test.p_value,
        "adjusted_p": None,
        "magnitude": test.magnitude,
        "magnitude_low": test.magnitude_low,
        "magnitude_high": test.magnitude_high,
        "severity": None,
        "probes": probes,
        "groups": groups,
    }


def _refusal_ends(
    scores: pd.DataFrame, columns: list[tuple[str, str]], scorers: Mapping[str, Scorer]
) -> list[pd.DataFrame | None]:
    """Return per outcome the least (`low`) and largest (`high`) value of each (image, subject) with refused answers.

    Several questions of one probe about one image are averaged first, as in `outcome_columns`. None for the refusal
    outcome itself, which is never missing.
    """
    from fp2.stats.bounds import refusal_ends

    out: list[pd.DataFrame | None] = []
    for probe, scorer in columns:
        if scorer == REFUSAL:
            out.append(None)
            continue
        own = scores[(scores["probe"] == probe) & (scores["scorer"] == scorer)]
        ends = refusal_ends(own["value"], own["refused"], scorers[scorer].value_range)
        keyed = own[["image_id", "subject_id", "question_id"]].assign(low=ends[:, 0], high=ends[:, 1])
        keyed = samples_averaged(keyed, ["low", "high"])
        means = keyed.groupby(["image_id", "subject_id"], sort=False)[["low", "high"]].mean()
        for end in ("low", "high"):
            if (adjusted := question_adjusted(keyed, end)) is not None:
                means[end] = adjusted.reindex(means.index)
        out.append(means.reset_index())
    return out


def _refusal_bounds(ends: pd.DataFrame | None, table: pd.DataFrame, comparison: ComparisonSettings) -> GapBounds | None:
    """Return the least and the largest max - min of one outcome that the refused answers could have led to."""
    from fp2.stats.bounds import bounds_between

    if ends is None:
        return None
    merged = ends.merge(table, on=["image_id", "subject_id"])
    return bounds_between(
        merged[["low", "high"]].to_numpy(dtype="float64"),
        merged["group"].to_numpy(dtype=object),
        merged["subject_id"].to_numpy(dtype=object),
        min_subjects=comparison.min_subjects,
        alpha=comparison.alpha,
    )


def _bounds_of(row: Mapping[str, Any], found: GapBounds | None) -> dict[str, Any]:
    """Return the keys of the bounds of a row, and whether its verdict holds whatever the refused answers were.

    A significant difference holds if the interval of the bounds lies above 0 (above the smallest effect for `biased`),
    an equivalence if it lies below the smallest effect. None without refusals, or with another verdict.
    """
    low, high, ci_low, ci_high = found or (None, None, None, None)
    holds = None
    if low is not None and high is not None and ci_low is not None and ci_high is not None and high - low > 1e-12:
        if row["significant"]:
            holds = ci_low > (row["smallest_effect"] if row["verdict"] == Verdict.BIASED else 0.0)
        elif row["verdict"] == Verdict.EQUIVALENT:
            holds = ci_high < row["smallest_effect"]
    keys = {"bounds_low": low, "bounds_high": high, "bounds_ci_low": ci_low, "bounds_ci_high": ci_high}
    return {**keys, "holds_under_refusals": holds}


def _coverage(entries: OutcomeArrays, columns: list[tuple[str, str]], cut: str) -> list[dict[str, Any]]:
    """Return per group and outcome the number of images with a value (missing: parse failures, unmatched texts)."""
    import numpy as np

    out = []
    for group in sorted(set(entries.groups)):
        here = entries.groups == group
        counts = (~np.isnan(entries.values[here])).sum(axis=0)
        out += [
            {
                "cut": cut,
                "group": group,
                "probe": probe,
                "scorer": scorer,
                "n_images": int(here.sum()),
                "with_value": int(n),
            }
            for (probe, scorer), n in zip(columns, counts, strict=True)
        ]
    return out
