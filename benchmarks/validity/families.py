"""Families of correlated rows of which none is true: does any come out, after Holm and after step-down max-T?"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays, p_values
from benchmarks.validity.worlds import IMAGES, World, draw
from fp2.stats.adjustment import adjust_p_values, step_down_max_t
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.units import prepare
from fp2.stats.joint import joint_permutations
from fp2.stats.options import make_options

PROBES = 6
Statistics = tuple[np.ndarray, np.ndarray]
"""Largest |T| of every column, observed (columns,) and permuted (B, columns)."""


def family(world: World, n: int, seed: int) -> Arrays:
    """Six correlated probes by four cuts of the same people: smallest Holm-adjusted p, and the composite's p."""
    cuts = _cuts(world, n, seed, n_permutations=1439)
    pooled = np.concatenate([p_values(*cut).reshape(n, PROBES) for cut in cuts], axis=1)
    holm = np.array([min(x for x in adjust_p_values(list(row), "holm") if x is not None) for row in pooled])
    seen, permuted = cuts[0]
    mean = seen.reshape(-1, PROBES).mean(axis=1)
    composite = p_values(mean, permuted.reshape(len(permuted), -1, PROBES).mean(axis=2))
    return {"smallest_adjusted": holm, "composite_p": composite}


def step_down(world: World, n: int, seed: int, n_permutations: int = 499) -> Arrays:
    """The same families corrected by their joint permutations: smallest adjusted p."""
    return {"smallest_adjusted": _smallest(_cuts(world, n, seed, n_permutations), n)}


def missing(world: World, n: int, seed: int, n_permutations: int = 499) -> Arrays:
    """Six correlated flags "no value" by four cuts, tested as the block `missing` does: smallest adjusted p."""
    return {"smallest_adjusted": _smallest(_cuts(world, n, seed, n_permutations), n)}


def _smallest(cuts: list[Statistics], n: int) -> np.ndarray:
    seen = np.concatenate([cut[0].reshape(n, PROBES) for cut in cuts], axis=1)
    permuted = np.concatenate([cut[1].reshape(len(cut[1]), n, PROBES) for cut in cuts], axis=2)
    return np.array([np.nanmin(step_down_max_t(seen[k], permuted[:, k])) for k in range(n)])


def _cuts(world: World, n: int, seed: int, n_permutations: int) -> list[Statistics]:
    """Return the statistics of `n` families under four cuts: region, pronoun, age (some change it), skin tone."""
    rng = np.random.default_rng(seed)
    # every family is drawn by itself: its probes share people's leanings, and families share nothing
    parts = [draw(world, rng, PROBES, shared=0.5) for _ in range(n)]
    values = np.concatenate([part.values for part in parts], axis=1)
    region, subjects, images = parts[0].groups, parts[0].subjects, parts[0].images
    people = int(subjects.max()) + 1
    pronoun = np.array(["he", "she", "they"])[rng.choice(3, people, p=[0.46, 0.44, 0.1])]
    tone = np.array([f"tone {k}" for k in range(6)])[rng.permutation(np.arange(people) % 6)]
    age = rng.integers(0, 4, people)[subjects]
    later = (rng.random(people) < 0.25)[subjects] & (images % IMAGES == IMAGES - 1)
    ages = np.array([f"age {k}" for k in range(4)])[np.where(later, (age + 1) % 4, age)]
    return [
        _statistics(values, cut, subjects, images, seed, world.yes_no, n_permutations)
        for cut in (region, pronoun[subjects], ages, tone[subjects])
    ]


def _statistics(
    values: np.ndarray, cut: np.ndarray, subjects: np.ndarray, images: np.ndarray, seed: int, yes_no: bool, n: int
) -> Statistics:
    entries = read_entries(values, cut, subjects, images)
    options = make_options(
        values.shape[1], higher_is_better=True, value_ranges=(-np.inf, np.inf), bins=None, yes_no=yes_no,
        smallest_effects=0.05, n_permutations=n, n_bootstrap=0, seed=seed, alpha=0.05, min_subjects=10,
    )  # fmt: skip
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "two large groups"
    joint = joint_permutations(p, options)
    return joint.max_t, joint.max_t_permuted
