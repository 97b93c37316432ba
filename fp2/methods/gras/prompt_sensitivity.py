"""Prompt sensitivity: the same images and traits asked in several templates.

Per trait, on one image set: repeated-measures analysis of variance (within = template) with the sphericity corrections
of Greenhouse and Geisser (1959) and of Huynh and Feldt (1976), Friedman's test, and the template's share of the sum of
squares. With thousands of images every test is significant. Whether templates matter for a comparison of groups is
shown by the shares, by the rank correlation of the groups' deviations between templates, and by how often the sign of
a difference flips.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import BoolArray, FloatArray, nested, rounded
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.group_sums import IMAGES, SUBJECTS, CentredSums
from fp2.methods.gras.resampling import TraitTests

_FLIP_DRAWS = 20


@dataclass(frozen=True)
class TemplateTests:
    """One entry per trait, each (K,); NaN where fewer than three units answered every template, or nothing varies.

    Attributes
    ----------
    n : complete units
    f, df1, df2 : of the repeated-measures analysis of variance
    greenhouse_geisser, huynh_feldt : the epsilons
    p_gg, p_hf : p-values with the degrees of freedom multiplied by them
    share_template, share_unit, share_rest : shares of the sum of squares, with sum 1
    friedman, friedman_p : the statistic corrected for ties, and its chi-squared p-value
    kendalls_w : coefficient of concordance
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


def template_tests(values: NDArray[np.floating]) -> TemplateTests:
    """Test every trait of `values` (units, K, T); a unit that lacks a template is left out of that trait.

    Raises
    ------
    ValueError
        For fewer than two templates.
    """
    if values.shape[2] < 2:
        raise ValueError("prompt sensitivity needs at least two templates")
    rows = [_test_trait(np.asarray(values[:, k], dtype=np.float64)) for k in range(values.shape[1])]
    return TemplateTests(*np.array(rows, dtype=np.float64).reshape(-1, 14).T)


def _test_trait(table: FloatArray) -> tuple[float, ...]:
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
    # the residuals are the doubly centred data: sphericity is about the eigenvalues of their covariance
    covariance = residual.T @ residual / (n - 1.0)
    trace, squares = float(np.trace(covariance)), float((covariance**2).sum())
    gg = min(1.0, max(1.0 / df1, trace**2 / (df1 * squares))) if squares > 0 else 1.0
    below = df1 * (n - 1.0 - df1 * gg)
    hf = min(1.0, max(gg, (n * df1 * gg - 2.0) / below)) if below > 0 else 1.0
    p = [float(fdtrc(df1 * e, df2 * e, f)) if np.isfinite(f) else 0.0 for e in (gg, hf)]
    shares = (template / whole, unit / whole, rest / whole)
    return (n, f if np.isfinite(f) else np.nan, df1, df2, gg, hf, *p, *shares, chi, float(chdtrc(df1, chi)), w)


def _friedman(y: FloatArray) -> tuple[float, float]:
    """Return Friedman's statistic, corrected for ties, and Kendall's W of (units, T); NaN where all tie."""
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
    """Return how often the difference of two groups has another sign in one template than in the mean over templates.

    Parameters
    ----------
    means : array, shape (G, K, T)
        Group means.
    chosen : array of bool, shape (K,), optional
        The traits that count; all by default.

    Returns
    -------
    float
        A share of (pair, trait, template) in [0, 1]; NaN where no pair differs.
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

    `means` is (G, K, T); a group's deviation is from the plain mean over groups, per trait and template. NaN where the
    correlation is undefined.
    """
    from scipy.stats import rankdata

    deviations = (means - means.mean(axis=0)).reshape(-1, means.shape[2])
    deviations = deviations[np.isfinite(deviations).all(axis=1)]
    if len(deviations) < 2 or (np.ptp(deviations, axis=0) == 0).any():
        return float("nan")
    correlation = np.corrcoef(rankdata(deviations, axis=0).T)
    t = means.shape[2]
    return float((correlation.sum() - t) / (t * (t - 1))) if t > 1 else float("nan")


def prompt_sensitivity(
    answers: GrasAnswers, tests: TraitTests, sums: list[CentredSums], significant: BoolArray, outcome: str
) -> dict[str, Any]:
    """Return the tests per image set and trait (`sets`), and what templates do to differences (`attributes`).

    Parameters
    ----------
    answers, tests
        The answers, and their tests in one unit.
    sums : list of CentredSums
        Under the observed labels.
    significant : array of bool, shape (A, K)
        Traits in which the step-down test finds a difference between groups.
    outcome : str
    """
    if len(answers.templates) < 2:
        return {"sets": [], "attributes": []}
    sets = [_image_set(answers, tests, number, outcome) for number in range(len(tests.grouping.sets))]
    observed = tests.group_means(sums)
    permuted: dict[str, list[float]] = {name: [] for name in observed}
    for batch in tests.permuted(_FLIP_DRAWS):
        for b in range(len(batch[0].total)):
            one = [CentredSums(*(x[b : b + 1] for x in part)) for part in batch]
            for name, (means, _) in tests.group_means(one).items():
                permuted[name].append(sign_flips(means))
    out = []
    for a, (name, (means, _)) in enumerate(observed.items()):
        chosen = significant[a]
        out.append(
            {
                "attribute": name,
                "sign_flips": rounded(sign_flips(means)),
                "sign_flips_by_chance": rounded(_mean(np.array(permuted[name])) or float("nan")),
                "sign_flips_significant": rounded(sign_flips(means, chosen)) if chosen.any() else None,
                "significant_traits": int(chosen.sum()),
                "rank_correlation": rounded(rank_agreement(means)),
            }
        )
    return {"sets": sets, "attributes": out}


def _image_set(answers: GrasAnswers, tests: TraitTests, number: int, outcome: str) -> dict[str, Any]:
    """Return the template tests of one image set, with the mean of each trait in each template."""
    part = tests.grouping.sets[number]
    values = answers.columns[outcome][part.images]
    found = template_tests(tests.values[number].by_subject(values) if tests.units == SUBJECTS else values)
    known = np.isfinite(found.share_template)
    with np.errstate(invalid="ignore"):
        summary = {
            "share_template": _mean(found.share_template),
            "share_unit": _mean(found.share_unit),
            "share_rest": _mean(found.share_rest),
            "kendalls_w": _mean(found.kendalls_w),
            "significant_gg": int((found.p_gg <= tests.alpha).sum()),
            "significant_hf": int((found.p_hf <= tests.alpha).sum()),
            "significant_friedman": int((found.friedman_p <= tests.alpha).sum()),
        }
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    means: FloatArray = np.where(finite, values, 0.0).sum(axis=0, dtype=np.float64) / np.where(count > 0, count, np.nan)
    return {
        "attributes": [tests.grouping.names[a] for a in part.attributes],
        "n_units": len(part.images) if tests.units == IMAGES else part.n_subjects,
        "n_traits": int(known.sum()),
        **summary,
        "means": nested(means),
        "traits": {name: nested(column) for name, column in asdict(found).items()},
    }


def _mean(x: FloatArray) -> float | None:
    known = x[np.isfinite(x)]
    return rounded(float(known.mean())) if len(known) else None
