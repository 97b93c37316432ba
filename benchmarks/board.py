"""Error rates of the ranks of `fp2 board` where sites differ, and the time that a board of 500 passports takes.

    python benchmarks/board.py --runs 1000 --csv docs/methods/board_validity.csv
    python benchmarks/board.py --speed

Each world has five models, four groups and six probes; 15 to 40 people of a group answer at each site, with a
correlation of .5 between probes. A class is wrong if any model is said to be better than one that it is not better
than: the simultaneous error of the rank sets, which may be 5 %. `effects` says how sites differ beyond sampling: in
every mean, in one probe, in one group, or alike in all probes. `share` is the share of sites that measure each model.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fp2.methods.board.pages import standings, write_site
from fp2.methods.board.pooling import SiteMeans, pool, rank
from fp2.methods.board.submissions import read_board
from fp2.progress import Progress

GROUPS, PROBES = 4, 6
SD, CORRELATION = 0.35, 0.5
EVERYWHERE, FEW, MOST = (1.0,) * 5, (1.0, 0.5, 0.2, 0.1, 0.05), (1.0, 1.0, 1.0, 0.5, 0.3)
KINDS = ("all", "probe", "group", "alike")
EQUAL, NONE, MIXED = (0.2,) * 5, (0.0,) * 5, (0.0, 0.1, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class World:
    """Differences of the five models, number of sites, share of them that measure each model, and site effects."""

    name: str
    differences: Sequence[float]
    n_sites: int
    share: Sequence[float] = EVERYWHERE
    tau: float = 0.0
    effects: str = "all"


WORLDS = (
    World("one site, equal models", EQUAL, 1),
    World("one site, no difference", NONE, 1),
    World("one site, different models", MIXED, 1),
    World("20 sites, equal models", EQUAL, 20),
    World("20 sites, no difference, effects", NONE, 20, FEW, 0.1),
    *(World(f"20 sites, equal models, effects: {kind}", EQUAL, 20, FEW, 0.1, kind) for kind in KINDS),
    *(World(f"3 sites, equal models, effects: {kind}", EQUAL, 3, MOST, 0.1, kind) for kind in KINDS),
    World("20 sites, different models, effects", MIXED, 20, FEW, 0.1),
)  # fmt: skip


def truth(world: World, rng: np.random.Generator) -> list[np.ndarray]:
    """Return group means (groups, probes) of each model, scaled to its difference."""
    shapes = rng.standard_normal((len(world.differences), GROUPS, PROBES))
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    sizes = np.sqrt(2 / (GROUPS - 1) / PROBES * (centred**2).sum(axis=(1, 2)))
    return [shape * d / size for shape, d, size in zip(centred, world.differences, sizes, strict=True)]


def site_effects(world: World, rng: np.random.Generator) -> np.ndarray:
    """Return the effects of one site, (groups, probes), with a mean square of tau^2."""
    effects = np.zeros((GROUPS, PROBES))
    if world.effects == "all":
        effects = rng.standard_normal((GROUPS, PROBES))
    elif world.effects == "probe":
        effects[:, 0] = np.sqrt(PROBES) * rng.standard_normal(GROUPS)
    elif world.effects == "group":
        effects[0] = np.sqrt(GROUPS) * rng.standard_normal(PROBES)
    else:
        effects += rng.standard_normal((GROUPS, 1))
    return world.tau * effects


def measured(world: World, means: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, list[SiteMeans]]:
    """Return what the sites state of each model; the same people answer all models of a site."""
    models: dict[str, list[SiteMeans]] = {str(k): [] for k in range(len(means))}
    for site in range(world.n_sites):
        sizes = rng.integers(15, 41, GROUPS)
        people = [rng.standard_normal((n, 1)) for n in sizes]
        for k, mean in enumerate(means):
            last = site == world.n_sites - 1 and not models[str(k)]
            if rng.random() > world.share[k] and not last:
                continue
            own = mean + site_effects(world, rng)
            answers = [
                own[g]
                + SD
                * (
                    np.sqrt(CORRELATION) * person
                    + np.sqrt(1 - CORRELATION) * rng.standard_normal((len(person), PROBES))
                )
                for g, person in enumerate(people)
            ]
            covariance = np.stack([np.cov(x.T) / len(x) for x in answers])
            models[str(k)].append(
                SiteMeans(np.stack([x.mean(axis=0) for x in answers]), covariance, sizes.astype(float))
            )
    return models


def measure(world: World, n_runs: int, n_resamples: int) -> dict[str, object]:
    """Return the shares of wrong classes, of intervals that hold, and of true orders that are found, in per cent."""
    rng = np.random.default_rng(20260101)
    means = truth(world, rng)
    wrong = held = found = pairs = 0
    for run in range(n_runs):
        pooled = pool(measured(world, means, rng))
        table = rank(pooled, n_resamples=n_resamples, seed=run, alpha=0.05)
        true = np.array([world.differences[int(row.name)] for row in table.rows])
        is_smaller = true[:, None] < true
        wrong += bool((table.better & ~is_smaller).any())
        found += int((table.better & is_smaller).sum())
        pairs += int(is_smaller.sum())
        for model, each in pooled.items():
            low, high = each.interval(0.05)
            held += low <= world.differences[int(model)] <= high
    return {
        "world": world.name,
        "runs": n_runs,
        "wrong classes %": round(100 * wrong / n_runs, 1),
        "intervals that hold %": round(100 * held / n_runs / len(means), 1),
        "orders found %": round(100 * found / pairs, 1) if pairs else "",
    }


def passports(folder: Path, n_models: int, n_sites: int) -> Iterator[Path]:
    """Write and yield signed passports of simulated runs of each model at each site."""
    from fp2.report.keys import generate_key
    from fp2.report.passport import PREDICATE_TYPE, STATEMENT_TYPE, sign

    rng = np.random.default_rng(1)
    world = World("", tuple(np.linspace(0, 0.5, n_models)), n_sites, (1.0,) * n_models, 0.05)
    models = measured(world, truth(world, rng), rng)
    (folder / "keys").mkdir()
    probes, groups = [f"p{i}" for i in range(PROBES)], [f"g{i}" for i in range(GROUPS)]
    for site in range(n_sites):
        key = generate_key(folder / f"secret-{site}.pem")
        key.public_path.rename(folder / "keys" / f"site-{site}.pem")
        for model, sites in models.items():
            stated = sites[site]
            rows = [
                {
                    "probe": probe,
                    "cut": "region",
                    "scorer": "valence",
                    "dependent_groups": False,
                    "groups": [
                        {"group": group, "mean": float(stated.means[g, p]), "n_subjects": int(stated.n_subjects[g])}
                        for g, group in enumerate(groups)
                    ],
                }
                for p, probe in enumerate(probes)
            ]
            composite = {
                "probes": probes,
                "groups": groups,
                "covariances": dict(zip(groups, stated.covariance.tolist(), strict=True)),
            }
            predicate = {
                "issued": "2026-11-01T00:00:00+00:00",
                "complete": True,
                "disparities": rows,
                "composites": {"region": composite},
                "model": {"name": model, "id": model, "engine": "hf"},
                "dataset": {"name": "people", "release": "1", "n_subjects": int(stated.n_subjects.sum())},
                "protocol": {"probes_digest": "p", "probes": [{"id": probe} for probe in probes], "cuts": ["region"]},
                "scorers": [{"name": "valence", "version": "1"}],
                "statistics": {"primary": "valence"},
                "run": {"response_set": f"{site}-{model}"},
            }
            statement = {
                "_type": STATEMENT_TYPE,
                "subject": [],
                "predicateType": PREDICATE_TYPE,
                "predicate": predicate,
            }
            path = folder / f"site-{site}" / f"model-{model}" / "passport.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(sign(statement, key)))
            yield path


def speed(n_models: int = 25, n_sites: int = 20) -> dict[str, object]:
    """Return the seconds that verifying, ranking and writing the site of a board take."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "passports"
        folder.mkdir()
        n = sum(1 for _ in passports(folder, n_models, n_sites))
        start = time.perf_counter()
        board = read_board(folder, [])
        verified = time.perf_counter()
        ranked = list(standings(board, n_resamples=2000, seed=1, alpha=0.05))
        done = time.perf_counter()
        write_site(board, ranked, Path(scratch) / "site")
        written = time.perf_counter()
    assert len(board.submissions) == n
    return {
        "passports": n,
        "models": n_models,
        "verify s": round(verified - start, 1),
        "rank s": round(done - verified, 1),
        "write s": round(written - done, 1),
    }


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--speed", action="store_true", help="the time of 500 passports instead")
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    rows = []
    if given.speed:
        rows.append(speed())
    else:
        with Progress().steps("Simulating", len(WORLDS)) as step:
            for world in WORLDS:
                rows.append(measure(world, given.runs, given.resamples))
                step()
    if given.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("; ".join(f"{name} {value}" for name, value in row.items()))
    if given.csv is not None:
        with given.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
