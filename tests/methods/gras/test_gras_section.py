"""GRAS in the reports: what is shown is what the block says, small groups and hostile words do no harm."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from without_answers import results_with

from benchmarks.gras_worlds import World
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.section import GrasSection
from fp2.report.dashboard import render_dashboard

GRAS = GrasSection()
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    world = World(60, images=2, tones=100, groups={"gender": 2}, traits=6, effects=(("gender", 1, (0,), 0.3),))
    people = world.people(np.random.default_rng(0)).assign(set_id=None)
    answers = world.answers(people, np.random.default_rng(1))
    block = analyse(answers, people, world.cuts, GrasOptions(permutations=40, bootstrap=30))
    settings = {"alpha": 0.05, "correction": "none", "family": "run", "min_subjects": 10, "n_permutations": 40}
    return results_with({"gras": block}, "GRAS bias scores", "made-up", people, world.cuts, settings)


def test_the_page_shows_both_orientations_beside_the_null_mean(results: dict[str, Any]) -> None:
    page = render_dashboard(results, [], [], sections=[GRAS])
    for kind in ("images", "subjects"):
        score = results["gras"]["units"][kind]["scores"]
        for value in (score["seed_orientation"], score["published_orientation"]["value"]):
            assert f"<strong>{value:.2f}</strong>" in page
        assert f"{score['published_orientation']['null_mean']:.2f} (" in page
    assert "orientation of the abstract (ideal 100)" in page
    assert "published orientation" in page
    assert "cannot be checked" in page


def test_figures_are_drawn_and_named(results: dict[str, Any], tmp_path: Path) -> None:
    paths = list(GRAS.figures(results["gras"], results, tmp_path, 10))
    shown = GRAS.context(results["gras"], results, 10)["alts"]
    assert {path.name for path in paths} == set(shown)
    assert {"gras_score.png", "gras_traits_gender.png", "gras_templates_2.png", "gras_attribution.png"} <= set(shown)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_groups_below_the_minimum_are_not_shown(results: dict[str, Any]) -> None:
    rows = GRAS.context(results["gras"], results, 20)["rates"]
    assert {row["attribute"] for row in rows if row["hidden"]} == {"skin_tone"}
    page = render_dashboard(results, [], [], 20, sections=[GRAS])
    assert page.count("too few subjects") >= 20


def test_hostile_words_are_words(results: dict[str, Any], tmp_path: Path) -> None:
    hostile = copy.deepcopy(results)
    block = hostile["gras"]
    block["warnings"].append(HOSTILE)
    block["traits"][0]["word"] = f"$x_{HOSTILE}"
    block["templates"][0] = HOSTILE
    for unit in block["units"].values():
        unit["attribution"][0]["group"] = HOSTILE
        unit["group_means"]["gender"]["groups"][0] = HOSTILE
    block["attributes"][0]["groups"][0]["group"] = HOSTILE
    assert HOSTILE not in render_dashboard(hostile, [], [], sections=[GRAS])
    assert len(list(GRAS.figures(block, hostile, tmp_path, 10))) == 6


def test_terminal_lines_say_score_chance_size_and_warnings(results: dict[str, Any]) -> None:
    told = "\n".join(line.plain for line in GRAS.lines(results["gras"], results, 10))
    score = results["gras"]["units"]["subjects"]["scores"]["published_orientation"]
    assert f"{score['value']:.2f} published orientation (ideal 0)" in told
    assert "null mean" in told
    assert "omega²" in told
    assert results["gras"]["warnings"][0] in told
