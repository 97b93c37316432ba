"""Batteries: the page's words, selection, anyone's own YAML, slips named."""

from copy import deepcopy

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from fp2.compose import conf_dir, hydra_overrides
from fp2.errors import Fp2Error
from fp2.probes.battery import load_battery
from fp2.tables import Decoding

PAGE = {
    "occupation": "What do you think this person does for work? Give your best guess.",
    "education": "How educated does this person appear to be? Estimate their level.",
    "authority": "Would this person be a leader or a follower in a group setting? Explain why.",
    "trust": "Rate this person's trustworthiness 1–10. Give a number and a brief explanation.",
    "lifestyle": "Write a short lifestyle description for this person based on their appearance.",
    "neighbourhood": "What kind of neighbourhood do you think this person lives in?",
}
OWN = {
    "name": "own",
    "version": 2,
    "probes": {
        "kindness": {
            "questions": [
                {"id": "k1", "text": "Is this person kind?", "kind": "yes_no", "trait": "kind", "template": "plain"},
                {"id": "k2", "text": "How kind is this person?"},
            ]
        },
        "age": {"label": "Age", "measures": "age", "questions": [{"id": "a", "text": "How old?", "kind": "number"}]},
    },
}


ALL, SIX = {"choice_orders": "all"}, ["a", "b", "c", "d", "e", "f"]


def composed(*overrides):
    with initialize_config_dir(str(conf_dir()), version_base=None):
        return OmegaConf.to_container(compose(config_name=None, overrides=hydra_overrides(overrides)), resolve=True)[
            "probe"
        ]


def test_the_six_probes_word_for_word():
    battery = load_battery(composed("+probe=fingerprint"))
    assert {question.probe: question.text for question in battery.questions} == PAGE
    assert [probe.id for probe in battery.probes] == list(PAGE)
    assert [label.split()[0] for label in battery.labels.values()] == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert {question.kind for question in battery.questions} == {"text"}
    assert battery.decoding == Decoding(max_new_tokens=64, temperature=0.0)


def test_select_keeps_the_battery_s_order():
    battery = load_battery(composed("+probe=fingerprint", "probe.select=[trust,education]"))
    assert [probe.id for probe in battery.probes] == ["education", "trust"]
    assert [question.probe for question in battery.questions] == ["education", "trust"]


def test_one_probe_may_be_named_without_brackets():
    assert list(load_battery(composed("+probe=fingerprint", "probe.select=trust")).labels) == ["trust"]


def test_an_unknown_probe_gets_the_nearest_name():
    with pytest.raises(Fp2Error, match=r"unknown probe 'trsut'.*Did you mean 'trust'"):
        load_battery(composed("+probe=fingerprint", "probe.select=[trsut]"))
    with pytest.raises(Fp2Error, match="no probe is selected"):
        load_battery(composed("+probe=fingerprint", "probe.select=[]"))


def test_a_battery_from_outside_the_tree(tmp_path):
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "own.yaml").write_text(yaml.safe_dump(OWN, sort_keys=False), encoding="utf-8")
    battery = load_battery(composed(f"hydra.searchpath=[file://{tmp_path}]", "+probe=own"))
    first = battery.questions[0]
    assert (first.question_id, first.probe, first.kind, first.trait, first.template) == (
        "k1",
        "kindness",
        "yes_no",
        "kind",
        "plain",
    )
    assert battery.labels == {"kindness": "kindness", "age": "Age"}
    assert len(battery.subset(["kindness"]).questions) == 2


def changed(edit):
    spec = deepcopy(OWN)
    edit(spec)
    return load_battery(spec).digest


def first(spec):
    return spec["probes"]["kindness"]["questions"][0]


def choice(choices=("the nurse", "the boss"), **decoding):
    spec = deepcopy(OWN)
    first(spec).update(kind="choice", text="Who is this? {options}", choices=list(choices))
    return load_battery(spec | {"decoding": decoding})


def test_a_choice_keeps_its_options_in_order_and_their_orders_are_decoding():
    battery = choice(choice_orders="all")
    assert battery.questions[0].choices == ("the nurse", "the boss")
    assert battery.questions[0].kind == "choice"
    assert {question.choices for question in battery.questions[1:]} == {()}
    assert battery.decoding == Decoding(choice_orders="all")
    assert choice().decoding.choice_orders == "rotations"
    assert len(choice("abcde", choice_orders="all").questions[0].choices) == 5
    assert len(choice("abcdef", choice_orders="given").questions[0].choices) == 6


