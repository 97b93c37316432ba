"""Declared looks: verdicts follow from repeated p-values, and a run says how often its answers were analysed before."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bench import Bench, fp2, notes_of, results_of
from simulated import QUICK, analysed

from fp2.methods.stopping.declared import Looks
from fp2.methods.stopping.sequential import repeated_p
from fp2.protocols.fingerprint.family import corrected, shares
from fp2.protocols.fingerprint.settings import STEP_DOWN, ComparisonSettings, too_few_permutations
from fp2.stats.adjustment import adjust_p_values
from fp2.stats.disparities import disparity_panel
from fp2.stats.rows import Outcome

AT = (0.25, 0.5, 0.75, 1.0)
COMPARISON = ComparisonSettings(correction="holm", family="scorer", primary="valence", n_permutations=4999, seed=1)


def _verdict(row: dict[str, Any]) -> str:
    """The verdict by its definition (docs/glossary.md), from the adjusted p-values of the three tests."""
    different, larger, smaller = (
        row[name] is not None and row[name] <= 0.05
        for name in ("adjusted_p", "adjusted_minimum_effect_p", "adjusted_equivalence_p")
    )
    if different and larger:
        return "biased"
    if different:
        return "significant_but_small" if smaller else "significant_size_unclear"
    return "equivalent" if smaller else "no_difference_found"


@pytest.mark.parametrize("now", [2, 4])
def test_all_tests_are_repeated_and_corrected_in_the_family_of_the_run(found: Any, now: int) -> None:
    """Six scorers and the composites: the weights are those of a run without looks, and so is the verdict's rule."""
    words = (*QUICK, f"analysis.looks={{at:[0.25,0.5,0.75,1.0],now:{now}}}")
    analysis, run = analysed({"each": ["skin", "age"]}, words=words)
    rows, composites = analysis.disparities, list(analysis.composites.values())
    for row, before in zip(rows, found[0].disparities, strict=True):
        for name in ("p_value", "minimum_effect_p", "equivalence_p"):
            assert row[name] == before[name]
            if row[name] is not None:
                assert row[f"repeated_{name.removesuffix('_value')}"] == repeated_p(row[name], AT, now)
    tested = [row for row in rows if row["p_value"] is not None]
    assert all(one["repeated_p"] > one["p_value"] for one in composites)
    weights = shares([row["scorer"] for row in tested] + ["valence_context"] * len(composites), run.comparison)
    expected = adjust_p_values([one["repeated_p"] for one in [*tested, *composites]], "holm", weights)
    assert [one["adjusted_p"] for one in [*tested, *composites]] == pytest.approx(expected)
    small = adjust_p_values([row["repeated_equivalence_p"] or 1.0 for row in tested], "holm", weights[: len(tested)])
    assert [row["adjusted_equivalence_p"] for row in tested] == pytest.approx(small)
    assert len({row["scorer"] for row in rows}) == 7
    for row in tested:
        assert row["significant"] == (row["adjusted_p"] <= 0.05)
        assert row["verdict"] in (_verdict(row), "uninformative")
    assert any(row["significant"] for row in tested) == (now == 4), "nothing can be found so early with 2,999"
    assert any("no row can be significant" in line for line in analysis.notes) == (now == 2)
    assert analysis.settings["looks"] == {"at": AT, "now": now, "spending": "obrien_fleming"}
    assert any(line.startswith(f"Look {now} of 4") for line in analysis.notes)
    assert "repeated_p" not in found[0].disparities[0]
    assert "looks" not in found[0].settings


@pytest.fixture(scope="module")
def panel() -> Any:
    """Two scorers of two probes; the first probe of each differs."""
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.2, (90, 4))
    values[60:, [0, 2]] += 0.3
    subjects, groups = np.arange(90), np.repeat(["a", "b", "c"], 30)
    return disparity_panel(np.clip(values, -1, 1), groups, subjects, Outcome(), COMPARISON)


def _rows(panel: Any, **changed: Any) -> list[Any]:
    names = [(probe, scorer) for scorer in ("valence", "refusal") for probe in ("trust", "age")]
    return [(*name, "cut", replace(row, **changed)) for name, row in zip(names, panel.rows, strict=True)]


