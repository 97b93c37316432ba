"""The wording of GRAS's questions from a checkout of its authors' repository: what their scripts would ask."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import load_config
from gras_checkout import MODELS, TEMPLATES, WORDS, script, write_scripts

from fp2.compose import config_hash
from fp2.errors import Fp2Error
from fp2.methods.dense.published import read_wording
from fp2.methods.dense.trait_battery import facts
from fp2.probes.battery import load_battery

LLAVA = MODELS["llava"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    write_scripts(root)
    return root


def asked_by(text: str, traits: list[str]) -> list[str]:
    """Run a script's text with everything but its strings replaced, and return what it would ask."""
    asked: list[str] = []
    anything: Any = SimpleNamespace(from_pretrained=lambda *_, **__: None)
    names = {
        "traits": traits,
        "ask": asked.append,
        "Kind": anything,
        "half": None,
        "Parser": lambda **_: None,
        "note": lambda _: None,
        "save": lambda _: None,
        "folder": "",
    }
    exec(compile(text, "script", "exec"), names)
    return asked


@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_the_script_would_ask(checkout: Path, name: str) -> None:
    found = read_wording(str(checkout), MODELS[name])
    expected = asked_by(script(name), ["kind"])
    if name == "phi":  # the frame of special tokens is the model's prompt format
        frame = ("<|user|><|image_1|>", "<|end|><|assistant|>")
        assert all(text.startswith(frame[0]) and text.endswith(frame[1]) for text in expected)
        expected = [text.removeprefix(frame[0]).removesuffix(frame[1]) for text in expected]
    assert [text.replace("{trait}", "kind") for text in found.texts] == expected
    assert found.script == f"{name}_aiface.py"


@pytest.mark.package(name="gras")
def test_the_battery_asks_it_with_its_blanks_and_without_our_instruction(checkout: Path) -> None:
    config = load_config(["probe=gras", f"probe.published={checkout}", "model=llava_1_5_7b", "probe.traits={kind: 2}"])
    battery = load_battery(asdict(config.probe), config.model.id)
    assert [question.text for question in battery.questions] == asked_by(script("llava"), ["kind"])
    assert [question.question_id for question in battery.questions] == [f"T{n}_kind" for n in range(1, 6)]
    assert "   Q: Would kind fit?   " in battery.questions[0].text
    assert battery.expansion is not None
    told = facts(battery.expansion)
    assert (told["instruction"], told["published_script"]) == ("", "llava_aiface.py")
    some = load_battery({**asdict(config.probe), "select": ["evidence"]}, config.model.id)
    assert [question.text for question in some.questions] == [battery.questions[3].text]


@pytest.mark.package(name="gras")
def test_the_config_hash_is_of_the_texts_and_not_of_where_they_lie(checkout: Path, tmp_path: Path) -> None:
    write_scripts(tmp_path)

    def hash_of(*words: str) -> str:
        return config_hash(load_config(["probe=gras", *words]))

    usual, there = hash_of("model=llava_1_5_7b"), hash_of("model=llava_1_5_7b", f"probe.published={checkout}")
    assert there == hash_of("model=llava_1_5_7b", f"probe.published={tmp_path}") != usual
    changed = script("llava", templates=repr([f"{text}!" for text in TEMPLATES]))
    for name in ("llava_fairface.py", "llava_aiface.py"):
        (tmp_path / "inference_scripts" / name).write_text(changed)
    assert hash_of("model=llava_1_5_7b", f"probe.published={tmp_path}") not in (usual, there)


def test_a_model_in_a_folder_of_its_name_is_found_and_one_script_serves_any_model(checkout: Path) -> None:
    by_id = read_wording(str(checkout), LLAVA)
    assert read_wording(str(checkout), "/models/llava-1.5-7b-hf/") == by_id
    assert read_wording(str(checkout / "inference_scripts" / "llava_aiface.py"), "other/model") == by_id


@pytest.mark.parametrize(
    ("files", "model", "error"),
    [
        ({}, LLAVA, "no script in this folder asks llava-hf/llava-1.5-7b-hf"),
        ({"a.py": script("blip")}, LLAVA, "They ask Salesforce/blip2-opt-2.7b; name the script to follow"),
        (
            {"a.py": script("llava"), "b.py": script("llava", templates="['A {}?', 'B {}?']")},
            LLAVA,
            "a.py and b.py word the questions differently",
        ),
        ({"a.py": script("llava", prompt="prompt = question")}, LLAVA, "1 lists of templates and 0 prompts"),
        (
            {"a.py": script("llava", prompt="prompt = f'{now()}{question}'")},
            LLAVA,
            "1 lists of templates and 0 prompts",
        ),
    ],
)
def test_a_folder_that_is_not_as_expected_is_one_clear_line(
    tmp_path: Path, files: dict[str, str], model: str, error: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(Fp2Error, match=error) as caught:
        read_wording(str(tmp_path), model)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_not_there_and_a_file_that_is_no_script_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match="no such file or folder"):
        read_wording(str(tmp_path / "nowhere"), LLAVA)
    (tmp_path / "list.csv").write_text("WORD_ENGLISH,VAL_MEAN,pos/neg\n" + "\n".join(WORDS))
    with pytest.raises(Fp2Error, match="the script has 0 lists of templates"):
        read_wording(str(tmp_path / "list.csv"), LLAVA)
    (tmp_path / "old.py").write_text("print 'not Python 3'\n")
    with pytest.raises(Fp2Error, match="the script cannot be read"):
        read_wording(str(tmp_path / "old.py"), LLAVA)


@pytest.mark.package(name="gras")
def test_the_number_of_templates_has_to_fit_and_templates_come_from_one_place(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(script("llava", templates="['A {}?', 'B {}?']"))
    spec = asdict(load_config(["probe=gras"]).probe) | {"published": str(tmp_path)}
    with pytest.raises(Fp2Error, match="2 templates, the battery 5"):
        load_battery(spec, LLAVA)
    with pytest.raises(Fp2Error, match="both given and published"):
        load_battery({**spec, "templates": {"A": "Is it {trait}?"}}, LLAVA)
