"""Agreement of two labellers of the same answers, with an interval for independent answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class LabellerAgreement:
    """Agreement of two labellers on `n` answers that both labelled: Cohen's kappa (1960).

    `kappa` and its 95 % interval (Fleiss, Cohen and Everitt 1969) are None where neither varies; answers are taken as
    independent.
    """

    n: int
    agree: float
    kappa: float | None
    ci_low: float | None
    ci_high: float | None


def labeller_agreement(first: ArrayLike, second: ArrayLike) -> LabellerAgreement | None:
    """Return the agreement of two labellers, one label an answer each, or None without an answer."""
    from statsmodels.stats.inter_rater import cohens_kappa

    first_labels, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not len(first_labels):
        return None
    values, code = np.unique(np.concatenate([first_labels, two]), return_inverse=True)
    agree = float((first_labels == two).mean())
    if len(values) < 2:
        return LabellerAgreement(len(first_labels), agree, None, None, None)
    table = np.zeros((len(values), len(values)))
    np.add.at(table, (code[: len(first_labels)], code[len(first_labels) :]), 1)
    if np.isclose(float((table.sum(axis=0) * table.sum(axis=1)).sum()), table.sum() ** 2):
        return LabellerAgreement(len(first_labels), agree, None, None, None)
    found = cohens_kappa(table)
    numbers = [float(found.kappa), float(found.kappa_low), float(found.kappa_upp)]
    kappa, low, high = (value if math.isfinite(value) else None for value in numbers)
    return LabellerAgreement(len(first_labels), agree, kappa, low, None if high is None else min(high, 1.0))
