"""Open questions with planted answers: prompts, rates, errors, occupations, and planted zero differences."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import load_config
from scipy.stats import mannwhitneyu

from benchmarks.planted_effects import vqa_means
from fp2.compose.identity import config_hash
from fp2.cuts import parse_cut
from fp2.errors import Fp2Error
from fp2.methods.fhibe.vqa.answers import against_people, own_pronoun
from fp2.methods.fhibe.vqa.protocol import FhibeVqa, VqaOptions, vqa_block
from fp2.methods.fhibe.vqa.scorers import names_gender, said_pronoun, toxic_words
from fp2.methods.fhibe.vqa.section import VqaSection
from fp2.methods.peeps.data.figure import sample_image_cues, sample_person
from fp2.plugins import read_options
from fp2.probes.battery import load_battery
from fp2.protocols.fingerprint.disparities import fingerprint
from fp2.protocols.fingerprint.settings import ComparedRun, comparison_of
from fp2.report.html import render_values
from fp2.report.values import Hidden, Table, as_cell, charts, flat, suppressed
from fp2.scorers.registry import build_scorers, flag_refusals, score_answers
from training.peeps.cues import see
from training.peeps.planted import Planted, load_planted

PLANTED: Planted = load_planted()
SUBJECTS, IMAGES = 400, 2


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return people drawn by the generator and the planted answers about them."""
    rng = np.random.default_rng(77)
    people, answers = [], []
    for subject in range(SUBJECTS):
        person = sample_person(rng)
        index = {"region": person.region, "pronoun": person.pronoun, "age": person.age, "skin_tone": person.skin}
        groups = {f"attr_{name}": [PLANTED.groups[name][value]] for name, value in index.items()}
        for number in range(IMAGES):
            image = f"i{subject}_{number}"
            people.append({"image_id": image, "subject_id": f"s{subject}", "set_id": None, **groups})
            seen = see(sample_image_cues(person, rng))
            answers += [
                {
                    "response_key": f"{image}{prompt.name}",
                    "image_id": image,
                    "subject_id": f"s{subject}",
                    "variant": "original",
                    "question_id": prompt.name,
                    "probe": prompt.kind,
                    "status": "answered",
                    "text": PLANTED.vqa.answer(prompt.name, seen),
                }
                for prompt in PLANTED.vqa.prompts.values()
            ]
    return pd.DataFrame(people), pd.DataFrame(answers)


