"""Group statistics with the person as the unit: pure functions on arrays, imported only when used.

One row: `disparity`, `disparity_panel`, `adjust`, `composite_test`. What is behind it: `pairwise_tests`,
`pairwise_permutation`, `worst_group_probabilities`, `proportions_by_group`, `two_part_model`, `missing_by_group`,
`equivalence_test`, `intersection_table`, `template_sensitivity`, `balance_table`. Matched designs: `matched_test`,
`sign_flip`. Models against models: `fingerprint_distance`, `rank_models`. Before asking: `minimum_detectable_gap`,
`power_of_gap`. See each one's module for the method.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp2.stats.adjustment import adjust, adjust_p_values, decide
    from fp2.stats.association import Association, balance_table, contingency, cramers_v
    from fp2.stats.bounds import bounds_between, refusal_bounds, refusal_ends
    from fp2.stats.composite import composite_test
    from fp2.stats.design import design_effect, effective_n, minimum_detectable_gap, power_of_gap
    from fp2.stats.distance import FingerprintDistance, fingerprint_distance
    from fp2.stats.divergence import jensen_shannon
    from fp2.stats.diversity import Diversity, response_diversity
    from fp2.stats.equivalence import Equivalence, EquivalencePair, equivalence_test
    from fp2.stats.intersections import Intersection, beyond_additive, intersection_table
    from fp2.stats.matched import (
        MatchedPair,
        MatchedTest,
        MatchedVersion,
        matched_equivalence,
        matched_panel,
        matched_test,
        sign_flip,
    )
    from fp2.stats.panel import disparity, disparity_panel
    from fp2.stats.permutation import default_permutations
    from fp2.stats.posthoc import (
        PairTest,
        correct_family,
        pairwise_permutation,
        pairwise_permutation_panel,
        pairwise_tests,
        rank_biserial,
    )
    from fp2.stats.proportions import Proportion, ProportionPair, Proportions, proportions_by_group, wilson
    from fp2.stats.ranks import Ranked, RankTable, compact_letters, rank_models
    from fp2.stats.reliability import intraclass_correlation
    from fp2.stats.rows import CompositeTest, DisparityRow, GroupSummary, Panel
    from fp2.stats.shrunken import shrunken_range
    from fp2.stats.stepdown import step_down_max_t, step_down_panels
    from fp2.stats.templates import TemplateSensitivity, template_sensitivity, variance_shares
    from fp2.stats.two_part import TwoPart, missing_by_group, two_part_model
    from fp2.stats.worst import WorstGroup, worst_group_probabilities

_HOME = {
    "Association": "association",
    "CompositeTest": "rows",
    "DisparityRow": "rows",
    "Diversity": "diversity",
    "Equivalence": "equivalence",
    "EquivalencePair": "equivalence",
    "FingerprintDistance": "distance",
    "GroupSummary": "rows",
    "Intersection": "intersections",
    "MatchedPair": "matched",
    "MatchedTest": "matched",
    "MatchedVersion": "matched",
    "PairTest": "posthoc",
    "Panel": "rows",
    "Proportion": "proportions",
    "ProportionPair": "proportions",
    "Proportions": "proportions",
    "RankTable": "ranks",
    "Ranked": "ranks",
    "TemplateSensitivity": "templates",
    "TwoPart": "two_part",
    "WorstGroup": "worst",
    "adjust": "adjustment",
    "adjust_p_values": "adjustment",
    "balance_table": "association",
    "beyond_additive": "intersections",
    "compact_letters": "ranks",
    "composite_test": "composite",
    "contingency": "association",
    "correct_family": "posthoc",
    "cramers_v": "association",
    "decide": "adjustment",
    "default_permutations": "permutation",
    "design_effect": "design",
    "disparity": "panel",
    "disparity_panel": "panel",
    "effective_n": "design",
    "equivalence_test": "equivalence",
    "fingerprint_distance": "distance",
    "intersection_table": "intersections",
    "intraclass_correlation": "reliability",
    "jensen_shannon": "divergence",
    "matched_equivalence": "matched",
    "matched_panel": "matched",
    "matched_test": "matched",
    "minimum_detectable_gap": "design",
    "missing_by_group": "two_part",
    "pairwise_permutation": "posthoc",
    "pairwise_permutation_panel": "posthoc",
    "pairwise_tests": "posthoc",
    "power_of_gap": "design",
    "proportions_by_group": "proportions",
    "rank_biserial": "posthoc",
    "rank_models": "ranks",
    "bounds_between": "bounds",
    "refusal_bounds": "bounds",
    "refusal_ends": "bounds",
    "response_diversity": "diversity",
    "shrunken_range": "shrunken",
    "sign_flip": "matched",
    "step_down_max_t": "stepdown",
    "step_down_panels": "stepdown",
    "template_sensitivity": "templates",
    "two_part_model": "two_part",
    "variance_shares": "templates",
    "wilson": "proportions",
    "worst_group_probabilities": "worst",
}

__all__ = [
    "Association",
    "CompositeTest",
    "DisparityRow",
    "Diversity",
    "Equivalence",
    "EquivalencePair",
    "FingerprintDistance",
    "GroupSummary",
    "Intersection",
    "MatchedPair",
    "MatchedTest",
    "MatchedVersion",
    "PairTest",
    "Panel",
    "Proportion",
    "ProportionPair",
    "Proportions",
    "RankTable",
    "Ranked",
    "TemplateSensitivity",
    "TwoPart",
    "WorstGroup",
    "adjust",
    "adjust_p_values",
    "balance_table",
    "beyond_additive",
    "bounds_between",
    "compact_letters",
    "composite_test",
    "contingency",
    "correct_family",
    "cramers_v",
    "decide",
    "default_permutations",
    "design_effect",
    "disparity",
    "disparity_panel",
    "effective_n",
    "equivalence_test",
    "fingerprint_distance",
    "intersection_table",
    "intraclass_correlation",
    "jensen_shannon",
    "matched_equivalence",
    "matched_panel",
    "matched_test",
    "minimum_detectable_gap",
    "missing_by_group",
    "pairwise_permutation",
    "pairwise_permutation_panel",
    "pairwise_tests",
    "power_of_gap",
    "proportions_by_group",
    "rank_biserial",
    "rank_models",
    "refusal_bounds",
    "refusal_ends",
    "response_diversity",
    "shrunken_range",
    "sign_flip",
    "step_down_max_t",
    "step_down_panels",
    "template_sensitivity",
    "two_part_model",
    "variance_shares",
    "wilson",
    "worst_group_probabilities",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that `import fp2.stats` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
