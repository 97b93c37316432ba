"""`experiment=gras_paper` on tiny checkpoints of the published models, against the procedure of the authors' scripts.

The procedure is written out with transformers alone: the image resized where theirs is, the prompt put together as
their script does, one forward pass a question, the softmax at the last position, one token. Everything is in float32
and with the PIL image processors, so that numbers can be compared closely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from bench import Bench, execute, load_config
from family_checkpoints import save
from gras_checkout import MODELS, TEMPLATES, write_images, write_lists, write_scripts
from PIL import Image, ImageOps
from thorough import thorough_but

from fp2.compose import config_hash
from fp2.data.image_size import with_image_size
from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.likelihoods import yes_no_forms
from fp2.engines.hf.loading import load
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted
from fp2.tables import Decoding, ImageTask, Question

pytestmark = pytest.mark.package(name="gras")  # its experiment

SHOWN = [f"FairFace/train/{n}.jpg" for n in range(4)] + [f"AI-Face/imdb/{n}.jpg" for n in (0, 10, 1, 11)]
ASK = Question("q", "p", "Kind?", "yes_no")
CASES = {  # family -> config, script, what the script writes around a question, the word, the side of AI-Face images
    "blip2_opt": ("blip2_opt_2_7b_gras", "blip", ("Q: ", "       A:"), " Yes", 256),
    "paligemma2": (
        "paligemma2_3b_mix_224_gras", "paligemma", ("Rules: read.     Q: ", "     Form: one word"), "Yes", 256,
    ),
    "qwen2_5_vl": (
        "qwen2_5_vl_3b_gras", "qwen", ("Rules: read.                Q: ", "   Form: one word"), "Yes", 252,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    faces, tones = write_lists(root, tones=20)
    write_images(root, [*faces, *tones], size=(36, 28))
    write_scripts(root)
    return root


def as_published(
    folder: Path, around: tuple[str, str], word: str, side: int | None, root: Path, paths: list[str]
) -> np.ndarray[Any, Any]:
    """Return P(Yes) (image, template) about the trait `kind` by the procedure of the scripts."""
    loaded = load(resolve_checkpoint(str(folder)), HfSpec(str(folder)), "cpu")
    model, processor = loaded.model, loaded.processor
    token = processor.tokenizer.encode(word, add_special_tokens=False)[0]
    found = np.zeros((len(paths), len(TEMPLATES)))
    for row, path in enumerate(paths):
        image = Image.open(root / "images" / path).convert("RGB")
        if side is not None and path.startswith("AI-Face"):
            image = image.resize((side, side))
        for place, template in enumerate(TEMPLATES):
            text = around[0] + template.format("kind") + around[1]
            if getattr(processor, "chat_template", None):
                content = [{"type": "image"}, {"type": "text", "text": text}]
                talk = [{"role": "user", "content": content}]
                text = processor.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
            inputs = processor(images=[image], text=[text], return_tensors="pt")
            with torch.no_grad():
                logits = model(**inputs).logits[:, -1, :]
            found[row, place] = torch.softmax(logits, dim=-1)[0, token].item()
    return found


@pytest.mark.package(name="gras")
@pytest.mark.parametrize("family", thorough_but(CASES, next(iter(CASES))))
def test_the_numbers_are_those_of_the_published_procedure(checkout: Path, tmp_path: Path, family: str) -> None:
    config, name, around, word, side = CASES[family]
    folder = save(family, tmp_path / MODELS[name].split("/")[1])  # the script is found by the folder's name
    words = [
        "experiment=gras_paper",
        f"model={config}",
        f"data.root={checkout}",
        f"model.id={folder}",
        "model.dtype=float32",
        "model.softmax_dtype=null",
        "model.image_backend=pil",
        "probe.traits_file=null",
        "probe.traits={kind: 2, mean: -2}",
        "cut.each=[gender,skin_tone]",
        "analysis.min_subjects=2",
        "probe.options.permutations=20",
        "probe.options.bootstrap=20",
        "report=none",
        "tracking=none",
        f"data.ids=[{','.join(SHOWN)}]",
    ]
    results = execute(words, tmp_path / "out").results
    assert results["model"]["image_size"] == {"aiface": side}
    table = pd.read_parquet(tmp_path / "out" / "responses")
    table = table[table["trait"] == "kind"]
    ours = table.pivot(index="image_id", columns="template", values="p_yes_first_token")
    keys = salted(SHOWN, local_salt(tmp_path / ".fp2"), "image")
    expected = as_published(folder, around, word, side, checkout, SHOWN)
    np.testing.assert_allclose(ours.loc[keys].to_numpy(), expected, rtol=2e-4)
    not_resized = as_published(folder, around, word, None, checkout, SHOWN[-1:])
    assert np.abs(not_resized / expected[-1:] - 1).max() > 1e-3


@pytest.mark.parametrize(("family", "dtype"), [("llava", torch.float16), ("paligemma2", torch.bfloat16)])
def test_one_question_at_a_time_in_16_bits_gives_the_same_numbers_to_the_last_bit(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], family: str, dtype: torch.dtype
) -> None:
    name = str(dtype).removeprefix("torch.")
    spec = HfSpec(str(tiny_family(family)), dtype=name, softmax_dtype=name, prompt="{image}{question}")  # type: ignore[arg-type]
    questions = tuple(Question(f"q{n}", "p", text.format("kind"), "yes_no") for n, text in enumerate(TEMPLATES))
    engine = HfEngine(spec, Decoding(), HfOptions(sharing="none", batch_size=1, threads=1))
    found = [a for batch in engine.answer([replace(task, questions=questions) for task in tasks[:2]]) for a in batch]
    loaded = load(resolve_checkpoint(spec.id), spec, "cpu")
    token = loaded.processor.tokenizer.encode("Yes", add_special_tokens=False)[0]
    expected = {}
    for task in tasks[:2]:
        image = Image.open(task.path).convert("RGB")
        for question in questions:
            text = f"<image>{question.text}"
            inputs = loaded.processor(images=[image], text=[text], return_tensors="pt").to(dtype)
            with torch.no_grad():
                logits = loaded.model(**inputs).logits[:, -1, :]
            assert logits.dtype == dtype
            expected[task.image_id, question.question_id] = torch.softmax(logits, dim=-1)[0, token].item()
    assert {(a.image_id, a.question_id): dict(a.numbers or {})["p_yes_first_token"] for a in found} == expected
    assert "softmax" in engine.method(ASK)


def test_another_spelling_is_another_token_and_another_key(tiny_family: Callable[[str], Path]) -> None:
    folder = str(tiny_family("blip2_opt"))
    usual, blank, plain = (
        HfEngine(HfSpec(folder, yes_no=words), Decoding()) for words in (None, (" Yes", " No"), ("Yes", "No"))
    )
    assert usual.method(ASK) == plain.method(ASK) != blank.method(ASK)
    assert "first_tokens_of" not in usual.method(ASK)
    tokenizer = load(resolve_checkpoint(folder), HfSpec(folder), "cpu").processor.tokenizer
    with_blank, without = yes_no_forms(tokenizer, (" Yes", " No")), yes_no_forms(tokenizer)
    assert (with_blank.yes, with_blank.no) == (without.yes, without.no)
    assert tokenizer.decode([with_blank.yes_first]) == " Yes" != tokenizer.decode([without.yes_first])


def test_a_spelling_that_is_not_yes_or_no_or_not_one_token_is_refused(tiny_family: Callable[[str], Path]) -> None:
    folder = str(tiny_family("blip2_opt"))
    with pytest.raises(Fp2Error, match="does not read yes and no"):
        HfSpec(folder, yes_no=("Ja", "Nein"))
    tokenizer = load(resolve_checkpoint(folder), HfSpec(folder), "cpu").processor.tokenizer
    with pytest.raises(Fp2Error, match="the first token of '   Yes'"):
        yes_no_forms(tokenizer, ("   Yes", "   No"))


@pytest.mark.parametrize("size", ["0", "big", "{aiface: 0}", "[256,256]", "true", "{}"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(Fp2Error, match="is not a size of images"):
        load_config([f"model.image_size={size}"])


@pytest.mark.package(name="gras")
def test_one_side_is_of_all_images_and_subsets_need_a_data_set_that_has_them(bench: Bench) -> None:
    asked = ["probe=gras", "probe.traits={kind: 2, mean: -2}", "probe.select=[direct]", "analysis.min_subjects=2"]
    usual = bench.run(*asked, folder="usual").results
    sized = bench.run(*asked, "model.image_size=32", folder="sized").results
    assert sized["response_set"] != usual["response_set"]
    assert sized["config_hash"] != usual["config_hash"]
    assert "image_size" not in usual["model"]
    with pytest.raises(Fp2Error, match="not in subsets"):
        bench.run(*asked, "model.image_size={aiface: 32}")


def test_images_are_resized_after_their_variant_and_controls_are_not() -> None:
    people = pd.DataFrame({"image_id": ["a", "b"], "attr_subset": [["fairface"], ["aiface"]]})
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
    tasks = [
        ImageTask("a", "a", Path("a"), "0", ()),
        ImageTask("b", "b", Path("b"), "0", ()),
        ImageTask("b#mirrored", "b", Path("b"), "0", (), "mirrored", change=ImageOps.mirror),
        ImageTask("grey", "grey", Path("g"), "0", (), "grey"),
    ]
    notes: list[str] = []
    first, second, third, control = with_image_size(tasks, people, {"aiface": 16, "other": 8}, notes.append)
    assert (first, control) == (tasks[0], tasks[3])
    assert second.change is not None
    assert third.change is not None
    assert second.change(image).tobytes() == image.resize((16, 16)).tobytes()
    assert third.change(image).tobytes() == ImageOps.mirror(image).resize((16, 16)).tobytes()
    assert second.variant_params == third.variant_params != tasks[1].variant_params
    assert notes == ["model.image_size: no image is of the subset 'other'; there are aiface, fairface"]
    lanczos = with_image_size(tasks, people, 16, notes.append, "lanczos")[1]
    assert lanczos.change is not None
    assert lanczos.change(image).tobytes() == image.resize((16, 16), Image.Resampling.LANCZOS).tobytes()
    assert lanczos.variant_params != second.variant_params


def test_a_filter_needs_a_size_and_is_one_of_three() -> None:
    with pytest.raises(Fp2Error, match=r"no size is given .*model\.resample"):
        load_config(["model.resample=lanczos"])
    with pytest.raises(Fp2Error, match="unknown value 'nearest'"):
        load_config(["model.image_size=16", "model.resample=nearest"])
    usual, lanczos = (load_config(["model.image_size=16", f"model.resample={one}"]) for one in ("null", "lanczos"))
    assert config_hash(usual) == config_hash(load_config(["model.image_size=16"])) != config_hash(lanczos)
