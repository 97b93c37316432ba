"""Group means of several sites pooled by model, and models ranked by the pooled differences between their groups.

A site states the means of G groups on P probes and, for each group, the covariance matrix of its means over the probes.
The means of a model differ between sites by more than that where the sites asked other people or other pictures. The
excess is a random effect of each group, with a covariance matrix T (P, P) over the probes, beside the level of a probe,
which a site may shift as a whole. T is estimated by the method of moments (DerSimonian and Laird 1986, in its
multivariate form: Jackson, White and Riley 2013) from the deviations of groups from their probe's mean, for all models
together; a model whose own sites vary more than that has it enlarged in proportion. A model measured at one site takes
the common matrix. One variance for all probes is not enough: where sites differ in one probe, or alike in all, rankings
were wrong in up to a quarter of simulated classes of three sites.

Models are ordered by the root mean square difference of two groups, corrected for noise, as `fp2 leaderboard` orders
them (`several_runs.profiles`); resamples are drawn from the normal distribution of the pooled means. Models that were
asked about the same subjects have positively correlated errors; they count as independent, which makes rank sets wider.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fp2.extension import FloatArray, GroupMoments
from fp2.methods.several_runs.profiles import Profiles, RankTable, profiles, rank_table, smaller_profiles

TINY = 1e-300
BATCH = 200
"""Resamples drawn at a time."""


@dataclass(frozen=True)
class SiteMeans:
    """What one site states of one model: means (G, P), covariance (G, P, P) of the means, subjects (G,)."""

    means: FloatArray
    covariance: FloatArray
    n_subjects: FloatArray


@dataclass(frozen=True)
class PooledMeans:
    """The means of one model over its sites.

    means (G, P), covariance (G, P, P) of the pooled means with the random effects, df (G,): degrees of freedom of its
    diagonal (Satterthwaite 1946), tau: standard deviation of a group mean between sites.
    """

    means: FloatArray
    covariance: FloatArray
    df: FloatArray
    tau: float
    n_sites: int

    @property
    def square(self) -> float:
        """The mean squared difference of two groups, less what noise adds to it; negative by chance."""
        return float(_profiles([self], self.means[:, None, None], 1.0).squares()[0, 0])

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends of an interval of the root mean square difference, by the delta method, at 1 - alpha."""
        from scipy.special import stdtrit

        g, p = self.means.shape
        scale = 2.0 / (g - 1) / p
        deviation = self.means - self.means.mean(axis=0)
        linear = np.einsum("gp,gpq,gq->", deviation, self.covariance, deviation)
        centring = (np.eye(g) - 1.0 / g) ** 2
        quadratic = np.einsum("gh,gpq,hqp->", centring, self.covariance, self.covariance)
        margin = float(stdtrit(self.df.min(), 1 - alpha / 2)) * scale * math.sqrt(4 * linear + 2 * quadratic)
        return math.sqrt(max(self.square - margin, 0.0)), math.sqrt(max(self.square + margin, 0.0))


def pool(models: Mapping[str, Sequence[SiteMeans]]) -> dict[str, PooledMeans]:
    """Return the pooled means of each model; all sites have the same groups and probes."""
    excess = {model: _excess(sites) for model, sites in models.items()}
    weight = sum(denominator for _, denominator in excess.values())
    n_probes = next(iter(models.values()))[0].means.shape[1]
    common = np.zeros((n_probes, n_probes))
    if weight > 0:
        common = _positive(sum((numerator for numerator, _ in excess.values()), common) / weight)
    n_repeated = sum(len(sites) - 1 for sites in models.values())
    pooled = {}
    for model, sites in models.items():
        numerator, denominator = excess[model]
        own = float(np.trace(numerator)) / denominator if denominator > 0 else 0.0
        total = float(np.trace(common))
        between = common * max(1.0, own / total) if total > 0 else np.eye(n_probes) * max(own, 0.0) / n_probes
        pooled[model] = _pooled(sites, between, n_repeated)
    return pooled


def _deviations(site: SiteMeans) -> tuple[FloatArray, FloatArray]:
    """Return the deviations of the means from those of their probe, (G, P), and the sum over groups of their
    covariances, (P, P).
    """
    deviation: FloatArray = site.means - site.means.mean(axis=0)
    return deviation, site.covariance.sum(axis=0) * (1 - 1.0 / len(site.means))


