"""The experiments of GRAS: what they are made of, and the official form of the data from lists to scores."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bench import Bench, execute, fp2, load_config, results_of
from gras_checkout import write_images, write_lists, write_scripts

from fp2.compose import build_protocol, jobs_of
from fp2.errors import Fp2Error
from fp2.methods.dense.trait_battery import asked_traits
from fp2.probes.battery import load_battery

MODELS = [
    "paligemma2_3b_mix_224_gras", "llava_1_5_7b_gras", "qwen2_5_vl_3b_gras", "blip2_opt_2_7b_gras",
    "phi4_multimodal_gras",
]  # fmt: skip


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the official form: 70 FairFace images, 30 of AI-Face, four words, the scripts."""
    root = tmp_path_factory.mktemp("gras")
    faces, tones = write_lists(root)
    write_images(root, [*faces, *tones])
    write_scripts(root)
    return root


def test_the_demonstration_asks_the_bundled_model_everything_about_drawn_people() -> None:
    config = load_config(["experiment=gras"])
    assert (config.model.name, config.data.kind, build_protocol(config).name) == ("peeps_vlm", "peeps", "gras")
    assert config.data.n_subjects * len(load_battery(asdict(config.probe)).questions) == 100_000
    assert config.cut.each == ["region", "pronoun", "age", "skin_tone"]
    assert config.scorer == {}


def test_the_published_study_is_the_abstracts_four_models_on_the_official_data(official: Path) -> None:
    words = ["experiment=gras_paper", f"data.root={official}"]
    assert [job[-1] for job in jobs_of(words)] == [f"model={name}" for name in MODELS if "phi4" not in name]
    assert jobs_of([*words, "model=phi4_multimodal_gras"])[0][-1] == "model=phi4_multimodal_gras"
    config = load_config(words)
    assert (config.data.kind, config.data.limit, build_protocol(config).name) == ("gras", 5010, "gras")
    assert config.cut.each == ["gender", "race", "age", "skin_tone"]
    for name in MODELS:
        config = load_config([*words, f"model={name}"])
        asked = load_battery(asdict(config.probe), config.model.id)
        assert [trait.word for trait in asked_traits(asked)] == ["kind", "calm", "cruel", "lazy"]
        assert len(asked.questions) == 20
        assert asked.questions[0].text.startswith("Q:" if "blip" in name else "Rules")


def test_each_model_has_the_published_conditions() -> None:
    """dtype, prompt around the question, side of the AI-Face images, spelling of Yes: as in the authors' scripts."""
    found = {}
    for name in MODELS:
        model = load_config([f"model={name}", "probe=gras"]).model
        assert model.image_backend == "torchvision"
        assert model.softmax_dtype == model.dtype
        found[name.split("_")[0]] = (model.dtype, model.prompt, model.image_size, model.yes_no)
    aiface = {"aiface": 256}
    assert found == {
        "paligemma2": ("bfloat16", "{image}{question}", aiface, None),
        "llava": ("float16", None, aiface, None),
        "qwen2": ("bfloat16", None, {"aiface": 252}, None),
        "blip2": ("float16", "{image}{question}", aiface, [" Yes", " No"]),
        "phi4": ("float16", "<|user|>{image}{question}<|end|><|assistant|>", aiface, None),
    }


def test_without_the_scripts_one_line_says_how_to_go_on(official: Path, tmp_path: Path) -> None:
    write_lists(tmp_path)
    spec = asdict(load_config(["experiment=gras_paper", f"data.root={tmp_path}"]).probe)
    with pytest.raises(Fp2Error, match="no script in this folder asks some/model") as caught:
        load_battery(spec, "some/model")
    assert "has inference_scripts, or null for our own wording" in str(caught.value)


def test_the_battery_runs_on_fhibe_s_own_attributes() -> None:
    config = load_config(["experiment=gras_fhibe", "data.root=/nowhere"])
    assert (config.data.kind, config.data.stratify, build_protocol(config).name) == ("fhibe", ["region"], "gras")
    assert config.cut.each == ["region", "pronoun", "age", "skin_tone"]


def test_from_the_official_lists_to_scores(official: Path, tmp_path: Path) -> None:
    """Each attribute is compared on its own set; what is planted is found, and the confounding is reported."""
    truth = (
        "model.truth={yes_no: {effects: {skin_tone: {MST 10: -1.0}, gender: {Female: 1.0}}, unaffected: [calm, lazy],"
        " item_sd: 0, noise: {subject_sd: 0.1, image_sd: 0.1}}}"
    )
    words = [
        "experiment=gras_paper",
        "model=planted",
        "probe.published=null",
        truth,
        f"data.root={official}",
        "probe.options.permutations=50",
        "probe.options.bootstrap=20",
        "analysis.min_subjects=3",
        "tracking=none",
        "report=none",
    ]
    results = execute(words, tmp_path / "out").results
    assert results["answers"]["answered"] == 2_000
    assert any("not balanced for gender, age or race" in note for note in results["limitations"])
    warned = [*results["limitations"], *results["gras"]["warnings"]]
    assert any("skin tone is known together with gender, race, age" in note for note in warned), warned
    block = results["gras"]
    assert block["battery"]["source"] == "selected_trait_words.csv"
    sets = {entry["name"]: entry["set"] for entry in block["attributes"]}
    assert sets["gender"] == sets["race"] == sets["age"] != sets["skin_tone"]
    sizes = {entry["name"]: sum(group["n_images"] for group in entry["groups"]) for entry in block["attributes"]}
    assert sizes == {"gender": 70, "race": 70, "age": 70, "skin_tone": 30}
    shards = pd.read_parquet(tmp_path / "out" / "responses")
    assert len(shards) == 2_000
    tests = block["units"]["images"]["tests"]
    p_values = {name: np.array(found["p_value"]) for name, found in tests.items()}  # (word, template)
    assert [trait["word"] for trait in block["traits"]] == ["kind", "calm", "cruel", "lazy"]
    for attribute in ("gender", "skin_tone"):
        assert p_values[attribute][[0, 2]].max() < 1e-3
        assert p_values[attribute][[1, 3]].min() > 1e-3
    assert p_values["race"].min() > 1e-3


def test_a_purge_needs_the_official_list_no_more(bench: Bench, official: Path, tmp_path: Path) -> None:
    """The words' facts stay with the run; where the list lies is not published."""
    listed = tmp_path / "elsewhere" / "selected_trait_words.csv"
    listed.parent.mkdir()
    listed.write_text((official / listed.name).read_text())
    words = [
        "model=planted",
        "probe=gras",
        f"probe.traits_file={listed}",
        "probe.select=[direct,judgment]",
        *bench.places,
        "probe.options.permutations=20",
        "probe.options.bootstrap=20",
        "data=table",
        "cut.by=[gender]",
        "data.columns={image: file, subject: person, gender: gender}",
        "report=none",
        "tracking=none",
    ]
    folder = bench.outputs / "one"
    before = execute(words, folder).results
    assert "elsewhere" not in (folder / "config.yaml").read_text()
    listed.unlink()
    person = pd.read_csv(bench.table)["person"].iloc[0]
    assert fp2("purge", "--subject", person, "--yes", *bench.paths) == 0
    after = results_of(folder)
    assert after["gras"]["battery"] == before["gras"]["battery"]
    assert after["gras"]["traits"] == before["gras"]["traits"]
    assert after["n_subjects"] == before["n_subjects"] - 1
