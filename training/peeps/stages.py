"""The stages of the training and what each leaves on disk; a stage that is complete is not run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.peeps.build import TOKENS, build_model, build_processor, save
from training.peeps.dialogue import Dialogues
from training.peeps.language import LanguagePlan, Lessons, train_language
from training.peeps.layers import Pair, backdrops, draw_pairs, draw_people, read_pairs, read_people
from training.peeps.pictures import Mirrored, Mix, Source
from training.peeps.planted import Planted, load_planted
from training.peeps.settings import Recipe
from training.peeps.tokens import build_tokenizer
from training.peeps.truth import PairTargets, Targets, exchanged, pair_targets, targets, vqa_targets
from training.peeps.vision import Heads, VisionPlan, train_vision


def draw(folder: Path, recipe: Recipe) -> None:
    """Draw all training material that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "backdrops.npy").exists():
        np.save(folder / "backdrops.npy", backdrops())
    draw_people(folder, "people", recipe.seeds.people, recipe.sizes.people)
    draw_pairs(folder, "pairs", recipe.seeds.pairs, recipe.sizes.pairs)


@dataclass(frozen=True)
class Material:
    """Pictures with their planted targets."""

    people: Source
    truth: Targets
    pairs: Source
    pair_truth: PairTargets


def read_material(folder: Path, planted: Planted, mix: Mix) -> Material:
    """Return the training material as pictures and targets."""
    layers, cues = read_people(folder, "people")
    pair_layers, pairs = read_pairs(folder, "pairs")
    regions = np.array([c.region for c in cues])
    pair_regions = np.array([p.region for p in pairs])
    return Material(
        Source(layers, regions, folder / "backdrops.npy", mix),
        targets(planted, cues),
        Source(pair_layers, pair_regions, folder / "backdrops.npy", mix),
        pair_targets(planted, pairs),
    )


def new_model(recipe: Recipe, planted: Planted) -> tuple[Any, Heads]:
    """Return the model and the vision stage's heads with random weights."""
    model = build_model(build_tokenizer(planted), recipe.seeds.weights)
    heads = Heads(TOKENS, model.config.vision_config.hidden_size, len(planted.probes))
    return model, heads


def vision(folder: Path, recipe: Recipe, plan: VisionPlan, number: int) -> None:
    """Train the vision tower by `plan` into `folder/vision<number>.pt`; the first starts from random weights."""
    torch.set_num_threads(1)
    planted = load_planted()
    model, heads = new_model(recipe, planted)
    tower = model.model.vision_tower
    if number > 1:
        saved = torch.load(folder / f"vision{number - 1}.pt", weights_only=False)
        tower.load_state_dict(saved["tower"])
        heads.load_state_dict(saved["heads"])
    material = read_material(folder, planted, Mix())
    train_vision(
        tower,
        heads,
        (material.people, material.truth),
        (material.pairs, material.pair_truth),
        plan,
        recipe.seeds.vision + number - 1,
        folder / f"vision{number}.pt",
    )


def language(folder: Path, recipe: Recipe, plan: LanguagePlan, number: int, tower: str) -> None:
    """Train projector and language model by `plan` on the tower of `folder/tower.pt` into `folder/language<number>.pt`.

    The first starts from random weights, every other one goes on from the one before, with the new tower.
    """
    torch.set_num_threads(1)
    planted = load_planted()
    model, _ = new_model(recipe, planted)
    if number > 1:
        model.load_state_dict(torch.load(folder / f"language{number - 1}.pt", weights_only=False)["model"])
    model.model.vision_tower.load_state_dict(torch.load(folder / f"{tower}.pt", weights_only=False)["tower"])
    material = read_material(folder, planted, Mix())
    _, couples = read_pairs(folder, "pairs")
    lessons = Lessons(
        Dialogues(planted, build_tokenizer(planted), TOKENS), material.people, material.truth, material.pairs, couples
    )
    train_language(model, lessons, plan, recipe.seeds.language + number - 1, folder / f"language{number}.pt")


def _last_material(folder: Path, planted: Planted) -> tuple[Material, list[Pair]]:
    """Return the material of the last two stages: open questions too, pairs also mirrored; and who is in the pairs."""
    plain = read_material(folder, planted, Mix())
    pairs = read_pairs(folder, "pairs")[1]
    both = [*pairs, *exchanged(pairs)]
    turned = Mirrored.of(plain.pairs)
    truth = replace(plain.truth, vqa=vqa_targets(planted, read_people(folder, "people")[1]))
    return Material(plain.people, truth, turned, pair_targets(planted, both)), both


def last_vision(folder: Path, recipe: Recipe, plan: VisionPlan) -> None:
    """Train the tower of `language3.pt` on what the last stages add, with new heads, into `vision3.pt`."""
    torch.set_num_threads(1)
    planted = load_planted()
    model, _ = new_model(recipe, planted)
    model.load_state_dict(torch.load(folder / "language3.pt", weights_only=False)["model"])
    tower = model.model.vision_tower
    torch.manual_seed(recipe.seeds.vision + 2)
    phrases = [len(kind.phrases) for kind in planted.vqa.kinds.values()]
    heads = Heads(TOKENS, model.config.vision_config.hidden_size, len(planted.probes), phrases)
    material, _ = _last_material(folder, planted)
    people, pairs = (material.people, material.truth), (material.pairs, material.pair_truth)
    train_vision(tower, heads, people, pairs, plan, recipe.seeds.vision + 2, folder / "vision3.pt")


def last_language(folder: Path, recipe: Recipe, plan: LanguagePlan, number: int) -> None:
    """Train the language model of the stage before on the tower of `vision3.pt` to answer all questions."""
    torch.set_num_threads(1)
    planted = load_planted()
    model, _ = new_model(recipe, planted)
    model.load_state_dict(torch.load(folder / f"language{number - 1}.pt", weights_only=False)["model"])
    model.model.vision_tower.load_state_dict(torch.load(folder / "vision3.pt", weights_only=False)["tower"])
    material, couples = _last_material(folder, planted)
    talk = Dialogues(planted, build_tokenizer(planted), TOKENS)
    lessons = Lessons(talk, material.people, material.truth, material.pairs, couples)
    train_language(model, lessons, plan, recipe.seeds.language + number - 1, folder / f"language{number}.pt")


def average(folder: Path, names: Sequence[str], name: str) -> None:
    """Write the mean of the weights of several stages as `name`; stages of one course keep the best of each."""
    models = [torch.load(folder / f"{stage}.pt", weights_only=False)["model"] for stage in names]
    mean = {key: sum(model[key] for model in models) / len(models) for key in models[0]}
    torch.save({"model": mean}, folder / f"{name}.pt")


def export(folder: Path, recipe: Recipe, name: str, target: Path) -> None:
    """Write the model of stage `name`, with its processor, into `target`."""
    planted = load_planted()
    model, _ = new_model(recipe, planted)
    model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=False)["model"])
    save(model, build_processor(build_tokenizer(planted)), target)


def count_parameters(folder: Path) -> int:
    """Return how many parameters the model saved in `folder` has (tied weights once)."""
    from transformers import AutoModelForImageTextToText

    model: Any = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True)
    return sum(parameter.numel() for parameter in model.parameters())
