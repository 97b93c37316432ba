"""The specification curve of a run: its choices, what each specification finds, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.methods.curves import choices as module
from fp2.methods.curves.choices import choices_of, outcomes_of
from fp2.methods.curves.section import MultiverseSection
from fp2.methods.curves.supplement import STEPS, Multiverse
from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.report.values import as_cell, charts, tables
from fp2.scorers.outcomes import members
from fp2.stats.interval import GapTest

LABELS = ("occupation", "education", "authority", "trust", "lifestyle", "neighbourhood")


def wanted(run: ComparedRun, **changes: Any) -> ComparedRun:
    analysis = replace(run.config.analysis, multiverse=True)
    return replace(run, config=replace(run.config, analysis=analysis), **changes)


@pytest.fixture(scope="module")
def ticks() -> list[int]:
    return []


@pytest.fixture(scope="module")
def block(found: Any, ticks: list[int]) -> dict[str, Any]:
    made = Multiverse().block(wanted(found[1], tick=lambda: ticks.append(1)))
    assert made is not None
    return made


def curve(block: dict[str, Any], probe: str | None, cut: str) -> dict[str, Any]:
    return next(row for row in block["rows"] if (row["probe"], row["cut"]) == (probe, cut))


def of(block: dict[str, Any], row: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    about = next(one for one in block["cuts"] if one["cut"] == row["cut"])
    return list(zip(about["specifications"], row["points"], strict=True))


def test_it_is_made_on_demand_only(found: Any, block: dict[str, Any], ticks: list[int]) -> None:
    assert Multiverse().block(found[1]) is None
    assert "multiverse" not in found[0].blocks
    run = wanted(found[1])
    assert len(ticks) == Multiverse().n_steps(run.config, 2) == 2 * STEPS
    assert Multiverse().n_steps(found[1].config, 2) == 0


def test_the_runs_own_specification_gives_the_numbers_of_the_run(found: Any, block: dict[str, Any]) -> None:
    rows = {(row["probe"], row["cut"]): row for row in found[0].disparities if row["scorer"] == "valence_context"}
    for (probe, cut), row in rows.items():
        specification, point = of(block, curve(block, probe, cut))[0]
        assert specification == {
            "scorer": "valence_context",
            "refusals": "missing",
            "question": 0,
            "unit": "subjects",
            "covariates": [],
            "min_subjects": 10,
        }
        assert point["gap"] == pytest.approx(row["raw"] / 0.05, rel=1e-5)
        assert point["estimate"] == pytest.approx(row["shrunken"] / 0.05, rel=1e-5)
        # fewer permutations than in the run: the same within their Monte-Carlo error
        assert point["p_value"] == pytest.approx(row["p_value"], abs=0.05)
        assert point["high"] == pytest.approx(row["ci_high"] / 0.05, rel=1e-5)
        assert curve(block, probe, cut)["verdict"] == row["verdict"]
    composite = found[0].composites["skin"]
    _, point = of(block, curve(block, None, "skin"))[0]
    assert point["gap"] == pytest.approx(composite["value"] / 0.05, rel=1e-5)
    assert point["estimate"] == pytest.approx(composite["magnitude"] / 0.05, rel=0.05)


def test_a_planted_gap_is_found_by_other_analysts_too(block: dict[str, Any]) -> None:
    row = curve(block, "occupation", "skin")
    assert row["verdict"] == "biased"
    # same data counted with each level of refusals
    by_scorer = {level["level"]: (level["n_same_verdict"], level["n"]) for level in row["by_choice"]["scorer"]}
    assert by_scorer["valence_context"] == (9, 9)
    assert by_scorer["stereotype"] == (9, 9)
    assert by_scorer["economic"] == (9, 9)  # every occupation has a standing
    own = [point for specification, point in of(block, row) if specification["scorer"] == "valence_context"]
    assert [point["verdict"] for point in own if point["status"] == "ok"] == ["biased"] * 3
    assert row["adjusted_median_p"] <= 0.05
    assert row["share_significant"] > 0.5 > 0.07 > row["share_significant_null"]
    assert row["n_same_direction"] == row["n_compared_direction"] == 12
    assert row["n_computed"] == 12


def test_every_specification_is_counted_once_or_said_not_to_be(block: dict[str, Any]) -> None:
    for row in block["rows"]:
        assert row["n_computed"] + sum(row["not_computed"].values()) == row["n_specifications"] == 54
        assert sum(row["verdicts"].values()) == row["n_computed"]
        assert row["n_same_verdict"] == row["verdicts"].get(row["verdict"], 0)
    # nothing was refused there: three treatments of refusals are one specification
    assert curve(block, "occupation", "skin")["not_computed"]["same_data"] == 24
    assert "same_data" not in curve(block, "lifestyle", "skin")["not_computed"]


def test_refused_answers_are_missing_the_mean_or_the_bad_end(found: Any) -> None:
    run = wanted(found[1])
    cut = run.cuts[1]
    table = members(run.people, cut)
    specifications = choices_of(run, cut, table).specifications
    outcomes = outcomes_of(run, specifications)
    scores = run.scores[(run.scores["probe"] == "lifestyle") & (run.scores["scorer"] == "valence_context")]
    refused = scores[scores["refused"]]
    assert len(refused) > 5
    place = {
        s.refusals: outcomes.place(s, "lifestyle") for s in reversed(specifications) if s.scorer == "valence_context"
    }
    keys = pd.MultiIndex.from_frame(refused[["image_id", "subject_id"]])
    values = {name: outcomes.wide.loc[keys][column].to_numpy() for name, column in place.items()}
    assert np.isnan(values["missing"]).all()
    np.testing.assert_allclose(values["neutral"], scores.loc[~scores["refused"], "value"].mean())
    np.testing.assert_allclose(values["worst"], -1.0)
    others = scores[~scores["refused"]]
    keys = pd.MultiIndex.from_frame(others[["image_id", "subject_id"]])
    for column in place.values():
        np.testing.assert_allclose(outcomes.wide.loc[keys][column], others["value"])


def test_images_as_units_are_tested_over_subjects_and_say_what_a_naive_test_gives(block: dict[str, Any]) -> None:
    for row in block["rows"]:
        for specification, point in of(block, row):
            if row["probe"] is None or specification["unit"] == "subjects" or "p_value" not in point:
                assert "image_p" not in point
            else:
                assert 0 <= point["image_p"] <= 1
                assert point["p_value"] >= 1 / (block["n_permutations"] + 1)
    assert "not valid" in " ".join(block["notes"])


def test_covariates_are_those_of_the_other_cuts_or_of_the_config(found: Any) -> None:
    run = wanted(found[1])
    held = {s.covariates for s in choices_of(run, run.cuts[0], members(run.people, run.cuts[0])).specifications}
    assert held == {(), ("age",)}
    alone = replace(run, cuts=run.cuts[:1])
    assert {s.covariates for s in choices_of(alone, run.cuts[0], members(run.people, run.cuts[0])).specifications} == {
        ()
    }
    analysis = replace(run.config.analysis, adjust=["age", "skin"])
    named = replace(alone, config=replace(run.config, analysis=analysis))
    held = {s.covariates for s in choices_of(named, run.cuts[0], members(run.people, run.cuts[0])).specifications}
    assert held == {(), ("age",)}


def test_least_sizes_are_choices_where_they_leave_groups_out(found: Any) -> None:
    run = wanted(found[1])
    people = run.people[run.people["attr_skin"].str[0].ne("III") | run.people["subject_id"].str[1:].astype(int).lt(45)]
    table = members(people, run.cuts[0])
    assert {s.min_subjects for s in choices_of(run, run.cuts[0], table).specifications} == {10, 20}


def test_too_many_specifications_are_sampled_with_the_runs_own(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = wanted(found[1])
    table = members(run.people, run.cuts[0])
    every = choices_of(run, run.cuts[0], table)
    monkeypatch.setattr(module, "MOST", 12)
    some = choices_of(run, run.cuts[0], table)
    assert (len(some.specifications), some.n_possible) == (12, len(every.specifications))
    assert some.specifications[0] == every.specifications[0]
    assert set(some.specifications) < set(every.specifications)
    assert some == choices_of(run, run.cuts[0], table)


def test_a_question_of_several_is_a_choice(found: Any) -> None:
    run = wanted(found[1])
    questions = run.battery.questions
    second = replace(questions[0], question_id="occupation_2")
    battery = replace(run.battery, questions=(*questions, second))
    scores = run.scores[run.scores["probe"] == "occupation"].assign(question_id="occupation_2")
    scores = pd.concat([run.scores, scores.assign(value=scores["value"] / 2)])
    answers = run.answers[run.answers["probe"] == "occupation"].assign(question_id="occupation_2")
    run = replace(run, battery=battery, scores=scores, answers=pd.concat([run.answers, answers]))
    specifications = choices_of(run, run.cuts[0], members(run.people, run.cuts[0])).specifications
    assert {s.question for s in specifications} == {0, 1, 2}
    outcomes = outcomes_of(run, specifications)
    first = {
        s.question: s for s in reversed(specifications) if s.scorer == "valence_context" and s.refusals == "missing"
    }
    mean, one, two = (outcomes.wide[outcomes.place(first[k], "occupation")] for k in (0, 1, 2))
    np.testing.assert_allclose(two, one / 2)
    np.testing.assert_allclose(mean, one * 0.75)
    assert len({outcomes.place(first[k], "trust") for k in (0, 1, 2)}) == 1  # a probe with one question keeps it


def test_numbers_are_finite_repeatable_and_about_nobody(found: Any, block: dict[str, Any]) -> None:
    text = json.dumps(block, allow_nan=False)
    again = Multiverse().block(wanted(found[1]))
    assert json.dumps(again) == text
    ids = {*found[1].people["subject_id"], *found[1].people["image_id"]}
    assert not any(f'"{name}"' in text for name in (*ids, "I", "II", "III", "old", "young"))


def test_it_is_shown_in_a_table_a_curve_and_by_choice(found: Any, block: dict[str, Any]) -> None:
    results = {"probes": [{"id": name, "label": name, "text": name} for name in LABELS], "cuts": ["skin", "age"]}
    values = list(MultiverseSection().values(block, results))
    claims, *by_choice = (table for table in tables(values) if table.cut == "skin")
    assert [as_cell(cell).value for cell in claims.rows[0].cells[:3]] == ["occupation", "biased", "12 of 12"]
    assert "9 have no score for the probe, or not for every probe" in by_choice[0].label
    drawn = charts(values)
    assert [chart.name for chart in drawn if chart.on_page] == ["multiverse_skin", "multiverse_age"]
    assert {chart.file for chart in drawn} > {"multiverse_skin_1", "multiverse_age_1"}
    occupation = next(chart for chart in drawn if chart.name == "multiverse_skin_1")
    estimates = sorted(point["estimate"] for point in block["rows"][0]["points"] if point["status"] == "ok")
    in_order = sorted((point for one in occupation.series for point in one.points), key=lambda point: point.x or 0)
    assert [point.value for point in in_order] == estimates


def test_too_few_permutations_for_the_joint_tests_are_said(found: Any, block: dict[str, Any]) -> None:
    assert block["warnings"] == []
    run = wanted(found[1], cuts=found[1].cuts[:1], comparison=replace(found[1].comparison, n_permutations=199))
    made = Multiverse().block(run)
    assert made is not None
    assert made["warnings"] == [
        "With 199 permutations no joint test of a family of 14 can be significant: raise analysis.permutations to 280."
    ]


def test_a_specification_that_fails_does_not_pass_as_one_that_found_nothing(
    found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in one test ends the analysis: there is no silent hole in the curve."""

    def broken(self: GapTest, alpha: float) -> float:
        raise FloatingPointError("injected")

    monkeypatch.setattr(GapTest, "low", broken)
    with pytest.raises(FloatingPointError, match="injected"):
        Multiverse().block(wanted(found[1], cuts=found[1].cuts[:1]))
