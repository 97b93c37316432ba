"""Dyadic regression: least squares on comparisons of two people, with dyadic cluster-robust standard errors.

One row compares two people of one image (A minus B). Rows of one image, and rows that share a person, are not
independent: the dyadic cluster-robust variance of Aronow, Samii and Assenova (2015, Political Analysis 23, eq. 2) sums
the products of scores over all pairs of rows that share a person. Residuals are multiplied by (I - H)^-1 per image, as
least squares makes them too small; this is the cluster jackknife CV3 (MacKinnon, Nielsen and Webb 2023, Journal of
Applied Econometrics 38) if no person is in two images. Tests have G - 1 degrees of freedom, with G images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fp2.extension import FloatArray


@dataclass(frozen=True)
class DyadFit:
    """Coefficients (k,), their covariance (k, k) and degrees of freedom.

    `by`: `dyad`, or `picture` where the dyadic sum is not positive definite and rows are clustered by image alone.
    """

    coefficients: FloatArray
    covariance: FloatArray
    df: int
    by: str

    def term(self, place: int, level: float = 0.95) -> tuple[float, float, float, float, float]:
        """Return one coefficient, its standard error, the ends of its interval, and its two-sided p-value."""
        value, error = float(self.coefficients[place]), float(np.sqrt(self.covariance[place, place]))
        reach = float(stats.t.ppf(0.5 + level / 2, self.df)) * error
        p = float(2 * stats.t.sf(abs(value) / error, self.df)) if error > 0 else float("nan")
        return value, error, value - reach, value + reach, p

    def joint_p(self, places: Sequence[int]) -> float:
        """Return the p-value of the Wald test (F form) that these coefficients are 0."""
        chosen = list(places)
        b, v = self.coefficients[chosen], self.covariance[np.ix_(chosen, chosen)]
        statistic = float(b @ np.linalg.solve(v, b)) / len(chosen)
        return float(stats.f.sf(statistic, len(chosen), self.df))


def dyad_fit(y: FloatArray, x: FloatArray, images: ArrayLike, first: ArrayLike, second: ArrayLike) -> DyadFit:
    """Regress `y` (n,) on `x` (n, k); row i compares person `first[i]` with `second[i]` in image `images[i]`.

    Memory grows with n squared (n = 5,000: 25 MB).

    Raises
    ------
    ValueError
        If the columns of `x` are linearly dependent, there are not more images than columns, or a coefficient is
        identified by one image only.
    """
    n, k = x.shape
    _, image = np.unique(np.asarray(images, dtype=str), return_inverse=True)
    n_images = int(image.max()) + 1 if n else 0
    if n_images <= k or np.linalg.matrix_rank(x) < k:
        raise ValueError("fewer images than terms, or terms that are linearly dependent")
    inverse: FloatArray = np.linalg.inv(x.T @ x).astype(np.float64)
    coefficients: FloatArray = inverse @ (x.T @ y)
    residuals = y - x @ coefficients
    left_out = np.empty_like(residuals)  # each row's residual in the fit without its image
    for rows in np.split(np.argsort(image, kind="stable"), np.cumsum(np.bincount(image))[:-1]):
        own_block = np.eye(len(rows)) - x[rows] @ inverse @ x[rows].T
        if np.linalg.eigvalsh(own_block)[0] < 1e-9:
            raise ValueError("a term is identified by one image only")
        left_out[rows] = np.linalg.solve(own_block, residuals[rows])
    scores: FloatArray = x * left_out[:, None]
    same = image[:, None] == image[None, :]
    a, b = np.asarray(first, dtype=str)[:, None], np.asarray(second, dtype=str)[:, None]
    shared = same | (a == a.T) | (b == b.T) | (a == b.T) | (b == a.T)
    for by, links in (("dyad", shared), ("picture", same)):
        covariance = (n_images - 1) / n_images * inverse @ (scores.T @ links @ scores) @ inverse
        # in small samples the dyadic sum need not be positive definite
        if by == "picture" or np.linalg.eigvalsh(covariance)[0] > 1e-12 * np.trace(covariance):
            break
    return DyadFit(coefficients, covariance, n_images - 1, by)
