"""Dual encoders against plain transformers: embeddings, logits, probabilities; what is kept and refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family_checkpoints.duals import DUALS, IMAGE, save_image_encoder
from PIL import Image
from thorough import thorough_but
from tolerances import epsilons

from fp2.data import pixels
from fp2.data.pixels import pixel_sha256
from fp2.engines.build import build_engine, create
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.placement import LocalOptions
from fp2.errors import Fp2Error
from fp2.methods.dual.encoder import DualEncoder, ImageEncoder
from fp2.methods.dual.engine import DualEngine
from fp2.methods.dual.loading import cosine
from fp2.store.rows import ResponseStore
from fp2.tables import Decoding, ImageTask

TEXTS = [
    "a photo of a woman", "a picture of a woman indoors", "a woman", "a photo of a man", "a man with long hair",
    "a photo of a person",
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: save(tmp_path_factory.mktemp(family), 0) for family, save in DUALS.items()}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    shapes = [(40, 50), (64, 30), (33, 33), (21, 90), (48, 48)]
    rng = np.random.default_rng(7)
    return [Image.fromarray(rng.integers(0, 256, (*shape, 3), dtype=np.uint8)) for shape in shapes]


@pytest.fixture
def tasks(pictures: Sequence[Image.Image], tmp_path: Path) -> list[ImageTask]:
    made = []
    for place, picture in enumerate(pictures):
        picture.save(tmp_path / f"{place}.png")
        made.append(ImageTask(str(place), f"s{place}", tmp_path / f"{place}.png", pixel_sha256(picture), ()))
    return made


def encoder(folder: Path, **options: Any) -> DualEncoder:
    dtype, connection = options.pop("dtype", "float32"), options.pop("connection", None)
    return DualEncoder(
        HfSpec(str(folder), dtype=dtype), LocalOptions(**{"device": "cpu"} | options), connection=connection
    )


def plainly(folder: Path, texts: Sequence[str], pictures: Sequence[Image.Image]) -> dict[str, np.ndarray]:
    """What transformers gives by its own documentation: one pass, with the padding that each family's page asks for."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    padding = {"padding": True} if model.config.model_type == "clip" else {"padding": "max_length", "max_length": 64}
    words = AutoTokenizer.from_pretrained(folder)(list(texts), return_tensors="pt", **padding)
    pixels = AutoImageProcessor.from_pretrained(folder, backend="pil")(images=list(pictures), return_tensors="pt")
    with torch.inference_mode():
        found = {
            "texts": model.get_text_features(**words).pooler_output,
            "pictures": model.get_image_features(**pixels).pooler_output,
            "logits": model(**words, **pixels).logits_per_image,
        }
    return {name: value.numpy() for name, value in found.items()}


