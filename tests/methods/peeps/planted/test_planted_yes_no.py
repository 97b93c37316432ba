"""The simulator answers Yes and No: planted effects are recovered, planted zeros are exactly zero."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.errors import Fp2Error
from fp2.methods.peeps.planted.engine import PlantedEngine, simulate_yes_no
from fp2.methods.peeps.planted.truth import PlantedTruth, load_truth
from fp2.tables import Answer, ImageTask, Question

WORDS = ("kind", "cruel", "patient", "lazy")
TEMPLATES = {"T1": "Is the person {trait}?", "T4": "Based on the image, is the person {trait}?"}
QUESTIONS = tuple(
    Question(f"{name}_{word}", name, text.replace("{trait}", word), "yes_no", name, word)
    for name, text in TEMPLATES.items()
    for word in WORDS
)
STILL = {"subject_sd": 0, "image_sd": 0}
TONES = {"I": 0.2, "VI": -0.3}


def truth_of(errors: float = 0.0, **yes_no: Any) -> PlantedTruth:
    return load_truth({"yes_no": yes_no, "errors": {"rate": errors}})


def crowd(n_subjects: int, n_images: int = 1) -> pd.DataFrame:
    subjects = np.arange(n_subjects * n_images) // n_images
    return pd.DataFrame(
        {
            "image_id": [f"i{number}" for number in range(len(subjects))],
            "subject_id": [f"s{subject}" for subject in subjects],
            "attr_tone": [[("I", "III", "VI")[s % 3]] for s in subjects],
        }
    )


def tasks_of(people: pd.DataFrame) -> list[ImageTask]:
    return [
        ImageTask(
            row.image_id,
            row.subject_id,
            Path("/nowhere.png"),
            "0" * 64,
            QUESTIONS,
            attributes={"tone": tuple(row.attr_tone)},
        )
        for row in people.itertuples()
    ]


def log_odds(people: pd.DataFrame, truth: PlantedTruth) -> pd.DataFrame:
    found = simulate_yes_no(people, QUESTIONS, truth)["logit_difference"]
    return pd.DataFrame(found, index=people["image_id"], columns=[q.question_id for q in QUESTIONS])


def answered(truth: PlantedTruth, tasks: list[ImageTask], batch: int = 64) -> dict[tuple[str, str], Answer]:
    return {
        (a.image_id, a.question_id): a for part in PlantedEngine(truth, batch_size=batch).answer(tasks) for a in part
    }


def test_the_numbers_of_an_answer_belong_together() -> None:
    found = simulate_yes_no(crowd(50), QUESTIONS, truth_of(mass={"base": 0.8}, first_token=0.5))
    assert {values.dtype for values in found.values()} == {np.dtype("float32")}
    assert found["mass"] == pytest.approx(0.8)
    assert found["p_yes"] + found["p_no"] == pytest.approx(found["mass"], abs=1e-6)
    assert found["p_yes_first_token"] == pytest.approx(0.5 * found["p_yes"])
    assert found["p_yes_norm"] == pytest.approx(found["p_yes"] / found["mass"], abs=1e-6)
    assert found["logit_difference"] == pytest.approx(np.log(found["p_yes"] / found["p_no"]), abs=1e-4)


def test_order_and_batches_change_no_answer() -> None:
    truth, tasks = truth_of(0.1, effects={"tone": TONES}), tasks_of(crowd(40, 2))
    expected = answered(truth, tasks)
    shuffled = [dataclasses.replace(task, questions=task.questions[::-1]) for task in tasks]
    shuffled[::2] = [dataclasses.replace(task, questions=task.questions[:3]) for task in shuffled[::2]]
    random.Random(1).shuffle(shuffled)
    for key, answer in answered(truth, shuffled, batch=7).items():
        assert answer == expected[key]


def test_the_engine_gives_what_simulate_gives() -> None:
    truth, people = truth_of(0.1), crowd(30)
    table = simulate_yes_no(people, QUESTIONS, truth)
    found = answered(truth, tasks_of(people))
    for row, image in enumerate(people["image_id"]):
        for place, question in enumerate(QUESTIONS):
            answer = found[image, question.question_id]
            if np.isnan(table["p_yes"][row, place]):
                assert (answer.status, answer.text, answer.error) == ("error", None, "planted error")
            else:
                assert answer.numbers == {name: float(values[row, place]) for name, values in table.items()}
                assert answer.text == ("Yes" if table["logit_difference"][row, place] >= 0 else "No")


def test_without_noise_log_odds_are_the_sum_that_is_planted() -> None:
    truth = truth_of(
        base=0.1,
        traits={"kind": 0.5, "cruel": -1.0, "patient": 0.0, "lazy": 0.0},
        templates={"T4": -0.3},
        item_sd=0,
        effects={"tone": TONES},
        unaffected=["patient"],
        trait_effects={"lazy": {"tone": {"I": 0.7}}},
        valences={"lazy": -2.0},
        noise=STILL,
    )
    people = crowd(9)
    found = log_odds(people, truth)
    for image, tones in zip(people["image_id"], people["attr_tone"], strict=True):
        group = TONES.get(tones[0], 0.0)
        expected = {
            "kind": 0.6 + 2.6 * group,
            "cruel": -0.9 - 2.9 * group,
            "patient": 0.1,
            "lazy": 0.1 - 2.0 * group + 0.7 * (tones[0] == "I"),
        }
        for word, value in expected.items():
            assert found.loc[image, f"T1_{word}"] == pytest.approx(value, abs=1e-6)
            assert found.loc[image, f"T4_{word}"] == pytest.approx(value - 0.3, abs=1e-6)


def test_bases_that_are_not_given_are_drawn_by_trait_and_by_item() -> None:
    one = log_odds(crowd(1), truth_of(item_sd=0, noise=STILL)).iloc[0]
    assert one["T1_kind"] == one["T4_kind"] != one["T1_cruel"]
    both = log_odds(crowd(1), truth_of(item_sd=0.5, noise=STILL)).iloc[0]
    assert both["T1_kind"] != both["T4_kind"]


@pytest.mark.parametrize("templates", [0.0, 0.6, 1.0])
def test_the_correlation_of_templates_is_the_planted_one(templates: float) -> None:
    noise = {"subject_sd": 0, "image_sd": 1, "templates": templates}
    found = log_odds(crowd(4000), truth_of(noise=noise)).corr()
    assert found.loc["T1_kind", "T4_kind"] == pytest.approx(templates, abs=0.05)
    assert abs(found.loc["T1_kind", "T1_cruel"]) < 0.06


def test_subject_noise_is_in_all_images_and_a_halo_has_the_sign_of_the_valence() -> None:
    people = crowd(3000, 2)
    noise = {"subject_sd": 0.8, "image_sd": 0.6, "traits": 0.5, "templates": 0.5}
    found = log_odds(people, truth_of(noise=noise))
    first, second = found.iloc[::2]["T1_kind"].to_numpy(), found.iloc[1::2]["T1_kind"].to_numpy()
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.64, abs=0.04)
    assert np.corrcoef(first, found.iloc[::2]["T1_cruel"])[0, 1] == pytest.approx(0.32, abs=0.05)
    halo = log_odds(people, truth_of(noise={**STILL, "halo_sd": 0.3})).corr()
    assert halo.loc["T1_kind", "T1_patient"] == pytest.approx(1)
    assert halo.loc["T1_kind", "T1_cruel"] == pytest.approx(-1)


def test_low_mass_and_failures_are_where_they_are_planted() -> None:
    mass = {"base": 0.9, "by": {"tone": {"VI": -0.6}}}
    people = crowd(3000)
    spec = {"yes_no": {"mass": mass}, "errors": {"rate": 0.05, "by": {"tone": {"I": 0.2}}}}
    found = simulate_yes_no(people, QUESTIONS, load_truth(spec))
    tone = people["attr_tone"].str[0].to_numpy()
    assert np.nanmean(found["mass"][tone == "VI"]) == pytest.approx(0.3)
    assert np.nanmean(found["mass"][tone == "I"]) == pytest.approx(0.9)
    lost = np.isnan(found["p_yes"]).mean(axis=1)
    assert lost[tone == "I"].mean() == pytest.approx(0.25, abs=0.02)
    assert lost[tone == "VI"].mean() == pytest.approx(0.05, abs=0.01)
    assert all(np.array_equal(np.isnan(values), np.isnan(found["p_yes"])) for values in found.values())


def test_a_trait_of_unknown_valence_is_refused_only_where_it_matters(tmp_path: Path) -> None:
    task = tasks_of(crowd(1))[0]
    odd = dataclasses.replace(task, questions=(Question("q", "p", "Is the person blue?", "yes_no", "T1", "blue"),))
    effects: dict[str, Any] = {"effects": {"tone": TONES}}
    (lost,) = answered(truth_of(**effects), [odd]).values()
    assert "no valence of the trait 'blue'" in (lost.error or "")
    listed = tmp_path / "selected_trait_words.csv"
    listed.write_text("WORD_ENGLISH,VAL_MEAN,pos/neg\nblue,0.5,positive\n")
    for known in ({}, {**effects, "valences": {"blue": 1}}, {**effects, "unaffected": ["blue"]}):
        (found,) = answered(truth_of(**known), [odd]).values()
        assert found.status == "answered"
    (found,) = answered(truth_of(**effects, valences=str(listed)), [odd]).values()
    (same,) = answered(truth_of(**effects, valences={"blue": 0.5}), [odd]).values()
    assert found == same


def test_the_yes_no_part_is_in_the_method_and_answers_in_words_keep_their_identity() -> None:
    plain, other = PlantedEngine(truth_of()), PlantedEngine(truth_of(base=1.0))
    word = Question("w", "p", "What do you think?")
    assert plain.identity() == other.identity()
    assert plain.method(word) == other.method(word)
    assert plain.method(QUESTIONS[0]) != other.method(QUESTIONS[0])
    seeded = load_truth({"seed": 5})
    assert not np.array_equal(
        simulate_yes_no(crowd(3), QUESTIONS, seeded)["p_yes"], simulate_yes_no(crowd(3), QUESTIONS, truth_of())["p_yes"]
    )


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"effect": {}}, "Did you mean 'effects'"),
        ({"noise": {"template": 1}}, "Did you mean 'templates'"),
        ({"noise": {"templates": 2}}, "2 is not at most 1 .*yes_no.noise.templates"),
        ({"noise": {"image_sd": -1}}, "-1 is not at least 0 .*yes_no.noise.image_sd"),
        ({"mass": {"base": 1.2}}, "yes_no.mass.base"),
        ({"first_token": "most"}, "yes_no.first_token"),
        ({"unaffected": "kind"}, "'kind' is not a list.*yes_no.unaffected"),
        ({"trait_effects": {"kind": {"tone": 1}}}, "1 is not a mapping.*.*trait_effects.kind.tone"),
    ],
)
def test_a_wrong_truth_is_one_clear_line(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says) as told:
        truth_of(**spec)
    assert "\n" not in str(told.value)


def test_a_misspelt_attribute_is_not_silently_no_effect() -> None:
    with pytest.raises(Fp2Error, match="Did you mean 'tone'"):
        simulate_yes_no(crowd(3), QUESTIONS, truth_of(effects={"tome": TONES}))
