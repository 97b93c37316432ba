"""The config hash says what decides a result, and nothing about the machine that it is worked out on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from bench import load_config

from fp2.compose import config_hash, from_plain
from fp2.config import Config, choices, conf_dir
from fp2.errors import Fp2Error
from fp2.tables import VARIANT_PARAMETERS


def hash_of(*overrides: str) -> str:
    return config_hash(load_config(overrides))


@pytest.fixture(scope="module")
def usual() -> str:
    """The hash of the default config."""
    return hash_of()


@pytest.mark.parametrize(
    "overrides",
    [
        "paths.root=/elsewhere",
        "paths.store=/elsewhere/x.sqlite paths.mlruns=/m",
        "engine.device=cpu",
        "engine.batch_size=3",
        "engine.threads=1",
        "report=none",
        "tracking=none",
        "tracking.uri=http://user:secret@host",
        "answers.attempts=5",
        "verify_inputs=true",
        "seed=20260101",
        "analysis.alpha=0.050",
        "variant=original",
    ],
)
def test_what_does_not_decide_a_result_is_not_hashed(overrides: str, usual: str) -> None:
    assert hash_of(*overrides.split()) == usual


@pytest.mark.parametrize(
    "overrides",
    [
        "seed=1",
        "cut=region",
        "cut=region_x_age",
        "scorer=valence",
        "scorer.valence.smallest_effect=0.1",
        "scorer.refusal.higher_is_better=true",
        "model.dtype=bfloat16",
        "model.quantisation=int8",
        "model.revision=abc",
        "model.image_backend=torchvision",
        "model.prompt='{image}{question}?'",
        "model.options.size=3",
        "data.seed=1",
        "data.limit=10",
        "data.n_subjects=10",
        "variant=blind",
        "probe.select=[trust]",
        "probe.decoding.max_new_tokens=5",
        "analysis.alpha=0.01",
        "analysis.family=run",
        "analysis.permutations=999",
        "analysis.severity.low=0.03",
    ],
)
def test_what_decides_a_result_is_hashed(overrides: str, usual: str) -> None:
    assert hash_of(*overrides.split()) != usual


def test_another_root_folder_and_another_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FP2_ROOT", str(tmp_path / "other"))
    assert hash_of() == usual


def test_the_same_data_in_another_folder() -> None:
    assert hash_of("data=fhibe", "data.root=/one") == hash_of("data=fhibe", "data.root=/two/three")
    table = ("data=table", "data.columns={image: file}")
    assert hash_of(*table, "data.path=/a/people.csv") == hash_of(
        *table, "data.path=/b/people.csv", "data.image_root=/c"
    )
    assert hash_of(*table, "data.path=/a") != hash_of("data=table", "data.columns={image: f}", "data.path=/a")


@pytest.mark.package(name="image_variants")
def test_every_variant_and_each_of_its_parameters_counts() -> None:
    own = {
        "grey": "size=9",
        "swapped": "seed=9",
        "blurred": "radius=9",
        "face_crop": "margin=0.9",
        "background_removed": "region=box",
    }
    kinds = [[f"variant={name}"] for name in choices("variant")]
    words = [*kinds, *([f"variant={kind}", f"variant.{value}"] for kind, value in own.items())]
    assert len(kinds) == len(VARIANT_PARAMETERS) + 1  # and masked_box
    assert len({hash_of(*each) for each in words}) == len(words)
    assert hash_of("variant=blurred", "variant.name=soft") == hash_of("variant=blurred")


def test_a_config_from_before_there_were_variants_keeps_its_hash() -> None:
    config = load_config([])
    before = plain(config)
    del before["variant"]
    assert config_hash(from_plain(before)) == config_hash(config)


def test_overrides_in_another_order() -> None:
    words = ["cut=region", "seed=4", "model.dtype=bfloat16", "scorer=valence"]
    assert hash_of(*words) == hash_of(*reversed(words))


def test_one_number_written_two_ways() -> None:
    assert hash_of("scorer.valence.smallest_effect=1") == hash_of("scorer.valence.smallest_effect=1.0")
    one = hash_of("probe.decoding.samples=1")
    assert one == hash_of("~probe.decoding.samples") == hash_of() != hash_of("probe.decoding.samples=2")
    assert hash_of("probe.decoding.temperature=0") == hash_of("probe.decoding.temperature=0.0")
    assert hash_of("verify_inputs=true", "seed=1") != hash_of("seed=2")


def test_the_same_cut_written_two_ways() -> None:
    assert hash_of("cut=region_x_age") == hash_of("cut.by=[region,age]")
    assert hash_of("cut=region") == hash_of("cut.by=[region]")
    assert hash_of("cut.by=[region,age]") != hash_of("cut.each=[region,age]")


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return value


def plain(config: Config) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(config)


def test_keys_in_another_order() -> None:
    config = load_config(["model=planted", "model.truth={seed: 3, base: 5}"])
    turned = reordered(plain(config))
    # scorers keep the order in which they are listed: it is the order of the rows, not of the meaning
    assert config_hash(from_plain(turned)) == config_hash(config)


def test_a_file_of_the_users_own_counts_by_its_bytes(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name / "words.yaml" for name in ("one", "two", "other"))
    for path, text in ((one, "a: 1"), (two, "a: 1"), (other, "a: 2")):
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")

    def lexicon(path: Path) -> str:
        return hash_of(f"scorer.confidence.lexicon_file={path}")

    def truth(path: Path) -> str:
        return hash_of("model=planted", f"model.truth={path}")

    assert lexicon(one) == lexicon(two) != lexicon(other)
    assert truth(one) == truth(two) != truth(other)
    with pytest.raises(Fp2Error, match="cannot be read"):
        lexicon(tmp_path / "absent.yaml")


def test_a_model_folder_counts_by_its_name(tmp_path: Path) -> None:
    """What is in it is in the response set: see the tests of engines."""
    assert hash_of(f"model.id={tmp_path}/a/net") == hash_of("model.id=/b/net")
    assert hash_of("model.id=owner/net") != hash_of("model.id=owner/other")


def test_a_truths_list_of_words_counts_by_its_bytes_and_not_by_its_place(tmp_path: Path) -> None:
    text = "WORD_ENGLISH,VAL_MEAN,pos/neg\nkind,2.6,positive\n"
    lists = [tmp_path / "a" / "one.csv", tmp_path / "b" / "two.csv"]
    for path in lists:
        path.parent.mkdir()
        path.write_text(text)
    words = [f"model.truth={{yes_no: {{valences: {path}}}}}" for path in lists]
    before = [hash_of("model=planted", word) for word in words]
    assert before[0] == before[1]
    lists[1].write_text(text.replace("2.6", "2.5"))
    assert hash_of("model=planted", words[1]) != before[1]
    table = "model.truth={yes_no: {valences: {kind: 2.6}}}"
    assert hash_of("model=planted", table) != before[0]


def test_every_checkpoint_states_its_parameters_and_licence() -> None:
    """Servers have no checkpoint; a licence may be said to be on the model's card."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(str(conf_dir()), "model").glob("*.yaml")}
    checkpoints = {name: text for name, text in texts.items() if "base_url" not in text}
    assert len(checkpoints) >= 40
    for name, text in checkpoints.items():
        header = " ".join(line for line in text.splitlines() if line.startswith("#"))
        assert re.search(r"\d [BM] parameters", header), name
        assert re.search(r"Apache|MIT|BSD|CC BY|terms|Licen[sc]e|licence", header), name
