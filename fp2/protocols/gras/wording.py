"""What the wording does: the same pictures and traits asked in several templates.

Per trait, on one image set: repeated-measures analysis of variance (within = template) with the sphericity corrections
of Greenhouse and Geisser (1959) and of Huynh and Feldt (1976), Friedman's test, and the share of the sum of squares
that is the template's. With thousands of pictures every test is significant: the shares, the rank correlation of the
groups' deviations between templates, and how often the sign of a gap flips are what says whether it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.gras.groups import BoolArray, FloatArray


@dataclass(frozen=True)
class WordingTests:
    """One entry per trait, each (K,); NaN where fewer than three units answered every template, or nothing varies.

    n: complete units. f, df1, df2: of the repeated-measures analysis. greenhouse_geisser, huynh_feldt: the epsilons;
    p_gg, p_hf: with degrees of freedom times them. share_template, share_unit, share_rest: of the sum of squares
    (sum 1). friedman, friedman_p: the statistic with ties corrected, and its chi-squared p. kendalls_w: concordance.
    """

    n: FloatArray
    f: FloatArray
    df1: FloatArray
    df2: FloatArray
    greenhouse_geisser: FloatArray
    huynh_feldt: FloatArray
    p_gg: FloatArray
    p_hf: FloatArray
    share_template: FloatArray
    share_unit: FloatArray
    share_rest: FloatArray
    friedman: FloatArray
    friedman_p: FloatArray
    kendalls_w: FloatArray


def wording_tests(values: NDArray[np.floating]) -> WordingTests:
    """Test every trait of `values` (units, K, T); a unit that lacks a template is left out of that trait.

    Raises ValueError for fewer than two templates.
    """
    if values.shape[2] < 2:
        raise ValueError("the wording can only be compared between two templates or more")
    rows = [_one(np.asarray(values[:, k], dtype=np.float64)) for k in range(values.shape[1])]
    return WordingTests(*np.array(rows, dtype=np.float64).reshape(-1, 14).T)


def _one(table: FloatArray) -> tuple[float, ...]:
    """Test one trait: (units, T)."""
    from scipy.special import chdtrc, fdtrc

    y = table[np.isfinite(table).all(axis=1)]
    n, t = y.shape
    if n < 3 or np.ptp(y) <= 1e-9 * max(float(np.abs(y).max()), 1e-30):
        return (float(n), *[np.nan] * 13)
    chi, w = _friedman(y)  # before centring, which would tie tiny values
    y = y - y.mean()
    by_unit, by_template = y.mean(axis=1), y.mean(axis=0)
    whole, template, unit = float((y**2).sum()), n * float((by_template**2).sum()), t * float((by_unit**2).sum())
    residual = y - by_unit[:, None] - by_template
    rest = float((residual**2).sum())
    df1, df2 = t - 1.0, (n - 1.0) * (t - 1.0)
    f = (template / df1) / (rest / df2) if rest > 1e-20 * whole else np.inf
    # the residuals are the doubly centred data: their covariance has the eigenvalues that sphericity is about
    covariance = residual.T @ residual / (n - 1.0)
    trace, squares = float(np.trace(covariance)), float((covariance**2).sum())
    gg = min(1.0, max(1.0 / df1, trace**2 / (df1 * squares))) if squares > 0 else 1.0
    below = df1 * (n - 1.0 - df1 * gg)
    hf = min(1.0, max(gg, (n * df1 * gg - 2.0) / below)) if below > 0 else 1.0
    p = [float(fdtrc(df1 * e, df2 * e, f)) if np.isfinite(f) else 0.0 for e in (gg, hf)]
    shares = (template / whole, unit / whole, rest / whole)
    return (n, f if np.isfinite(f) else np.nan, df1, df2, gg, hf, *p, *shares, chi, float(chdtrc(df1, chi)), w)


def _friedman(y: FloatArray) -> tuple[float, float]:
    """Return Friedman's statistic, ties corrected, and Kendall's W of (units, T); NaN where all tie."""
    n, t = y.shape
    less = (y[:, None, :] < y[:, :, None]).sum(axis=2)
    ties = (y[:, None, :] == y[:, :, None]).sum(axis=2)
    ranks = less + (ties + 1) / 2.0
    # over the T places, sum of (number tied with it)^2 - 1 is the sum of u^3 - u over the ties of u values
    correction = 1.0 - float((ties**2 - 1).sum()) / (n * t * (t * t - 1.0))
    if correction <= 1e-12:
        return float("nan"), float("nan")
    sums = ranks.sum(axis=0)
    chi = (12.0 / (n * t * (t + 1.0)) * float((sums**2).sum()) - 3.0 * n * (t + 1.0)) / correction
    return chi, chi / (n * (t - 1.0))


def sign_flips(means: FloatArray, chosen: BoolArray | None = None) -> float:
    """Return how often two groups stand the other way round in one template than in the mean over templates.

    means (G, K, T): group means. chosen (K,): the traits that count, all by default. A share of (pair, trait, template)
    in [0, 1]; NaN where no pair differs.
    """
    against = total = 0
    for g, h in combinations(range(len(means)), 2):
        difference = means[g] - means[h] if chosen is None else (means[g] - means[h])[chosen]
        average = difference.mean(axis=1)
        known = np.abs(average) > 1e-12
        with np.errstate(invalid="ignore"):
            against += int((difference * np.sign(average)[:, None] < -1e-12)[known].sum())
        total += int(known.sum()) * difference.shape[1]
    return against / total if total else float("nan")


def rank_agreement(means: FloatArray) -> float:
    """Return the mean Spearman correlation between templates of the groups' deviations over all traits.

    means (G, K, T): the deviation of a group is from the plain mean over groups, per trait and template. NaN where it
    does not exist.
    """
    from scipy.stats import rankdata

    deviations = (means - means.mean(axis=0)).reshape(-1, means.shape[2])
    deviations = deviations[np.isfinite(deviations).all(axis=1)]
    if len(deviations) < 2 or (np.ptp(deviations, axis=0) == 0).any():
        return float("nan")
    correlation = np.corrcoef(rankdata(deviations, axis=0).T)
    t = means.shape[2]
    return float((correlation.sum() - t) / (t * (t - 1))) if t > 1 else float("nan")
