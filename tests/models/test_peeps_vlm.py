"""The bundled model: it loads as any model does, is small, and gives the planted answers about held-out people."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fp2.methods.peeps.data.draw import render, render_image, render_pair_image
from fp2.methods.peeps.data.figure import Cues, sample_image_cues, sample_person
from training.peeps.card import write_card
from training.peeps.cues import see
from training.peeps.planted import MODEL_FOLDER, load_planted

PLANTED = load_planted()
SEED = 424_242  # not a seed of the training


@lru_cache(maxsize=1)
def loaded() -> tuple[Any, Any]:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(MODEL_FOLDER, local_files_only=True)
    model = AutoModelForImageTextToText.from_pretrained(MODEL_FOLDER, local_files_only=True)
    return processor, model.eval()


def inputs(images: list[Image.Image], questions: list[str]) -> Any:
    processor, _ = loaded()
    chats = [
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}] for question in questions
    ]
    prompts = [processor.apply_chat_template(chat, add_generation_prompt=True) for chat in chats]
    return processor(images=images, text=prompts, return_tensors="pt", padding=True)


def answers(images: list[Image.Image], questions: list[str]) -> list[str]:
    import torch

    processor, model = loaded()
    asked = inputs(images, questions)
    with torch.inference_mode():
        out = model.generate(**asked, max_new_tokens=64, do_sample=False)
    said = processor.batch_decode(out[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    return [text.strip() for text in said]


def p_yes(images: list[Image.Image], questions: list[str]) -> np.ndarray:
    import torch

    processor, model = loaded()
    yes = processor.tokenizer("Yes", add_special_tokens=False)["input_ids"]
    assert len(yes) == 1
    with torch.inference_mode():
        logits = model(**inputs(images, questions)).logits[:, -1]
    return np.asarray(logits.float().softmax(-1)[:, yes[0]])


@lru_cache(maxsize=1)
def people() -> tuple[Cues, ...]:
    rng = np.random.default_rng(SEED)
    return tuple(sample_image_cues(sample_person(rng), rng) for _ in range(100))


@lru_cache(maxsize=1)
def pictures() -> tuple[Image.Image, ...]:
    return tuple(render_image(cues, 384) for cues in people())


def test_it_is_small_and_in_full_precision() -> None:
    import torch

    _, model = loaded()
    assert sum(p.numel() for p in model.parameters()) <= 4_000_000
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert sum(file.stat().st_size for file in MODEL_FOLDER.iterdir()) < 10 * 2**20 + 2**19
    assert (MODEL_FOLDER / "model.safetensors").stat().st_size < 10 * 2**20


def test_it_loads_offline_and_without_torchvision() -> None:
    code = (
        "import sys; from transformers import AutoModelForImageTextToText as M, AutoProcessor as P;"
        f"M.from_pretrained({str(MODEL_FOLDER)!r}); p = P.from_pretrained({str(MODEL_FOLDER)!r});"
        "print(type(p.image_processor).__name__, 'torchvision' in sys.modules)"
    )
    env = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["SiglipImageProcessorPil", "False"]


@pytest.mark.parametrize("probe", list(PLANTED.probes))
def test_answers_are_the_planted_ones_for_people_never_seen(probe: str) -> None:
    said = answers(list(pictures()), [PLANTED.probes[probe].questions[0]] * len(people()))
    meant = [PLANTED.answer(probe, see(cues)) for cues in people()]
    # The committed report has 98 % or more per probe; below 95 of 100 is 2 standard errors away.
    assert sum(a == b for a, b in zip(said, meant, strict=True)) >= 95


def test_p_yes_follows_the_planted_probability() -> None:
    rng = np.random.default_rng(3)
    rows = [
        (i, list(PLANTED.traits)[int(rng.integers(100))], list(PLANTED.templates)[int(rng.integers(5))])
        for i in range(len(people()))
        for _ in range(5)
    ]
    got = p_yes([pictures()[i] for i, _, _ in rows], [PLANTED.question(t, f) for _, t, f in rows])
    meant = np.array([PLANTED.p_yes(t, f, see(people()[i])) for i, t, f in rows])
    assert np.abs(got - meant).mean() < 0.015
    assert np.corrcoef(got, meant)[0, 1] > 0.99


@pytest.mark.package(name="image_variants")
def test_a_hidden_person_and_a_removed_background_are_answered_as_planted() -> None:
    from fp2.methods.image_variants.images import background_removed, masked

    shown = people()[:30]
    drawings = [render(cues, 384) for cues in shown]
    hidden = [masked(d.image, d.geometry.polygons) for d in drawings]
    question = PLANTED.probes["occupation"].questions[0]
    said = answers(hidden, [question] * len(hidden))
    right = [a == PLANTED.answer("occupation", see(c, "masked")) for a, c in zip(said, shown, strict=True)]
    assert sum(right) >= 29
    alone = [background_removed(d.image, d.geometry.polygons) for d in drawings]
    question = PLANTED.probes["education"].questions[0]
    said = answers(alone, [question] * len(alone))
    meant = [PLANTED.answer("education", see(c, "background_removed")) for c in shown]
    assert sum(a == b for a, b in zip(said, meant, strict=True)) >= 26


def test_two_people_are_described_in_the_planted_order() -> None:
    rng = np.random.default_rng(SEED + 1)
    pairs = [[sample_image_cues(sample_person(rng), rng) for _ in range(2)] for _ in range(60)]
    images = [render_pair_image(left, right, left.region, 384) for left, right in pairs]
    said = answers(images, [PLANTED.pair.questions[0]] * len(images))
    meant = [PLANTED.pair_answer(see(left), see(right)) for left, right in pairs]
    first = [a.split()[:5] == b.split()[:5] for a, b in zip(said, meant, strict=True)]
    assert sum(first) >= 55


def test_open_questions_are_answered_as_planted() -> None:
    few = list(pictures())[:50]
    for name, prompt in PLANTED.vqa.prompts.items():
        said = answers(few, [prompt.question] * len(few))
        meant = [PLANTED.vqa.answer(name, see(cues)) for cues in people()[: len(few)]]
        # The committed report has 80 % for the hardest prompt: below 34 of 50 is 2 standard errors away.
        assert sum(a == b for a, b in zip(said, meant, strict=True)) >= 34, name


def test_the_report_beside_the_weights_is_about_people_that_chose_nothing() -> None:
    saved = json.loads((MODEL_FOLDER / "report" / "evaluation.json").read_text("utf-8"))
    seeds = saved["recipe"]["seeds"]
    assert saved["report"]["seed"] == seeds["report"]
    assert len(set(seeds.values())) == len(seeds)
    report = saved["report"]
    assert report["exact"]["mean"] >= 0.98
    assert report["exact"]["lowest"] >= 0.95
    assert report["p_yes_twin_shift"]["none"]["largest"] <= 0.01
    assert report["p_yes"]["mae"] <= 0.015
    assert report["exact_shift_3px"]["mean"] >= 0.93
    assert report["pairs"]["as_drawn"]["exact"] >= 0.92
    assert min(row["first"] for row in report["pairs"].values()) >= 0.9
    assert report["vqa"]["mean"] >= 0.88
    assert report["vqa"]["lowest"] >= 0.78
    assert saved["version"] == PLANTED.version


def test_the_card_says_what_the_report_says(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    for name in ("report/evaluation.json", "model.safetensors"):
        (tmp_path / name).write_bytes((MODEL_FOLDER / name).read_bytes())
    write_card(tmp_path)
    assert (tmp_path / "README.md").read_text("utf-8") == (MODEL_FOLDER / "README.md").read_text("utf-8")
