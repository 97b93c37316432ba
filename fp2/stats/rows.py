"""The results of comparing groups: one row per outcome, and a panel of rows with their joint permutations."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fp2.stats.core.numeric import FloatArray, finite
from fp2.verdicts import Verdict

if TYPE_CHECKING:
    from fp2.stats.interval import GapTest

OK = "ok"
TOO_FEW = Verdict.TOO_FEW_SUBJECTS.value
UNINFORMATIVE = Verdict.UNINFORMATIVE.value


@dataclass(frozen=True)
class GroupSummary:
    """One group in one row: sizes count what has a value; `mean` and `sd` (ddof 1) are over subject means.

    `eligible`: the group has enough subjects to enter the maximum, the tests and the verdict.
    """

    group: str
    n_subjects: int
    n_images: int
    mean: float | None
    sd: float | None
    eligible: bool


@dataclass(frozen=True, kw_only=True)
class DisparityRow:
    """One outcome compared between the groups of one cut; None where a number does not exist.

    Sizes are in the outcome's own units.

    Attributes
    ----------
    raw, null_mean, null_p95, excess
        max - min of the group means over subjects; its mean and 95th percentile when group labels are permuted across
        subjects; raw - null_mean, which compares with chance and does not estimate the gap.
    p_value, max_t
        Of the permutation test, with the largest studentised contrast as statistic: of pairs, and of all groups.
    shrunken, ci_low, ci_high
        Estimate of the gap, and its interval at 1 - alpha.
    worst_group, best_group, extreme_pair, pair_gap
        The pair of groups with the largest |T|, and the difference of its means
        (at most `raw`, whose groups can be smaller ones).
    hedges_g, answer_d
        The pair's difference in SD of subject means, which grows with the images per subject, and in SD of one answer.
    worst_set
        Groups that could rank worst: a confidence set at 1 - alpha.
    p_worst, p_worst_null
        Bootstrap probability of ranking worst, and its expectation in permutations in which this group ranks worst.
    epsilon_squared, omega_squared, kruskal_h, kruskal_p, welch_f, welch_p
        Effect sizes and asymptotic references; they decide nothing. `dependent_groups`: some groups share subjects.
    js_divergence, js_null_mean, js_p
        Generalised Jensen-Shannon divergence, its null mean and permutation p-value.
    icc, design_effect
        Intraclass correlation of the images of one subject.
    mde80
        Minimum detectable effect (80 % power) between any two eligible groups, at the level that the row has in its
        family; at `alpha` before `adjust`.
    smallest_effect, minimum_effect_p, equivalence_p
        The smallest effect of interest; p-values that no pair of groups differs by more, and that some pair differs by
        at least as much.
    n_images, n_subjects, n_missing
        With a value, in all groups; images without a value.
    status
        "ok", "too_few_subjects" or "uninformative".
    adjusted_p, significant, verdict, adjusted_minimum_effect_p, adjusted_equivalence_p
        None until `adjust` sets them for a family.
    family_level
        Share of alpha that the row has in its family: the level of its first test.
    selected_ci_low, selected_ci_high
        Interval of a significant row, corrected for the selection of the significant rows of the family.
    test
        The row's test, which can be inverted at other levels; not in `to_dict`.
    """

    raw: float | None = None
    null_mean: float | None = None
    null_p95: float | None = None
    p_value: float | None = None
    max_t: float | None = None
    excess: float | None = None
    shrunken: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    worst_group: str | None = None
    best_group: str | None = None
    extreme_pair: tuple[str, str] | None = None
    pair_gap: float | None = None
    worst_set: tuple[str, ...] | None = None
    p_worst: float | None = None
    p_worst_null: float | None = None
    hedges_g: float | None = None
    answer_d: float | None = None
    epsilon_squared: float | None = None
    omega_squared: float | None = None
    kruskal_h: float | None = None
    kruskal_p: float | None = None
    welch_f: float | None = None
    welch_p: float | None = None
    dependent_groups: bool
    js_divergence: float | None = None
    js_null_mean: float | None = None
    js_p: float | None = None
    icc: float | None = None
    design_effect: float | None = None
    mde80: float | None = None
    equivalence_p: float | None = None
    minimum_effect_p: float | None = None
    smallest_effect: float
    n_images: int
    n_subjects: int
    n_missing: int
    n_permutations: int
    status: str
    groups: tuple[GroupSummary, ...]
    adjusted_p: float | None = None
    significant: bool | None = None
    verdict: str | None = None
    adjusted_minimum_effect_p: float | None = None
    adjusted_equivalence_p: float | None = None
    family_level: float | None = None
    selected_ci_low: float | None = None
    selected_ci_high: float | None = None
    test: GapTest | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict: finite floats or None, lists instead of tuples."""
        plain: dict[str, Any] = _plain(asdict(replace(self, test=None)))
        del plain["test"]
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


@dataclass(frozen=True)
class Panel:
    """Rows of several outcomes of the same images, with the permutations that they share.

    Attributes
    ----------
    rows : list of DisparityRow
        One per outcome.
    max_t : (m,)
        Observed largest studentised contrast.
    raw_permuted, max_t_permuted : (B, m)
        Line b is one relabelling of the subjects, applied to every outcome. NaN for an outcome that was not tested.
    influence : (N, m)
        What each subject adds to `raw`: the squared sum over subjects is the squared standard error of the difference
        of the extreme means. 0 for an outcome that was not tested.
    """

    rows: list[DisparityRow]
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray
    influence: FloatArray