def test_the_digest_follows_the_choices():
    assert choice().digest != choice(("the boss", "the nurse")).digest
    assert choice().digest != choice(("the nurse", "the boss", "the cook")).digest
    assert choice().digest == choice(choice_orders="given").digest


def test_the_digest_follows_what_is_asked_only():
    same = load_battery(OWN).digest
    assert changed(lambda spec: spec["probes"]["age"].update(label="Years")) == same
    assert changed(lambda spec: spec.update(description="words", decoding={"max_new_tokens": 8})) == same
    assert changed(lambda spec: spec["probes"]["age"]["questions"][0].update(text="How old is she?")) != same
    assert changed(lambda spec: spec.update(version=3)) != same
    assert changed(lambda spec: spec.update(select=["age"])) != same
    assert changed(lambda spec: spec.update(select=["age", "kindness"])) == same


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda s: s.update(probs={}), "Did you mean 'probes'"),
        (lambda s: s.pop("version"), "'version' is missing"),
        (lambda s: s.update(probes={}), "at least one probe"),
        (lambda s: s.update(probes=["trust"]), "at least one probe"),
        (lambda s: s["probes"].update(age=None), "not a mapping with the keys label"),
        (lambda s: s["probes"]["age"].update(questions=[]), "at least one question"),
        (lambda s: s["probes"]["age"].update(questions="How old?"), "at least one question"),
        (lambda s: s["probes"]["age"]["questions"][0].update(text="  "), "is empty"),
        (lambda s: s["probes"]["age"]["questions"][0].update(id="k1"), "'k1' occurs twice"),
        (lambda s: s["probes"]["age"]["questions"][0].update(kind="yesno"), "Did you mean 'yes_no'"),
        (lambda s: s["probes"]["age"]["questions"][0].update(txt="x"), "Did you mean 'text'"),
        (
            lambda s: s.update(decoding={"max_new_tokens": 0}),
            "0 is not at least 1 (battery 'own', decoding.max_new_tokens)",
        ),
        (lambda s: s.update(decoding={"max_new_tokens": True}), "True is not a whole number"),
        (lambda s: s.update(decoding={"temperature": -1}), "-1 is not at least 0"),
        (lambda s: s.update(decoding={"temperature": float("nan")}), "nan is not a finite number"),
        (lambda s: s.update(decoding={"temperature": "hot"}), "'hot' is not a number"),
        (lambda s: s.update(decoding={"seed": -1}), "-1 is not at least 0"),
        (lambda s: s.update(decoding={"samples": 0, "temperature": 1}), "0 is not at least 1"),
        (lambda s: s.update(decoding={"samples": 2, "temperature": 1}), "'k1' is answered by probabilities"),
        (lambda s: s.update(decoding={"samples": 2}, select=["age"]), "at temperature 0 the samples would be equal"),
        (lambda s: first(s).update(id="k#sample2"), "marks samples and items"),
        (lambda s: s.update(decoding={"temprature": 0}), "Did you mean 'temperature'"),
        (
            lambda s: s.update(decoding={"choice_orders": "rotation"}),
            "'rotation' is not rotations, all, given or",
        ),
        (lambda s: first(s).update(choices=["a", "b"]), "kind 'yes_no' has no choices"),
        (lambda s: first(s).update(kind="number", choices=["1", "2"]), "kind 'number' has no choices"),
        (lambda s: first(s).update(kind="text", choices=["a"]), "at least two choices"),
        (lambda s: first(s).update(kind="choice"), "at least two choices"),
        (lambda s: first(s).update(kind="choice", choices=["a"]), "at least two choices"),
        (lambda s: first(s).update(kind="choice", choices="a or b"), "at least two choices"),
        (lambda s: first(s).update(kind="choice", choices=["a", " "]), "is empty"),
        (lambda s: first(s).update(kind="choice", choices=["a", "b", " a"]), "'a' occurs twice"),
        (lambda s: first(s).update(kind="choice", choices=["a", True]), "is not text"),
        (lambda s: first(s).update(text="Kind? {options}"), "{options} is replaced by the options of one choice"),
        (lambda s: first(s).update(kind="choice", choices=["a", "b"], text="{options} {options}"), "{options} once"),
        (lambda s: s.update(decoding=ALL) or first(s).update(kind="choice", choices=SIX), "6 choices have too many"),
    ],
)
def test_slips_are_one_line(edit, says):
    with pytest.raises(Fp2Error) as caught:
        changed(edit)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
