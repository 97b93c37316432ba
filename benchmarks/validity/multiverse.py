"""The joint tests of a specification curve: correlated specifications of one claim, where no group differs.

Three scorers share the people and, in part, the answers: one as the world says, one that is mostly zero, and one that
is a coarse copy of the first. Some answers are refused, alike in all groups; a refusal is missing, the mean or the bad
end of the scale. A covariate that differs between the groups, and has no effect, is held equal or not. Subjects or
images count alike, and the two smallest groups are in or out.
"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import Data, World, draw
from fp2.methods.adjusted.model import Design
from fp2.methods.curves.panel import SpecifiedTest, curve_test, joint_statistics
from fp2.stats.core.entries import read_entries
from fp2.stats.core.units import permutation_p
from fp2.stats.effects import kruskal_wallis
from fp2.stats.rows import PanelSettings

MULTIVERSE_WORLDS = (
    World("normal"),
    World("zero-heavy"),
    World("mostly zero"),
    World("yes/no"),
    World("normal", "spread"),
    World("normal", "images"),
    World("normal", "straddling"),
    World("normal", "multi-valued"),
    World("skewed", sizes=(200, 10)),
    World("normal", gap=0.5),
)
REFUSED = {"yes/no": 0.3}
"""Share of refused answers, 2 % elsewhere."""
PERMUTATIONS = 199


def multiverse(world: World, n: int, seed: int) -> Arrays:
    """p of both joint tests, the share of significant specifications, and two tests of single specifications."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in ("median", "share", "adjusted", "images", "independent")}
    for k in range(n):
        data = draw(world, rng, 1)
        for name, value in _one(world, data, rng, seed + k).items():
            found[name].append(value)
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def _one(world: World, data: Data, rng: np.random.Generator, seed: int) -> dict[str, float]:
    values = _outcomes(world, data, rng)
    sizes = (10, 25) if len(world.sizes) > 2 else (10,)
    tests = [
        SpecifiedTest(column, estimator, least)
        for column in range(values.shape[1])
        for estimator in ("subjects", "images", "adjusted")
        for least in sizes
    ]
    entries = read_entries(values, data.groups, data.subjects, data.images)
    people, first = np.unique(data.subjects, return_index=True)
    late = np.unique(data.groups, return_inverse=True)[1][first] >= len(world.sizes) // 2
    covariate = np.where(rng.random(len(people)) < np.where(late, 0.8, 0.2), 1.0, 0.0)[:, None]
    names = tuple(str(name) for name in np.unique(data.groups))
    shares = np.array([[np.mean(data.groups[data.subjects == one] == name) for name in names] for one in people])
    order = np.argsort(people.astype(str))  # entries number the subjects by name

    def adjustment(subjects: object) -> tuple[Design, np.ndarray]:
        return Design(shares[order], names, covariate[order], ("age",)), np.ones(len(people), dtype=bool)

    joint = joint_statistics(
        entries,
        [str(one) for one in people[order]],
        tests,
        yes_no=[False] * values.shape[1],
        settings=PanelSettings(n_permutations=PERMUTATIONS, seed=seed),
        adjustment=adjustment,
    )
    assert joint is not None
    gaps = np.array([one.raw for one in joint.found])
    t = np.array([one.max_t for one in joint.found])
    known = np.isfinite(t)
    curve = curve_test(gaps[known], joint.gaps[:, known], t[known], joint.permuted[:, known])
    single = {
        name: permutation_p(t[k], joint.permuted[:, k])
        for name in ("adjusted", "images")
        if known[k := tests.index(SpecifiedTest(0, name, 10))]
    }
    samples = [values[data.groups == name, 0] for name in names]
    independent = kruskal_wallis([sample[np.isfinite(sample)] for sample in samples])[1]
    out = {"median": curve.median_p, "share": curve.share_p, "adjusted": np.nan, "images": np.nan, **single}
    return out | {"independent": np.nan if independent is None else independent}


def _outcomes(world: World, data: Data, rng: np.random.Generator) -> np.ndarray:
    """Return three scorers under three treatments of refusals, (n, 9)."""
    first = data.values[:, 0]
    centred = first - np.median(first)
    coarse = np.sign(np.round(2 * centred / max(float(first.std()), 1e-9))) + 0.2 * rng.normal(size=len(first))
    rare = np.where(centred > np.quantile(centred, 0.97), centred, 0.0)
    _, image = np.unique(data.images, return_inverse=True)
    refused = (rng.random(image.max() + 1) < REFUSED.get(world.outcome, 0.02))[image]
    coarse = coarse[np.unique(data.images, return_index=True)[1]][image]  # an image in two groups has one answer
    columns = []
    for values in (first, coarse, rare):
        own = np.where(refused, np.nan, values)
        columns += [own, np.where(refused, np.nanmean(own), values), np.where(refused, values.min() - 0.1, values)]
    return np.stack(columns, axis=1)
