"""Least squares on comparisons of two people, with errors that allow for people and pictures that come again.

One row compares two people (A minus B). Rows of one picture, and rows that share a person, are not independent: the
dyadic cluster-robust variance of Aronow, Samii and Assenova (2015, Political Analysis 23, eq. 2) sums the products of
scores over all pairs of rows that share somebody. Residuals are too small where a picture draws the line to itself, so
those of a picture are first divided by what is left of them, (I - H)^-1, which makes it the cluster jackknife CV3
(MacKinnon, Nielsen and Webb, 2023, Journal of Applied Econometrics 38) where nobody comes in two pictures. Tests have
G - 1 degrees of freedom, with G pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DyadFit:
    """Coefficients, their covariance and the degrees of freedom; `by` is `dyad` or `picture`, as was possible."""

    coefficients: Floats
    covariance: Floats
    df: int
    n_rows: int
    n_pictures: int
    by: str

    def term(self, place: int, level: float = 0.95) -> tuple[float, float, float, float, float]:
        """Return one coefficient with its standard error, interval and two-sided p-value."""
        value, error = float(self.coefficients[place]), float(np.sqrt(self.covariance[place, place]))
        reach = float(stats.t.ppf(0.5 + level / 2, self.df)) * error
        p = float(2 * stats.t.sf(abs(value) / error, self.df)) if error > 0 else float("nan")
        return value, error, value - reach, value + reach, p

    def joint_p(self, places: Sequence[int]) -> float:
        """Return the p-value of the Wald test (F form) that all these coefficients are 0."""
        chosen = list(places)
        b, v = self.coefficients[chosen], self.covariance[np.ix_(chosen, chosen)]
        statistic = float(b @ np.linalg.solve(v, b)) / len(chosen)
        return float(stats.f.sf(statistic, len(chosen), self.df))


def dyad_fit(y: Floats, x: Floats, pictures: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> DyadFit:
    """Regress `y` (n,) on `x` (n, k); row i compares person `first[i]` with `second[i]` in picture `pictures[i]`.

    Memory grows with n squared (n = 5,000: 25 MB).

    Raises
    ------
    ValueError
        If the columns of `x` are linearly dependent, or there are not more pictures than columns.
    """
    n, k = x.shape
    _, picture = np.unique(np.asarray(pictures, dtype=str), return_inverse=True)
    n_pictures = int(picture.max()) + 1 if n else 0
    if n_pictures <= k or np.linalg.matrix_rank(x) < k:
        raise ValueError("fewer pictures than terms, or terms that depend on each other")
    inverse: Floats = np.linalg.inv(x.T @ x).astype(np.float64)
    coefficients: Floats = inverse @ (x.T @ y)
    residuals = _left_out(y - x @ coefficients, x, inverse, picture)
    scores: Floats = x * residuals[:, None]
    same = picture[:, None] == picture[None, :]
    a, b = np.asarray(first, dtype=str)[:, None], np.asarray(second, dtype=str)[:, None]
    shared = same | (a == a.T) | (b == b.T) | (a == b.T) | (b == a.T)
    for by, links in (("dyad", shared), ("picture", same)):
        covariance = (n_pictures - 1) / n_pictures * inverse @ (scores.T @ links @ scores) @ inverse
        # the dyadic sum can fail to be a covariance in small samples
        if by == "picture" or np.linalg.eigvalsh(covariance)[0] > 1e-12 * np.trace(covariance):
            break
    return DyadFit(coefficients, covariance, n_pictures - 1, n, n_pictures, by)


def _left_out(residuals: Floats, x: Floats, inverse: Floats, picture: npt.NDArray[np.int64]) -> Floats:
    """Return each row's residual from the line that is drawn without its picture.

    Raises
    ------
    ValueError
        If a term is known from one picture only.
    """
    out = np.empty_like(residuals)
    for rows in np.split(np.argsort(picture, kind="stable"), np.cumsum(np.bincount(picture))[:-1]):
        kept = np.eye(len(rows)) - x[rows] @ inverse @ x[rows].T
        if np.linalg.eigvalsh(kept)[0] < 1e-9:
            raise ValueError("a term is known from one picture only")
        out[rows] = np.linalg.solve(kept, residuals[rows])
    return out
