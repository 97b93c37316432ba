"""The training recipe: images, packed dialogues, resuming, and that the weights belong to the planted truth."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import training.peeps.__main__ as recipe_of_all
from training.peeps.cues import see
from training.peeps.layers import (
    backdrops,
    draw_pairs,
    draw_people,
    read_people,
)
from training.peeps.planted import MODEL_FOLDER, load_planted
from training.peeps.settings import Recipe, Sizes
from training.peeps.tokens import build_tokenizer
from training.peeps.truth import REFUSED, targets

pytestmark = pytest.mark.long

PLANTED = load_planted()
PEOPLE = 12
TAKEN = ("vision2", "language2", "language3", "language4", "language5")
"""Stages that the second training takes from the first: every function of `training.peeps.stages` runs twice."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("peeps")
    np.save(work / "backdrops.npy", backdrops(phases=3))
    draw_people(work, "people", 501, PEOPLE)
    draw_pairs(work, "pairs", 502, 6)
    return work


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(PLANTED)


def test_targets_are_the_planted_truth(folder: Path) -> None:
    _, cues = read_people(folder, "people")
    truth = targets(PLANTED, cues)
    for i, person in enumerate(cues):
        for j, view in enumerate(("original", "masked", "background_removed")):
            seen = see(person, view)  # type: ignore[arg-type]
            for k, probe in enumerate(PLANTED.probes):
                level = int(truth.levels[i, j, k])
                assert (level == REFUSED) == PLANTED.refuses(probe, seen)
                if level != REFUSED:
                    assert PLANTED.say(probe, level, int(truth.phrases[i, j])) == PLANTED.answer(probe, seen)


def test_weights_and_truth_belong_together(tokenizer: Any) -> None:
    """The tokenizer follows from the planted truth, so a truth edited without a new training is found out."""
    saved = json.loads((MODEL_FOLDER / "tokenizer.json").read_text("utf-8"))["model"]
    built = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    assert saved["vocab"] == built["vocab"]
    assert saved["merges"] == built["merges"]


@pytest.mark.thorough
def test_the_whole_recipe_from_nothing_gives_the_same_bytes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [name for name in vars(recipe_of_all) if name.startswith(("VISION_", "LANGUAGE_"))]
    assert len(plans) == 9
    for name in plans:
        plan = getattr(recipe_of_all, name)
        short = replace(plan, steps=2, people=min(plan.people, 8), pairs=min(plan.pairs, 4))
        monkeypatch.setattr(recipe_of_all, name, short)
    monkeypatch.setattr(recipe_of_all, "report", lambda *stages: None)
    small = Recipe(sizes=Sizes(people=16, pairs=8, validation=4, report=4))
    first, second = (tmp_path / name / "work" for name in ("first", "second"))
    recipe_of_all.train(first, tmp_path / "first" / "model", small)
    second.mkdir(parents=True)
    for name in TAKEN:
        shutil.copyfile(first / f"{name}.pt", second / f"{name}.pt")
    (second / "seconds.json").write_text(json.dumps(dict.fromkeys(TAKEN, 0.0)))
    recipe_of_all.train(second, tmp_path / "second" / "model", small)
    for name, part in (("vision1", "tower"), ("language1", "model"), ("vision3", "tower"), ("language6", "model")):
        once, again = (torch.load(work / f"{name}.pt", weights_only=False)[part] for work in (first, second))
        assert [key for key in once if not torch.equal(once[key], again[key])] == []
    weights = [(work.parent / "model" / "model.safetensors").read_bytes() for work in (first, second)]
    assert weights[0] == weights[1]
    assert weights[0] != (MODEL_FOLDER / "model.safetensors").read_bytes()
