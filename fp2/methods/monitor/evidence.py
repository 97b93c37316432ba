"""Evidence that a model has changed, valid however often one looks.

Let d be the score of a new answer less that of the stored one to the same question. While the model is the same, the
two answers are exchangeable, so that d is symmetric about 0 whatever its distribution, also given all earlier pairs, as
long as no question is asked twice. Then exp(lambda d - lambda^2 d^2 / 2) has a mean of at most 1 (de la Pena 1999), and
with it its running product and every mixture over lambda: by Ville's inequality the mixture ever reaches 1 / alpha with
probability at most alpha, over unlimited looks. Here lambda is normal with mean 0, which has a closed form, and its
scale is one of `SCALES`, each with the same weight, since the size of a change is not known.

The mean of several such processes is one, too: the model is said to have changed when the mean over all rows reaches
1 / alpha. A row by itself, of which there are m, is said to have changed when it reaches m / alpha.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fp2.extension import FloatArray

SCALES = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
"""Standard deviations of lambda, per unit of a score whose range has the width 1."""


@dataclass(frozen=True)
class Evidence:
    """What pairs of answers have shown of one row: n pairs, the sum of their differences and of their squares."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, differences: FloatArray) -> Evidence:
        """Return the evidence with further differences (k,), in units of the range of the score."""
        known = differences[np.isfinite(differences)]
        return Evidence(self.n + len(known), self.total + float(known.sum()), self.squares + float((known**2).sum()))

    @property
    def log_e(self) -> float:
        """The logarithm of the e-value."""
        return float(log_e(np.array(self.total), np.array(self.squares)))

    @property
    def mean(self) -> float | None:
        """The mean difference, new less stored."""
        return self.total / self.n if self.n else None


def log_e(total: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the logarithms of the e-values of sums of differences and of their squares, of one shape."""
    scaled = SCALES**2 * squares[..., None]
    terms = SCALES**2 * total[..., None] ** 2 / (2 * (1 + scaled)) - np.log1p(scaled) / 2
    mixed: FloatArray = np.logaddexp.reduce(terms, axis=-1) - np.log(len(SCALES))
    return mixed


def log_mean(rows: Iterable[Evidence]) -> float:
    """Return the logarithm of the mean e-value over rows, which is an e-value of all of them."""
    logs = [row.log_e for row in rows]
    return float(np.logaddexp.reduce(logs) - np.log(len(logs))) if logs else 0.0
