"""What a comparison of groups takes and gives: outcomes and settings, one row per outcome, a panel of rows.

A field of `DisparityRow` states what reads it beside the report: a new column is one field here and its number in
`fp2.stats.disparities`. The module imports nothing heavy.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from fp2.verdicts import Verdict

if TYPE_CHECKING:
    from fp2.stats.core.numeric import FloatArray
    from fp2.stats.interval import GapTest

OK = "ok"
TOO_FEW = Verdict.TOO_FEW_SUBJECTS.value
UNINFORMATIVE = Verdict.UNINFORMATIVE.value
TABLE, RERUN, METRIC, PRIMARY_METRIC = "table", "rerun", "metric", "primary metric"
"""What reads a column: the table in MLflow's UI, the comparison with a rerun, MLflow's metrics (of the primary scorer
alone)."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a column of values is.

    Attributes
    ----------
    higher_is_better : bool
        If False the worst group has the largest mean.
    value_range, bins
        The scale, and its number of equal bins for the divergence (default 11 with 0 inside the scale, else 10).
    yes_no : bool
        The outcome is 0/1: standard errors follow from the overall rate and the agreement of the answers of a subject.
    smallest_effect : float
        Smallest effect of interest.

    Raises
    ------
    ValueError
        If an option is out of range.
    """

    higher_is_better: bool = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    bins: int | None = None
    yes_no: bool = False
    smallest_effect: float = 0.05

    def __post_init__(self) -> None:
        low, high = self.value_range
        if not low < high or not self.smallest_effect >= 0:
            raise ValueError(f"need a value_range with low < high and smallest_effect >= 0, got {self}")
        if self.bins is not None and self.bins < 2:
            raise ValueError(f"need at least two bins, got {self.bins}")

    @property
    def n_bins(self) -> int | None:
        """The number of bins of the divergence; None where the scale is unbounded."""
        low, high = self.value_range
        if not math.isfinite(high - low):
            return None
        # on a scale with both signs 0 lies in the middle of a bin
        return self.bins or (11 if low < 0 < high else 10)


@dataclass(frozen=True, kw_only=True)
class PanelSettings:
    """How outcomes are compared.

    Attributes
    ----------
    n_permutations, n_bootstrap, seed : int
        Number of permutations (see `adjustment.default_permutations`) and of bootstrap resamples (0: no probability of
        ranking worst), and their seed.
    alpha : float
        1 - confidence level of the interval, and level of `mde80`; verdicts have the level given to `adjust`.
    min_subjects : int
        Least number of subjects (with a value) for a group to be compared.

    Raises
    ------
    ValueError
        If an option is out of range.
    """

    n_permutations: int
    n_bootstrap: int = 0
    seed: int
    alpha: float = 0.05
    min_subjects: int = 10

    def __post_init__(self) -> None:
        if min(self.n_permutations, self.min_subjects) < 1 or min(self.n_bootstrap, self.seed) < 0:
            raise ValueError("need n_permutations >= 1, n_bootstrap >= 0, min_subjects >= 1 and seed >= 0")
        if not 0 < self.alpha < 1:
            raise ValueError(f"need 0 < alpha < 1, got {self.alpha}")


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


def _column(*uses: str, method: str = "") -> Any:
    """Return a field that is None by default; `method`: the one that owns it (`fp2.protocols.row_methods`)."""
    return field(default=None, metadata={"uses": uses, "method": method})


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

    raw: float | None = _column(TABLE, RERUN, METRIC)
    null_mean: float | None = _column(TABLE, RERUN)
    null_p95: float | None = _column(TABLE)
    p_value: float | None = _column(TABLE, RERUN, method="permutation_test")
    max_t: float | None = _column(method="permutation_test")
    excess: float | None = _column(TABLE)
    shrunken: float | None = _column(TABLE, RERUN, PRIMARY_METRIC)
    ci_low: float | None = _column(TABLE, RERUN, method="interval")
    ci_high: float | None = _column(TABLE, RERUN, method="interval")
    worst_group: str | None = _column(TABLE, method="named_pair")
    best_group: str | None = _column(TABLE, method="named_pair")
    extreme_pair: tuple[str, str] | None = _column(method="named_pair")
    pair_gap: float | None = _column(method="named_pair")
    worst_set: tuple[str, ...] | None = _column(method="named_pair")
    p_worst: float | None = _column(method="named_pair")
    p_worst_null: float | None = _column(method="named_pair")
    hedges_g: float | None = _column(TABLE, PRIMARY_METRIC, method="named_pair")
    answer_d: float | None = _column(method="named_pair")
    epsilon_squared: float | None = _column(TABLE, PRIMARY_METRIC)
    omega_squared: float | None = _column(TABLE)
    kruskal_h: float | None = None
    kruskal_p: float | None = None
    welch_f: float | None = None
    welch_p: float | None = None
    dependent_groups: bool
    js_divergence: float | None = _column(TABLE)
    js_null_mean: float | None = None
    js_p: float | None = None
    icc: float | None = None
    design_effect: float | None = None
    mde80: float | None = _column(TABLE, method="minimum_detectable")
    equivalence_p: float | None = _column(method="equivalence")
    minimum_effect_p: float | None = _column(method="minimum_effect")
    smallest_effect: float
    n_images: int = field(metadata={"uses": (TABLE,)})
    n_subjects: int = field(metadata={"uses": (TABLE,)})
    n_missing: int
    n_permutations: int
    status: str
    groups: tuple[GroupSummary, ...]
    adjusted_p: float | None = _column(TABLE, RERUN, METRIC, method="family")
    significant: bool | None = _column(method="family")
    verdict: str | None = _column(TABLE, method="verdict")
    adjusted_minimum_effect_p: float | None = _column(method="minimum_effect")
    adjusted_equivalence_p: float | None = _column(method="equivalence")
    family_level: float | None = _column(method="family")
    selected_ci_low: float | None = _column(method="interval")
    selected_ci_high: float | None = _column(method="interval")
    test: GapTest | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict: finite floats or None, lists instead of tuples."""
        columns: dict[str, Any] = json_ready(asdict(replace(self, test=None)))
        del columns["test"]
        return columns


def columns_read_by(use: str) -> tuple[str, ...]:
    """Return the columns that `TABLE`, `RERUN`, `METRIC` or `PRIMARY_METRIC` reads, in the order of the row."""
    return tuple(column.name for column in fields(DisparityRow) if use in column.metadata.get("uses", ()))


def columns_of_method(method: str) -> tuple[str, ...]:
    """Return the columns that a method owns."""
    return tuple(column.name for column in fields(DisparityRow) if column.metadata.get("method") == method)


def json_ready(value: object) -> Any:
    """Return mappings and sequences as dicts and lists, and None for a number that is not finite."""
    if isinstance(value, dict):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


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
        Row b is one relabelling of the subjects, applied to every outcome. NaN for an outcome that was not tested.
    influence : (N, m)
        What each subject adds to `raw`: the squared sum over subjects is the squared standard error of the difference
        of the extreme means. 0 for an outcome that was not tested.
    """

    rows: list[DisparityRow]
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray
    influence: FloatArray
