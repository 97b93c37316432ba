"""Error rates of `fp2 monitor`, and how many answers it needs to find a change.

    python benchmarks/monitor.py --years 1000 --csv docs/methods/monitor_validity.csv

A year has 365 looks at five images with six questions each, about five groups. While the model is the same, a pair of
answers differs by noise that is symmetric about 0, whatever its distribution: the worlds differ in it. A change shifts
the answers to one probe about one group by a part of the score's range. Scores are in units of their range; the noise
of a new answer less the stored one has a standard deviation of 0.14 (sampled answers), or there is none (greedy ones).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fp2.methods.monitor.evidence import log_e
from fp2.progress import Progress

LOOKS, IMAGES, PROBES, GROUPS = 365, 5, 6, 5
ALPHA = 0.05
SHIFTS = (0.05, 0.1, 0.2)

Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Returns differences (images, probes) for the group of each image."""


def shape(group: np.ndarray) -> tuple[int, int]:
    """Return the shape of the differences."""
    return len(group), PROBES


WORLDS: Mapping[str, Noise] = {
    "equal answers": lambda rng, group: np.zeros(shape(group)),
    "normal noise": lambda rng, group: rng.normal(0, 0.14, shape(group)),
    "one answer in 50 turns round": lambda rng, group: rng.choice([-1.0, 0.0, 1.0], shape(group), p=[0.01, 0.98, 0.01]),
    "heavy tails": lambda rng, group: np.clip(0.03 * rng.standard_t(1.5, shape(group)), -1, 1),
    "noise in one group only": lambda rng, group: rng.normal(0, np.where(group == 0, 0.3, 1e-3)[:, None], shape(group)),
    "one noise for all probes": lambda rng, group: np.repeat(rng.normal(0, 0.14, (len(group), 1)), PROBES, axis=1),
}  # fmt: skip


def first_alarm(rng: np.random.Generator, noise: Noise, shift: float) -> float:
    """Return after how many answers of a year the model is said to have changed; infinity where it is not."""
    group = rng.integers(0, GROUPS, LOOKS * IMAGES)
    differences = noise(rng, group)
    differences[group == 0, 0] += shift
    inside = [np.ones(len(group), dtype=bool), *(group == g for g in range(GROUPS))]
    rows = np.concatenate([differences * of_row[:, None] for of_row in inside], axis=1)
    ends = slice(IMAGES - 1, None, IMAGES)
    logs = log_e(rows.cumsum(axis=0)[ends], (rows**2).cumsum(axis=0)[ends])
    mean = np.logaddexp.reduce(logs, axis=1) - np.log(logs.shape[1])
    alarms = np.flatnonzero(mean >= np.log(1 / ALPHA))
    return float((alarms[0] + 1) * IMAGES * PROBES) if len(alarms) else np.inf


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=100)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    cases = [(name, 0.0) for name in WORLDS]
    cases += [(name, shift) for name in ("normal noise", "equal answers") for shift in SHIFTS]
    rows = []
    with Progress().steps("Simulating", len(cases)) as step:
        for name, shift in cases:
            rng = np.random.default_rng(20260101)
            alarms = np.array([first_alarm(rng, WORLDS[name], shift) for _ in range(given.years)])
            median, most = np.quantile(alarms, [0.5, 0.9], method="higher")
            rows.append(
                {
                    "noise": name,
                    "shift": shift,
                    "years": given.years,
                    "alarms %": round(100 * float(np.isfinite(alarms).mean()), 2),
                    "answers, median": int(median) if shift and np.isfinite(median) else "",
                    "answers, 90 %": int(most) if shift and np.isfinite(most) else "",
                }
            )
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
