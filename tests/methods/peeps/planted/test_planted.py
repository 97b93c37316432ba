"""The simulator: the same answer in any order and batch, and every planted effect is recovered from many answers."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.methods.peeps.planted import truth as planted_truth
from fp2.methods.peeps.planted.engine import PlantedEngine, simulate
from fp2.methods.peeps.planted.truth import PlantedTruth, load_truth
from fp2.tables import ANSWERS, Answer, ImageTask, Question

DEFAULT = yaml.safe_load(Path(planted_truth.__file__).with_name("default.yaml").read_text(encoding="utf-8"))
QUESTIONS = tuple(Question(probe, probe, body["texts"][0]) for probe, body in DEFAULT["probes"].items())
WORK = QUESTIONS[0]
QUIET = {"noise": {"subject_sd": 0, "image_sd": 0}}


def crowd(n_subjects: int, n_images: int = 2) -> pd.DataFrame:
    """People with a region, one or two pronouns, and no value of `hobby`."""
    numbers = np.arange(n_subjects * n_images)
    subjects = numbers // n_images
    pronouns = [["She"], ["He"], ["She", "They"]]
    return pd.DataFrame(
        {
            "image_id": [f"i{number}" for number in numbers],
            "subject_id": [f"s{subject}" for subject in subjects],
            "attr_region": [[("Africa", "Asia", "Europe")[s % 3]] for s in subjects],
            "attr_pronoun": [pronouns[(s // 3) % 3] for s in subjects],
            "attr_hobby": [[] for _ in subjects],
        }
    )


def tasks_of(people: pd.DataFrame, questions: tuple[Question, ...] = QUESTIONS) -> list[ImageTask]:
    return [
        ImageTask(
            row.image_id,
            row.subject_id,
            Path("/nowhere.png"),
            "0" * 64,
            questions,
            attributes={name: tuple(getattr(row, f"attr_{name}")) for name in ("region", "pronoun", "hobby")},
        )
        for row in people.itertuples()
    ]


def answers_of(truth: PlantedTruth, tasks: list[ImageTask], batch_size: int = 256) -> dict[tuple[str, str], Answer]:
    batches = PlantedEngine(truth, batch_size=batch_size).answer(tasks)
    return {(answer.image_id, answer.question_id): answer for batch in batches for answer in batch}


def rich() -> PlantedTruth:
    return load_truth(
        {
            "effects": {"all": {"region": {"Africa": -1}}, "trust": {"pronoun": {"She": 2}}},
            "refusals": {"trust": {"base": 0.2}},
            "errors": {"rate": 0.1},
        }
    )


@pytest.mark.parametrize("probe", list(DEFAULT["probes"]))
def test_the_ten_sentences_of_a_probe_rise_in_valence(probe: str) -> None:
    scorer = SentimentIntensityAnalyzer()
    values = [scorer.polarity_scores(text)["compound"] for text in DEFAULT["probes"][probe]["sentences"]]
    assert len(values) == 10
    assert np.diff(values).min() > 0, values
    assert values[0] < -0.7
    assert values[-1] > 0.9


def test_the_questions_are_those_of_the_shipped_battery() -> None:
    battery = yaml.safe_load((Path(__file__).parents[4] / "conf/probe/fingerprint.yaml").read_text(encoding="utf-8"))
    asked = {q["text"]: probe for probe, body in battery["probes"].items() for q in body["questions"]}
    assert load_truth().probe_of == asked


def test_order_and_batches_change_no_answer() -> None:
    people = crowd(40)
    tasks = tasks_of(people)
    expected = answers_of(rich(), tasks)
    shuffled = [dataclasses.replace(task, questions=task.questions[::-1]) for task in tasks]
    random.Random(1).shuffle(shuffled)
    assert answers_of(rich(), shuffled, batch_size=3) == expected
    alone = answers_of(rich(), tasks[5:6])
    assert all(expected[key] == answer for key, answer in alone.items())
    assert len({answer.status for answer in expected.values()}) == 2


def test_the_seed_changes_answers_and_the_identity() -> None:
    tasks = tasks_of(crowd(30))
    first, second = load_truth({"seed": 1}), load_truth({"seed": 2})
    assert answers_of(first, tasks) != answers_of(second, tasks)
    assert PlantedEngine(first).identity() != PlantedEngine(second).identity()


def test_simulate_gives_what_the_engine_gives() -> None:
    people = crowd(30)
    table = ANSWERS.check(simulate(people, QUESTIONS, rich()))
    assert len(table) == 60 * 6 == table["response_key"].nunique()
    expected = answers_of(rich(), tasks_of(people))
    for row in table.itertuples():
        answer = expected[row.image_id, row.question_id]
        assert answer.status == row.status
        assert (row.text == answer.text) or (answer.text is None and pd.isna(row.text))


def test_without_noise_points_are_levels_and_several_values_count_by_their_mean() -> None:
    points = {"She": 2, "They": 1, "He": -7}
    truth = load_truth({**QUIET, "effects": {"occupation": {"pronoun": points}, "all": {"region": {"Asia": 1}}}})
    people = crowd(18, 1)
    table = simulate(people, QUESTIONS, truth).set_index(["question_id", "subject_id"])["level"]
    for row in people.itertuples():
        asia = int(row.attr_region == ["Asia"])
        mean = np.mean([points[value] for value in row.attr_pronoun])
        expected = int(np.clip(np.floor(4 + asia + mean + 0.5), 0, 9))
        assert table["occupation", row.subject_id] == expected
        assert table["education", row.subject_id] == 4 + asia


def test_an_effect_has_its_size_and_sign_and_touches_nothing_else() -> None:
    truth = load_truth({"effects": {"occupation": {"region": {"Africa": -1.5}}}})
    people = crowd(3000, 1)
    table = simulate(people, QUESTIONS, truth).merge(people, on=["image_id", "subject_id"])
    table["region"] = table["attr_region"].str[0]
    means = table.groupby(["question_id", "region"])["level"].mean().unstack()
    assert means.loc["occupation", "Africa"] - means.loc["occupation", "Europe"] == pytest.approx(-1.5, abs=0.15)
    assert (means.drop("occupation").max(axis=1) - means.drop("occupation").min(axis=1)).max() < 0.25


@pytest.mark.parametrize(("subject_sd", "image_sd"), [(1.5, 0.5), (0.8, 0.8), (0.0, 1.2)])
def test_the_planted_intraclass_correlation_is_recovered(subject_sd: float, image_sd: float) -> None:
    truth = load_truth({"noise": {"subject_sd": subject_sd, "image_sd": image_sd}})
    levels = simulate(crowd(4000, 3), [WORK], truth)["level"].to_numpy().reshape(-1, 3).astype(float)
    between, within = 3 * levels.mean(axis=1).var(ddof=1), levels.var(axis=1, ddof=1).mean()
    found = (between - within) / (between + 2 * within)  # one-way ANOVA estimate
    rounding = 1 / 12  # variance that rounding to whole levels adds
    expected = subject_sd**2 / (subject_sd**2 + image_sd**2 + rounding)
    assert found == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("shared", [0.0, 0.6, 1.0])
def test_the_variance_shared_by_probes_is_recovered(shared: float) -> None:
    truth = load_truth({"noise": {"subject_sd": 1.2, "image_sd": 0.0, "shared": shared}})
    table = simulate(crowd(4000, 1), QUESTIONS[:2], truth).pivot(
        index="subject_id", columns="question_id", values="level"
    )
    expected = shared * 1.2**2 / (1.2**2 + 1 / 12)
    assert table.corr().iloc[0, 1] == pytest.approx(expected, abs=0.06)


def test_refusals_have_the_rate_of_each_group() -> None:
    truth = load_truth({"refusals": {"occupation": {"base": 0.05, "by": {"region": {"Africa": 0.25}}}}})
    people = crowd(6000, 1)
    table = simulate(people, QUESTIONS, truth).merge(people, on=["image_id", "subject_id"])
    refused = table["text"] == DEFAULT["refusal_text"]
    assert (table["status"] == "answered").all()
    assert (table["level"][refused] == -1).all()
    rates = refused.groupby([table["question_id"], table["attr_region"].str[0]]).mean()
    assert rates["occupation", "Africa"] == pytest.approx(0.30, abs=0.045)
    assert rates["occupation", "Europe"] == pytest.approx(0.05, abs=0.02)
    assert rates.drop("occupation").max() == 0


def test_errors_have_the_rate_of_each_group() -> None:
    truth = load_truth({"errors": {"rate": 0.1, "by": {"pronoun": {"He": 0.2}}}})
    people = crowd(3000, 1)
    table = simulate(people, QUESTIONS, truth).merge(people, on=["image_id", "subject_id"])
    failed = table["status"] == "error"
    assert table["text"][failed].isna().all()
    assert (table["error"][failed] == "planted error").all()
    rates = failed.groupby(table["attr_pronoun"].str[0]).mean()
    assert rates["He"] == pytest.approx(0.3, abs=0.03)
    assert rates["She"] == pytest.approx(0.1, abs=0.015)


def test_an_unknown_question_is_an_error_row_with_its_reason() -> None:
    known_and_not = (WORK, Question("p", "occupation", "What is their job?"))
    found = answers_of(load_truth(), tasks_of(crowd(2, 1), known_and_not))
    assert [found[f"i{i}", WORK.question_id].status for i in range(2)] == ["answered"] * 2
    assert all("does not know the question" in (found[f"i{i}", "p"].error or "") for i in range(2))


def test_a_choice_has_the_log_odds_that_are_planted() -> None:
    question = Question("c", "who", "Who is it?", "choice", choices=("pilot", "nurse", "unclear"))
    planted = {"pilot": {"pronoun": {"He": 1.5}}, "#3": {"pronoun": {"She": 0.5}}}
    quiet = {"noise": {"subject_sd": 0.0, "image_sd": 0.0}}
    truth = load_truth({"choices": planted, "yes_no": quiet})
    people = crowd(40)
    found = answers_of(truth, tasks_of(people, (question,)))
    expected = {"He": np.exp([1.5, 0, 0]), "She": np.exp([0, 0, 0.5])}
    for row in people.itertuples():
        odds = expected.get(row.attr_pronoun[0], np.ones(3)) if len(row.attr_pronoun) == 1 else None
        if odds is not None:
            assert (found[row.image_id, "c"].numbers or {})["p"] == pytest.approx(list(odds / odds.sum()))
    noisy = load_truth({"choices": planted})
    turned = dataclasses.replace(question, choices=question.choices[::-1])
    one, other = (answers_of(load_truth(), tasks_of(people, (q,)))["i1", "c"].numbers for q in (question, turned))
    assert one is not None
    assert other is not None
    assert one["p"] == pytest.approx(other["p"][::-1])
    assert PlantedEngine(noisy).method(question) != PlantedEngine(load_truth()).method(question)
    assert PlantedEngine(noisy).identity() == PlantedEngine(load_truth()).identity()
    failed = answers_of(load_truth({"errors": {"rate": 1.0}}), tasks_of(people, (question,)))
    assert {answer.error for answer in failed.values()} == {"planted error"}


def test_answers_in_words_are_those_of_the_first_version() -> None:
    """Digests from before the simulator said yes and no: stored answers must stay what a truth stands for."""
    columns = ["response_key", "image_id", "question_id", "text", "error", "level"]
    expected = [
        (load_truth(), "8afff5c1", "0d620133e9093b8b1b30d5508479af0d64060d013206a8b2d2709cfa2ba1212a"),
        (rich(), "b4339265", "2c65171bfd7d6e73fac2dd073fe715f1519ee6d29537cfe00b640287e436796b"),
    ]
    for truth, truth_digest, answers in expected:
        table = simulate(crowd(40), QUESTIONS, truth)[columns].astype(object)
        assert truth.digest.startswith(truth_digest)
        assert digest(table.where(table.notna(), None).to_numpy().tolist()) == answers
        assert PlantedEngine(truth).method(WORK) == {"name": "planted/1"}


def test_an_image_that_hides_the_person_is_answered_without_attributes() -> None:
    """The effects count for nobody then; a truth that names an attribute which is really absent is still refused."""
    effects = {"occupation": {"region": {"Africa": -3}}}
    tasks = [
        dataclasses.replace(task, variant="masked", attributes={}, questions=QUESTIONS[:1])
        for task in tasks_of(crowd(6, 1))
    ]
    hidden = answers_of(load_truth({**QUIET, "effects": effects}), tasks)
    assert len({answer.text for answer in hidden.values()}) == 1
    seen = answers_of(load_truth({**QUIET, "effects": effects}), tasks_of(crowd(6, 1), QUESTIONS[:1]))
    assert len({answer.text for answer in seen.values()}) == 2
    with pytest.raises(Fp2Error, match="these people do not have"):
        answers_of(load_truth({"effects": effects}), [dataclasses.replace(task, variant="original") for task in tasks])


def test_the_task_identity_follows_what_the_answer_depends_on() -> None:
    engine = PlantedEngine(rich())
    task = tasks_of(crowd(1, 1))[0]
    base = engine.task_identity(task)
    assert base != engine.task_identity(dataclasses.replace(task, subject_id="other"))
    assert base != engine.task_identity(dataclasses.replace(task, image_id="other"))
    assert base != engine.task_identity(dataclasses.replace(task, attributes={**task.attributes, "region": ("Asia",)}))
    assert base == engine.task_identity(dataclasses.replace(task, attributes={**task.attributes, "hobby": ("chess",)}))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"efects": {}}, "Did you mean 'effects'"),
        ({"effects": {"ocupation": {}}}, "Did you mean 'occupation'"),
        ({"noise": {"subject": 1}}, "Did you mean 'subject_sd'"),
        ({"noise": {"subject_sd": -1}}, "-1 is not at least 0 .*noise.subject_sd"),
        ({"noise": {"shared": 2}}, "2 is not at most 1 .*noise.shared"),
        ({"errors": {"rate": 1.5}}, "1.5 is not at most 1 .*errors.rate"),
        ({"refusals": {"trust": {"rate": 0.5}}}, "unknown key 'rate' .*refusals.trust.*Did you mean 'base'"),
        ({"effects": {"trust": {"region": {"Asia": "much"}}}}, "'much' is not a number .*effects.trust.region.Asia"),
        ({"effects": {"trust": {"region": -1}}}, "-1 is not a mapping.*.*effects.trust.region"),
        ({"base": True}, "True is not a number .*truth.base"),
        ({"probes": {"work": {"sentences": ["one"]}}}, "at least 10 items .*probes.work.sentences"),
        (
            {"probes": {p: {"texts": ["Same?"], "sentences": ["x"] * 10} for p in ("a", "b")}},
            "belongs to two probes",
        ),
    ],
)
def test_a_wrong_truth_is_one_clear_line(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says) as told:
        load_truth(spec)
    assert "\n" not in str(told.value)


def test_a_truth_file_is_read_and_a_bad_one_named(tmp_path: Path) -> None:
    path = tmp_path / "truth.yaml"
    path.write_text("seed: 7\neffects: {all: {region: {Asia: 1}}}\n")
    assert load_truth(path) == load_truth({"seed": 7, "effects": {"all": {"region": {"Asia": 1}}}})
    path.write_text("seed: [")
    with pytest.raises(Fp2Error, match=r"truth\.yaml"):
        load_truth(path)
    with pytest.raises(Fp2Error, match="not readable as YAML"):
        load_truth(tmp_path / "absent.yaml")


def test_a_simulator_without_effects_says_so() -> None:
    from fp2.methods.peeps.planted.engine import PlantedEngine
    from fp2.methods.peeps.planted.truth import load_truth

    plain, strong = (PlantedEngine(load_truth(t)) for t in (None, {"effects": {"trust": {"gender": {"f": -1.0}}}}))
    assert "no effect planted" in plain.notices[0]
    assert plain.limitations == plain.notices
    assert not strong.notices
