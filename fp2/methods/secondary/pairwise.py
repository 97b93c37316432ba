"""Pairwise tests: which groups differ, for each significant row of the primary scorer.

Two tests are given side by side. The permutation test is the row's own test pair by pair, corrected for the row's pairs
by the permuted maximum. The Mann-Whitney test is on subject means, two-sided, with Holm's correction over all pairs of
all rows of the primary scorer, significant (and so listed) or not. It assumes independent groups: rows whose groups
share subjects are marked (`dependent_groups`). Neither decides a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    Block,
    Column,
    ComparedRun,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    cut_label,
    entries_of,
    members,
    outcome_columns,
    probe_labels,
    scorer_label,
    sentence,
    yes_no_columns,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import Cut
    from fp2.methods.secondary.pair_tests import PairTest

PERMUTATIONS = 1_000
"""Enough for tests that decide no verdict."""
FAMILY = "all pairs of all rows of the primary scorer (Mann-Whitney); the pairs of the row (permutation)"


class Pairwise(Supplement):
    """Tests of the pairs of groups of each significant row of the primary scorer."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `pairwise`, or None where no row of the primary scorer is significant."""
        from fp2.methods.secondary.pair_tests import correct_family

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
                pairs = []
                for test in permuted:
                    rank = rank_of[test.first, test.second]
                    numbers = {
                        name: getattr(test, name) for name in ("first", "second", "n_first", "n_second", "difference")
                    }
                    numbers |= {"hedges_g": test.effect, "rank_biserial": rank.effect}
                    pairs.append({**numbers, "p_permutation": test.adjusted_p, "p_mann_whitney": rank.adjusted_p})
                pairs = sorted(pairs, key=lambda pair: (pair["p_permutation"], -abs(pair["difference"])))
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
    from fp2.methods.secondary.pair_tests import pairwise_mann_whitney, pairwise_permutation_panel

    probes = [str(probe) for probe in wide.columns.get_level_values("probe")]
    entries = entries_of(wide, members(run.people, cut))
    c, scorer = run.comparison, run.scorers[run.comparison.primary]
    chosen = [j for j, probe in enumerate(probes) if (probe, cut.name) in significant]
    permuted: Mapping[int, list[PairTest]] = {}
    if chosen:
        values: np.ndarray = entries.values[:, chosen]
        panel = pairwise_permutation_panel(
            values,
            entries.groups,
            entries.subjects,
            images=entries.images,
            yes_no=yes_no_columns(values, scorer.yes_no),
            seed=c.seed,
            min_subjects=c.min_subjects,
            n_permutations=min(PERMUTATIONS, c.n_permutations),
        )
        permuted = dict(zip(chosen, panel, strict=True))
    ranks = [
        pairwise_mann_whitney(column, entries.groups, entries.subjects, min_subjects=c.min_subjects)
        for column in entries.values.T
    ]
    return [(probe, cut.name, ranks[j], permuted.get(j)) for j, probe in enumerate(probes)]


class PairwiseSection(Section):
    """The pairs of groups that differ, a table per significant disparity."""

    name = "pairwise"
    title = "Pairwise comparisons"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield a table of the pairs that differ for each significant row."""
        labels, scorer = probe_labels(results), scorer_label(block["scorer"])
        yield Sentence(HOW_TO_READ.format_map({**block, "scorer": scorer}), Weight.DETAIL)
        for row in block["rows"]:
            caption = f"{sentence(scorer)} of {labels[row['probe']]} by {cut_label(row['cut'])}"
            if row.get("dependent_groups"):
                caption += "; groups share subjects, which the rank test does not account for"
            significant = [pair for pair in row["pairs"] if pair["p_permutation"] <= block["alpha"]]
            rows = [Row([pair[key] for key in COLUMNS], min(pair["n_first"], pair["n_second"])) for pair in significant]
            empty = f"{caption}: no single pair is significant."
            yield Table("pairs", list(COLUMNS.values()), rows, caption, empty=empty, omit_small=True, cut=row["cut"])


COLUMNS = {
    "first": Column("First group", Kind.NAME),
    "second": Column("Second group", Kind.NAME),
    "difference": Column("Difference", Kind.NUMBER, signed=True),
    "hedges_g": Column("Hedges' g", Kind.NUMBER, digits=2),
    "p_permutation": Column("p (permutation)", Kind.P),
    "p_mann_whitney": Column("p (Mann-Whitney)", Kind.P),
    "rank_biserial": Column("Rank-biserial", Kind.NUMBER, digits=2),
}
HOW_TO_READ = (
    "A significant disparity says that some groups differ; these tables list the pairs that do, for every significant "
    "disparity of {scorer}. Difference: mean of the first group minus that of the second. Hedges' g: the same in "
    "standard deviations of subject means. p (permutation): the test of the verdict, corrected for the pairs of one "
    "table ({n_permutations:,} permutations). p (Mann-Whitney): a rank test of the pair, Holm-corrected over the "
    "{family_size} pairs of all probes and cuts; rank-biserial correlation: its effect size, from −1 to 1."
)