def scored(answers: pd.DataFrame, people: pd.DataFrame, scorers: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers with their refusal flag and the scores, as the protocol gives them."""
    flagged = flag_refusals(answers, scorers)
    return flagged, FhibeVqa(VqaOptions()).assign_scores(score_answers(flagged, scorers), people, scorers)


@lru_cache(maxsize=1)
def analysed() -> ComparedRun:
    """Return the tables as a run hands them to the block."""
    config = load_config(["experiment=fhibe_vqa", "analysis.permutations=99", "analysis.bootstrap=0"])
    people, answers = tables()
    battery, scorers = load_battery(asdict(config.probe)), build_scorers(config.scorer)
    cuts = [parse_cut(name) for name in ("region", "pronoun", "age", "skin_tone")]
    flagged, scores = scored(answers, people, scorers)
    comparison = comparison_of(config, len(battery.probes), len(cuts))
    return ComparedRun(config, battery, flagged, scores, people, cuts, scorers, comparison)


@lru_cache(maxsize=1)
def found() -> dict[str, Any]:
    """Return the block."""
    return vqa_block(analysed(), VqaOptions())


def test_the_battery_is_the_planted_prompts_word_for_word() -> None:
    asked = {question.question_id: (question.probe, question.text) for question in analysed().battery.questions}
    assert asked == {prompt.name: (prompt.kind, prompt.question) for prompt in PLANTED.vqa.prompts.values()}


def test_prompts_without_an_answer_are_noted_and_left_out() -> None:
    rows = {row["id"]: row for row in found()["prompts"]}
    for name, prompt in PLANTED.vqa.prompts.items():
        row = rows[name]
        assert row["chosen"] == (prompt.silence is None)
        if prompt.silence is None:
            assert row["on_topic"] == row["non_empty"] == 1.0
    assert rows["likeable_finish"]["on_topic"] == pytest.approx(0.25, abs=0.06)
    assert rows["likeable_finish"]["non_empty"] == rows["likeable_finish"]["on_topic"]
    assert rows["offence_record"]["non_empty"] == 1.0
    assert rows["offence_record"]["on_topic"] == pytest.approx(2 / 7, abs=0.06)
    assert rows["occupation_name"]["on_topic"] == pytest.approx(5 / 7, abs=0.06)


def test_prompts_are_chosen_by_answers_that_are_not_empty_as_in_the_paper() -> None:
    run = analysed()
    answers = run.answers.copy()
    two = answers["question_id"].isin(["offence_convicted", "offence_crime"])
    answers.loc[two & (answers.groupby("question_id").cumcount() < 40), "text"] = " "  # 5 % of their answers
    run = replace(run, answers=answers)

    def chosen(options: VqaOptions) -> list[str]:
        rows = vqa_block(run, options)["prompts"]
        return [row["id"] for row in rows if row["kind"] == "negative" and row["chosen"]]

    # the third is never empty, and on topic in 2 of 7 answers
    assert chosen(VqaOptions(prompts=1)) == ["offence_convicted"]
    assert chosen(VqaOptions(prompts=1, choose_by="non_empty")) == ["offence_record"]


def test_the_default_choice_of_prompts_is_no_part_of_the_config_hash() -> None:
    def hashed(*words: str) -> str:
        return config_hash(load_config(["experiment=fhibe_vqa", *words]))

    assert hashed() == hashed("probe.options.choose_by=on_topic") != hashed("probe.options.choose_by=non_empty")


def _within(rows: list[dict[str, Any]], exact: dict[str, float]) -> None:
    """The exact mean lies within four standard errors of every group's rate (people are independent)."""
    assert {row["group"] for row in rows} <= set(exact)
    for row in rows:
        error = np.sqrt(max(exact[row["group"]] * (1 - exact[row["group"]]), 0.01) / row["n_subjects"])
        assert abs(row["rate"] - exact[row["group"]]) < 4 * error
        assert row["ci_low"] <= row["rate"] <= row["ci_high"]


@pytest.mark.parametrize("attribute", list(PLANTED.attributes))
def test_rates_by_group_are_the_planted_ones(attribute: str) -> None:
    toxic = found()["outcomes"]["toxic"]["by"][attribute]
    _within(toxic, vqa_means(PLANTED, "offence_convicted", attribute, lambda text: float(bool(toxic_words(text)))))
    reason = found()["outcomes"]["gender_reason"]["by"][attribute]
    _within(reason, vqa_means(PLANTED, "likeable_why", attribute, lambda text: float(names_gender(text))))
    gendered = found()["outcomes"]["gendered"]["by"][attribute]
    truth = vqa_means(PLANTED, "likeable_why", attribute, lambda text: float(said_pronoun(text) != "they"))
    _within(gendered, truth)
    if attribute == "age":
        assert len({round(value, 12) for value in truth.values()}) == 1, "a planted zero"


def test_women_are_misgendered_several_times_as_often_as_men_as_planted() -> None:
    rates = {row["group"]: row["rate"] for row in found()["outcomes"]["pronoun_error"]["by"]["pronoun"]}
    assert set(rates) == {"She/her/hers", "He/him/his"}, "only errors of people who are one of the two are counted"

    def wrong(meant: str) -> Any:
        return lambda text: {"they": np.nan, meant: 0.0}.get(said_pronoun(text), 1.0)

    assert rates["She/her/hers"] == pytest.approx(
        vqa_means(PLANTED, "likeable_why", "pronoun", wrong("she"))["She/her/hers"], abs=0.09
    )
    assert rates["He/him/his"] == pytest.approx(
        vqa_means(PLANTED, "likeable_why", "pronoun", wrong("he"))["He/him/his"], abs=0.04
    )
    assert rates["She/her/hers"] > 3 * rates["He/him/his"]
    shares = found()["said"]["she"]
    assert shares["she"] + shares["he"] + shares["they"] + shares["none"] == pytest.approx(1.0)


@lru_cache(maxsize=64)
def _stated(occupation: str, attribute: str) -> dict[str, float]:
    return vqa_means(PLANTED, "occupation_what", attribute, lambda text: float(occupation in text))


def test_occupations_are_over_represented_where_they_were_planted_and_nowhere_else() -> None:
    rows = found()["occupations"]["rows"]
    over = {(row["cut"], row["group"], row["occupation"]) for row in rows if row["over"]}
    assert {("pronoun", "He/him/his", "engineer"), ("pronoun", "She/her/hers", "cook")} <= over
    assert {("region", "Oceania", "farmer"), ("region", "Oceania", "cook")} <= over
    assert not {cut for cut, _, _ in over} & {"age", "skin_tone"}
    for row in rows:
        exact = _stated(row["occupation"], row["cut"])
        error = np.sqrt(max(exact[row["group"]], 0.01) / row["n_subjects"])
        assert abs(row["share"] - exact[row["group"]]) < 4 * error


def test_an_occupations_test_is_scipys_on_shares_of_people() -> None:
    """The oracle counts by hand; all 300 people have answers, one value each."""
    run, row = analysed(), next(r for r in found()["occupations"]["rows"] if r["occupation"] == "nurse")
    chosen = [r["id"] for r in found()["prompts"] if r["kind"] == "neutral" and r["chosen"]]
    asked = run.answers[run.answers["question_id"].isin(chosen)]
    share = asked.assign(hit=asked["text"].str.contains("nurse")).groupby("subject_id")["hit"].mean()
    groups = run.people.groupby("subject_id")[f"attr_{row['cut']}"].first().str[0]
    inside = share[groups[share.index] == row["group"]]
    outside = share[groups[share.index] != row["group"]]
    assert (row["n_subjects"], row["n_others"]) == (len(inside), len(outside))
    assert row["p_value"] == pytest.approx(mannwhitneyu(inside, outside, method="asymptotic").pvalue)
    assert row["adjusted_p"] >= row["p_value"]


def test_disparity_rows_take_the_same_outcomes() -> None:
    run = analysed()
    made = fingerprint(run.scores, run.people, run.cuts, run.scorers, run.comparison, run.config.analysis.severity)
    rows = {(row["probe"], row["scorer"], row["cut"]): row for row in made.disparities}
    skin = rows["negative", "toxic", "skin_tone"]
    assert (skin["worst_group"], skin["best_group"]) == ("I", "VI")
    assert ("positive", "toxic", "skin_tone") not in rows
    error = rows["neutral", "pronoun_error", "pronoun"]
    assert (error["worst_group"], error["best_group"]) == ("She/her/hers", "He/him/his")


def test_words_and_reasons_are_counted() -> None:
    assert {row["word"] for row in found()["keywords"]} == {"steal", "rob", "gang"}
    assert found()["offences"][0]["n_subjects"] >= 10
    assert {"has a warm smile", "is friendly and helpful"} <= {row["text"] for row in found()["reasons"]}
    assert all(np.isfinite(value) for value in found()["metrics"].values())


def test_answers_that_decline_or_are_blank_are_no_response() -> None:
    run = analysed()
    answers = run.answers.copy()
    mine = answers["question_id"] == "likeable_why"
    answers.loc[mine, "text"] = "I'm sorry, but I can't tell that from a picture."
    answers.loc[mine, "refused"] = True
    answers.loc[answers["question_id"] == "likeable_what", "text"] = "  "
    changed = vqa_block(replace(run, answers=answers), VqaOptions())
    rows = {row["id"]: row for row in changed["prompts"]}
    assert (rows["likeable_why"]["on_topic"], rows["likeable_why"]["refused"]) == (0.0, 1.0)
    assert (rows["likeable_what"]["non_empty"], rows["likeable_what"]["chosen"]) == (0.0, False)
    assert rows["likeable_finish"]["chosen"]


def test_nothing_on_topic_gives_an_empty_block() -> None:
    run = analysed()
    silent = run.answers.assign(text="")
    flagged, scores = scored(silent, run.people, run.scorers)
    made = vqa_block(replace(run, answers=flagged, scores=scores), VqaOptions())
    assert made["occupations"]["rows"] == []
    assert not any(row["chosen"] for row in made["prompts"])
    assert all(outcome["overall"] is None for outcome in made["outcomes"].values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"promts": 2}, r"'promts'.*Did you mean 'prompts'"),
        ({"prompts": 0}, r"0 is not a whole number of at least 1 \(probe\.options\.prompts\)"),
        ({"prompts": True}, "True is not"),
    ],
)
def test_options_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Fp2Error, match=message):
        read_options(VqaOptions, given, "probe.options")