def _excess(sites: Sequence[SiteMeans]) -> tuple[FloatArray, float]:
    """Return numerator (P, P) and denominator of the moment estimate of T from the sites of one model."""
    deviations, covariances = (np.stack(arrays) for arrays in zip(*map(_deviations, sites), strict=True))
    weight = 1.0 / np.maximum(np.einsum("spp->s", covariances), TINY)
    share = weight / weight.sum()
    apart = deviations - np.einsum("s,sgp->gp", share, deviations)
    spread = np.einsum("s,sgp,sgq->pq", weight, apart, apart)
    expected = np.einsum("s,spq->pq", weight * (1 - share), covariances)
    excess: FloatArray = spread - expected
    return excess, float((deviations.shape[1] - 1) * (weight * (1 - share)).sum())


def _pooled(sites: Sequence[SiteMeans], between: FloatArray, n_repeated: int) -> PooledMeans:
    """Return the mean weighted by the inverse of the sites' variances; `n_repeated`: sites less models of the class."""
    n_groups, n_probes = sites[0].means.shape
    tau_squared = float(np.trace(between)) / n_probes
    noise = np.array([float(np.trace(_deviations(site)[1])) / (n_groups - 1) / n_probes for site in sites])
    weight = 1.0 / (noise + tau_squared + TINY)
    weight /= weight.sum()
    within = np.stack([share**2 * site.covariance for share, site in zip(weight, sites, strict=True)])
    squares = float((weight**2).sum())
    by_site = np.einsum("sgpp->sg", within) / n_probes
    sizes = np.stack([site.n_subjects for site in sites])
    random = squares * tau_squared
    lost = (by_site**2 / np.maximum(sizes - 1, 1)).sum(axis=0) + random**2 / max(n_repeated * (n_groups - 1), 1)
    df = (by_site.sum(axis=0) + random) ** 2 / np.maximum(lost, TINY)
    means = np.einsum("s,sgp->gp", weight, np.stack([site.means for site in sites]))
    covariance = within.sum(axis=0) + squares * between
    return PooledMeans(means, covariance, np.clip(df, 1.0, 1e6), math.sqrt(tau_squared), len(sites))


def _positive(matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix with its negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    positive: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return positive


def rank(pooled: Mapping[str, PooledMeans], *, n_resamples: int, seed: int, alpha: float) -> RankTable:
    """Rank models by their pooled differences, smallest first.

    Simultaneous rank sets at 1 - alpha: `smaller_profiles`, whose resamples of subjects are here
    draws from the normal distribution of each model's pooled means, with errors drawn at their degrees of freedom.
    """
    models = list(pooled.values())
    observed = _profiles(models, np.stack([model.means for model in models], axis=1)[:, None], 1.0)
    sizes = 1 + np.min([model.df for model in models], axis=0)
    better, critical = smaller_profiles(observed, _resamples(models, n_resamples, seed), sizes, alpha)
    return rank_table(list(pooled), observed.squares()[0], better, critical)


def _resamples(models: Sequence[PooledMeans], n: int, seed: int) -> Iterator[Profiles]:
    rng = np.random.default_rng(seed)
    roots = np.stack([_root(model.covariance) for model in models], axis=1)
    df = np.stack([model.df for model in models], axis=1)
    for start in range(0, n, BATCH):
        b = min(BATCH, n - start)
        normal = rng.standard_normal((len(df), b, *roots.shape[1:3]))
        means = np.stack([model.means for model in models], axis=1)[:, None] + np.einsum(
            "gkpq,gbkq->gbkp", roots, normal
        )
        ratio = rng.chisquare(df[:, None, :, None], size=means.shape) / df[:, None, :, None]
        yield _profiles(models, means, ratio)


def _root(covariance: FloatArray) -> FloatArray:
    """Return a matrix root of each covariance matrix; eigenvalues that missing values made negative count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return root


def _profiles(models: Sequence[PooledMeans], means: FloatArray, ratio: FloatArray | float) -> Profiles:
    """Return the profiles of means (G, b, K, P), whose variances are those stated times a ratio."""
    variance = np.stack([np.einsum("gpp->gp", model.covariance) for model in models], axis=1)[:, None] * ratio
    flat = means.reshape(*means.shape[:2], -1)
    noise = np.broadcast_to(variance, means.shape).reshape(flat.shape)
    valid = np.ones(flat.shape, dtype=bool)
    ones = np.ones_like(flat)
    moments = GroupMoments(flat, noise, noise, ones, valid, ones[0], ones, None)
    return profiles(moments, valid[:, 0], np.ones(flat.shape[-1]), len(models))