@pytest.mark.parametrize("correction", ["holm", STEP_DOWN, "bh", "none"])
def test_one_look_at_everything_is_a_run_without_looks(panel: Any, correction: str) -> None:
    plain = replace(COMPARISON, correction=correction)
    once = replace(plain, looks=Looks(at=(1.0,), now=1))
    found = []
    for comparison in (plain, once):
        composites: dict[str, Any] = {"cut": {"p_value": 0.004, "adjusted_p": None}}
        found.append([*corrected(_rows(panel), [panel], composites, comparison), composites["cut"]])
    for row, looked in zip(*found, strict=True):
        for name, value in row.items():
            same = pytest.approx(value, rel=0.01) if isinstance(value, float) else value
            assert looked[name] == same, name


@pytest.mark.parametrize("correction", ["holm", STEP_DOWN])
def test_what_is_not_shown_at_an_early_look_is_not_claimed(panel: Any, correction: str) -> None:
    """p-values that suffice without looks, one after another: each verdict needs its own test at this look."""
    early = replace(COMPARISON, correction=correction, looks=Looks(at=AT, now=1))
    for rows in (_rows(panel), _rows(panel, p_value=0.01), _rows(panel, equivalence_p=0.02, p_value=0.5)):
        for row in corrected(rows, [panel], {}, early):
            assert (row["verdict"], row["significant"]) == ("no_difference_found", False)
            assert row["mde80"] is None or row["mde80"] > 0.4
            assert row["repeated_p"] > row["p_value"]
        (line, _) = too_few_permutations(corrected(rows, [panel], {}, early), early)
        assert ("spends too little alpha" in line) == (correction == "holm")
    last = replace(early, looks=Looks(at=AT, now=4))
    plain = corrected(_rows(panel), [panel], {}, replace(early, looks=None))
    for row, before in zip(corrected(_rows(panel), [panel], {}, last), plain, strict=True):
        assert row["verdict"] == before["verdict"]
        if row["significant"]:
            assert row["selected_ci_low"] <= before["selected_ci_low"]
            assert row["selected_ci_high"] > before["selected_ci_high"]
    # larger than the smallest effect by p = .02 alone is not enough for "biased" among four rows
    weak = corrected(_rows(panel, minimum_effect_p=0.02), [panel], {}, replace(last, correction="holm"))
    assert [row["verdict"] for row in weak if row["significant"]] == ["significant_size_unclear"] * 2


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ("{at:[0.5,0.4],now:1}", "the looks must increase"),
        ("{at:[0.5,1.0],now:3}", "there are only 2 looks"),
        ("{at:[0.5,1.0]}", "analysis.looks"),
        ("{at:[0.5,1.0],now:1,spending:all}", "analysis.looks.spending"),
    ],
)
def test_mistakes_are_one_line(looks: str, said: str, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words(f"analysis.looks={looks}")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error:")
    assert said in error


@pytest.mark.package(name="reruns")
@pytest.mark.usefixtures("mlflow_store")
def test_a_run_says_how_often_its_answers_were_analysed_before(bench: Bench) -> None:
    first = bench.run("tracking=mlflow").folder
    same = bench.run("tracking=mlflow").folder
    other = bench.run("tracking=mlflow", "cut.by=[region]").folder
    assert [results_of(folder)["earlier_looks"] for folder in (first, same, other)] == [0, 0, 1]
    assert notes_of(results_of(other))["earlier_looks"] == [{"n": 1}]
    envelope = json.loads((other / "passport.json").read_text(encoding="utf-8"))
    assert json.loads(base64.b64decode(envelope["payload"]))["predicate"]["earlier_looks"] == 1
    assert fp2("rescore", str(other), *bench.paths, "analysis.alpha=0.01", "tracking=mlflow") == 0
    again = results_of(bench.run_folders()[-1])
    assert again["earlier_looks"] == 2
    assert notes_of(again)["earlier_looks"] == [{"n": 2}]
    assert "earlier_looks" not in results_of(bench.run("cut.by=[region]").folder)