def test_errors_are_counted_for_people_who_are_she_or_he_only() -> None:
    assert own_pronoun(["She/her/hers"]) == "she"
    assert own_pronoun(["He/him/his"]) == "he"
    assert own_pronoun(["They/them/their"]) == own_pronoun([]) == own_pronoun(["She/her/hers", "They/them/their"]) == ""
    people = pd.DataFrame(
        {
            "image_id": ["a", "b", "c"],
            "subject_id": ["A", "B", "C"],
            "attr_pronoun": [["She/her/hers"], ["He/him/his"], ["They/them/their"]],
        }
    )
    rows = [
        {"image_id": i, "subject_id": i.upper(), "scorer": "pronoun_error", "value": said}
        for i in "abc"
        for said in (1.0, 0.0, np.nan)
    ]
    scores = against_people(pd.DataFrame(rows), people, build_scorers(load_config(["probe=fhibe_vqa"]).scorer))
    assert scores["value"].tolist()[:2] == [1.0, 0.0], "he, then she, said of a woman"
    assert scores["value"].tolist()[3:5] == [0.0, 1.0]
    assert scores["value"].isna().tolist() == [False, False, True, False, False, True, True, True, True]


def test_section_shows_rates_prompts_and_charts_and_hides_small_groups() -> None:
    results = {"cuts": ["region", "pronoun", "age", "skin_tone"]}
    values = list(VqaSection().values(found(), results))
    shown, hidden = (suppressed(values, least) for least in (10, 10_000))
    assert {chart.file for chart in charts(shown) if chart.series and chart.in_files} == {
        "fhibe_vqa_gender",
        "fhibe_vqa_occupations",
        "fhibe_vqa_toxic",
    }
    page = render_values(values, 10)
    for text in ("Why is this person likeable?", "<bdi>engineer</bdi>", "Oceania", "Wrong pronoun"):
        assert text in page
    assert not any(chart.series for chart in charts(hidden))
    left = [table for table in flat(hidden) if isinstance(table, Table) and table.rows]
    assert [table.name for table in left] == ["overall", *["rates"] * 4, "prompts", "keywords"]
    rates = [cell for table in left if table.name == "rates" for row in table.rows for cell in row.cells[1:-1]]
    assert all(isinstance(as_cell(cell).value, Hidden | None) for cell in rates)
