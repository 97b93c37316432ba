"""The methods behind disparity rows, and the places in `results.json` that each of them owns.

A rerun compares what the logged run and this version compute by the same methods, and names the others
(`fp2.results.Method`).
"""

from __future__ import annotations

from fp2.results import Method

_DISPARITIES = ("disparities.*", "*.disparities.*", "*.ours")
_MISSING = ("missing.rows.*", "missing.two_part.*")
_MATCHED = ("matched.rows.*",)
_WITHIN = ("*.within.*.rows.*",)


def _of(rows: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(f"{row}.{name}" for row in rows for name in names)


ROW_METHODS: tuple[Method, ...] = (
    # the largest contrast of all groups counts beside the largest pair; two groups take their own variances; the
    # variance of yes/no outcomes takes each group's agreement into account
    (
        "permutation_test", 2,
        (*_of(_DISPARITIES, "p_value", "max_t"), *_of(_MISSING, "p_value"), "composites.*.p_value"),
    ),
    # the test inverted, in place of a bootstrap
    (
        "interval", 2,
        (*_of(_DISPARITIES, "ci_low", "ci_high", "selected_ci_low", "selected_ci_high"), *_of(_WITHIN, "ci_*")),
    ),
    # limits for rare and skewed outcomes, corrected over the family
    (
        "equivalence", 2,
        (*_of(_DISPARITIES, "equivalence_p", "adjusted_equivalence_p"), *_of(_MATCHED, "adjusted_equivalence_p")),
    ),
    ("minimum_effect", 2, _of((*_DISPARITIES, *_MATCHED), "minimum_effect_p", "adjusted_minimum_effect_p")),
    # rows and composites of a run are one weighted family; `pairwise` has the pairs of significant rows
    (
        "family", 2,
        (
            *_of((*_DISPARITIES, *_MATCHED), "adjusted_p", "significant", "family_size", "family_level"),
            *_of(_MISSING, "adjusted_p", "significant"), "matched.metrics.*.adjusted_p", "composites.*.adjusted_p",
            "pairwise", "pairwise.*", *_of(_WITHIN, "p", "p_all"),
        ),
    ),
    # the verdict biased needs a minimum-effect test
    (
        "verdict", 2,
        (
            *_of((*_DISPARITIES, *_MATCHED, *_MISSING, *_WITHIN), "verdict"), "matched.headline.biased*", "*.change",
            *_of(("*.benchmark.rows.*",), "agreement", "why", "reasons"),
        ),
    ),
    # the pair of the largest |T| is named, in place of the extreme means
    (
        "named_pair", 2,
        (
            *_of(
                _DISPARITIES, "worst_group", "best_group", "extreme_pair*", "pair_gap", "worst_set*", "p_worst",
                "p_worst_null", "hedges_g", "answer_d",
            ),
            "missing.*.worst_group", "missing.*.best_group",
        ),
    ),
    # by the interval of the magnitude, in place of the excess over the null mean
    (
        "severity", 2,
        ("severity", "*.severity", "composites.*.severity", "composites.*.magnitude*", "composites.*.groups*"),
    ),
    # of the groups that count in every probe, where probes have different ones
    (
        "composite_groups", 2,
        ("composite", *(f"composites.*.{name}" for name in ("value", "null_mean", "null_p95", "excess", "probes"))),
    ),
    # with an interval for sampling error
    (
        "refusal_bounds", 2,
        _of((*_DISPARITIES, *_MISSING), "bounds_ci_low", "bounds_ci_high", "holds_under_refusals"),
    ),
    # at the level of the family
    ("minimum_detectable", 2, _of((*_DISPARITIES, *_MATCHED, *_WITHIN), "mde80")),
)  # fmt: skip
SEVERAL_QUESTIONS: tuple[Method, ...] = (
    # answers are adjusted for their question where some are missing
    ("several_questions", 2, ("disparities.*", "composites.*", "composite", "composites", "*.headline*")),
)
"""Of protocols whose probes have several questions, in addition."""

ROW_TESTS = {
    "p_value": "permutation of group labels across subjects, largest studentised contrast of pairs and of all groups",
    "chance_level": "mean and 95th percentile of max - min under the same permutations",
    "interval": "the permutation test inverted, simultaneous over pairs of groups, for max - min",
    "reference_only": "Kruskal-Wallis and Welch (asymptotic; not used for verdicts)",
}
"""How the numbers of disparity rows are computed (`Statements.tests`)."""
SCORE_TESTS = {
    **ROW_TESTS,
    "published": "Mann-Whitney tests of all pairs of groups, images and subjects as units, corrected within one cut",
}
"""The same, of protocols that have FHIBE's published comparison beside them."""
