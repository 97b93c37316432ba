"""The Vendi score: the effective number of different items in a set, the exponential of an entropy.

Friedman and Dieng, "The Vendi score" (TMLR 2023): exp of the Shannon entropy of the eigenvalues of K / n, where K is
the similarity matrix (here of cosines, so that K has a unit diagonal). It is between 1 (all equal) and n (all
orthogonal). Order q other than 1 is Renyi's entropy: Pasarkar and Dieng, "Cousins of the Vendi score" (AISTATS 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Vendi:
    """The score of all `n_images` images, and of equal samples: one image each of `sample` subjects.

    The score grows with the number of images, so that only `equal_n` (mean over the samples) compares sets or groups of
    different sizes; `low` and `high` are the 2.5 and 97.5 % quantiles over the samples, drawn without replacement.
    """

    score: float
    n_images: int
    n_subjects: int
    sample: int | None = None
    equal_n: float | None = None
    low: float | None = None
    high: float | None = None


def vendi_score(vectors: ArrayLike, q: float = 1.0) -> float:
    """Return the Vendi score of order `q` of embeddings (n, d) under cosine similarity.

    Raises
    ------
    ValueError
        Without vectors, for one of length 0 or a value that is not finite, or for q below 0.
    """
    x = np.asarray(vectors, dtype=np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError("embeddings must be a table with one row per image")
    length = np.linalg.norm(x, axis=1, keepdims=True)
    if not np.isfinite(x).all() or (length == 0).any():
        raise ValueError("an embedding is zero or not finite")
    if q < 0:
        raise ValueError(f"the order is {q}, below 0")
    x = x / length
    n, d = x.shape
    # the non-zero eigenvalues of X X' / n and X' X / n are the same
    small = (x.T @ x if d < n else x @ x.T) / n
    weights = np.linalg.eigvalsh(small)
    return _hill(weights[weights > 1e-12], q)


def _hill(p: Floats, q: float) -> float:
    """Return the Hill number of order q of weights, which are normalised to sum 1."""
    p = p / p.sum()
    if q == 1:
        return float(np.exp(-(p * np.log(p)).sum()))
    if np.isinf(q):
        return float(1 / p.max())
    return float((p**q).sum() ** (1 / (1 - q)))


def vendi(
    vectors: ArrayLike,
    subjects: ArrayLike,
    *,
    sample: int | None = None,
    repeats: int = 50,
    seed: int = 0,
    q: float = 1.0,
) -> Vendi:
    """Return the score of all images, and of `repeats` samples of one image each of `sample` subjects.

    vectors (n, d), subjects (n,). Without `sample`, or with fewer subjects, `equal_n` is None.
    """
    x, owners = np.asarray(vectors, dtype=np.float64), np.asarray(subjects, dtype=object)
    names, of = np.unique(owners.astype(str), return_inverse=True)
    whole = vendi_score(x, q)
    if sample is None or sample < 2 or len(names) < sample:
        return Vendi(whole, len(x), len(names))
    rng = np.random.default_rng(seed)
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(len(names)))
    sizes = np.bincount(of)
    scores = []
    for _ in range(repeats):
        chosen = rng.permutation(len(names))[:sample]
        rows = order[starts[chosen] + rng.integers(0, sizes[chosen])]
        scores.append(vendi_score(x[rows], q))
    low, high = np.quantile(scores, (0.025, 0.975))
    return Vendi(whole, len(x), len(names), sample, float(np.mean(scores)), float(low), float(high))
