"""Compare groups on one or many outcomes of the same pictures: everything a disparity row carries, in one pass.

`disparity` is a panel of one column. Algorithms A1-A5; the unit is the subject. To analyse images as if they were
independent, pass the image as the subject.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.assemble import Tested, assemble_row
from fp2.stats.interval import bootstrap_interval, observed_moments
from fp2.stats.joint import permute
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.options import Options, make_options
from fp2.stats.pairwise import pair_table
from fp2.stats.prepare import Prepared, prepare
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
    values, groups, subjects, images
        1-D, one entry per (answer, group) that the answer counts in. NaN = missing. An answer counted in k groups is k
        entries with the same subject and image; without `images` every entry is a picture of its own, and whether
        two groups come from one picture is not known.
    higher_is_better
        False puts the worst group at the high end.
    n_permutations, n_bootstrap, seed
        B of A1 (`default_permutations`), B of A2 (0: no interval), and the seed of both.
    alpha
        Level of the interval and of `mde80`; the verdict's level is `adjust`'s own.
    smallest_effect, min_subjects
        Smallest effect of interest; least number of subjects (with a value) for a group to be compared.
    value_range, bins
        The scale, and its number of equal bins for the divergence (default 11 with 0 inside the scale, else 10).
    yes_no
        The outcome is 0/1: groups take the pooled variance in the permutation.

    Returns
    -------
    DisparityRow
        `adjusted_p`, `significant` and `verdict` are None until `adjust` sets them.

    Raises
    ------
    ValueError
        On shapes that differ, missing labels, values outside `value_range`, or options out of range.
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
    """Compare m outcomes between groups with joint permutations and resamples (A5).

    `values` (n, m), one line per (image, group), NaN = unanswered. Options given once hold for every column; otherwise
    one per column. The rest as in `disparity`, whose result for a column alone equals the panel's row.
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
    cells = make_cells(entries)
    prepared = prepare(entries, cells, min_subjects)
    tested = None if prepared is None else _test(prepared, options)
    rows = [assemble_row(j, entries, cells, tested, options) for j in range(m)]
    if tested is None:
        return Panel(rows, np.full(m, np.nan), *(np.full((n_permutations, m), np.nan) for _ in range(2)))
    joint = tested.joint
    return Panel(rows, joint.max_t, joint.raw_permuted * tested.prepared.scale, joint.max_t_permuted)


def _test(p: Prepared, options: Options) -> Tested:
    """Permute (A1, A4, A5) and resample (A2)."""
    dependent = p.slots.dependent
    interval = None
    if options.n_bootstrap:
        interval = bootstrap_interval(
            p.y,
            p.member,
            p.eligible,
            options.sign,
            dependent=dependent,
            n_bootstrap=options.n_bootstrap,
            seed=options.seed,
            alpha=options.alpha,
        )
    return Tested(p, permute(p, options), interval, pair_table(observed_moments(p.y, p.member, p.eligible, dependent)))
