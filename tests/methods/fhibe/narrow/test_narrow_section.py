"""What the report shows of verification: error rates by pairs of hairstyles (the paper's Extended Data Fig. 8)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fp2.methods.fhibe.narrow.section import hairstyle_values
from fp2.methods.fhibe.narrow.tasks import TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.narrow.verification import Faces, verify
from fp2.report.values import as_cell, charts, suppressed, tables

STYLES = ("Short", "Up (Medium)", "Down (Long)")


def _verification(rng: np.random.Generator) -> dict[str, Any]:
    """Faces whose embedding changes with the hairstyle, more for `she`."""
    people, vectors, pronouns, styles = [], [], [], []
    for n in range(120):
        base, pronoun = rng.normal(size=16), ("He/him/his", "She/her/hers")[n % 2]
        for shot in range(3):
            style = int(rng.integers(0, 3))
            move = (0.4 + 1.2 * (n % 2)) * np.eye(16)[style] * style * 3
            people.append(Person(f"i{n}_{shot}", f"s{n}", Path(f"{n}_{shot}.png"), 1))
            vectors.append(base + move + 0.3 * rng.normal(size=16))
            pronouns.append([pronoun])
            styles.append([STYLES[style]])
    table = pd.DataFrame({"image_id": [p.image_id for p in people], "subject_id": [p.subject_id for p in people]})
    table = table.assign(attr_pronoun=pronouns, attr_hairstyle=styles, attr_skin_tone=[["III"]] * len(people))
    faces = Faces(people, np.array(vectors), [True] * len(people))
    return verify(faces, table, [], TaskScores(), similarity="cosine", seed=0, min_subjects=10, curves=True)


def test_error_rates_by_hairstyles_are_shown_by_pronoun() -> None:
    verification = _verification(np.random.default_rng(0))
    whole = verification["whole"]
    values = list(hairstyle_values(whole["hairstyles"], "embedder", 0))
    drawn = {chart.panel: chart.series[0].points for chart in charts(suppressed(values, 10))}
    assert set(drawn) == {"He", "She"}
    for points in drawn.values():
        rates = [point.value for point in points]
        assert rates == sorted(rates, key=lambda rate: -float(rate or 0))
    assert not drawn["She"][0].filled  # other hair, more errors
    (table,) = tables(suppressed(values, 10))
    pairs = set(itertools.combinations_with_replacement(sorted(STYLES), 2))
    assert {tuple(as_cell(cell).value for cell in row.cells[1:3]) for row in table.rows} == pairs
    hidden = suppressed(values, 10_000)
    assert [row for table in tables(hidden) for row in table.rows] == []
    assert [chart.series for chart in charts(hidden)] == [[], []]
    assert whole["curve"]["tar"] == sorted(whole["curve"]["tar"], reverse=True)  # fewer false acceptances, fewer true
    assert whole["curve"]["tar"][-1] == whole["tar"]
