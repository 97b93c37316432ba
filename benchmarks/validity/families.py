"""Families of correlated rows: is any true null rejected, after Holm, after step-down max-T, and over a whole run?"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays, p_values
from benchmarks.validity.worlds import ALPHA, IMAGES, World, draw
from fp2.protocols.fingerprint.family import shares
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.stats.adjustment import adjust_p_values, step_down_max_t
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.resampling import JointPermutations, joint_permutations
from fp2.stats.core.units import Prepared, prepare
from fp2.stats.interval import GapTest, gap_tests

PROBES = 6
SCORERS, RUN_PROBES, RUN_CUTS = 6, 2, 2
"""Of a small run: its rows number 24."""
WITH_GAP = 8
"""Rows with a gap in the family of which intervals are selected; as many again twice have none."""
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


def whole_run(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """A run of six scorers, two probes and two cuts: 1 where a true null (a row, a composite) is rejected, else 0.

    With a gap, the first probe of every scorer and cut has it, so that every composite is truly different. Three ways
    to correct: `scorers` (Holm over the rows of each scorer, and over the composites), `composites_first` (Holm over
    the composites of all scorers and cuts, then over the rows of a scorer within those that are rejected) and `run`
    (all of them one weighted family). `found`: share of the true gaps that `run` finds.
    """
    rng, m = np.random.default_rng(seed), SCORERS * RUN_PROBES
    parts = [draw(World(world.outcome, sizes=world.sizes), rng, m, shared=0.3) for _ in range(n)]
    values = np.concatenate([part.values for part in parts], axis=1)
    cuts = [parts[0].groups, np.array(["x", "y", "z"])[rng.permutation(np.arange(len(values) // IMAGES)) % 3]]
    cuts[1] = cuts[1][parts[0].subjects]
    true = np.tile(np.arange(m) % RUN_PROBES == 0, n) & bool(world.gap)
    p, composite = [], []
    for cut in cuts:
        # of each cut by itself, so that a gap of one cut is none of the other
        gap = world.true_gap * (cut == cut[-1])[:, None] * true
        seen, permuted = _statistics(
            values + gap, cut, parts[0].subjects, parts[0].images, seed, world.yes_no, n_permutations
        )
        p.append(p_values(seen, permuted).reshape(n, SCORERS, RUN_PROBES))
        mean = permuted.reshape(len(permuted), -1, RUN_PROBES).mean(axis=2)
        composite.append(p_values(seen.reshape(-1, RUN_PROBES).mean(axis=1), mean).reshape(n, SCORERS))
    rows, tops = np.stack(p, axis=1), np.stack(composite, axis=1)
    null = ~true[:m].reshape(SCORERS, RUN_PROBES)
    found = [_false_claims(rows[k], tops[k], null, bool(world.gap)) for k in range(n)]
    return {name: np.array([one[name] for one in found], dtype=float) for name in found[0]}


def _false_claims(rows: np.ndarray, tops: np.ndarray, null: np.ndarray, gap: bool) -> dict[str, float]:
    """`rows` (cuts, scorers, probes), `tops` (cuts, scorers): p-values; null (scorers, probes)."""

    def rejected(p: np.ndarray, weights: list[float] | None = None) -> np.ndarray:
        adjusted = adjust_p_values(p.reshape(-1).tolist(), "holm", weights)
        return np.array([x is not None and x <= ALPHA for x in adjusted]).reshape(p.shape)

    by_scorer = np.stack([rejected(rows[:, s]) for s in range(SCORERS)], axis=1)
    primary = rejected(tops[:, 0])
    gates = rejected(tops)
    inside = by_scorer & gates[:, :, None]
    comparison = ComparisonSettings(
        alpha=ALPHA, correction="holm", family="scorer", primary="0", n_permutations=999, seed=1
    )
    names = [str(s) for _ in range(RUN_CUTS) for s in range(SCORERS) for _ in range(RUN_PROBES)]
    together = rejected(np.concatenate([rows.reshape(-1), tops[:, 0]]), shares([*names, *["0"] * RUN_CUTS], comparison))
    run, own = together[: rows.size].reshape(rows.shape), together[rows.size :]
    tops_false = 0.0 if gap else 1.0
    return {
        "scorers": float((by_scorer & null).any() or tops_false * primary.any()),
        "composites_first": float((inside & null).any() or tops_false * gates.any()),
        "run": float((run & null).any() or tops_false * own.any()),
        "found": float(run[:, ~null].mean()) if gap else np.nan,
    }


def selected(world: World, n: int, seed: int, n_permutations: int = 2399) -> Arrays:
    """Of the rows that are significant in a family of 24, the share whose interval misses the truth.

    A third of the rows have a gap, from a third of `world`'s to all of it. `marginal`: intervals at 95 %; `corrected`:
    at the level of the selected rows.
    """
    rng, size = np.random.default_rng(seed), 3 * WITH_GAP
    truths = np.concatenate([np.linspace(world.gap / 3, world.gap, WITH_GAP), np.zeros(2 * WITH_GAP)])
    columns = [[draw(World(world.outcome, gap=gap, sizes=world.sizes), rng, 1) for gap in truths] for _ in range(n)]
    values = np.concatenate([part.values for family in columns for part in family], axis=1)
    first = columns[0][0]
    tests = _tests(values, first.groups, first.subjects, first.images, seed, world.yes_no, n_permutations)
    missed: dict[str, list[float]] = {"marginal": [], "corrected": []}
    for k in range(n):
        family = tests[k * size : (k + 1) * size]
        adjusted = adjust_p_values([test.exceeds_p(0.0) for test in family])
        chosen = [j for j, p in enumerate(adjusted) if p is not None and p <= ALPHA]
        for name, level in (("marginal", ALPHA), ("corrected", ALPHA * len(chosen) / size)):
            ends = [(family[j].low(level), family[j].high(level), truths[j] * _unit(world)) for j in chosen]
            misses = [not low - 1e-9 <= truth <= high + 1e-9 for low, high, truth in ends]
            missed[name].append(float(np.mean(misses)) if misses else 0.0)
    return {name: np.array(shares_) for name, shares_ in missed.items()}


def _unit(world: World) -> float:
    return world.true_gap / world.gap


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
    joint = prepared(values, cut, subjects, images, seed, yes_no, n)[1]
    return joint.max_t, joint.max_t_permuted


def _tests(
    values: np.ndarray, cut: np.ndarray, subjects: np.ndarray, images: np.ndarray, seed: int, yes_no: bool, n: int
) -> list[GapTest]:
    p, joint = prepared(values, cut, subjects, images, seed, yes_no, n)
    tests = gap_tests(p, joint.observed, joint.max_t_permuted, np.full(values.shape[1], yes_no))
    return [test for test in tests if test is not None]


def prepared(
    values: np.ndarray, cut: np.ndarray, subjects: np.ndarray, images: np.ndarray, seed: int, yes_no: bool, n: int
) -> tuple[Prepared, JointPermutations]:
    """Return the data of many columns, and their joint permutations."""
    entries = read_entries(values, cut, subjects, images)
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "two large groups"
    m = values.shape[1]
    return p, joint_permutations(p, np.full(m, yes_no), np.ones(m), n, seed)
