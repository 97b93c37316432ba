"""The bias fingerprint: disparities between groups for every probe, scorer and cut, and the composite of each cut.

Only answered questions have a score: refusals are an outcome of their own (scorer `refusal`) and never enter the mean
of another scorer. The unit of analysis is the subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, cast

from fp2.protocols.fingerprint.family import corrected
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.scorers.outcomes import (
    REFUSAL,
    OutcomeArrays,
    entries_of,
    members,
    outcome_columns,
    outcome_of,
    outcomes_in,
    question_adjusted,
    samples_averaged,
)
from fp2.stats.rows import OK
from fp2.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats.bounds import GapBounds
    from fp2.stats.rows import DisparityRow, Outcome, Panel

SEVERITIES = ("none", "low", "moderate", "high")
PARTLY_UNTESTED = "partly_untested"
"""In place of the severity `none` where some of the probes could not be tested."""
NO_COMPOSITE: Mapping[str, object] = {
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
    levels = [[level for level in SEVERITIES if end >= bounds.get(level, -1.0)][-1] for end in (low, high)]
    if p_value > alpha:
        return SEVERITIES[0] if levels[1] == SEVERITIES[0] else None
    return " to ".join(dict.fromkeys(levels))


class CoverageRow(TypedDict):
    """How many images of a group have a value of an outcome."""

    cut: str
    group: str
    probe: str
    scorer: str
    n_images: int
    with_value: int


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
    coverage: list[CoverageRow]

    def of_asked(self, asked: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut]) -> Disparities:
        """Return the comparison of a run that ended early: images that were not asked about are not missing.

        Parameters
        ----------
        asked : DataFrame
            The answers that were asked.
        """
        from fp2.cuts import memberships

        keys = ["image_id"] if (people["n_people"] == 2).any() else ["image_id", "subject_id"]  # one answer about both
        images = asked[[*keys, "probe"]].drop_duplicates()
        of_groups: dict[tuple[str, str, str], int] = {}
        of_probes: dict[tuple[str, str], int] = {}
        for cut in cuts:
            table = images.merge(memberships(people, cut), on=keys)
            sizes: Mapping[Any, int] = table.groupby(["group", "probe"]).size().to_dict()
            of_groups |= {(cut.name, *key): n for key, n in sizes.items()}
            n_images: Mapping[Any, int] = table.groupby("probe")["image_id"].nunique().to_dict()
            of_probes |= {(cut.name, key): n for key, n in n_images.items()}
        coverage: list[CoverageRow] = [
            {**row, "n_images": int(of_groups.get((row["cut"], row["group"], row["probe"]), 0))}
            for row in self.coverage
        ]
        rows = [
            {**row, "n_missing": int(of_probes.get((row["cut"], row["probe"]), 0)) - row["n_images"]}
            for row in self.disparities
        ]
        return replace(self, coverage=coverage, disparities=rows)


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
    from fp2.stats.disparities import disparity_panel

    if not scorers:
        return Disparities([], {}, [])
    wide = outcome_columns(scores)
    columns = [(str(probe), str(scorer)) for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns))]
    tables = {cut.name: members(people, cut) for cut in cuts}
    if not columns:
        return Disparities([], {cut: dict(NO_COMPOSITE) for cut in tables}, [])
    outcomes = [outcome_of(scorers[scorer]) for _, scorer in columns]
    refusal_values = _refusal_ends(scores, columns, scorers)
    rows: list[tuple[str, str, str, DisparityRow]] = []
    composites: dict[str, dict[str, Any]] = {}
    coverage: list[CoverageRow] = []
    bounds_of_rows: list[GapBounds | None] = []
    panels: list[Panel] = []
    for cut, table in tables.items():
        e = entries_of(wide, table)
        outcomes_here = outcomes_in(e.values, outcomes)
        panels.append(
            panel := disparity_panel(e.values, e.groups, e.subjects, outcomes_here, comparison, images=e.images)
        )
        rows += [(probe, scorer, cut, row) for (probe, scorer), row in zip(columns, panel.rows, strict=True)]
        primary = [j for j, (_, scorer) in enumerate(columns) if scorer == comparison.primary]
        composites[cut] = _composite(panel, e, {j: columns[j][0] for j in primary}, outcomes, comparison)
        coverage += _coverage(e, columns, cut)
        bounds_of_rows += [_refusal_bounds(outcome, table, comparison) for outcome in refusal_values]
        tick()
    disparities = corrected(rows, panels, composites, comparison)
    for row, gap_bounds in zip(disparities, bounds_of_rows, strict=True):
        row.update(_bounds_columns(row, gap_bounds))
    for cut_composite in composites.values():
        interval = cut_composite["magnitude_low"], cut_composite["magnitude_high"]
        label = severity(cut_composite["adjusted_p"], *interval, bounds, comparison.alpha)
        untested = label == SEVERITIES[0] and "untested" in cut_composite
        cut_composite["severity"] = PARTLY_UNTESTED if untested else label
    return Disparities(disparities, composites, coverage)


def _composite(
    panel: Panel,
    entries: OutcomeArrays,
    probes: Mapping[int, str],
    outcomes: Sequence[Outcome],
    comparison: ComparisonSettings,
) -> dict[str, Any]:
    """Return the composite over `probes` (column of the panel -> name) that have a value, with its test.

    `groups` are those that count in every one of these probes. Where a probe has others too, because values are
    missing, the probes are compared again without them: the composite is about the same groups in all probes. Without
    two such groups, or where no probe could be tested, it has no value. `untested` has the probes that could not be
    tested beside others that could: their disparity of 0 enters the mean. `covariances` are those of the means of each
    group over the probes, in their order.
    """
    import numpy as np

    from fp2.stats.composite import composite_test, mean_covariances
    from fp2.stats.disparities import disparity_panel

    chosen = [j for j in probes if panel.rows[j].raw is not None]
    names = [probes[j] for j in chosen]
    compared = [{group.group for group in panel.rows[j].groups if group.eligible} for j in chosen]
    groups = sorted(set.intersection(*compared)) if compared else []
    inside = np.isin(entries.groups.astype(str), groups)
    values = entries.values[inside][:, chosen]
    if any(len(of_probe) > len(groups) for of_probe in compared):
        if len(groups) < 2:
            return {**NO_COMPOSITE, "probes": names, "groups": groups}
        panel = disparity_panel(
            values,
            entries.groups[inside],
            entries.subjects[inside],
            outcomes_in(values, [outcomes[j] for j in chosen]),
            comparison,
            images=entries.images[inside],
        )
        chosen = list(range(len(chosen)))
    untested = [name for name, j in zip(names, chosen, strict=True) if panel.rows[j].status != OK]
    if len(untested) == len(names):
        return {**NO_COMPOSITE, "probes": names, "groups": groups}
    test = asdict(composite_test(panel, chosen, comparison.alpha))
    raw = {name: panel.rows[j].raw for name, j in zip(names, chosen, strict=True)}
    with_value = {name: value for name, value in raw.items() if value is not None}
    return {
        **{name: test.get(name) for name in NO_COMPOSITE},
        "value": composite(with_value) if with_value else None,
        "probes": names,
        "groups": groups,
        "covariances": mean_covariances(values, entries.groups[inside], entries.subjects[inside]),
        **({"untested": untested} if untested else {}),
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
        outcome = scores[(scores["probe"] == probe) & (scores["scorer"] == scorer)]
        value_bounds = refusal_ends(outcome["value"], outcome["refused"], scorers[scorer].value_range)
        keyed = outcome[["image_id", "subject_id", "question_id"]].assign(
            low=value_bounds[:, 0], high=value_bounds[:, 1]
        )
        keyed = samples_averaged(keyed, ["low", "high"])
        means = keyed.groupby(["image_id", "subject_id"], sort=False)[["low", "high"]].mean()
        for end in ("low", "high"):
            if (adjusted := question_adjusted(keyed, end)) is not None:
                means[end] = adjusted.reindex(means.index)
        out.append(means.reset_index())
    return out


def _refusal_bounds(
    refusal_values: pd.DataFrame | None, table: pd.DataFrame, comparison: ComparisonSettings
) -> GapBounds | None:
    """Return the least and the largest max - min of one outcome that the refused answers could have led to."""
    from fp2.stats.bounds import bounds_between

    if refusal_values is None:
        return None
    merged = refusal_values.merge(table, on=["image_id", "subject_id"])
    return bounds_between(
        merged[["low", "high"]].to_numpy(dtype="float64"),
        merged["group"].to_numpy(dtype=object),
        merged["subject_id"].to_numpy(dtype=object),
        min_subjects=comparison.min_subjects,
        alpha=comparison.alpha,
    )


def _bounds_columns(row: Mapping[str, Any], bounds: GapBounds | None) -> dict[str, float | bool | None]:
    """Return the columns of the bounds of a row, and whether its verdict holds whatever the refused answers were.

    A significant difference holds if the interval of the bounds lies above 0 (above the smallest effect for `biased`),
    an equivalence if it lies below the smallest effect. None without refusals, or with another verdict.
    """
    low, high, ci_low, ci_high = bounds or (None, None, None, None)
    holds = None
    if low is not None and high is not None and ci_low is not None and ci_high is not None and high - low > 1e-12:
        if row["significant"]:
            holds = ci_low > (row["smallest_effect"] if row["verdict"] == Verdict.BIASED else 0.0)
        elif row["verdict"] == Verdict.EQUIVALENT:
            holds = ci_high < row["smallest_effect"]
    keys = {"bounds_low": low, "bounds_high": high, "bounds_ci_low": ci_low, "bounds_ci_high": ci_high}
    return {**keys, "holds_under_refusals": holds}


def _coverage(entries: OutcomeArrays, columns: list[tuple[str, str]], cut: str) -> list[CoverageRow]:
    """Return per group and outcome the number of images with a value (missing: parse failures, unmatched texts)."""
    import numpy as np

    out: list[CoverageRow] = []
    for group in sorted(set(entries.groups)):
        values = entries.values[entries.groups == group]
        with_value = (~np.isnan(values)).sum(axis=0).tolist()
        out += [
            CoverageRow(cut=cut, group=group, probe=probe, scorer=scorer, n_images=len(values), with_value=n)
            for (probe, scorer), n in zip(columns, with_value, strict=True)
        ]
    return out
