"""Validity of the GRAS analysis: error rates, null distributions, effect sizes and intervals on simulated answers.

`python benchmarks/gras_validity.py` runs every study (about half an hour of one core) and writes
docs/methods/gras_validity.csv (findings: docs/methods/gras.md); `--share 0.1` takes a tenth of the data sets.
`--kept FILE` stores the rows of every study that is done, and takes them from there where a run was interrupted. A fast
version runs with the tests.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gras_worlds import World
from fp2.methods.gras.analysis import MEAN, means_of_groups, status_of_cells, uneven_attributes
from fp2.methods.gras.attribution import StandardErrors, deviations, rate_intervals, rates
from fp2.methods.gras.grouping import group_answers, group_images
from fp2.methods.gras.magnitude import ResampledMeans, magnitude
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.resampling import TraitTests
from fp2.stats.adjustment import adjust_p_values, step_down_max_t

SEED = 20260500
CALLED = 0.055
"""Bound of the rate of false differences of means, also in the worlds in which no test of means keeps its level."""
MARK = "published_orientation"
EFFECTS = (("gender", 1, (0, 1, 2, 3), 0.04), ("age", 3, (4, 5), 0.06))
TEMPLATES_ALONE = World(3570, groups={"gender": 2, "race": 7, "age": 5}, tones=1440, traits=100, trait_correlation=0.0)


@dataclass(frozen=True)
class Row:
    """One claim, the number found, over how many data sets, and the bound that it must keep.

    `error`: Monte-Carlo standard error of the number, where it is a mean over data sets. An error rate (`rate`) keeps
    its bound unless it is more than two of them above. Without a bound (`high` infinite) a row is for comparison.
    """

    claim: str
    world: str
    value: float
    n: int
    low: float
    high: float
    error: float | None = None
    rate: bool = False

    @property
    def holds(self) -> bool:
        """Whether the number is inside its bound."""
        allowed = 2 * self.error if self.rate and self.error else 0.0
        return self.low <= self.value <= self.high + allowed


def standard_error(values: Any) -> float:
    """Return the standard error of the mean of independent values."""
    found = np.asarray(values, dtype=np.float64)
    return float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0


def drawn_tests(world: World, seed: int, units: str = "images") -> TraitTests:
    """Return the tests of freshly drawn answers."""
    people = world.people(np.random.default_rng([SEED, seed, 1]))
    answers = world.answers(people, np.random.default_rng([SEED, seed, 2]))
    options = GrasOptions(seed=seed, min_subjects=5)
    return TraitTests(answers, group_answers(answers, people, world.cuts, options), options, units)


def null_coverage(world: World, data_sets: int, permutations: int, units: str = "images", first: int = 0) -> float:
    """Return the share of data sets without any effect whose score is in the central 95 % of its own null."""
    people = world.people(np.random.default_rng([SEED, 1]))
    inside = []
    for k in range(first, first + data_sets):
        answers = world.answers(people, np.random.default_rng([SEED, k, 2]))
        options = GrasOptions(seed=k, min_subjects=5)
        tests = TraitTests(answers, group_answers(answers, people, world.cuts, options), options, units)
        value = float(tests.scores(tests.observed()[0].p)[MARK][0])
        low, high = np.quantile(tests.null(permutations).scores[MARK], [0.025, 0.975])
        inside.append(low <= value <= high)
    return float(np.mean(inside))


def null_mean(world: World, permutations: int, seed: int = 0) -> float:
    """Return the mean of the published orientation under permuted labels."""
    return float(drawn_tests(world, seed).null(permutations).scores[MARK].mean())


@dataclass(frozen=True)
class Size:
    """What one data set gave: magnitudes with their intervals, significant cells, published orientation."""

    omega: tuple[float, float, float]
    gap: tuple[float, float, float]
    found: frozenset[tuple[int, int]]
    published: float


def size(world: World, seed: int, kind: str = "images", permutations: int = 200, bootstrap: int = 200) -> Size:
    """Analyse one data set."""
    tests = drawn_tests(world, seed, kind)
    observed, _ = tests.observed()
    resampled = ResampledMeans()
    for sums in tests.resamples(bootstrap):
        resampled.add(tests.tests(sums))
    null = tests.null(permutations)
    block = magnitude(observed, null, resampled, tests.grouping.names)
    cells = np.argwhere(tests.adjusted_p(observed, null) <= tests.alpha)
    published = float(tests.scores(observed.p)[MARK][0])
    omega, gap = (
        (float(block[name]["low"]), float(block[name]["value"]), float(block[name]["high"]))
        for name in ("omega_squared", "gap")
    )
    return Size(omega, gap, frozenset((int(a), int(k)) for a, k in cells), published)


def planted_cells(world: World) -> frozenset[tuple[int, int]]:
    """Return the cells (attribute, trait) in which something was planted."""
    order = list(world.groups)
    return frozenset((order.index(name), k) for name, _, traits, _ in world.effects for k in traits)


def sizes(world: World, data_sets: int, kind: str = "images") -> list[Size]:
    """Analyse many data sets."""
    return [size(world, k, kind) for k in range(data_sets)]


METHODS = ("difference of means", "step-down max-F", "Holm, asymptotic")
"""How a cell is found: the status `mean_differs` of a run, the test that it rests on, and the published tests."""


def cells_found(world: World, data_sets: int, units: str, permutations: int = 39) -> np.ndarray:
    """Return per data set (any false cell, share of planted cells) by each of `METHODS`: (n, 3, 2).

    A permutation test has its level with any number of permutations, so few are enough here. The people are drawn once,
    their answers anew in every data set.
    """
    planted = np.zeros((len(world.cuts), world.traits), dtype=bool)
    for a, k in planted_cells(world):
        planted[a, k] = True
    people = world.people(np.random.default_rng([SEED, 1]))
    ids = (people["image_id"].to_numpy(dtype=object), people["subject_id"].to_numpy(dtype=object))
    grouping = group_images(*ids, people, world.cuts, 5)
    out = []
    for k in range(data_sets):
        answers = world.answers(people, np.random.default_rng([SEED, k, 2]))
        tests = TraitTests(answers, grouping, GrasOptions(seed=k, min_subjects=5), units)
        observed, own = tests.observed()
        drawn = np.concatenate([tests.evidence(tests.tests(sums)) for sums in tests.permuted(permutations)])
        step_down = step_down_max_t(tests.evidence(observed)[0], drawn).reshape(planted.shape) <= tests.alpha
        p = observed.p.reshape(-1)
        holm = np.array(adjust_p_values(list(p)), dtype=float).reshape(*planted.shape, -1).min(axis=2) <= tests.alpha
        uneven = uneven_attributes(grouping, means_of_groups(tests, own))
        called = status_of_cells(step_down, np.ones_like(step_down), uneven) == MEAN
        out.append(
            [
                ((found & ~planted).any(), found[planted].mean() if planted.any() else np.nan)
                for found in (called, step_down, holm)
            ]
        )
    return np.array(out, dtype=np.float64)


def cell_worlds() -> list[tuple[str, World, str, float]]:
    """Return the worlds of the error rate of cells: what they are, units, and the largest rate allowed.

    In the last the test has no bound, since no test of means that was tried holds its level there.
    """
    skewed = World(
        210,
        groups={"age": 6},
        sizes={"age": (60, 50, 40, 30, 20, 10)},
        skew=(-2.0, 1.0),
        traits=20,
        template_correlation=0.5,
    )
    normal, several = replace(skewed, skew=None), replace(skewed, images=3, traits=10)
    bound, unequal = 0.055, 0.07
    return [
        ("skewed, groups of 60 to 10", skewed, "images", bound),
        ("very skewed, groups of 60 to 10", replace(skewed, skew=(-4.0, 2.0)), "images", bound),
        ("skewed, groups of 200 and 10", replace(skewed, groups={"age": 2}, sizes={"age": (200, 10)}), "images", bound),
        (
            "skewed, three attributes",
            replace(
                skewed,
                groups={"age": 6, "gender": 2, "race": 4},
                sizes={**skewed.sizes, "gender": (190, 20)},
                traits=10,
            ),
            "images",
            bound,
        ),
        ("skewed, 3 images each, images as units", several, "images", bound),
        ("skewed, 3 images each, subjects as units", several, "subjects", bound),
        (
            "skewed, 20 % of the answers missing, 50 % in the smallest group",
            replace(skewed, sizes={"age": (60, 50, 40, 20, 20, 20)}, missing=0.2, missing_last=0.3),
            "images",
            bound,
        ),
        ("normal, groups of 60 to 10", normal, "images", bound),
        ("normal, equal groups of 35", replace(normal, sizes={"age": (35,) * 6}), "images", bound),
        ("normal, half the spread in the group of 10", replace(normal, spread_last=0.5), "images", unequal),
        (
            "normal, twice the spread in the group of 10 of two",
            replace(normal, subjects=70, groups={"age": 2}, sizes={"age": (60, 10)}, spread_last=2.0),
            "images",
            unequal,
        ),
        (
            "skewed, subjects of the smallest group in 1 image, others in 4, subjects as units",
            replace(several, images=4, images_last=1),
            "subjects",
            np.inf,
        ),
        ("normal, twice the spread in the group of 10 of six", replace(normal, spread_last=2.0), "images", np.inf),
        (
            "normal, groups of 60 to 30, twice the spread in the smallest",
            replace(normal, sizes={"age": (60, 30, 30, 30, 30, 30)}, spread_last=2.0),
            "images",
            np.inf,
        ),
        ("skewed, twice the spread in the group of 10 of six", replace(skewed, spread_last=2.0), "images", np.inf),
        (
            "skewed, groups of 60 to 30, twice the spread in the smallest",
            replace(skewed, sizes={"age": (60, 30, 30, 30, 30, 30)}, spread_last=2.0),
            "images",
            np.inf,
        ),
    ]


def cell_rows(name: str, world: World, units: str, bound: float, data_sets: int) -> list[Row]:
    """Return the rate of data sets with any false cell, by each method.

    A rate above its bound is estimated again from three times as many data sets.
    """
    found = cells_found(world, data_sets, units)
    if found[:, 1, 0].mean() > bound:
        data_sets *= 3
        found = cells_found(world, data_sets, units)
    rows = []
    for place, (method, high) in enumerate(zip(METHODS, (min(bound, CALLED), bound, np.inf), strict=True)):
        value, error = float(found[:, place, 0].mean()), standard_error(found[:, place, 0])
        rows.append(Row(f"any false cell, {method}", name, value, data_sets, 0.0, high, error, rate=True))
    return rows


def power_rows(n: Callable[[int], int]) -> list[Row]:
    """Return the share of four planted cells that is found, by each method."""
    skewed = cell_worlds()[0][1]
    rows = []
    for name, world in (("skewed", skewed), ("normal", replace(skewed, skew=None))):
        for group, size_of in ((0, 0.08), (5, 0.15)):
            data_sets = n(300)
            # the deviation of a normal answer is 0.1, that of a skewed one 0.11
            planted = replace(world, effects=(("age", group, (0, 1, 2, 3), size_of),))
            found = cells_found(planted, data_sets, "images")
            where = f"{name}, groups of 60 to 10, {size_of} more in the group of {(60, 10)[group > 0]}"
            for place, method in enumerate(METHODS):
                value, error = float(found[:, place, 1].mean()), standard_error(found[:, place, 1])
                rows.append(Row(f"planted cells found, {method}", where, value, data_sets, 0.0, np.inf, error))
    return rows


def level_rows(n: Callable[[int], int]) -> list[Row]:
    """Exchangeable labels: the observed score lies in the central 95 % of its null; and what that null is."""
    claim = "score inside the central 95 % of its null, exchangeable labels"
    rows = []
    for name, world, kind in (
        ("60 subjects, one image each", World(60, trait_correlation=0.3), "images"),
        ("60 subjects and 60 for the skin tone", World(60, tones=60, traits=15, trait_correlation=0.3), "images"),
        ("30 subjects, 3 images each, images as units", World(30, images=3, trait_correlation=0.3), "images"),
        ("30 subjects, 3 images each, subjects as units", World(30, images=3, trait_correlation=0.3), "subjects"),
    ):
        inside = null_coverage(world, n(400), 199, kind)
        error = float(np.sqrt(inside * (1 - inside) / n(400)))
        rows.append(Row(claim, name, inside, n(400), 0.93, 0.97, error))
    for correlation, low, high in ((0.0, 21.6, 23.6), (0.5, 17.5, 19.5), (0.9, 9.5, 11.0), (1.0, 4.5, 5.5)):
        world = replace(TEMPLATES_ALONE, template_correlation=correlation)
        value = null_mean(world, n(80))
        name = f"GRAS's sizes, templates correlate {correlation:g}"
        rows.append(Row("mean of the null, published orientation", name, value, n(80), low, high))
    return rows


def small_null_rows(n: Callable[[int], int]) -> list[Row]:
    """Return the null mean of the published orientation where asymptotic p-values do not hold, for comparison."""
    skewed, rows = cell_worlds()[0][1], []
    for name, world in (("skewed", skewed), ("normal", replace(skewed, skew=None))):
        where = f"{name}, groups of 60 to 10, templates correlate 0.5"
        found = [null_mean(replace(world, traits=100), n(200), seed) for seed in range(n(10))]
        value, error = float(np.mean(found)), standard_error(found)
        rows.append(Row("mean of the null, published orientation", where, value, len(found), 0.0, np.inf, error))
    return rows


def rate_coverage(spread: float, data_sets: int, first: int = 0) -> float:
    """Return how often a rate's interval holds the true share, over groups and polarities.

    Every trait has a small effect of its own on one gender, normal with standard deviation `spread` in P(Yes).
    """
    inside: list[bool] = []
    for k in range(first, first + data_sets):
        size_of = np.random.default_rng([SEED, k, 3]).normal(size=20) * spread
        effects = tuple(("gender", 1, (t,), float(size_of[t])) for t in range(20))
        tests = drawn_tests(World(200, groups={"gender": 2}, effects=effects), k)
        own, errors = deviations(tests, tests.observed()[1])[0], StandardErrors()
        for sums in tests.resamples(100):
            errors.add(deviations(tests, sums))
        polarity = ["negative" if t % 2 else "positive" for t in range(20)]
        low, high = rate_intervals(own, errors.result(), polarity)
        true = rates(np.stack([-size_of, size_of])[:, :, None], polarity)  # by the sign of each group's deviation
        inside += [bool(a <= b <= c) for a, b, c in zip(low - 1e-9, true, high + 1e-9, strict=True)]
    return float(np.mean(inside))


def rate_rows(n: Callable[[int], int]) -> list[Row]:
    """Intervals of attribution rates hold the true share."""
    claim, data_sets = "interval of an attribution rate covers the true share", n(60)
    rows = []
    for spread in (0.5, 1.0, 3.0):
        found = rate_coverage(spread * 0.1 * 2 / 200**0.5, data_sets)
        rows.append(Row(claim, f"200 subjects, effects of {spread:g} standard errors", found, data_sets, 0.93, 1.0))
    return rows


def size_rows(n: Callable[[int], int]) -> list[Row]:
    """Planted effects: found where they are and nowhere else; sizes that do not grow with n, intervals that cover."""
    rows: list[Row] = []
    data_sets = n(80)

    def add(claim: str, people: str, values: list[float] | np.ndarray, low: float, high: float) -> None:
        error = standard_error(values)
        rows.append(Row(claim, f"{people} subjects", float(np.mean(values)), data_sets, low, high, error))

    worlds = {m: World(m, effects=EFFECTS, template_correlation=0.7) for m in (120, 480, 1920)}
    drawn = {m: sizes(world, data_sets) for m, world in worlds.items()}
    truth = {"omega": worlds[120].true_omega(), "gap": worlds[120].true_gap()}
    planted = planted_cells(worlds[120])
    add("planted cells found", "1920", [len(planted & s.found) / len(planted) for s in drawn[1920]], 0.98, 1.0)
    for m, found in drawn.items():
        add("any planted zero significant", str(m), [bool(s.found - planted) for s in found], 0.0, 0.07)
        add("significant cells; 6 planted", str(m), [len(s.found) for s in found], 0, 6.2)
        add("published orientation", str(m), [s.published for s in found], 0, 100)
        for which, true in truth.items():
            ends = np.array([getattr(s, which) for s in found])
            add(f"mean of {which} (true {true:.4f})", str(m), ends[:, 1], 0.9 * true, 1.1 * true)
            add(f"95 % interval of {which} covers", str(m), (ends[:, 0] <= true) & (true <= ends[:, 2]), 0.9, 1.0)
    for few, many in ((120, 480), (480, 1920)):
        both = list(zip(drawn[few], drawn[many], strict=True))
        for which in truth:
            ends = np.array([(*getattr(a, which), getattr(b, which)[1]) for a, b in both])
            inside = (ends[:, 0] <= ends[:, 3]) & (ends[:, 3] <= ends[:, 2])
            add(f"{which} at 4n inside its interval at n", f"{few} and {many}", inside, 0.87, 1.0)
    grown = [len(b.found) > len(a.found) for a, b in zip(drawn[120], drawn[480], strict=True)]
    add("more significant cells at 4n", "120 and 480", grown, 0.95, 1.0)
    return rows


def report(rows: list[Row], docs: Path) -> None:
    """Write every number as CSV."""
    with (docs / "gras_validity.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["claim", "data", "value", "standard_error", "data_sets", "low", "high", "holds"])
        for row in rows:
            ends = [f"{end:.4g}" if np.isfinite(row.high) else "" for end in (row.low, row.high)]
            error = "" if row.error is None else f"{row.error:.2g}"
            holds = ("yes" if row.holds else "no") if np.isfinite(row.high) else ""
            table.writerow([row.claim, row.world, f"{row.value:.4g}", error, row.n, *ends, holds])


def kept_rows(studies: dict[str, Callable[[], list[Row]]], kept: Path | None) -> list[Row]:
    """Return the rows of all studies, those of finished ones from the file `kept`."""
    done = json.loads(kept.read_text(encoding="utf-8")) if kept is not None and kept.is_file() else {}
    for name, study in studies.items():
        if name not in done:
            done[name] = [asdict(row) for row in study()]
            if kept is not None:
                kept.write_text(json.dumps(done), encoding="utf-8")
    return [Row(**row) for name in studies for row in done[name]]


def main() -> None:
    """Run, write, and fail if a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="share of the data sets")
    parser.add_argument("--docs", type=Path, default=Path("docs/methods"), help="the folder of the CSV file")
    parser.add_argument("--kept", type=Path, help="a JSON file with the rows of studies that are done")
    parser.add_argument("--json", action="store_true", help="(always, on the last line)")
    args = parser.parse_args()

    def n(full: int) -> int:
        return max(2, round(full * args.share))

    studies: dict[str, Callable[[], list[Row]]] = {
        name: lambda name=name, world=world, units=units, bound=bound: cell_rows(
            name, world, units, bound, n(2_000 if np.isfinite(bound) else 1_000)
        )
        for name, world, units, bound in cell_worlds()
    }
    studies |= {"power": lambda: power_rows(n), "level": lambda: level_rows(n), "size": lambda: size_rows(n)}
    studies |= {"rates": lambda: rate_rows(n), "small_null": lambda: small_null_rows(n)}
    rows = kept_rows(studies, args.kept)
    report(rows, args.docs)
    failed = [row for row in rows if not row.holds]
    for row in failed:
        print(f"outside its bound: {row.claim}, {row.world}: {row.value:.4g}")
    print(json.dumps({"benchmark": "gras_validity", "rows": len(rows), "failed": len(failed)}))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
