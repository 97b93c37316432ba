"""Every pair of groups as it was observed: gap, standard error and Welch's degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fp2.stats.rows import FloatArray
from fp2.stats.studentised import GroupMoments, pair_error, pairs


@dataclass(frozen=True)
class PairTable:
    """|mean_g - mean_h|, its standard error, degrees of freedom, each (pairs, m); NaN where a group is not valid."""

    gap: FloatArray
    error: FloatArray
    df: FloatArray


def pair_table(found: GroupMoments) -> PairTable:
    """Tabulate the pairs of an observed batch of one (b = 1)."""
    gaps, errors, dfs = [], [], []
    n = np.where(found.valid, found.n, np.nan)[:, 0]
    single = np.where(found.valid, found.error, np.nan)[:, 0]
    for g, h in pairs(len(found.mean)):
        ok = found.valid[g, 0] & found.valid[h, 0]
        gaps.append(np.abs(found.mean[g, 0] - found.mean[h, 0]))
        errors.append(np.sqrt(np.where(ok, pair_error(found, g, h)[0], np.nan)))
        dfs.append(welch_df(single[g], single[h], n[g], n[h]))
    return PairTable(np.array(gaps), np.array(errors), np.array(dfs))


def signed_pair_table(found: GroupMoments) -> tuple[FloatArray, PairTable]:
    """Return mean_g - mean_h of every pair with its sign, (pairs, m), and the table."""
    signed = np.array([found.mean[g, 0] - found.mean[h, 0] for g, h in pairs(len(found.mean))])
    return signed, pair_table(found)


def welch_df(error_g: FloatArray, error_h: FloatArray, n_g: FloatArray, n_h: FloatArray) -> FloatArray:
    """Return Welch's degrees of freedom from the squared errors of two means; infinite where both are 0."""
    parts = error_g**2 / (n_g - 1) + error_h**2 / (n_h - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(parts == 0, np.inf, (error_g + error_h) ** 2 / parts)
