"""Items with a second image: what is shown, under which keys, to which engines; a purge finds who is in either."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, execute, fp2, rest_of, results_of
from checkpoint_fixtures import tiny_llava
from fake_server import serving
from fake_server import words as in_words
from PIL.Image import Resampling
from probes.test_items import COLUMNS, WORDS, N, items, words
from reference_keys import response_key

import fp2 as package
from fp2.compose import load_config
from fp2.config import VariantConfig
from fp2.data.image_size import with_image_size
from fp2.data.pixels import digest_image, open_rgb, pixel_sha256
from fp2.data.readers.table import frame_people
from fp2.data.stimuli import make_stimuli
from fp2.engines.base import open_images
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.engines.server.chat import DATA_URL, png
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.protocols.requirements import check_second_images
from fp2.store.salted_keys import local_salt, salted
from fp2.tables import Decoding, ImageTask, Question

__all__ = ["tiny_llava", "words"]
ASKED = (
    Question("which", "which", "Which person is kinder, the first or the second?"),
    Question("kind", "which", "Is the first person kinder?"),
)
ONE_IMAGE = "1e47daf441ceb95fdcebd4ff85b1290d14780d4b33e4383853a39c524a82ac28"
"""The response key of the first question about an item with one image of the digest 0."""
SECOND = "image_b: file_b, subject_b: person_b, "


def pairs(bench: Bench) -> pd.DataFrame:
    """The items of `test_items`; all but the first show the image of the next person, too."""
    frame = items(bench)
    following = frame[["file", "person"]].apply(lambda column: [*column[2:], *column[:2]])
    return frame.assign(file_b=["", *following["file"][1:]], person_b=["", *following["person"][1:]])


def tasks(bench: Bench) -> list[ImageTask]:
    columns = {"image": "file", "item": "id", "subject": "person", "image_b": "file_b", "subject_b": "person_b"}
    people = frame_people(pairs(bench), columns, bench.pictures, Path("items")).people
    paths = [Path(path) for name in ("image_path", "image_b") for path in people[name].dropna()]
    pixels = {path: digest_image(path) for path in paths}
    stimuli = make_stimuli(people, VariantConfig(name="original", kind="original"), pixels, bench.root)
    return [stimulus.task(ASKED) for stimulus in stimuli]


def test_the_second_image_is_in_the_key_where_there_is_one(bench: Bench) -> None:
    one, two, *_ = tasks(bench)

    def key(task: ImageTask) -> str:
        return response_key(
            engine={"engine": "x"},
            method={"name": "y"},
            question=ASKED[0],
            pixel_sha256=task.pixel_sha256,
            variant=task.variant,
            variant_params=task.variant_params,
            decoding=Decoding(),
            task_identity={},
        )

    assert one.second is None
    assert two.second is not None
    assert two.variant_params == {"second": pixel_sha256(open_rgb(two.second))}
    assert one.pixel_sha256 == two.pixel_sha256
    assert key(one) == key(replace(two, variant_params={})) != key(two)
    assert key(replace(one, pixel_sha256="0" * 64)) == ONE_IMAGE


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", ["auto", "none"])
def test_a_model_sees_both_images_in_their_order(bench: Bench, tiny_llava: Path, sharing: str) -> None:
    _, two, *_ = tasks(bench)
    assert two.second is not None
    turned = replace(
        two,
        image_id="turned",
        path=two.second,
        pixel_sha256=two.variant_params["second"],
        second=two.path,
        variant_params={"second": two.pixel_sha256},
    )
    engine = HfEngine(HfSpec(str(tiny_llava)), Decoding(max_new_tokens=8), HfOptions(device="cpu", sharing=sharing))
    answers = {(a.image_id, a.question_id): a for batch in engine.answer([two, turned]) for a in batch}
    loaded = engine._session.loaded
    for task, question in ((task, question) for task in (two, turned) for question in ASKED):
        assert task.second is not None
        prompt = engine.prompt_format.with_processor(loaded.processor).text(question.text, 2)
        assert prompt.count("<image>") == 2
        shown = [open_rgb(task.path), open_rgb(task.second)]
        inputs = loaded.processor(text=prompt, images=shown, return_tensors="pt", add_special_tokens=False)
        plain = loaded.model.generate(**inputs, max_new_tokens=8, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        expected = loaded.processor.tokenizer.decode(plain, skip_special_tokens=True).strip()
        assert answers[task.image_id, question.question_id].text == expected
    assert answers[two.image_id, "which"].text != answers["turned", "which"].text
    assert engine.runtime()["sharing"] == {"auto": "tree", "none": "none"}[sharing]


def test_a_server_gets_two_image_parts(bench: Bench) -> None:
    one, two, *_ = tasks(bench)
    with serving({"/v1/chat/completions": in_words}) as server:
        engine = OpenAICompatEngine(ServerSpec(server.url, "some/model"), Decoding(), ServerOptions())
        asked = [replace(task, questions=ASKED[:1]) for task in (one, two)]
        answers = [answer for batch in engine.answer(asked) for answer in batch]
    assert {answer.error for answer in answers} == {None}
    contents = [request.body["messages"][0]["content"] for request in server.asked("/v1/chat/completions")]
    shown = [[part["image_url"]["url"] for part in content if part["type"] == "image_url"] for content in contents]
    assert two.second is not None
    both = [DATA_URL + png(open_rgb(path)) for path in (two.path, two.second)]
    assert both[:1] in shown
    assert both in shown


def test_a_size_of_images_is_that_of_both(bench: Bench) -> None:
    one, two, *_ = tasks(bench)
    frame = pd.DataFrame({"image_id": [one.image_id, two.image_id]})
    notes: list[str] = []
    sized = with_image_size([one, two], frame, 16, notes.append)
    assert [[image.size for image in open_images(task)] for task in sized] == [[(16, 16)], [(16, 16)] * 2]
    assert two.second is not None
    expected = open_rgb(two.second).resize((16, 16), Resampling.BICUBIC)
    assert open_images(sized[1])[1].tobytes() == expected.tobytes()
    assert sized[1].variant_params == {**two.variant_params, "resized": {"version": 1, "side": 16}}


def planted(bench: Bench, tmp_path: Path, *more: str) -> list[str]:
    pairs(bench).to_csv(tmp_path / "items.csv", index=False)
    return [
        "data=table",
        f"data.path={tmp_path / 'items.csv'}",
        f"data.image_root={bench.pictures}",
        f"data.columns={COLUMNS.replace('item: id, ', f'item: id, {SECOND}')}",
        "cut.by=[gender]",
        "probe.select=[trust]",
        "model=planted",
        "scorer=valence",
        "analysis.permutations=99",
        "analysis.bootstrap=50",
        "report=none",
        "tracking=none",
        *bench.paths,
        *more,
    ]


@pytest.mark.package(name="withdrawal")
def test_a_purge_finds_a_person_in_either_image(bench: Bench, tmp_path: Path) -> None:
    run = planted(bench, tmp_path)
    first = execute(run, bench.outputs / "one").results
    assert first["answers"]["answered"] == 2 * N
    own = salted(["s5"], local_salt(bench.root / "state"))[0]
    stored = pd.read_parquet(bench.outputs / "one" / "people.parquet")
    assert "image_b" not in stored
    assert set(stored.loc[stored["subject_b"] == own, "subject_id"]) != {own}
    assert fp2("purge", "--subject", "s5", "--yes", *bench.paths) == 0
    assert own.encode() not in rest_of(bench.root)
    left = next(path for path in bench.outputs.rglob("results.json"))
    assert results_of(left.parent)["answers"]["planned"] == (2 * N - 4)  # two items of s5, two that show s5 second
    again = execute(run, bench.outputs / "two").results
    assert again["answers"]["planned"] == (2 * N - 4)


@pytest.mark.package(name="recorded")
def test_supplied_answers_are_keyed_by_the_item(words: list[str], bench: Bench, tmp_path: Path) -> None:
    plain = execute(words, bench.outputs / "plain").results
    pairs(bench).to_csv(tmp_path / "items.csv", index=False)
    both = [word.replace("item: id, ", f"item: id, {SECOND}") for word in words]
    results = execute(both, bench.outputs / "both").results
    assert results["disparities"] == plain["disparities"]
    assert results["dataset"]["digest"] != plain["dataset"]["digest"]


@pytest.mark.package(name="image_variants")
def test_what_takes_one_image_is_refused_before_anything_is_asked(bench: Bench, tmp_path: Path) -> None:
    run = planted(bench, tmp_path)
    with pytest.raises(Fp2Error, match="variant 'blurred' is of one image"):
        execute([*run, "variant=blurred"], bench.outputs / "wrong")
    with pytest.raises(Fp2Error, match="a second image, which task=ask does not take"):
        check_second_images(load_config(run), None, None)

    def model(image: Any, question: str) -> str:
        raise AssertionError("it was asked")

    (tmp_path / "conf" / "probe").mkdir(parents=True)
    (tmp_path / "conf" / "probe" / "work.yaml").write_text(WORDS)
    frame = (
        pairs(bench)
        .rename(
            columns={
                "file": "image",
                "id": "item",
                "named": "field_named",
                "person": "subject",
                "file_b": "image_b",
                "person_b": "subject_b",
            }
        )
        .drop(columns="other")
    )
    with pytest.raises(Fp2Error, match="takes one image in question 'work', and the items have two"):
        package.evaluate(
            model=package.FunctionModel(model, "mine", "1"),
            data=frame,
            image_root=bench.pictures,
            probes="work",
            cuts="gender",
            scorers="valence",
            root=bench.root,
            progress=False,
            overrides=[f"hydra.searchpath=[file://{tmp_path / 'conf'}]", "report=none"],
        )


def test_a_second_image_that_is_missing_fails_its_item_only(bench: Bench, tmp_path: Path) -> None:
    run = planted(bench, tmp_path)
    frame = pairs(bench)
    frame.loc[3, "file_b"] = "gone.png"
    frame.to_csv(tmp_path / "items.csv", index=False)
    results = execute(run, bench.outputs / "one").results
    assert results["answers"]["failed"] == 1
    answers = pd.read_parquet(bench.outputs / "one" / "responses.parquet")
    assert answers["error"].dropna().tolist() == ["second image: the image file is missing"]
    assert json.dumps(results).count("gone.png") == 0
