"""Prompt sensitivity: how far group differences depend on the template of a question."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import FloatArray, Outcome, PanelSettings, disparity_panel, finite, permutation_p
from fp2.methods.prompt_variation.random_factors import Beyond, beyond, group_table


@dataclass(frozen=True)
class TemplateSensitivity:
    """T templates of one question compared, for the G groups that are large enough in all of them.

    Attributes
    ----------
    means, gaps
        Group means (G, T) and their max - min per template (T,).
    share_group, share_template, share_interaction
        Parts of the sum of squares of `means`, summing to 1; None without any spread. The interaction is the effect of
        the template on the comparison, plus noise.
    sign_flips, extreme_flips
        Share of (pair, template) in which two groups are ordered other than in the mean over templates; number of
        templates in which its worst and best group are.
    rank_correlation, kendalls_w
        Mean Spearman correlation of the group means between templates; Kendall's coefficient of concordance.
    interaction_p
        Permutation p-value of the interaction.
    n_left_out
        Lines (images of a group) without an answer to one of the templates. They are left out of everything, so that
        all templates are compared on the same images.
    wordings
        Whether the clearest difference holds for questions like those asked, and an interval of the gap.
    """

    groups: tuple[str, ...] = ()
    means: tuple[tuple[float, ...], ...] = ()
    gaps: tuple[float, ...] = ()
    share_group: float | None = None
    share_template: float | None = None
    share_interaction: float | None = None
    sign_flips: float | None = None
    extreme_flips: int | None = None
    rank_correlation: float | None = None
    kendalls_w: float | None = None
    interaction_p: float | None = None
    n_left_out: int = 0
    wordings: Beyond | None = None


def template_sensitivity(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    settings: PanelSettings,
    *,
    images: ArrayLike | None = None,
) -> TemplateSensitivity:
    """Compare templates on the same images.

    The interaction is tested on each answer less the image's mean over templates: the largest |T| over pairs of groups
    and templates when group labels are permuted across subjects.

    Parameters
    ----------
    values : (n, T)
        One line per (image, group), one column per template, NaN = missing.
    groups, subjects, images : (n,)
    settings : PanelSettings

    Raises
    ------
    ValueError
        For fewer than two templates.
    """
    y = np.array(values, dtype=np.float64)
    if y.ndim != 2 or y.shape[1] < 2:
        raise ValueError("template sensitivity needs at least two templates")
    missing = np.isnan(y)
    complete = ~missing.any(axis=1)
    left_out = int((missing.any(axis=1) & ~missing.all(axis=1)).sum())
    y, groups, subjects = y[complete], np.asarray(groups)[complete], np.asarray(subjects)[complete]
    images = None if images is None else np.asarray(images)[complete]
    if not len(y):
        return TemplateSensitivity(n_left_out=left_out)
    group_means = group_table(y, groups, subjects, images, settings.min_subjects)
    names, table = group_means.names, group_means.means
    if len(names) < 2:
        return TemplateSensitivity(names, n_left_out=left_out)
    centred, outcome = y - y.mean(axis=1, keepdims=True), Outcome(value_range=(-np.inf, np.inf))
    panel = disparity_panel(centred, groups, subjects, outcome, settings, images=images)
    tested = all(row.p_value is not None for row in panel.rows)
    shares = variance_shares(table)
    flips, extreme = _sign_flips(table)
    rho, w = _rank_agreement(table)
    return TemplateSensitivity(
        groups=names,
        means=tuple(tuple(float(x) for x in row) for row in table),
        gaps=tuple(float(x) for x in np.ptp(table, axis=0)),
        share_group=shares[0],
        share_template=shares[1],
        share_interaction=shares[2],
        sign_flips=flips,
        extreme_flips=extreme,
        rank_correlation=rho,
        kendalls_w=w,
        interaction_p=permutation_p(float(panel.max_t.max()), panel.max_t_permuted.max(axis=1)) if tested else None,
        n_left_out=left_out,
        wordings=beyond(group_means, settings.alpha),
    )


def variance_shares(table: ArrayLike) -> tuple[float | None, float | None, float | None]:
    """Return the shares of rows, columns and interaction in the sum of squares (G, T); None without spread."""
    y = np.asarray(table, dtype=np.float64)
    centre = y.mean()
    rows, columns = y.mean(axis=1, keepdims=True) - centre, y.mean(axis=0, keepdims=True) - centre
    rest = y - centre - rows - columns
    squares = [float((part**2 + 0 * y).sum()) for part in (rows, columns, rest)]
    total = sum(squares)
    if total <= 1e-24 * max(1.0, float(np.abs(y).max())) ** 2:
        return None, None, None
    return squares[0] / total, squares[1] / total, squares[2] / total


def _sign_flips(table: FloatArray) -> tuple[float | None, int | None]:
    mean = table.mean(axis=1)
    tie = 1e-12 * max(1.0, float(np.abs(table).max()))
    against = [
        (table[g] - table[h]) * np.sign(mean[g] - mean[h]) < -tie
        for g, h in combinations(range(len(table)), 2)
        if abs(mean[g] - mean[h]) > tie
    ]
    if not against:
        return None, None
    low, high = int(mean.argmin()), int(mean.argmax())
    return float(np.mean(against)), int((table[high] - table[low] < -tie).sum())


def _rank_agreement(table: FloatArray) -> tuple[float | None, float | None]:
    """Return the mean Spearman correlation between templates and Kendall's W, from ranks with ties averaged."""
    from scipy.stats import rankdata

    ranks = rankdata(table, axis=0)
    g, t = table.shape
    if not (np.ptp(ranks, axis=0) > 0).all():
        return None, None
    correlation = np.asarray(np.corrcoef(ranks.T))
    rho = finite((float(correlation.sum()) - t) / (t * (t - 1)))
    ties = sum(float((c.astype(float) ** 3 - c).sum()) for c in (np.unique(r, return_counts=True)[1] for r in ranks.T))
    sums = ranks.sum(axis=1)
    w = 12 * float(((sums - sums.mean()) ** 2).sum()) / (t * t * (g**3 - g) - t * ties)
    return rho, finite(w)
