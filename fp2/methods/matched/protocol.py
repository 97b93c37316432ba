"""Counterfactual sets compared within the set: images of one scene that differ in one attribute.

The unit of analysis is the set (all sets of one person together). Labels are permuted within sets only: differences
between scenes cancel, and one subject may be in several groups. Such a run has no composite, because its effect sizes
are differences within a scene and not disparities of a population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from fp2.extension import (
    ComparedRun,
    ComparisonSettings,
    GroupComparison,
    Requirements,
    Verdict,
    entries_of,
    outcome_columns,
    shares,
    units,
    varying,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, Scorer
    from fp2.methods.matched.panel import MatchedTest

SAME = 1e-12


class Matched(GroupComparison):
    """The fingerprint's questions about counterfactual sets, compared within the set."""

    name = "matched"
    requires = Requirements(within_sets=True, special_case_of="fingerprint", takes_samples=True)
    supplements = None
    states = replace(
        GroupComparison.states,
        title="Counterfactual comparison",
        sections=("fp2.methods.matched.section:MatchedSection",),
        tests={
            "p_value": "permutation of the versions within every set, largest studentised difference of pairs of "
            "versions",
            "chance_level": "mean and 95th percentile of max - min under the same permutations",
            "interval": "t interval of the mean difference within sets, for each pair of versions",
        },
    )

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the comparison within the sets."""
        return {"matched": matched_block(run.scores, run.people, run.cuts, run.scorers, run.comparison)}


def matched_block(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    comparison: ComparisonSettings,
) -> dict[str, Any]:
    """Compare the versions of every set on every score.

    Returns
    -------
    dict
        `rows`: one per probe x scorer x cut, with `raw` (largest mean within-set difference of two versions), its
        null mean, `p_value`, `adjusted_p` over the family, `equivalence_p`, `mde80`, `verdict`, `versions` (mean of
        each less the mean of the set) and `pairs` (differences with 95 % intervals). `cuts`: the number of sets that
        vary in each. `metrics` and `headline` as in every block.
    """
    from fp2.extension import memberships

    wide = outcome_columns(scores)
    columns = [(str(probe), str(scorer)) for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns))]
    unit = dict(zip(zip(people["image_id"], people["subject_id"], strict=True), units(people), strict=True))
    rows: list[dict[str, Any]] = []
    found: list[MatchedTest] = []
    sizes: list[dict[str, Any]] = []
    for cut in cuts:
        table = memberships(varying(people, cut), cut)
        keys = zip(table["image_id"], table["subject_id"], strict=True)
        table = table.assign(unit=[unit[key] for key in keys])
        n_sets = table.groupby("group")["unit"].nunique()
        sizes.append(
            {
                "cut": cut.name,
                "n_sets": int(table["unit"].nunique()),
                "versions": [{"version": str(name), "n_sets": int(n)} for name, n in n_sets.items()],
            }
        )
        tests = _tests(wide, columns, table, scorers, comparison) if columns and len(table) else []
        for (probe, scorer), (test, same) in zip(columns, tests, strict=False):
            rows.append({"probe": probe, "scorer": scorer, "cut": cut.name, **_row(test, same, scorers[scorer])})
            found.append(test)
    _decide(rows, found, comparison)
    primary = [row for row in rows if row["scorer"] == comparison.primary]
    return {
        "unit": "set",
        "n_sets": len(set(unit.values())),
        "min_sets": comparison.min_subjects,
        "method": "permutation of the versions inside every set, largest |t| over pairs of versions",
        "cuts": sizes,
        "rows": rows,
        "metrics": {
            f"{row['probe']}.{row['scorer']}.{row['cut']}.{key}": row[key]
            for row in primary
            for key in ("raw", "adjusted_p")
            if row[key] is not None
        },
        "headline": {
            "scorer": comparison.primary,
            Verdict.BIASED.value: [[row["probe"], row["cut"]] for row in primary if row["verdict"] == Verdict.BIASED],
            "largest_raw": max((row["raw"] for row in primary if row["raw"] is not None), default=None),
        },
    }


def _tests(
    wide: pd.DataFrame,
    columns: list[tuple[str, str]],
    table: pd.DataFrame,
    scorers: Mapping[str, Scorer],
    c: ComparisonSettings,
) -> list[tuple[MatchedTest, bool]]:
    """Return each outcome's test, and whether all its values are equal."""
    import numpy as np

    from fp2.methods.matched.panel import matched_panel

    entries = entries_of(wide, table)
    tests = matched_panel(
        entries.values,
        entries.groups,
        table["unit"].to_numpy(dtype=object),
        higher_is_better=[scorers[scorer].higher_is_better for _, scorer in columns],
        n_permutations=c.n_permutations,
        seed=c.seed,
        alpha=c.alpha,
        min_sets=c.min_subjects,
    )
    known = [column[np.isfinite(column)] for column in entries.values.T]
    return [(test, not len(y) or float(np.ptp(y)) <= SAME) for test, y in zip(tests, known, strict=True)]


