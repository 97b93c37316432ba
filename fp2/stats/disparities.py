"""Compare groups on one or many outcomes of the same images: everything that a disparity row holds, in one pass.

`disparity` is a panel of one outcome. The unit of analysis is the subject; to analyse images as if they were
independent, pass the image as the subject.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.assemble import Tested, assemble_row
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import pair_table
from fp2.stats.core.numeric import FloatArray
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
