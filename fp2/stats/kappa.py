"""Agreement of two labellers: Cohen's kappa (1960), with the interval of Fleiss, Cohen and Everitt (1969)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Agreement:
    """Two labellers on `n` answers that both labelled.

    `kappa` and its 95 % interval are None where neither varies; answers are taken as independent.
    """

    n: int
    agree: float
    kappa: float | None
    ci_low: float | None
    ci_high: float | None


def agreement_of(first: ArrayLike, second: ArrayLike) -> Agreement | None:
    """Return the agreement of two labellers, one label an answer each, or None without an answer."""
    from statsmodels.stats.inter_rater import cohens_kappa

    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not len(one):
        return None
    values, code = np.unique(np.concatenate([one, two]), return_inverse=True)
    agree = float((one == two).mean())
    if len(values) < 2:
        return Agreement(len(one), agree, None, None, None)
    table = np.zeros((len(values), len(values)))
    np.add.at(table, (code[: len(one)], code[len(one) :]), 1)
    if np.isclose(float((table.sum(axis=0) * table.sum(axis=1)).sum()), table.sum() ** 2):
        return Agreement(len(one), agree, None, None, None)
    found = cohens_kappa(table)
    numbers = [float(found.kappa), float(found.kappa_low), float(found.kappa_upp)]
    kappa, low, high = (value if math.isfinite(value) else None for value in numbers)
    return Agreement(len(one), agree, kappa, low, None if high is None else min(high, 1.0))
