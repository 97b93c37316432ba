"""GRAS in the reports: what is shown is what the block says, small groups and hostile words do no harm."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from without_answers import results_with

from benchmarks.gras_worlds import World
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.section import GrasSection
from fp2.methods.several_runs.across import across_runs
from fp2.methods.several_runs.panels import headlines_of
from fp2.report.dashboard import render_dashboard
from fp2.report.several import side_by_side
from fp2.report.values import Chart, Estimate, Sentence, Value, Weight, as_cell, charts, suppressed, tables

GRAS = GrasSection()


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    world = World(60, images=2, tones=100, groups={"gender": 2}, traits=6, effects=(("gender", 1, (0,), 0.3),))
    people = world.people(np.random.default_rng(0)).assign(set_id=None)
    answers = world.answers(people, np.random.default_rng(1))
    block = analyse(answers, people, world.cuts, GrasOptions(permutations=40, bootstrap=30))
    settings = {"alpha": 0.05, "correction": "none", "family": "run", "min_subjects": 10, "n_permutations": 40}
    return results_with({"gras": block}, "GRAS bias scores", "made-up", people, world.cuts, settings)


@pytest.fixture(scope="module")
def values(results: dict[str, Any]) -> list[Value]:
    return list(GRAS.values(results["gras"], results))


def test_scores_stand_beside_their_null_mean(results: dict[str, Any], values: list[Value]) -> None:
    by_name = {table.name: table for table in tables(values)}
    for kind in ("images", "subjects"):
        score = results["gras"]["units"][kind]["scores"]["published_orientation"]
        value, null, excess, p = (as_cell(cell).value for cell in by_name[f"scores_{kind}"].rows[0].cells[1:])
        assert (value, excess, p) == (score["value"], score["excess"], score["p_value"])
        assert null == Estimate(score["null_mean"], score["null_low"], score["null_high"])
    assert by_name["effect_sizes"].primary


def test_the_first_values_are_the_score_beside_chance_and_the_score_of_each_attribute(
    results: dict[str, Any], values: list[Value]
) -> None:
    unit = results["gras"]["units"]["subjects"]
    score = results["gras"]["units"]["images"]["scores"]["published_orientation"]
    said = ["".join(value.parts) for value in values if isinstance(value, Sentence) and value.weight is Weight.LEAD]
    assert f"{score['value']:.2f} published orientation (ideal 0; by chance {score['null_low']:.1f} to" in said[1]
    n = {name: sum(map(bool, tests["significant"])) for name, tests in unit["tests"].items()}
    assert all(f"{count} by {name.replace('_', ' ')}" in said[0] for name, count in n.items() if count)
    chart = next(value for value in values if isinstance(value, Chart))
    by_attribute = unit["scores"]["by_attribute"].values()
    assert [p.value for p in chart.series[0].points] == [one["published_orientation"]["value"] for one in by_attribute]
    (counts,) = [table for table in tables(values) if table.name == "significant_traits"]
    shown = [sum(int(str(as_cell(cell).value).partition("/")[0]) for cell in row.cells[1:]) for row in counts.rows]
    assert shown == list(n.values())


def test_charts_are_the_panels_of_the_figure_files(results: dict[str, Any], values: list[Value]) -> None:
    assert {chart.file for chart in charts(values) if chart.in_files} == {
        "gras_score",
        "gras_traits_gender",
        "gras_traits_skin_tone",
        "gras_attribution",
        "gras_templates_1",
        "gras_templates_2",
    }
    null = next(chart for chart in charts(values) if chart.file == "gras_score")
    assert sum(point.value or 0 for point in null.series[0].points) == 40
    page = render_dashboard(results, [], [], sections=[GRAS])
    assert page.count('class="chart"') == len(charts(values))


def test_groups_below_the_minimum_are_not_shown(values: list[Value]) -> None:
    shown = suppressed(values, 20)
    rows = {table.cut: table.rows for table in tables(shown) if table.name == "attribution"}
    hidden = {cut: [as_cell(row.cells[2]).value == "too few subjects" for row in rows[cut]] for cut in rows}
    assert all(hidden["skin_tone"])
    assert not any(hidden["gender"])
    drawn = [chart for chart in charts(shown) if chart.cut == "skin_tone"]
    assert not any(point.value for chart in drawn for series in chart.series for point in series.points)


def test_attribution_rates_of_runs_stand_side_by_side(results: dict[str, Any], values: list[Value]) -> None:
    merged = {(table.cut, table.label): table for table in side_by_side([values, values], ["a", "b"], 10)}
    assert {label for cut, label in merged if cut == "gender"} == {
        "Traits attributed to a group more than overall, by gender, Share",
        "Traits attributed to a group more than overall, by gender, By chance",
    }


def test_models_are_ranked_by_their_score_over_runs_and_the_headline_is_in_words(results: dict[str, Any]) -> None:
    better = copy.deepcopy(results)
    scores = better["gras"]["units"]["images"]["scores"]
    scores["published_orientation"]["value"], scores["seed_orientation"] = 1.5, 98.5
    (table,) = across_runs([results, better], ["worse", "better"], [GRAS], 10)
    published = results["gras"]["units"]["images"]["scores"]["published_orientation"]
    assert [row[:4] for row in table["rows"]] == [
        ["better", 1, 1.5, 98.5],
        ["worse", 2, published["value"], results["gras"]["units"]["images"]["scores"]["seed_orientation"]],
    ]
    assert published["value"] > 1.5
    labels = {one["name"]: one["label"] for one in headlines_of([results], [GRAS])}
    assert labels["seed_orientation_images"] == "GRAS Bias Score as in the abstract, ideal 100 (images as units)"
    assert all(label != name.replace("_", " ") for name, label in labels.items()), labels
