"""What is said of a simulated model: a positive control where effects were planted in it, and not otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2, results_of

from fp2.methods.peeps.planted.truth import load_truth
from fp2.report.leaderboard import marks_of, rank, summarise
from fp2.report.reading import POSITIVE_CONTROL, WITHOUT_EFFECTS

WORDS = ("probe.select=[trust]", "report=default", "report.figures=false")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Any, Any]:
    """A run of the simulator as it is by default, and one with an effect."""
    bench = Bench(tmp_path_factory.mktemp("calibration"), squares)
    effect = "model.truth={effects: {trust: {gender: {f: -4}}}}"
    return bench, bench.run(*WORDS), bench.run(*WORDS, effect)


def test_the_simulator_is_a_positive_control_only_with_effects(
    runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bench, plain, planted = runs
    for run, said, other in ((plain, WITHOUT_EFFECTS, POSITIVE_CONTROL), (planted, POSITIVE_CONTROL, WITHOUT_EFFECTS)):
        capsys.readouterr()
        assert fp2("show", run.run_id, *bench.paths) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert said in shown
        assert other not in shown
        dashboard = (run.folder / "dashboard.html").read_text(encoding="utf-8")
        assert ("Positive control." in dashboard) == (run is planted)
        assert ("Simulated model without planted effects." in dashboard) == (run is plain)
        results = results_of(run.folder)
        assert results["model"]["embedded"]
        assert ("positive control" in " ".join(results["limitations"])) == (run is planted)
    assert results_of(plain.folder)["model"]["without_effects"] is True
    assert "without_effects" not in results_of(planted.folder)["model"]


@pytest.mark.package(name="passport_page")
def test_the_readable_passport_and_the_leaderboard_say_the_same(runs: tuple[Bench, Any, Any], tmp_path: Path) -> None:
    _, plain, planted = runs
    for run, said in ((plain, WITHOUT_EFFECTS), (planted, POSITIVE_CONTROL)):
        page = tmp_path / f"{run.run_id}.html"
        assert fp2("passport", str(run.folder / "passport.json"), "--html", str(page)) == 0
        assert said in " ".join(page.read_text(encoding="utf-8").split())
    rows = rank(summary for run in (plain, planted) for summary in summarise(run.results))
    assert {row.run_id: marks_of(row) for row in rows} == {
        plain.run_id: ["simulated without effects"],
        planted.run_id: ["positive control"],
    }


@pytest.mark.parametrize(
    ("truth", "there"),
    [
        ({}, False),
        ({"seed": 4, "refusals": {"trust": {"base": 0.2}}}, False),
        ({"effects": {"trust": {"gender": {"f": 0}}}}, False),
        ({"refusals": {"trust": {"by": {"gender": {"f": 0.1}}}}}, True),
        ({"yes_no": {"trait_effects": {"kind": {"gender": {"f": 0.5}}}}}, True),
        ({"yes_no": {"mass": {"base": 0.9, "by": {"gender": {"f": -0.1}}}}}, True),
    ],
)
def test_an_effect_is_what_a_group_adds(truth: dict[str, Any], there: bool) -> None:
    assert load_truth(truth).has_effects is there
