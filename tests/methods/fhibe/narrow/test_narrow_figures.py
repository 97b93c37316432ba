"""Figures of the narrow tasks: error rates by pairs of hairstyles (the paper's Extended Data Fig. 8)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from fp2.methods.fhibe.narrow.figures import hairstyle_errors, hairstyle_panels
from fp2.methods.fhibe.narrow.tasks import TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.narrow.verification import Faces, verify

RESULTS: dict[str, Any] = {
    "dataset": {"name": "made up"}, "n_subjects": 120, "n_images": 360, "complete": True, "model": {"name": "embedder"},
}  # fmt: skip
STYLES = ("Short", "Up (Medium)", "Down (Long)")


def _outcome(rng: np.random.Generator) -> dict[str, Any]:
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
    found = verify(faces, table, [], TaskScores(), similarity="cosine", seed=0, min_subjects=10, curves=True)
    return {"model": "embedder", "verification": found}


def test_error_rates_by_hairstyles_are_drawn_by_pronoun(tmp_path: Path) -> None:
    one = _outcome(np.random.default_rng(0))
    panels = dict(hairstyle_panels(one, 10))
    assert set(panels) == {"He/him/his", "She/her/hers"}
    for rows in panels.values():
        assert [row["missed"] for row in rows] == sorted((row["missed"] for row in rows), reverse=True)
        assert {(row["first"], row["second"]) for row in rows} <= set(
            itertools.combinations_with_replacement(sorted(STYLES), 2)
        )
    assert panels["She/her/hers"][0]["first"] != panels["She/her/hers"][0]["second"]  # other hair, more errors
    assert hairstyle_panels(one, 10_000) == []
    path = hairstyle_errors(one, RESULTS, tmp_path / "styles.png", 10)
    with Image.open(path) as image:
        assert np.asarray(image.convert("L")).std() > 10
    curve = one["verification"]["whole"]["curve"]
    assert curve["tar"] == sorted(curve["tar"], reverse=True)  # fewer false acceptances, fewer true ones
    assert curve["tar"][-1] == one["verification"]["whole"]["tar"]
