"""The numbers of many disparity rows at once: the package's own steps over all columns, without building the rows.

`disparity_panel` spends most of its time on the reference numbers of each row; here they are computed for all columns
together. A test holds that what comes out equals the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from scipy.special import fdtrc
from scipy.stats import chi2, rankdata

from benchmarks.validity.worlds import Data, World
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.resampling import JointPermutations, joint_permutations
from fp2.stats.core.units import TIE, Prepared, prepare
from fp2.stats.effects import permuted_divergences, shrunken_range
from fp2.stats.interval import GapTest, gap_tests
from fp2.stats.rows import Outcome, PanelSettings

Arrays = dict[str, np.ndarray]


INVERTED = ("low", "high", "mde80", "equivalence_p", "exceeds_p")
"""Numbers that come from the inverted test of one column after the other."""


def measure(
    world: World,
    data: Data,
    *,
    n_permutations: int,
    seed: int,
    bound: float = 0.05,
    alpha: float = 0.05,
    inverted: Collection[str] = INVERTED,
) -> Arrays:
    """Return the numbers of many disparity rows, each (columns,); of `INVERTED` those that are named in `inverted`.

    p, js_p, kruskal_p, welch_p, raw, excess, shrunken, low, high, equivalence_p and exceeds_p of `bound`, and mde80 at
    level `alpha`. Numbers that do not exist are NaN: the asymptotic tests where groups share people.
    """
    entries = read_entries(data.values, data.groups, data.subjects, data.images)
    m = data.values.shape[1]
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "every world has two large groups"
    outcomes = [Outcome(value_range=world.scale, yes_no=world.yes_no)] * m
    joint = joint_permutations(p, np.full(m, world.yes_no), np.ones(m), n_permutations, seed)
    tests = gap_tests(p, joint.observed, joint.max_t_permuted, np.full(m, world.yes_no))
    raw = _range(joint) * p.scale
    permuted = joint.raw_permuted * p.scale
    found = joint.observed
    shrunken = np.full(m, np.nan)
    for j in range(m):
        if (valid := found.valid[:, 0, j]).sum() >= 2:
            shrunken[j] = shrunken_range(found.mean[valid, 0, j], found.pool[0, j] / found.n[valid, 0, j])
    of: dict[str, Callable[[GapTest], float]] = {
        "low": lambda test: test.low(0.05),
        "high": lambda test: test.high(0.05),
        "mde80": lambda test: test.detectable(alpha),
        "equivalence_p": lambda test: test.equivalence_p(bound),
        "exceeds_p": lambda test: test.exceeds_p(bound),
    }
    return {
        "p": p_values(joint.max_t, joint.max_t_permuted),
        "js_p": p_values(*permuted_divergences(p, outcomes, PanelSettings(n_permutations=n_permutations, seed=seed))),
        **_asymptotic(p),
        "raw": raw,
        "excess": raw - np.nanmean(permuted, axis=0),
        "shrunken": shrunken * p.scale,
        **{name: _each(tests, of[name]) for name in inverted},
    }


def p_values(seen: np.ndarray, permuted: np.ndarray) -> np.ndarray:
    """(1 + #{T* >= T}) / (B + 1) of every column; NaN where there is no statistic."""
    reached = ~(permuted < seen * (1 - TIE) - TIE)
    return np.where(np.isnan(seen), np.nan, (1 + reached.sum(axis=0)) / (len(permuted) + 1))


def _range(joint: JointPermutations) -> np.ndarray:
    mean = joint.observed.mean[:, 0]
    return np.nanmax(mean, axis=0) - np.nanmin(mean, axis=0)


def _each(tests: Sequence[GapTest | None], of: Callable[[GapTest], float]) -> np.ndarray:
    """Return a number of every test; NaN where too few groups are valid."""
    return np.array([np.nan if test is None else of(test) for test in tests])


def _asymptotic(p: Prepared) -> Arrays:
    """Kruskal-Wallis and Welch p-values of all columns; subject means that tie but for rounding are ties."""
    m = p.y.shape[2]
    if p.units.dependent:
        return {"kruskal_p": np.full(m, np.nan), "welch_p": np.full(m, np.nan)}
    samples = [p.y[p.member[:, g], g] for g in range(p.y.shape[1])]
    if any(np.isnan(sample).any() for sample in samples):
        return {"kruskal_p": np.full(m, np.nan), "welch_p": np.full(m, np.nan)}
    return {"kruskal_p": _kruskal(samples), "welch_p": _welch(samples)}


def _kruskal(samples: list[np.ndarray]) -> np.ndarray:
    everything = np.round(np.concatenate(samples), 9)
    n, ranks = len(everything), rankdata(everything, axis=0)
    ends = np.cumsum([len(s) for s in samples])[:-1]
    h = sum(len(r) * (r.mean(axis=0) - (n + 1) / 2) ** 2 for r in np.split(ranks, ends))
    spread = ((ranks - (n + 1) / 2) ** 2).sum(axis=0) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, chi2.sf(h / spread, len(samples) - 1), np.nan)


def _welch(samples: list[np.ndarray]) -> np.ndarray:
    k = len(samples)
    n = np.array([len(s) for s in samples], dtype=float)[:, None]
    mean = np.array([s.mean(axis=0) for s in samples])
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = n / np.array([s.var(axis=0, ddof=1) for s in samples])
        share = weight / weight.sum(axis=0)
        centre = (share * mean).sum(axis=0)
        rest = ((1 - share) ** 2 / (n - 1)).sum(axis=0)
        f = (weight * (mean - centre) ** 2).sum(axis=0) / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * rest)
        return np.asarray(fdtrc(k - 1, (k**2 - 1) / (3 * rest), f))