def _row(test: MatchedTest, same: bool, scorer: Scorer) -> dict[str, Any]:
    """Return one outcome's numbers; `_decide` adds the verdict."""
    from fp2.methods.matched.panel import matched_equivalence

    low, high = scorer.value_range
    status = Verdict.UNINFORMATIVE if same else Verdict.TOO_FEW_SETS if test.raw is None else None
    excess = None if test.raw is None or test.null_mean is None else test.raw - test.null_mean
    return {
        "raw": test.raw,
        "null_mean": test.null_mean,
        "null_p95": test.null_p95,
        "excess": excess,
        "p_value": test.p_value,
        "equivalence_p": matched_equivalence(test, scorer.smallest_effect, high - low),
        "minimum_effect_p": test.exceeds_p(scorer.smallest_effect),
        "smallest_effect": scorer.smallest_effect,
        "worst_version": test.worst_group,
        "best_version": test.best_group,
        "n_sets": test.n_sets,
        "n_permutations": test.n_permutations,
        "status": status.value if status else "ok",
        "versions": [asdict(version) for version in test.versions],
        "pairs": [asdict(pair) for pair in test.pairs],
    }


def _minimum_detectable(test: MatchedTest, level: float) -> float | None:
    """Return the minimum detectable effect (80 % power) at the level of the family's first step, or None.

    The standard error of rare differences is unreliable: pairs in which few sets differ at all are left out.
    """
    from fp2.methods.matched.panel import FEW, minimum_detectable

    errors = [pair.standard_error for pair in test.pairs if pair.standard_error and pair.n_different >= FEW]
    critical = test.critical(level)
    return None if critical is None or not errors else minimum_detectable(critical, max(errors))


def _decide(rows: list[dict[str, Any]], tests: Sequence[MatchedTest], c: ComparisonSettings) -> None:
    """Set adjusted p-values, `mde80`, `family_size`, `significant`, `verdict`: the run is one family."""
    from fp2.extension import adjust_p_values, verdict_of

    tested = [row["p_value"] is not None for row in rows]
    share = iter(shares([row["scorer"] for row, known in zip(rows, tested, strict=True) if known], c))
    weights = [next(share) if known else 1.0 for known in tested]
    adjusted = {
        name: adjust_p_values([row[name] for row in rows], c.correction, weights)
        for name in ("p_value", "minimum_effect_p", "equivalence_p")
    }
    for index, (row, test) in enumerate(zip(rows, tests, strict=True)):
        p, larger, small = (values[index] for values in adjusted.values())
        significant = p is not None and p <= c.alpha
        level = c.alpha if c.correction == "none" else c.alpha * weights[index]
        row.update(
            adjusted_p=p,
            adjusted_minimum_effect_p=larger,
            adjusted_equivalence_p=small,
            family_size=sum(tested),
            family_level=level,
            significant=significant,
            mde80=_minimum_detectable(test, level) if row["status"] == "ok" else None,
        )
        row["verdict"] = row["status"] if row["status"] != "ok" else verdict_of(p, larger, small, c.alpha)
