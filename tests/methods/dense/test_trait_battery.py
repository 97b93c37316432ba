"""Batteries of traits: GRAS's five framings of 100 words, and any other wording and words."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from bench import load_config

from fp2.compose import config_hash
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.methods.dense.trait_battery import asked_traits, facts
from fp2.methods.dense.traits import OWN_FILE
from fp2.plugins import read_options
from fp2.probes.battery import Battery, load_battery
from training.peeps.planted import load_planted

OWN_WORDS = "probe.traits={kind: 2.6, cruel: -2.9}"
OWN_TEXT = "probe.templates={A: 'Is the person {trait}?', B: 'Are they {trait}, do you think?'}"


def config(*overrides: str) -> Config:
    return load_config(["probe=gras", *overrides])


def battery(*overrides: str) -> Battery:
    return load_battery(asdict(config(*overrides).probe))


def loaded(**changes: Any) -> Battery:
    spec: dict[str, Any] = {"name": "own", "version": "1", "probes": {"p": {"questions": [question()]}}, **changes}
    return load_battery({key: value for key, value in spec.items() if value is not None})


def question(**changes: Any) -> dict[str, Any]:
    return {"id": "T", "kind": "yes_no", "text": "Is the person {trait}?", **changes}


def test_it_asks_what_the_bundled_model_was_trained_on_and_nothing_else() -> None:
    found, planted = battery(), load_planted()
    expected = {f"{name}_{word}": planted.question(word, name) for name in planted.templates for word in planted.traits}
    assert {q.question_id: q.text for q in found.questions} == expected
    assert [q.question_id for q in found.questions] == list(expected)
    assert {q.kind for q in found.questions} == {"yes_no"}
    framings = [template.framing for template in planted.templates.values()]
    assert [probe.id for probe in found.probes] == framings
    assert list(found.labels.values()) == [f"{n} {f}" for n, f in zip(planted.templates, framings, strict=True)]
    assert [(t.word, t.valence) for t in asked_traits(found)] == [(t.word, t.valence) for t in planted.traits.values()]


def test_each_question_knows_its_template_trait_and_framing() -> None:
    found = battery()
    assert len(found.questions) == 500
    one = next(q for q in found.questions if q.question_id == "T4_honest")
    assert (one.template, one.trait, one.probe) == ("T4", "honest", "evidence")
    assert found.protocol == "gras"


def test_the_options_are_those_of_the_analysis_at_its_defaults() -> None:
    from fp2.methods.gras.options import GrasOptions

    assert read_options(GrasOptions, battery().options, "probe.options") == GrasOptions()


def test_results_can_say_which_words_and_wording_were_used() -> None:
    told = battery().expansion
    assert told is not None
    found = facts(told)
    assert found["sha256"] == hashlib.sha256(OWN_FILE.read_bytes()).hexdigest()
    assert (found["n_positive"], found["n_negative"], found["source"]) == (50, 50, "fp2 1")
    assert found["templates"]["T3"] == "Does the person in the image look {trait}?"
    assert found["instruction"] == "Answer with exactly one of Yes or No."


def test_framings_can_be_chosen() -> None:
    found = battery("probe.select=[evidence,direct]")
    assert [probe.id for probe in found.probes] == ["direct", "evidence"]
    assert len(found.questions) == 200
    assert len(asked_traits(found)) == 100
    assert found.expansion is not None
    assert list(found.expansion.templates) == ["T1", "T4"]
    with pytest.raises(Fp2Error, match="Did you mean 'evidence'"):
        battery("probe.select=[evidense]")


def test_any_wording_words_and_instruction_of_ones_own() -> None:
    found = battery(OWN_TEXT, OWN_WORDS, "probe.options.instruction=null")
    assert [(q.question_id, q.text) for q in found.questions] == [
        ("A_kind", "Is the person kind?"),
        ("A_cruel", "Is the person cruel?"),
        ("B_kind", "Are they kind, do you think?"),
        ("B_cruel", "Are they cruel, do you think?"),
    ]
    assert [trait.polarity for trait in asked_traits(found)] == ["positive", "negative"]
    asked = battery(OWN_TEXT, OWN_WORDS, "probe.options.instruction=Yes or no?", "probe.select=[B]").questions
    assert asked[0].text == "Are they kind, do you think? Yes or no?"
    assert len(asked) == 2


def test_the_official_list_takes_the_place_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "selected_trait_words.csv"
    path.write_text("WORD_ENGLISH,VAL_MEAN,pos/neg\ndown-to-earth,1.5,positive\nshort tempered,-1.5,negative\n")
    found = battery(f"probe.traits_file={path}")
    assert len(found.questions) == 10
    assert found.questions[1].text.startswith("Is the person in the image short tempered? Answer")
    assert found.questions[1].question_id == "T1_short tempered"
    with pytest.raises(Fp2Error, match="both given"):
        battery(f"probe.traits_file={path}", OWN_WORDS)


def test_words_and_wording_are_in_the_config_hash_and_a_path_is_not(tmp_path: Path) -> None:
    rows = "WORD_ENGLISH,VAL_MEAN,pos/neg\nkind,2.6,positive\n"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "words.csv").write_text(rows)
    hashes = [
        config_hash(config(*overrides))
        for overrides in (
            [],
            [OWN_TEXT],
            [OWN_WORDS],
            [f"probe.traits_file={tmp_path}/a/words.csv"],
            ["probe.options.instruction=null"],
            ["probe.options.permutations=50"],
            ["probe.select=[direct]"],
        )
    ]
    assert len(set(hashes)) == len(hashes)
    assert config_hash(config(f"probe.traits_file={tmp_path}/b/words.csv")) == hashes[3]
    (tmp_path / "b" / "words.csv").write_text(rows.replace("2.6", "2.5"))
    assert config_hash(config(f"probe.traits_file={tmp_path}/b/words.csv")) != hashes[3]


def test_a_battery_may_mix_traits_with_questions_of_its_own() -> None:
    plain = {"id": "name", "text": "What is their name?"}
    found = loaded(
        probes={"p": {"questions": [plain, question()]}}, traits={"kind": 1.0}, options={"instruction": "Y/N"}
    )
    assert [q.text for q in found.questions] == ["What is their name?", "Is the person kind? Y/N"]
    assert [q.kind for q in found.questions] == ["text", "yes_no"]
    both = {"p": {"questions": [question()]}, "q": {"questions": [plain]}}
    assert loaded(probes=both).subset(["q"]).expansion is None


def test_the_asked_text_has_no_stray_blanks() -> None:
    found = loaded(probes={"p": {"questions": [question(text="Is the person    {trait}?\n ")]}}, traits={"kind": 1})
    assert found.questions[0].text == "Is the person kind?"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"templates": {"A": "Is the person kind?"}}, "the template 'A' has no {trait}"),
        ({"templates": ["Is the person {trait}?"]}, "not a mapping of names to texts"),
        ({"templates": {"A": "{trait} or not {trait}?"}}, "more than once"),
        ({"traits": {"kind": "nice"}}, "neither positive nor negative"),
        ({"traits_file": "/nowhere.csv"}, "cannot be read"),
        ({"probes": {"p": {"questions": [{"id": "a", "text": "Who?"}]}}, "traits": {"kind": 1}}, "asks about traits"),
        ({"probes": {"p": {"questions": [question(), "{trait}"]}}}, "not a mapping with"),
        ({"probes": {"p": {"questions": [{"text": "Is it {trait}?"}]}}}, "'id' is missing"),
        ({"probes": {"p": "{trait}"}}, "not a mapping with"),
        ({"probes": {"p": {"questions": [question(), question()]}}}, "occurs twice"),
    ],
)
def test_a_mistake_is_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says) as told:
        loaded(**changes)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("given", ["[a]", "{a: b}", "5", "true"])
def test_an_instruction_that_is_no_text_is_refused(given: str) -> None:
    with pytest.raises(Fp2Error, match=r"not text \(probe\.options\.instruction\)"):
        battery(f"probe.options.instruction={given}")


def test_one_text_under_two_names_is_refused_up_to_blanks() -> None:
    with pytest.raises(Fp2Error, match="'A' and 'B' have one text"):
        battery("probe.templates={A: 'Is the person {trait}?', B: ' Is  the person {trait}? '}")
    twice = {"questions": [question(), question(id="U", text="Is the  person {trait}?")]}
    with pytest.raises(Fp2Error, match="'T' and 'U' have one text"):
        loaded(probes={"p": twice})
