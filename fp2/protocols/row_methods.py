"""The methods behind disparity rows, and the places in `results.json` that each of them owns.

A rerun compares what the logged run and this version compute by the same methods, and names the others
(`fp2.results.Method`).
"""

from __future__ import annotations

from fp2.results import Method
from fp2.stats.rows import columns_of_method

_DISPARITIES = ("disparities.*", "*.disparities.*", "*.ours")
_MISSING = ("missing.rows.*", "missing.two_part.*")
_MATCHED = ("matched.rows.*",)
_WITHIN = ("*.within.*.rows.*",)


def _of(rows: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(f"{row}.{name}" for row in rows for name in names)


def _row_method(name: str, *targets: str, version: int = 2) -> Method:
    """Return a method that owns its columns of the disparities (`fp2.stats.rows`), and further places."""
    return name, version, (*_of(_DISPARITIES, *(f"{column}*" for column in columns_of_method(name))), *targets)


ROW_METHODS: tuple[Method, ...] = (
    # the largest contrast of all groups counts beside the largest pair; two groups take their own variances; the
    # variance of yes/no outcomes takes each group's agreement into account
    _row_method("permutation_test", *_of(_MISSING, "p_value"), "composites.*.p_value"),
    # the test inverted, in place of a bootstrap
    _row_method("interval", *_of(_WITHIN, "ci_*")),
    # limits for rare and skewed outcomes, corrected over the family
    _row_method("equivalence", *_of(_MATCHED, "adjusted_equivalence_p")),
    _row_method("minimum_effect", *_of(_MATCHED, "minimum_effect_p", "adjusted_minimum_effect_p")),
    # rows and composites of a run are one weighted family; `pairwise` has the pairs of significant rows
    _row_method(
        "family", *_of(_DISPARITIES, "family_size"),
        *_of(_MATCHED, "adjusted_p", "significant", "family_size", "family_level"),
        *_of(_MISSING, "adjusted_p", "significant"), "matched.metrics.*.adjusted_p", "composites.*.adjusted_p",
        "pairwise", "pairwise.*", *_of(_WITHIN, "p", "p_all"),
    ),
    # the verdict biased needs a minimum-effect test
    _row_method(
        "verdict", *_of((*_MATCHED, *_MISSING, *_WITHIN), "verdict"), "matched.headline.biased*", "*.change",
        *_of(("*.benchmark.rows.*",), "agreement", "why", "reasons"),
    ),
    # the pair of the largest |T| is named, in place of the extreme means
    _row_method("named_pair", "missing.*.worst_group", "missing.*.best_group"),
    # what boards of passports need of each group, in place of its answers
    _row_method("covariances", "composites.*.covariances", "composites.*.covariances.*"),
    # by the interval of the magnitude, in place of the excess over the null mean; 3: none only where every probe was
    # tested
    _row_method(
        "severity", "severity", "*.severity", "composites.*.severity", "composites.*.magnitude*",
        "composites.*.groups*", version=3,
    ),
    # of the groups that count in every probe, where probes have different ones; 3: none where no probe was tested
    _row_method(
        "composite_groups", "composite",
        *_of(("composites.*",), "value", "null_mean", "null_p95", "excess", "probes"), version=3,
    ),
    # with an interval for sampling error
    _row_method(
        "refusal_bounds",
        *_of((*_DISPARITIES, *_MISSING), "bounds_ci_low", "bounds_ci_high", "holds_under_refusals"),
    ),
    # at the level of the family
    _row_method("minimum_detectable", *_of((*_MATCHED, *_WITHIN), "mde80")),
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
