"""Repeated looks at growing data: the error of one row, and the false verdicts of a run of six scorers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.validity.families import ALPHA, SCORERS, prepared
from benchmarks.validity.measure import Arrays, measure, p_values
from benchmarks.validity.worlds import Data, World, draw
from fp2.methods.stopping.declared import Looks
from fp2.methods.stopping.sequential import SPENDING, repeated_p
from fp2.protocols.fingerprint.family import corrected
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.stats.interval import gap_tests
from fp2.stats.rows import OK, DisparityRow

AT = (0.25, 0.5, 0.75, 1.0)
LOOKS_WORLDS = (
    World("normal", sizes=(80, 60, 60, 40, 40)),
    World("zero-heavy", sizes=(80, 60, 60, 40, 40)),
    World("normal", sizes=(120, 80)),
    World("normal", sizes=(80, 60, 60, 40, 40), gap=0.35),
)


def looks(world: World, n: int, seed: int, n_permutations: int = 1_999) -> Arrays:
    """Four looks at growing data, a quarter of every group's subjects more each: is any look significant?"""
    data = draw(world, np.random.default_rng(seed), n)
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("naive", *SPENDING)}
    for k, share in enumerate(AT, start=1):
        part = _until(world, data, share)
        p = measure(world, part, n_permutations=n_permutations, seed=seed + k, inverted=())["p"]
        found["naive"].append(p)
        for spending in SPENDING:
            found[spending].append(np.array([repeated_p(float(one), AT, k, spending) for one in p]))
    return {name: (np.array(rows) <= 0.05).any(axis=0).astype(float) for name, rows in found.items()}


PROBES = 2
VERDICT_SIZES = (60, 45, 40)
VERDICT_WORLDS = (
    *(World(outcome, sizes=VERDICT_SIZES) for outcome in ("normal", "yes/no")),
    World("normal", sizes=VERDICT_SIZES, gap=1.0, where="two largest"),
    World("yes/no", sizes=VERDICT_SIZES, gap=1.0, where="two largest"),
)
"""Without a gap a significant row or composite is false; with gaps at the smallest effect, a verdict on their size."""


def looks_verdicts(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """Four looks at a run of six scorers and two probes: 1 where any of its verdicts at any look is false, else 0.

    By alpha spending, and without (`naive`). The primary scorer is the first; its composite is tested too.
    """
    m, bound = SCORERS * PROBES, world.true_gap or 0.05
    rng = np.random.default_rng(seed)
    parts = [draw(world, rng, m, shared=0.3) for _ in range(n)]
    everything = replace(parts[0], values=np.concatenate([part.values for part in parts], axis=1))
    plain = ComparisonSettings(
        alpha=ALPHA, correction="holm", family="scorer", primary="0", n_permutations=n_permutations, seed=1
    )
    names = [f"{kind}_{name}" for kind in ("different", "smaller", "larger") for name in ("naive", *SPENDING)]
    found = {name: np.zeros(n) for name in names}
    for now, share in enumerate(AT, start=1):
        part = _until(world, everything, share)
        ways = {"naive": plain} | {
            name: replace(plain, looks=Looks(at=AT, now=now, spending=name)) for name in SPENDING
        }
        rows, tops = _tested(world, part, seed + now, n_permutations, bound)
        for k in range(n):
            own = [(str(j % PROBES), str(j // PROBES), "cut", rows[k * m + j]) for j in range(m)]
            for name, comparison in ways.items():
                composites = {"cut": {"p_value": float(tops[k]), "adjusted_p": None}}
                made = corrected(own, [], composites, comparison)
                verdicts = {row["verdict"] for row in made}
                different = any(row["significant"] for row in made) or composites["cut"]["adjusted_p"] <= ALPHA
                found[f"different_{name}"][k] += different and not world.gap
                found[f"smaller_{name}"][k] += bool(verdicts & {"equivalent", "significant_but_small"} and world.gap)
                found[f"larger_{name}"][k] += "biased" in verdicts
    return {name: (hits > 0).astype(float) for name, hits in found.items()}


def _until(world: World, data: Data, share: float) -> Data:
    """Return the data of the first `share` of the subjects of every group."""
    place = np.concatenate([(np.arange(size) + 1) / size for size in world.sizes])
    here = (place <= share + 1e-9)[data.subjects]
    return Data(data.values[here], data.groups[here], data.subjects[here], data.images[here])


def _tested(
    world: World, data: Data, seed: int, n_permutations: int, bound: float
) -> tuple[list[DisparityRow], np.ndarray]:
    """Return a row with the p-values of its three tests for every column, and the composites' p-values.

    Without a gap equivalence is true, and not tested.
    """
    p, joint = prepared(data.values, data.groups, data.subjects, data.images, seed, world.yes_no, n_permutations)
    tests = gap_tests(p, joint.observed, joint.max_t_permuted, np.full(data.values.shape[1], world.yes_no))
    rows = [
        DisparityRow(
            raw=1.0,
            p_value=float(value),
            minimum_effect_p=test.exceeds_p(bound) if test else None,
            equivalence_p=test.equivalence_p(bound) if test and world.gap else None,
            smallest_effect=bound,
            status=OK,
            dependent_groups=False,
            n_images=1,
            n_subjects=1,
            n_missing=0,
            n_permutations=n_permutations,
            groups=(),
        )
        for value, test in zip(p_values(joint.max_t, joint.max_t_permuted), tests, strict=True)
    ]

    def primary(t: np.ndarray) -> np.ndarray:
        return t.reshape(*t.shape[:-1], -1, SCORERS, PROBES)[..., 0, :].mean(axis=-1)

    return rows, p_values(primary(joint.max_t), primary(joint.max_t_permuted))
