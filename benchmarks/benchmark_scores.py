"""What published benchmarks' scores are where a model treats groups equally.

    python benchmarks/benchmark_scores.py > docs/methods/benchmarks_null.csv

No question is asked: answers are drawn. Sizes are those of the published data; `spread` is the standard deviation of a
probability (or score) between images of one person, or of one scene, without any bias. `docs/methods/benchmarks.md`
states the findings.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator], float]


def visogender_gap(per_gender: int, accuracy: float) -> Draw:
    """Return the gap RA_m - RA_f with one accuracy for both genders, as published (rounded to 0.01)."""

    def draw(rng: np.random.Generator) -> float:
        male, female = rng.binomial(per_gender, accuracy, 2) / per_gender
        return float(abs(np.round(male, 2) - np.round(female, 2)))

    return draw


def sb_bench_bias(weights: tuple[float, float, float]) -> Draw:
    """Return the bias (mean of nine categories) of a model that abstains, or takes either answer, with `weights`."""

    def draw(rng: np.random.Generator) -> float:
        chosen = rng.choice(3, p=weights, size=(9, 833))
        return float((chosen != 0).mean(axis=1).mean())

    return draw


def genderbias_vl(spread: float, largest: bool) -> Draw:
    """Return B_ovl (or B_max), x 100, of 486 pairs with 40 images of each occupation, in two orders."""

    def draw(rng: np.random.Generator) -> float:
        # b of an occupation: mean of 40 differences of two equally distributed probabilities
        b = rng.normal(0, spread * np.sqrt(2 / 40), (486, 2, 2))
        pairs = (100 * (b[:, 0] - b[:, 1]) / 2).mean(axis=1)
        return float(pairs.max() if largest else np.abs(pairs).mean())

    return draw


def largest_of_set(images: int) -> Draw:
    """Return the mean over 836 sets of the largest score less the mean, in standard deviations within a set."""
    return lambda rng: float(rng.standard_normal((836, images)).max(axis=1).mean())


def vl_gender(spread: float) -> Draw:
    """Return the mean absolute gap of P(Yes) over 81 values, with 500 images of each gender."""
    return lambda rng: float(np.abs(rng.normal(0, spread * np.sqrt(2 / 500), 81)).mean())


def pairs_accuracy(weight: float) -> Draw:
    """Return HELM's accuracy of 508 items where "unclear" is chosen with this probability."""
    return lambda rng: float(rng.binomial(508, weight) / 508)


def pairs_contrast(spread: float) -> Draw:
    """Return the absolute contrast between two pairs of images a scene, over the 18 scenes of occupations."""
    return lambda rng: float(abs(np.diff(rng.normal(0, spread, (18, 2, 2)).mean(axis=1)).mean()))


def share(items: int) -> Draw:
    """Return the share of correct answers of a model that guesses among three options."""
    return lambda rng: float(rng.binomial(items, 1 / 3) / items)


def genderbias_vl_ipss(spread: float) -> Draw:
    """Return Ipss, x 100, of a model that guesses: 486 pairs, 20 base images of each occupation, B_pair as above."""

    def draw(rng: np.random.Generator) -> float:
        accuracy = rng.binomial(40, 0.5, 486) / 40
        bias = np.abs(rng.normal(0, spread * np.sqrt(2 / 40 / 2), 486))
        return float(100 * (accuracy * (1 - bias)).mean())

    return draw


def vlbiasbench_range() -> Draw:
    """Return the largest less the smallest share of abstentions of ten categories, in a model that guesses."""
    return lambda rng: float(np.ptp(rng.binomial(1000, 1 / 3, 10) / 1000))


CASES: tuple[tuple[str, str, str, Draw], ...] = (
    ("VisoGender", "absolute gap, OO", "accuracy 0.8 for both genders", visogender_gap(115, 0.8)),
    ("VisoGender", "absolute gap, OP", "accuracy 0.8 for both genders", visogender_gap(230, 0.8)),
    ("SB-Bench", "bias", "guesses among three", sb_bench_bias((1 / 3, 1 / 3, 1 / 3))),
    ("SB-Bench", "bias", "abstains in half, guesses otherwise", sb_bench_bias((0.5, 0.25, 0.25))),
    ("GenderBias-VL", "B_ovl", "spread 0.1", genderbias_vl(0.1, False)),
    ("GenderBias-VL", "B_max", "spread 0.1", genderbias_vl(0.1, True)),
    ("GenderBias-VL", "B_ovl", "spread 0.2", genderbias_vl(0.2, False)),
    ("SocialCounterfactuals", "maximum, in SDs above the mean", "sets of 10", largest_of_set(10)),
    ("SocialCounterfactuals", "maximum, in SDs above the mean", "sets of 12", largest_of_set(12)),
    ("SocialCounterfactuals", "maximum, in SDs above the mean", "sets of 30", largest_of_set(30)),
    ("VL-Gender", "mean absolute gap", "spread 0.2", vl_gender(0.2)),
    ("PAIRS", "accuracy", "guesses among three", pairs_accuracy(1 / 3)),
    ("PAIRS", "absolute contrast, occupations", "spread 0.2", pairs_contrast(0.2)),
    ("SB-Bench", "fair", "guesses among three", share(14_578)),
    ("GenderBias-VL", "Ipss", "guesses, spread 0.1", genderbias_vl_ipss(0.1)),
    ("VLBiasBench", "range of abstention, 10 categories of 1,000", "guesses among three", vlbiasbench_range()),
)


def measure(n_runs: int, seed: int = 1) -> list[dict[str, str | float]]:
    """Return mean, standard deviation and 95th percentile of each score over `n_runs` draws."""
    rows: list[dict[str, str | float]] = []
    for number, (benchmark, score, model, draw) in enumerate(CASES):
        rng = np.random.default_rng([seed, number])
        values = np.array([draw(rng) for _ in range(n_runs)])
        numbers = {"mean": values.mean(), "sd": values.std(ddof=1), "p95": np.quantile(values, 0.95)}
        names: dict[str, str | float] = {"benchmark": benchmark, "score": score, "unbiased_model": model}
        rows.append(names | {name: round(float(value), 4) for name, value in numbers.items()})
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Write the rows as CSV, or with `--json` as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = measure(given.runs)
    if given.json:
        print(json.dumps(rows))
        return
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
