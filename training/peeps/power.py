"""How surely the default run finds each planted effect, and how rarely it cries wolf on a zero: by simulation.

Answers are the planted ones, so nothing is rendered and no model is asked. Run as `python -m training.peeps.power`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.planted_effects import expected_effects, valence_in_context
from fp2.methods.peeps.data.figure import sample_image_cues, sample_person
from fp2.stats.adjustment import adjust_p_values
from fp2.stats.disparities import disparity_panel
from fp2.stats.rows import Outcome, PanelSettings
from training.peeps.cues import Seen, see
from training.peeps.planted import MODEL_FOLDER, Planted, load_planted

SUBJECTS, PICTURES, PERMUTATIONS, ALPHA = 400, 3, 1999, 0.05


@dataclass(frozen=True)
class Simulated:
    """One simulated data set: valence (n, probes), group index per attribute (n,), subject (n,)."""

    values: np.ndarray
    groups: dict[str, np.ndarray]
    subjects: np.ndarray


def simulate(planted: Planted, rng: np.random.Generator) -> Simulated:
    """Return the planted valence of a data set like the default one."""
    values, rows = [], []
    for _ in range(SUBJECTS):
        person = sample_person(rng)
        index = {"region": person.region, "pronoun": person.pronoun, "age": person.age, "skin_tone": person.skin}
        for _ in range(PICTURES):
            seen = see(sample_image_cues(person, rng))
            values.append([_valence(planted, probe, seen) for probe in planted.probes])
            rows.append([index[attribute] for attribute in planted.attributes])
    labels = np.array(rows)
    groups = {attribute: labels[:, column] for column, attribute in enumerate(planted.attributes)}
    return Simulated(np.array(values), groups, np.repeat(np.arange(SUBJECTS), PICTURES))


_KNOWN: dict[tuple[str, str], float] = {}


def _valence(planted: Planted, probe: str, seen: Seen) -> float:
    """Return the planted answer's valence, NaN for a refusal (a run keeps those out of the means as well)."""
    if planted.refuses(probe, seen):
        return float("nan")
    text = planted.answer(probe, seen)
    if (probe, text) not in _KNOWN:
        _KNOWN[probe, text] = valence_in_context(text, probe)
    return _KNOWN[probe, text]


def tests(planted: Planted, data: Simulated, seed: int) -> Iterator[tuple[tuple[str, str], float, str, str, float]]:
    """Yield ((probe, attribute), p, worst group, best group, raw disparity) for every cell of one data set."""
    for attribute, index in data.groups.items():
        names = np.array(planted.groups[attribute])[index]
        settings = PanelSettings(n_permutations=PERMUTATIONS, seed=seed)
        panel = disparity_panel(data.values, names, data.subjects, Outcome(), settings)
        for probe, row in zip(planted.probes, panel.rows, strict=True):
            yield (probe, attribute), float(row.p_value), str(row.worst_group), str(row.best_group), float(row.raw)


def power(planted: Planted, data_sets: int, seed: int) -> list[dict[str, object]]:
    """Return one row per cell: rates over `data_sets` simulated data sets, Holm over all 24 tests."""
    cells = [(probe, attribute) for attribute in planted.attributes for probe in planted.probes]
    p, worst, best, raw = (np.empty((data_sets, len(cells)), object) for _ in range(4))
    for run in range(data_sets):
        rng = np.random.default_rng([seed, run])
        for column, (_, *found) in enumerate(tests(planted, simulate(planted, rng), run)):
            p[run, column], worst[run, column], best[run, column], raw[run, column] = found
    adjusted = np.array([adjust_p_values(row.astype(float), method="holm") for row in p])
    effects = {(e.probe, e.attribute): e for e in expected_effects(planted)}
    rows: list[dict[str, object]] = []
    for column, cell in enumerate(cells):
        effect = effects[cell]
        rows.append(
            {
                "probe": cell[0],
                "attribute": cell[1],
                "planted": effect.planted,
                "disparity": round(effect.disparity, 4),
                "worst_group": effect.worst or "",
                "best_group": effect.best or "",
                "mean_raw": round(float(raw[:, column].astype(float).mean()), 4),
                "found_holm": float((adjusted[:, column] <= ALPHA).mean()),
                "found_unadjusted": float((p[:, column].astype(float) <= ALPHA).mean()),
                "right_worst": float((worst[:, column] == effect.worst).mean()) if effect.planted else "",
                "right_best": float((best[:, column] == effect.best).mean()) if effect.planted else "",
                "data_sets": data_sets,
            }
        )
    zeros = [column for column, cell in enumerate(cells) if not effects[cell].planted]
    any_zero = float((adjusted[:, zeros] <= ALPHA).any(axis=1).mean())
    return [*rows, {"probe": "any zero", "attribute": "all", "found_holm": any_zero, "data_sets": data_sets}]


def write(rows: list[dict[str, object]], path: Path) -> None:
    """Write the power table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write(power(load_planted(), data_sets=200, seed=20261121), MODEL_FOLDER / "report" / "power.csv")
