"""Counterfactual sets compared within the set: the same scene with one attribute changed, answer against answer.

The unit is the set (sets of one person together). Labels are exchanged inside the sets only, so that whatever differs
between scenes plays no part, and one subject in several groups breaks nothing. There is no composite of such a run: its
sizes are differences within a scene, not disparities of a population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from fp2.cuts import varying
from fp2.data.sets import units
from fp2.protocols.base import Inputs, Job
from fp2.protocols.fingerprint.comparison import GroupComparison
from fp2.protocols.fingerprint.disparities import Disparities
from fp2.protocols.fingerprint.outcomes import outcome_columns
from fp2.protocols.fingerprint.settings import ComparedRun, Comparison

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats.matched import MatchedTest

TOO_FEW = "too_few_sets"
SAME = 1e-12


class Matched(GroupComparison):
    """The fingerprint's questions on counterfactual sets, compared within the set."""

    name = "matched"
    matched = True
    within_sets = True
    supplements = ()
    sections = ("fp2.protocols.fingerprint.sections.matched:MatchedSection",)

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "Counterfactual comparison"

    def compare(self, run: ComparedRun, job: Job) -> Disparities:
        """Return nothing: one subject is in several groups on purpose, which a comparison of populations must not be."""
        return Disparities([], {}, [])

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the comparison within the sets."""
        return {"matched": matched_block(run.scores, run.people, run.cuts, run.scorers, run.comparison)}


def matched_block(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    comparison: Comparison,
) -> dict[str, Any]:
    """Compare the versions of every set on every score.

    Returns
    -------
    dict
        `rows`: one per probe x scorer x cut, with `raw` (largest mean within-set difference of two versions), its
        chance level, `p_value`, `adjusted_p` over the family, `equivalence_p`, `mde80`, `verdict`, `versions` (level of
        each beside the sets' mean) and `pairs` (differences with 95 % intervals). `cuts`: how many sets speak about
        each. `metrics` and `headline` as every block has them.
    """
    wide = outcome_columns(scores)
    columns = [(str(probe), str(scorer)) for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns))]
    unit = dict(zip(zip(people["image_id"], people["subject_id"], strict=True), units(people), strict=True))
    rows: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    for cut in cuts:
        table = _lines(varying(people, cut), cut, unit)
        told.append(_cut(table, cut))
        tests = _tests(wide, columns, table, scorers, comparison) if columns and len(table) else []
        for (probe, scorer), (test, same) in zip(columns, tests, strict=False):
            rows.append({"probe": probe, "scorer": scorer, "cut": cut.name, **_row(test, same, scorers[scorer])})
    _decide(rows, comparison)
    primary = [row for row in rows if row["scorer"] == comparison.primary]
    return {
        "unit": "set",
        "n_sets": len(set(unit.values())),
        "min_sets": comparison.min_subjects,
        "method": "permutation of the versions inside every set, largest |t| over pairs of versions",
        "cuts": told,
        "rows": rows,
        "metrics": _metrics(primary),
        "headline": {
            "scorer": comparison.primary,
            "biased": [[row["probe"], row["cut"]] for row in primary if row["verdict"] == "biased"],
            "largest_raw": max((row["raw"] for row in primary if row["raw"] is not None), default=None),
        },
    }


def _lines(people: pd.DataFrame, cut: Cut, unit: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Return one line per (picture, version) with its unit."""
    from fp2.cuts import memberships

    table = memberships(people, cut)
    keys = zip(table["image_id"], table["subject_id"], strict=True)
    return table.assign(unit=[unit[key] for key in keys])


def _cut(table: pd.DataFrame, cut: Cut) -> dict[str, Any]:
    sizes = table.groupby("group")["unit"].nunique()
    return {
        "cut": cut.name,
        "n_sets": int(table["unit"].nunique()),
        "versions": [{"version": str(name), "n_sets": int(n)} for name, n in sizes.items()],
    }


def _tests(
    wide: pd.DataFrame, columns: list[tuple[str, str]], table: pd.DataFrame, scorers: Mapping[str, Scorer],
    c: Comparison,
) -> list[tuple[MatchedTest, bool]]:  # fmt: skip
    """Return each outcome's test, and whether all its answers are the same."""
    import numpy as np

    from fp2.stats.matched import matched_panel

    found = wide.reindex(list(zip(table["image_id"], table["subject_id"], strict=True))).to_numpy(dtype="float64")
    tests = matched_panel(
        found,
        table["group"].to_numpy(dtype=object),
        table["unit"].to_numpy(dtype=object),
        higher_is_better=[scorers[scorer].higher_is_better for _, scorer in columns],
        n_permutations=c.n_permutations,
        seed=c.seed,
        alpha=c.alpha,
        min_sets=c.min_subjects,
    )
    known = [column[np.isfinite(column)] for column in found.T]
    return [(test, not len(y) or float(np.ptp(y)) <= SAME) for test, y in zip(tests, known, strict=True)]


def _row(test: MatchedTest, same: bool, scorer: Scorer) -> dict[str, Any]:
    """Return one outcome's numbers; the verdict comes with the family."""
    from fp2.stats.matched import matched_equivalence

    low, high = scorer.value_range
    excess = None if test.raw is None or test.null_mean is None else test.raw - test.null_mean
    return {
        "raw": test.raw,
        "null_mean": test.null_mean,
        "null_p95": test.null_p95,
        "excess": excess,
        "p_value": test.p_value,
        "equivalence_p": matched_equivalence(test, scorer.smallest_effect, high - low),
        "mde80": None if same else _detectable(test),
        "smallest_effect": scorer.smallest_effect,
        "worst_version": test.worst_group,
        "best_version": test.best_group,
        "n_sets": test.n_sets,
        "n_permutations": test.n_permutations,
        "status": TOO_FEW if test.raw is None and not same else "uninformative" if same else "ok",
        "versions": [asdict(version) for version in test.versions],
        "pairs": [asdict(pair) for pair in test.pairs],
    }


def _detectable(test: MatchedTest) -> float | None:
    """Return the difference that 80 of 100 such samples would have found before correction, or None.

    Rare differences do not tell their own spread: pairs in which few sets differ at all are left out.
    """
    from fp2.stats.equivalence import minimum_detectable
    from fp2.stats.matched import FEW

    errors = [pair.standard_error for pair in test.pairs if pair.standard_error and pair.n_different >= FEW]
    if test.critical is None or not errors:
        return None
    return minimum_detectable(test.critical, max(errors))


def _decide(rows: list[dict[str, Any]], c: Comparison) -> None:
    """Set `adjusted_p`, `family_size`, `significant` and `verdict`; families as in the fingerprint."""
    from fp2.stats.adjustment import adjust_p_values

    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault("run" if c.family == "run" else row["scorer"], []).append(row)
    for family in families.values():
        adjusted = adjust_p_values([row["p_value"] for row in family], c.correction)
        for row, p in zip(family, adjusted, strict=True):
            significant = p is not None and p <= c.alpha
            row.update(adjusted_p=p, family_size=len(family), significant=significant)
            row["verdict"] = _verdict(row, significant, c.alpha)


def _verdict(row: Mapping[str, Any], significant: bool, alpha: float) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    if significant:
        return "biased" if row["raw"] >= row["smallest_effect"] else "significant_but_small"
    shown_small = row["equivalence_p"] is not None and row["equivalence_p"] <= alpha
    return "equivalent" if shown_small else "no_difference_found"


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{row['probe']}.{row['scorer']}.{row['cut']}.{key}": row[key]
        for row in rows
        for key in ("raw", "adjusted_p")
        if row[key] is not None
    }