@pytest.mark.parametrize("family", thorough_but(DUALS, "clip", "siglip2_naflex"))
def test_embeddings_and_logits_are_those_of_transformers(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    ours, plain = encoder(folders[family]), plainly(folders[family], TEXTS, pictures)
    texts = ours.embed_texts(TEXTS, normalise=False)
    seen = ours.embed_images(pictures, normalise=False)
    assert texts.dtype == seen.dtype == np.float32
    for mine, theirs in ((texts, plain["texts"]), (seen, plain["pictures"])):
        length = np.linalg.norm(theirs, axis=1, keepdims=True)
        np.testing.assert_allclose(mine / length, theirs / length, atol=epsilons(32))
    logits = ours.scale.logits(cosine(seen, texts))
    np.testing.assert_allclose(logits, plain["logits"], rtol=0, atol=epsilons(8, size=100))  # CLIP's reach 100
    np.testing.assert_allclose(np.linalg.norm(ours.embed_texts(TEXTS), axis=1), 1, rtol=epsilons(16))


@pytest.mark.parametrize("family", thorough_but(["regnet", "resnet", "dinov2"], "dinov2"))
def test_an_encoder_of_images_gives_what_transformers_pools(
    family: str, pictures: list[Image.Image], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoImageProcessor, AutoModel

    folder = save_image_encoder(tmp_path / family, family)
    model = AutoModel.from_pretrained(folder).eval()
    cropped = AutoImageProcessor.from_pretrained(folder, backend="pil")(images=pictures, return_tensors="pt")
    assert cropped["pixel_values"].shape[-2:] == (IMAGE, IMAGE)
    squares = [np.asarray(one.resize((IMAGE, IMAGE), Image.Resampling.BICUBIC), np.float32) / 255 for one in pictures]
    whole = (np.stack(squares) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]  # as the FHIBE paper describes it
    whole_pixels = torch.tensor(whole.transpose(0, 3, 1, 2), dtype=torch.float32)
    spec, seen = HfSpec(str(folder)), []
    for crop, inputs in ((True, cropped["pixel_values"]), (False, whole_pixels)):
        with torch.inference_mode():
            plain = model(pixel_values=inputs).pooler_output.flatten(1).numpy()
        ours = ImageEncoder(spec, LocalOptions(device="cpu", batch_size=3), crop=crop)
        seen.append(ours.embed_images(pictures, normalise=False))
        np.testing.assert_allclose(seen[-1], plain, rtol=1e-4, atol=1e-5)
    assert not np.allclose(seen[0], seen[1], atol=1e-3)
    cropping, resizing = ImageEncoder(spec).identity(), ImageEncoder(spec, crop=False).identity()
    assert cropping != resizing
    with pytest.raises(Fp2Error, match=rf"\({family}\) is not a dual encoder"):
        DualEncoder(spec).identity()


def test_a_dual_encoder_is_no_encoder_of_images(folders: dict[str, Path]) -> None:
    with pytest.raises(Fp2Error, match=r"\(clip\) is not an image encoder.*regnet"):
        ImageEncoder(HfSpec(str(folders["clip"]))).identity()


@pytest.mark.parametrize("family", thorough_but(DUALS, "clip", "siglip2_naflex"))
def test_probabilities_are_those_of_the_zero_shot_pipeline(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    from transformers import AutoImageProcessor, pipeline

    pixels = AutoImageProcessor.from_pretrained(folders[family], backend="pil")
    oracle: Any = pipeline("zero-shot-image-classification", model=str(folders[family]), image_processor=pixels)
    ours = encoder(folders[family])
    similarity = cosine(ours.embed_images(pictures), ours.embed_texts(TEXTS))
    probability = ours.scale.probabilities(ours.scale.logits(similarity))
    for place, picture in enumerate(pictures):
        scores = {row["label"]: row["score"] for row in oracle(picture, TEXTS, hypothesis_template="{}")}
        np.testing.assert_allclose(probability[place], [scores[text] for text in TEXTS], rtol=epsilons(8, size=100))
        assert TEXTS[similarity[place].argmax()] == max(scores, key=lambda text: scores[text])
    assert (np.allclose(probability.sum(1), 1)) == (family == "clip")


@pytest.mark.parametrize("family", thorough_but(DUALS, "clip"))
def test_one_at_a_time_is_the_same_and_another_image_is_not(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    ours = encoder(folders[family], batch_size=2)
    together, texts = ours.embed_images(pictures), ours.embed_texts(TEXTS)
    for place, picture in enumerate(pictures):
        np.testing.assert_allclose(ours.embed_images([picture])[0], together[place], atol=epsilons(64))
    for place, text in enumerate(TEXTS):
        np.testing.assert_allclose(ours.embed_texts([text])[0], texts[place], atol=epsilons(64))
    for vectors in (together, texts):
        apart = np.abs(vectors[:, None] - vectors[None]).max(-1)
        assert apart[~np.eye(len(vectors), dtype=bool)].min() > 1e-3  # wrong image, wrong text: it shows


@pytest.mark.parametrize("family", thorough_but(["siglip", "siglip2", "siglip2_naflex"], "siglip2"))
def test_siglip_reads_lower_case_to_the_full_length_and_without_a_mask(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders[family], tmp_path / family))
    config = (folder / "tokenizer_config.json").read_text()
    plain = encoder(folder).embed_texts(["a photo of a woman"])
    np.testing.assert_array_equal(encoder(folder).embed_texts(["A Photo of a WOMAN"]), plain)
    # a tokenizer that would pad on the left and hand out a mask (the defaults of Gemma's) changes nothing
    spoilt = config.replace('"padding_side": "right"', '"padding_side": "left"')
    spoilt = spoilt.replace('"model_input_names"', '"some_names"')
    (folder / "tokenizer_config.json").write_text(spoilt)
    np.testing.assert_array_equal(encoder(folder).embed_texts(["a photo of a woman"]), plain)
    with pytest.raises(Fp2Error, match="reads 64 tokens"):
        encoder(folder).embed_texts(["a man", "a woman and " * 40])


def test_tasks_come_back_in_order_each_file_decoded_once(
    folders: dict[str, Path], tasks: list[ImageTask], pictures: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Path] = []
    real = pixels.open_rgb
    monkeypatch.setattr(pixels, "open_rgb", lambda path: decoded.append(path) or real(path))
    grey = [
        replace(task, variant="plain", change=lambda picture: Image.new("RGB", picture.size, "gray")) for task in tasks
    ]
    asked = [task for pair in zip(tasks, grey, strict=True) for task in pair]
    ours = encoder(folders["siglip2_naflex"], batch_size=3)
    found = list(ours.embed(asked))
    assert [one.task for one in found] == asked
    assert decoded == [task.path for task in tasks]
    expected = ours.embed_images(pictures, normalise=False)
    for place, one in enumerate(found[::2]):
        np.testing.assert_allclose(one.vector, expected[place], rtol=1e-5, atol=1e-5)
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert np.abs(one.vector - other.vector).max() > 1e-2  # type: ignore[operator]


def test_an_unreadable_image_fails_alone(folders: dict[str, Path], tasks: list[ImageTask], tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(tasks[0].path.read_bytes()[:200])
    torn = replace(tasks[0], image_id="torn", path=tmp_path / "torn.png")
    other = replace(tasks[0], image_id="other", path=tasks[1].path)  # not the pixels that were digested
    blind = replace(tasks[0], image_id="blind", variant="blind")
    wild = replace(tasks[0], image_id="wild", variant="wild", change=lambda picture: "no picture")
    ours = encoder(folders["clip"])
    gone = replace(tasks[0], image_id="gone", path=tmp_path / "jane_doe.png")
    found = {one.task.image_id: one for one in ours.embed([torn, tasks[0], other, blind, wild, gone, tasks[1]])}
    assert "cannot be read" in str(found["gone"].error)
    assert not any(name in str(found["gone"].error) for name in ("jane", tmp_path.name))
    assert "cannot be read" in str(found["torn"].error)
    assert "the file changed" in str(found["other"].error)
    assert "needs an image" in str(found["blind"].error)
    assert "the model failed" in str(found["wild"].error)
    alone = {one.task.image_id: one.vector for one in ours.embed(tasks[:2])}
    for name in ("0", "1"):
        np.testing.assert_allclose(found[name].vector, alone[name], rtol=1e-5, atol=1e-5)


def test_out_of_memory_halves_the_batch(
    folders: dict[str, Path], pictures: list[Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    ours = encoder(folders["clip"], batch_size=5)
    expected = ours.embed_images(pictures)
    real, sizes = ours._loaded.model.get_image_features, []

    def narrow(pixel_values: Any) -> Any:
        sizes.append(len(pixel_values))
        if len(pixel_values) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(pixel_values=pixel_values)

    monkeypatch.setattr(ours._loaded.model, "get_image_features", narrow)
    np.testing.assert_allclose(ours.embed_images(pictures), expected, atol=epsilons(64))
    assert sizes == [5, 3, 2, 1, 2]
    sizes.clear()
    ours.embed_images(pictures)
    assert sizes == [2, 2, 1]


def test_what_was_embedded_is_kept_for_the_same_model_only(
    folders: dict[str, Path], tasks: list[ImageTask], tmp_path: Path
) -> None:
    with ResponseStore(tmp_path / "store.sqlite") as store:
        first = encoder(folders["clip"], connection=store.connection)
        seen, words = list(first.embed(tasks)), first.embed_texts(TEXTS)
        again = encoder(folders["clip"], connection=store.connection)
        for old, new in zip(seen, again.embed(tasks), strict=True):
            np.testing.assert_array_equal(old.vector, new.vector)
        np.testing.assert_array_equal(again.embed_texts(TEXTS), words)
        assert (again.model_calls, first.model_calls) == (0, 2)
        more = [*tasks, replace(tasks[0], variant="blurred", variant_params={"radius": 2}, change=lambda image: image)]
        assert len(list(again.embed(more))) == 6
        assert again.model_calls == 1  # the variant alone
        half = encoder(folders["clip"], connection=store.connection, dtype="bfloat16")
        for old, new in zip(seen, half.embed(tasks), strict=True):
            assert old.vector is not None
            assert new.vector is not None
            assert (
                0.98 < cosine(old.vector[None], new.vector[None])[0, 0] < 1
            )  # rounded to 8 bits, and not the kept one
        assert half.model_calls == 1


@pytest.mark.thorough
def test_quantised_layers_embed_nearly_the_same(folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    whole = encoder(folders["siglip2"]).embed_images(pictures)
    int8 = DualEncoder(HfSpec(str(folders["siglip2"]), quantisation="int8"), LocalOptions(device="cpu"))
    near = np.diag(cosine(int8.embed_images(pictures), whole))
    assert 0.95 < near.min() < 1
    kinds = {type(layer).__name__ for layer in int8._loaded.model.modules()}
    assert "Linear8bitLt" in kinds
    assert "bitsandbytes" in int8.identity()["family"]


@pytest.mark.thorough
def test_identity_is_the_models_and_not_the_machines(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    base = encoder(folders["clip"]).identity()
    assert encoder(folders["clip"], device="auto", batch_size=3, threads=1).identity() == base
    assert base["processor"]["backend"] == "pil"
    others = [encoder(folders[family]).identity() for family in ("siglip", "siglip2")]
    others += [DualEncoder(HfSpec(str(folders["clip"]), **change)).identity() for change in CHANGES]
    cache = tmp_path / "models--some--clip" / "snapshots"
    for commit in ("a" * 40, "b" * 40):
        shutil.copytree(folders["clip"], cache / commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    hub = [DualEncoder(HfSpec("some/clip", revision=commit * 40)) for commit in ("a", "b")]
    others += [one.identity() for one in hub]
    assert all(one != other for place, one in enumerate([base, *others]) for other in others[place:])
    same = encoder(folders["clip"]).embed_texts(TEXTS)
    np.testing.assert_array_equal(hub[1].embed_texts(TEXTS), same)


CHANGES: list[dict[str, Any]] = [{"dtype": "bfloat16"}, {"dtype": "float16"}, {"quantisation": "int8"}]


def test_what_is_no_dual_encoder_is_one_line(tiny_llava: Path, folders: dict[str, Path]) -> None:
    for use in (lambda model: model.identity(), lambda model: model.embed_texts(["a man"])):
        with pytest.raises(Fp2Error, match=r"\(llava\) is not a dual encoder .*clip, siglip, siglip2"):
            use(encoder(tiny_llava))
    with pytest.raises(Fp2Error, match=r"0 is not at least 1 .*engine\.batch_size"):
        build_engine({"id": str(folders["clip"])}, {"name": "dual", "batch_size": 0}, Decoding())


def test_a_dual_encoder_is_no_engine_for_questions(folders: dict[str, Path], tasks: list[ImageTask]) -> None:
    from fp2.engines.hf.engine import HfEngine, HfOptions
    from fp2.tables import Decoding, Question

    for family in ("clip", "siglip2_naflex"):
        engine = HfEngine(HfSpec(str(folders[family])), Decoding(), HfOptions(device="cpu"))
        with pytest.raises(Fp2Error, match="does not take images and generate text"):
            list(engine.answer([replace(tasks[0], questions=(Question("q", "p", "Who?"),))]))


def test_the_attention_is_the_one_of_the_option(folders: dict[str, Path]) -> None:
    specs = {
        name: create(DualEngine, {"id": str(folders["clip"])}, {"attention": name}, Decoding()).encoder.spec
        for name in ("eager", None)
    }
    assert (specs["eager"].placement.attention, specs[None].placement.attention) == ("eager", None)
