"""A run that asked no model: no composite, no answers, a block of its own; every report still opens."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from without_answers import results_with

from fp2.cuts import Cut
from fp2.report.dashboard import render_dashboard
from fp2.report.leaderboard import summarise
from fp2.report.passport import build_statement
from fp2.report.section import Section, heading, write_figures
from fp2.report.terminal import print_results
from fp2.results import NO_MODEL
from fp2.tracking.client import metrics_of


@pytest.fixture
def bare() -> dict[str, Any]:
    people = pd.DataFrame(
        {
            "image_id": [f"i{n}" for n in range(24)],
            "subject_id": [f"s{n}" for n in range(24)],
            "set_id": None,
            "attr_age": [["18-29"] if n % 2 else ["60+"] for n in range(24)],
        }
    )
    return results_with(
        {"own": {"metrics": {"gap": 0.25}, "headline": {"gap": 0.25}}},
        "Keypoint errors",
        "detector",
        people,
        [Cut("age", ("age",))],
        {"alpha": 0.05, "correction": "holm", "min_subjects": 10},
    )


def test_the_dashboard_shows_what_there_is(bare: dict[str, Any]) -> None:
    page = render_dashboard(bare, [], [])
    assert "Keypoint errors of" in page
    assert "detector" in page
    for absent in (
        "h-disparities",
        "h-table",
        "h-means",
        "h-answers",
        "h-diversity",
        "h-examples",
        "h-board",
        "Severity by",
    ):
        assert absent not in page, absent


def test_the_terminal_shows_no_composite_and_no_answers(bare: dict[str, Any]) -> None:
    shown = io.StringIO()
    print_results(bare, Console(file=shown, width=100), {"results": "results.json"})
    text = shown.getvalue()
    assert "Keypoint errors of detector" in text
    assert "24 subjects, 24 images" in text
    for absent in ("composite", "answers:", "disparity"):
        assert absent not in text


def test_a_block_reaches_mlflow_and_the_passport(bare: dict[str, Any], tmp_path: Path) -> None:
    assert metrics_of(bare)["own.gap"] == 0.25
    statement = build_statement(bare, {}, {})
    assert statement["predicate"]["findings"] == {"own": {"gap": 0.25}}
    assert summarise(bare) == []
    assert write_figures(bare, tmp_path, ()) == {}


@pytest.mark.parametrize("name", [NO_MODEL])
def test_a_report_without_a_model_names_none(bare: dict[str, Any], name: str) -> None:
    bare |= {"title": "Data set report", "model": {**bare["model"], "name": name}}
    shown = io.StringIO()
    print_results(bare, Console(file=shown, width=100), {})
    assert shown.getvalue().startswith("Data set report on mine")
    page = render_dashboard(bare, [], [])
    assert "<h1>Data set report</h1>" in page
    assert name not in page.split("<details", 1)[0]


@pytest.mark.package(name="several_runs")
def test_a_protocol_states_its_title_where_the_results_have_none(bare: dict[str, Any]) -> None:
    from fp2.methods.several_runs.sweep import SweepRun, sweep_results
    from fp2.methods.several_runs.sweep_page import title_of

    class Own(Section):
        name, title, report_title = "own", "Gaps", "Gaps of detectors"

        def values(self, block: Any, results: Any) -> tuple[()]:
            return ()

    assert heading([Own()], bare) == "Keypoint errors"
    del bare["title"]
    assert heading([Own()], bare) == "Gaps of detectors"
    probes = [{"id": name} for name in ("occupation", "trust", "lifestyle")]
    assert heading([Own()], {**bare, "own": {}, "probes": probes}) == "Bias fingerprint"
    assert heading([], {**bare, "probes": probes[:2]}) == "Disparities"  # no radar, so no fingerprint
    runs = [SweepRun({**bare, "run_id": name}, None, "", sections=[Own()]) for name in "ab"]
    assert title_of(sweep_results(runs, [], 10)).startswith("Gaps of detectors of ")
    assert title_of(sweep_results([runs[0], SweepRun(bare, None, "")], [], 10)).startswith("Results of ")
