"""Pairwise tests: which groups differ, for each significant row of the primary scorer.

Two tests are given side by side. The permutation test is the row's own test pair by pair, corrected for the row's pairs
by the permuted maximum. The Mann-Whitney test is on subject means, two-sided, with Holm's correction over all pairs of
all rows of the primary scorer, significant (and so listed) or not. It assumes independent groups: rows whose groups
share subjects are marked (`dependent_groups`). Neither decides a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import probe_labels
from fp2.report.section import Block, Results, Section
from fp2.scorers.outcomes import entries_of, members, outcome_columns, yes_no_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.stats.pairwise import PairTest

PERMUTATIONS = 1_000
"""Enough for tests that decide no verdict."""
FAMILY = "all pairs of all rows of the primary scorer (Mann-Whitney); the pairs of the row (permutation)"


class Pairwise(Supplement):
    """Tests of the pairs of groups of each significant row of the primary scorer."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `pairwise`, or None where no row of the primary scorer is significant."""
        from fp2.stats.pairwise import correct_family

        primary = run.comparison.primary
        significant = {(r["probe"], r["cut"]) for r in run.disparities if r["scorer"] == primary and r["significant"]}
        if not significant:
            return None
        wide = outcome_columns(run.scores[run.scores["scorer"] == primary])
        tests = [row for cut in run.cuts for row in _tests_of_cut(run, wide, cut, significant)]
        corrected = correct_family([test for *_, ranks, _ in tests for test in ranks], "holm")
        remaining, rows = iter(corrected), []
        for probe, cut, ranks, permuted in tests:
            rank_of = {(test.first, test.second): test for test in islice(remaining, len(ranks))}
            if permuted is not None:
                dependent = any(test.dependent_groups for test in ranks)
                pairs = _pairs(permuted, rank_of)
                rows.append({"probe": probe, "cut": cut, "dependent_groups": dependent, "pairs": pairs})
        return {
            "scorer": primary,
            "family": FAMILY,
            "family_size": sum(test.p_value is not None for test in corrected),
            "n_permutations": min(PERMUTATIONS, run.comparison.n_permutations),
            "alpha": run.comparison.alpha,
            "rows": rows,
        }


def _tests_of_cut(
    run: ComparedRun, wide: pd.DataFrame, cut: Cut, significant: set[tuple[str, str]]
) -> list[tuple[str, str, list[PairTest], list[PairTest] | None]]:
    """Return each probe, the cut, its rank tests, and its permutation tests where it is significant."""
    from fp2.stats.pairwise import pairwise_mann_whitney, pairwise_permutation_panel

    probes = [str(probe) for probe in wide.columns.get_level_values("probe")]
    entries = entries_of(wide, members(run.people, cut))
    c, scorer = run.comparison, run.scorers[run.comparison.primary]
    chosen = [j for j, probe in enumerate(probes) if (probe, cut.name) in significant]
    permuted: Mapping[int, list[PairTest]] = {}
    if chosen:
        values: np.ndarray = entries.values[:, chosen]
        panel = pairwise_permutation_panel(
            values, entries.groups, entries.subjects, images=entries.images,
            yes_no=yes_no_columns(values, scorer.yes_no), seed=c.seed, min_subjects=c.min_subjects,
            n_permutations=min(PERMUTATIONS, c.n_permutations),
        )  # fmt: skip
        permuted = dict(zip(chosen, panel, strict=True))
    ranks = [
        pairwise_mann_whitney(column, entries.groups, entries.subjects, min_subjects=c.min_subjects)
        for column in entries.values.T
    ]
    return [(probe, cut.name, ranks[j], permuted.get(j)) for j, probe in enumerate(probes)]


def _pairs(permuted: list[PairTest], rank_of: Mapping[tuple[str, str], PairTest]) -> list[dict[str, Any]]:
    """Return a row's pairs, smallest p-value first."""
    pairs = []
    for test in permuted:
        rank = rank_of[test.first, test.second]
        numbers = {name: getattr(test, name) for name in ("first", "second", "n_first", "n_second", "difference")}
        numbers |= {"hedges_g": test.effect, "rank_biserial": rank.effect}
        pairs.append({**numbers, "p_permutation": test.adjusted_p, "p_mann_whitney": rank.adjusted_p})
    return sorted(pairs, key=lambda pair: (pair["p_permutation"], -abs(pair["difference"])))


class PairwiseSection(Section):
    """The pairs of groups that differ, a table per significant disparity."""

    name = "pairwise"
    title = "Pairwise comparisons"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per significant row, without pairs of small groups."""
        labels = probe_labels(results)
        tables = []
        for row in block["rows"]:
            large = [pair for pair in row["pairs"] if min(pair["n_first"], pair["n_second"]) >= min_cell]
            tables.append(
                {
                    "cut": row["cut"],
                    "label": labels[row["probe"]],
                    "found": [pair for pair in large if pair["p_permutation"] <= block["alpha"]],
                    "n": len(large),
                    "hidden": len(row["pairs"]) - len(large),
                    "dependent": row.get("dependent_groups", False),
                }
            )
        return {"pairwise": block, "tables": tables}
