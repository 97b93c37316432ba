"""The training recipe: images, packed dialogues, resuming, and that the weights belong to the planted truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import training.peeps.__main__ as recipe_of_all
from fp2.methods.peeps.bundled import MODEL_FOLDER, load_planted
from fp2.methods.peeps.cues import see
from fp2.methods.peeps.data.draw import render_backdrop, render_image
from training.peeps.build import TOKENS, build_model
from training.peeps.dialogue import Dialogues, attention_mask
from training.peeps.language import LanguagePlan, Lessons, train_language
from training.peeps.layers import (
    backdrops,
    draw_pairs,
    draw_people,
    person_layer,
    read_pairs,
    read_people,
    sample_cues,
)
from training.peeps.pictures import PLAIN, Mix, Source, compose, premultiplied
from training.peeps.settings import SIZE, Recipe, Sizes
from training.peeps.tokens import build_tokenizer
from training.peeps.truth import REFUSED, pair_targets, targets
from training.peeps.vision import Heads, VisionPlan, features, train_vision

pytestmark = pytest.mark.long

PLANTED = load_planted()
PEOPLE = 12


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


def source(folder: Path, mix: Mix) -> Source:
    layers, cues = read_people(folder, "people")
    return Source(layers, np.array([c.region for c in cues]), folder / "backdrops.npy", mix)


def pair_source(folder: Path) -> Source:
    layers, pairs = read_pairs(folder, "pairs")
    return Source(layers, np.array([p.region for p in pairs]), folder / "backdrops.npy", PLAIN)


@pytest.mark.parametrize("size", [SIZE, 384])
def test_a_figure_laid_over_its_backdrop_is_the_renderers_picture(size: int) -> None:
    for cues in sample_cues(9, 6):
        ground = render_backdrop(cues.region, cues.phase, size).resize((SIZE, SIZE), Image.Resampling.BOX)
        layer = premultiplied(person_layer(cues, size)[None])[:, 4:-4, 4:-4]
        rng = np.random.default_rng(0)
        laid = compose(layer.copy(), np.asarray(ground)[None].copy(), np.array([0]), rng)[0]
        meant = np.asarray(render_image(cues, size).resize((SIZE, SIZE), Image.Resampling.BOX))
        off = np.abs(laid.astype(int) - meant)
        assert off.mean() < 0.8
        assert np.mean(off > 12) < 0.01


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


def test_packed_questions_do_not_see_each_other(folder: Path, tokenizer: Any) -> None:
    model = build_model(tokenizer, 1).eval()
    talk = Dialogues(PLANTED, tokenizer, TOKENS)
    truth = targets(PLANTED, read_people(folder, "people")[1])
    rng = np.random.default_rng(0)
    pixels = source(folder, PLAIN).batch(1, rng).pixels
    turns = [talk.probe_turn(truth, 0, 0, probe, rng) for probe in (0, 3)] + [talk.yes_turn(truth, 0, 0, 0.5, rng)]
    packed = talk.pack([turns])
    with torch.no_grad():
        inner = model.model
        image = inner.multi_modal_projector(features(inner.vision_tower, pixels))
        words = inner.language_model.embed_tokens(packed.tokens)
        hidden = inner.language_model(
            inputs_embeds=torch.cat([words[:, :1], image, words[:, TOKENS + 1 :]], 1),
            attention_mask=attention_mask(packed.blocks),
            position_ids=packed.positions,
            use_cache=False,
        ).last_hidden_state
        together = model.lm_head(hidden)[0]
        start = 1 + TOKENS
        for turn in turns:
            alone = torch.tensor([[talk.bos] + [model.config.image_token_id] * TOKENS + list(turn.tokens)])
            logits = model(input_ids=alone, pixel_values=pixels, attention_mask=torch.ones_like(alone)).logits[0]
            length = len(turn.tokens)
            assert torch.allclose(together[start : start + length], logits[1 + TOKENS :], atol=1e-4)
            start += length


class StoppedError(Exception):
    """The power goes out."""


def _interrupt(source: Source, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    calls, whole = [0], source.batch

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] > after:
            raise StoppedError
        return whole(*args, **kwargs)

    monkeypatch.setattr(source, "batch", failing)


def _vision(folder: Path, tokenizer: Any, people: Source, checkpoint: Path) -> dict[str, torch.Tensor]:
    model = build_model(tokenizer, 1)
    torch.manual_seed(2)
    heads = Heads(TOKENS, 128, len(PLANTED.probes))
    truth = targets(PLANTED, read_people(folder, "people")[1])
    pairs = pair_source(folder), pair_targets(PLANTED, read_pairs(folder, "pairs")[1])
    plan = VisionPlan(steps=4, people=4, pairs=2, save_every=2)
    tower = model.model.vision_tower
    train_vision(tower, heads, (people, truth), pairs, plan, 3, checkpoint)
    return dict(tower.state_dict())


def test_an_interrupted_vision_stage_goes_on_as_if_nothing_had_happened(
    folder: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = _vision(folder, tokenizer, source(folder, Mix()), tmp_path / "straight.pt")
    people = source(folder, Mix())
    _interrupt(people, monkeypatch, after=3)
    with pytest.raises(StoppedError):
        _vision(folder, tokenizer, people, tmp_path / "cut.pt")
    resumed = _vision(folder, tokenizer, source(folder, Mix()), tmp_path / "cut.pt")
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_an_interrupted_language_stage_goes_on_and_leaves_the_tower_alone(
    folder: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(people: Source, checkpoint: Path) -> dict[str, torch.Tensor]:
        model = build_model(tokenizer, 1)
        truth = targets(PLANTED, read_people(folder, "people")[1])
        couples = read_pairs(folder, "pairs")[1]
        lessons = Lessons(Dialogues(PLANTED, tokenizer, TOKENS), people, truth, pair_source(folder), couples)
        train_language(model, lessons, LanguagePlan(steps=4, people=2, pairs=1, save_every=2), 3, checkpoint)
        return dict(model.state_dict())

    straight = run(source(folder, Mix()), tmp_path / "straight.pt")
    people = source(folder, Mix())
    _interrupt(people, monkeypatch, after=3)
    with pytest.raises(StoppedError):
        run(people, tmp_path / "cut.pt")
    resumed = run(source(folder, Mix()), tmp_path / "cut.pt")
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    fresh = build_model(tokenizer, 1).state_dict()
    moved = {name for name, value in resumed.items() if not torch.equal(value, fresh[name])}
    assert any("language_model" in name for name in moved)
    assert any("multi_modal_projector" in name for name in moved)
    assert not any("vision_tower" in name for name in moved)


def test_weights_and_truth_belong_together(tokenizer: Any) -> None:
    """The tokenizer follows from the planted truth, so a truth edited without a new training is found out."""
    saved = json.loads((MODEL_FOLDER / "tokenizer.json").read_text("utf-8"))["model"]
    built = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    assert saved["vocab"] == built["vocab"]
    assert saved["merges"] == built["merges"]


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
    weights = []
    for turn in ("first", "second"):
        recipe_of_all.train(tmp_path / turn / "work", tmp_path / turn / "model", small)
        weights.append((tmp_path / turn / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != (MODEL_FOLDER / "model.safetensors").read_bytes()
