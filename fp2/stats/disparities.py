"""Compare groups on one or many outcomes of the same images: everything that a disparity row holds, in one pass.

`disparity` is a panel of one outcome. The unit of analysis is the subject; to analyse images as if they were
independent, pass the image as the subject. The composite is the mean disparity of several outcomes, tested with the
permutations that they share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.assemble import Tested, assemble_row
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import pair_table
from fp2.stats.core.numeric import FloatArray, finite
from fp2.stats.core.permutation import permutation_p
from fp2.stats.core.resampling import observed_moments
from fp2.stats.core.units import Prepared, prepare
from fp2.stats.interval import gap_tests, worst_probabilities
from fp2.stats.joint import joint_permutations
from fp2.stats.options import Options, make_options
from fp2.stats.rows import DisparityRow, Panel


def disparity(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool = True,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    smallest_effect: float = 0.05,
    min_subjects: int = 10,
    value_range: tuple[float, float] = (-1.0, 1.0),
    bins: int | None = None,
    yes_no: bool = False,
) -> DisparityRow:
    """Compare one outcome between groups.

    Parameters
    ----------
    values, groups, subjects, images : (n,)
        One entry per (answer, group). NaN = missing. An answer that counts in k groups is k entries with the same
        subject and image; without `images` every entry is an image of its own.
    higher_is_better : bool
        If False the worst group has the largest mean.
    n_permutations, n_bootstrap, seed : int
        Number of permutations (see `adjustment.default_permutations`) and of bootstrap resamples (0: no probability of
        ranking worst), and their seed.
    alpha : float
        1 - confidence level of the interval, and level of `mde80`; verdicts have the level given to `adjust`.
    smallest_effect, min_subjects
        Smallest effect of interest; least number of subjects (with a value) for a group to be compared.
    value_range, bins
        The scale, and its number of equal bins for the divergence (default 11 with 0 inside the scale, else 10).
    yes_no : bool
        The outcome is 0/1: standard errors follow from the overall rate and the agreement of the answers of a subject.

    Returns
    -------
    DisparityRow
        `adjusted_p`, `significant` and `verdict` are None until `adjust` sets them.

    Raises
    ------
    ValueError
        If shapes differ, labels are missing, values lie outside `value_range`, or an option is out of range.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {column.shape}")
    return disparity_panel(
        column[:, None],
        groups,
        subjects,
        images=images,
        higher_is_better=higher_is_better,
        value_ranges=value_range,
        bins=bins,
        yes_no=yes_no,
        smallest_effects=smallest_effect,
        n_permutations=n_permutations,
        n_bootstrap=n_bootstrap,
        seed=seed,
        alpha=alpha,
        min_subjects=min_subjects,
    ).rows[0]


