"""Power next to a mixed model and GEE on the same data sets: a group apart, means in even steps, and no gap.

With equal numbers of images the usual tests have closed forms (a test compares them with statsmodels). The Wald F test
of a random-intercept model fitted by REML is the F test of one-way analysis of variance on subject means (Searle,
Casella and McCulloch 1992), wherever the variance between subjects is estimated above 0. The Wald test of generalised
estimating equations (Liang and Zeger 1986) compares group means, or their logits, by the sandwich variance of subject
means; the bias-reduced one divides each residual by one less its leverage (Mancl and DeRouen 2001).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import chdtrc, fdtrc

from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.worlds import IMAGES, WIDE_GAP, World, draw

TESTS = ("ours", "mixed model", "GEE", "GEE, bias-reduced")
SIZES_OF_GAPS = {"smallest": (0.6, 0.9), "steps": (0.5, 0.75)}
"""Gaps, in SD of one answer."""
MIXED_WORLDS = tuple(World(outcome) for outcome in ("normal", "yes/no", "zero-heavy"))


def with_gaps(world: World) -> list[World]:
    """Return a world without a gap and its copies with one; the scale is as wide without a gap as with one."""
    gaps = [replace(world, gap=gap, where=where) for where, sizes in SIZES_OF_GAPS.items() for gap in sizes]
    return [replace(world, gap=WIDE_GAP), *gaps]


def beside_models(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """p of every test of `TESTS` in each of `with_gaps`."""
    found = {}
    for k, here in enumerate(with_gaps(world)):
        data = draw(here, np.random.default_rng([seed, k]), n)
        ours = measure(here, data, n_permutations=n_permutations, seed=seed, inverted=())["p"]
        # the lines of one subject follow one another
        means = data.values.reshape(-1, IMAGES, n).mean(axis=1)
        groups = [means[data.groups[::IMAGES] == name] for name in np.unique(data.groups)]
        others = (mixed_model_p(groups), *(gee_p(groups, here.yes_no, reduced) for reduced in (False, True)))
        found |= {f"{test}, {k}": p for test, p in zip(TESTS, (ours, *others), strict=True)}
    return found


def mixed_model_p(groups: list[np.ndarray]) -> np.ndarray:
    """Return p of the Wald F test of a random intercept, (m,); groups: subject means (n_g, m) of equal precision."""
    everything, k = np.concatenate(groups), len(groups)
    between = sum(len(y) * (y.mean(axis=0) - everything.mean(axis=0)) ** 2 for y in groups) / (k - 1)
    df = len(everything) - k
    within = sum(((y - y.mean(axis=0)) ** 2).sum(axis=0) for y in groups) / df
    return np.asarray(fdtrc(k - 1, df, between / within))


def gee_p(groups: list[np.ndarray], logit: bool, reduced: bool) -> np.ndarray:
    """Return p of the Wald test of GEE, (m,); a group whose rate is 0 or 1 has no logit, and the test no p (NaN)."""
    size = np.array([len(y) - reduced for y in groups], dtype=float)[:, None]
    mean = np.array([y.mean(axis=0) for y in groups])
    variance = np.array([((y - y.mean(axis=0)) ** 2).sum(axis=0) for y in groups]) / size**2
    with np.errstate(divide="ignore", invalid="ignore"):
        if logit:
            mean, variance = np.log(mean / (1 - mean)), variance / (mean * (1 - mean)) ** 2
        weight = 1 / variance
        centre = (weight * mean).sum(axis=0) / weight.sum(axis=0)
        return np.asarray(chdtrc(len(groups) - 1, (weight * (mean - centre) ** 2).sum(axis=0)))