def disparity_panel(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool | Sequence[bool] = True,
    value_ranges: tuple[float, float] | Sequence[tuple[float, float]] = (-1.0, 1.0),
    bins: int | Sequence[int | None] | None = None,
    yes_no: bool | Sequence[bool] = False,
    smallest_effects: float | Sequence[float] = 0.05,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> Panel:
    """Compare m outcomes between groups with joint permutations and resamples.

    `values` (n, m): one line per (image, group), NaN = unanswered. Options given once hold for every outcome; otherwise
    one per outcome. The rest as in `disparity`, which returns the same row for one outcome alone.
    """
    entries = read_entries(values, groups, subjects, images)
    m = entries.values.shape[1]
    options = make_options(
        m,
        higher_is_better=higher_is_better,
        value_ranges=value_ranges,
        bins=bins,
        yes_no=yes_no,
        smallest_effects=smallest_effects,
        n_permutations=n_permutations,
        n_bootstrap=n_bootstrap,
        seed=seed,
        alpha=alpha,
        min_subjects=min_subjects,
    )
    options.check_values(entries.values)
    cells = cell_means(entries)
    prepared = prepare(entries, cells, min_subjects)
    tested = None if prepared is None else _test(prepared, options)
    rows = [assemble_row(j, entries, cells, tested, options) for j in range(m)]
    if tested is None:
        nothing = np.full((n_permutations, m), np.nan)
        return Panel(rows, np.full(m, np.nan), nothing, nothing.copy(), np.zeros((0, m)))
    joint = tested.joint
    scale = tested.prepared.scale
    influence = range_influence(tested.prepared, joint.observed.mean[:, 0]) * scale
    return Panel(rows, joint.max_t, joint.raw_permuted * scale, joint.max_t_permuted, influence)


def range_influence(p: Prepared, mean: FloatArray) -> FloatArray:
    """Return what each subject adds to max - min of the group means (G, m), (N, m)."""
    out = np.zeros((len(p.y), mean.shape[1]))
    for j in np.flatnonzero(np.isfinite(mean).sum(axis=0) >= 2):
        for g, sign in ((np.nanargmax(mean[:, j]), 1.0), (np.nanargmin(mean[:, j]), -1.0)):
            off = np.nan_to_num(p.y[:, g, j] - mean[g, j])
            n = int(np.isfinite(p.y[:, g, j]).sum())
            out[:, j] += sign * off / n * np.sqrt(n / (n - 1))
    return out


def _test(p: Prepared, options: Options) -> Tested:
    """Run the permutations and the bootstrap."""
    worst = None
    if options.n_bootstrap:
        worst = worst_probabilities(p, options.sign, n_bootstrap=options.n_bootstrap, seed=options.seed)
    joint = joint_permutations(p, options)
    own = pair_table(observed_moments(p.y, p.member, p.eligible, p.units.dependent))
    return Tested(p, joint, gap_tests(p, joint, options.yes_no), worst, own)


@dataclass(frozen=True)
class CompositeTest:
    """The mean of `raw` over `n_columns` rows, its null mean and 95th percentile, excess and permutation p-value.

    `magnitude`: the value corrected for noise, with its interval at 1 - 2 alpha. None where a number does not exist.
    """

    value: float | None
    null_mean: float | None
    null_p95: float | None
    excess: float | None
    p_value: float | None
    n_columns: int
    magnitude: float | None = None
    magnitude_low: float | None = None
    magnitude_high: float | None = None


def composite_test(panel: Panel, columns: Sequence[int], alpha: float = 0.05) -> CompositeTest:
    """Test the mean of `raw` over `columns` (indices of the panel's rows).

    The null distribution of the value is the same mean in each joint permutation; p compares the mean over columns of
    max|T|. Columns that were not tested are left out; all numbers are None if none is left.

    The magnitude is the root of the squared value less the mean of its square over the permutations, or 0. What chance
    adds to the square of a gap does not depend on the gap, to first order, so that it does not depend on the number of
    subjects as the excess does. It is too high where few of many columns have a gap. The interval at 1 - 2 alpha is
    that of the square, by the delta method: its variance is 4 magnitude^2 SE^2, SE from what each subject adds to the
    extreme means, plus its variance over the permutations; Student's t with 3 (sum u^2)^2 / sum u^4 - 1 degrees of
    freedom (Satterthwaite 1946, for the subjects' parts u).

    Raises
    ------
    ValueError
        If a column is not in the panel.
    """
    if any(not -len(panel.rows) <= c < len(panel.rows) for c in columns):
        raise ValueError(f"columns {list(columns)} are not all among the panel's {len(panel.rows)} rows")
    used = [c for c in columns if panel.rows[c].raw is not None]
    if not used:
        return CompositeTest(None, None, None, None, None, 0)
    value = float(np.mean([panel.rows[c].raw for c in used]))
    if all(panel.rows[c].p_value is None for c in used):
        return CompositeTest(value, None, None, None, None, len(used))
    null = panel.raw_permuted[:, used].mean(axis=1)
    null = null[np.isfinite(null)]
    p = permutation_p(float(panel.max_t[used].mean()), panel.max_t_permuted[:, used].mean(axis=1))
    if not len(null):
        return CompositeTest(value, None, None, None, p, len(used))
    mean = float(null.mean())
    magnitude, low, high = _magnitude(value, null, panel.influence[:, used].mean(axis=1), alpha)
    high_null = finite(float(np.quantile(null, 0.95)))
    return CompositeTest(value, mean, high_null, value - mean, p, len(used), magnitude, low, high)


def _magnitude(value: float, null: FloatArray, influence: FloatArray, alpha: float) -> tuple[float, float, float]:
    """Return the magnitude and the ends of its interval from the null values (B,) and the subjects' parts (N,)."""
    from scipy.special import stdtrit

    square = value**2 - float((null**2).mean())
    sums = float((influence**2).sum()), float((influence**4).sum())
    df = max(3 * sums[0] ** 2 / sums[1] - 1, 1.0) if sums[1] > 0 else np.inf
    error = math.sqrt(4 * max(square, 0.0) * sums[0] + float((null**2).var()))
    margin = (float(stdtrit(df, 1 - alpha)) if math.isfinite(df) else 0.0) * error
    magnitude, low, high = (math.sqrt(max(x, 0.0)) for x in (square, square - margin, square + margin))
    return magnitude, low, high
