"""Declared looks: verdicts follow from repeated p-values, and a run says how often its answers were analysed before."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from bench import Bench, fp2, results_of
from simulated import QUICK, analysed

from fp2.stats.adjustment import adjust_p_values
from fp2.stats.sequential import repeated_p


def test_verdicts_follow_from_the_repeated_p_values(found: Any) -> None:
    """The same answers as one look at everything, and as the second of four."""
    plain = {(r["probe"], r["scorer"], r["cut"]): r for r in found[0].disparities}
    words = (*QUICK, "analysis.looks={at:[0.25,0.5,0.75,1.0],now:2}")
    analysis, _ = analysed({"each": ["skin", "age"]}, words=words)
    rows = [row for row in analysis.disparities if row["scorer"] == "valence"]
    for row in rows:
        before = plain[row["probe"], row["scorer"], row["cut"]]
        assert row["p_value"] == before["p_value"]
        if row["p_value"] is not None:
            assert row["repeated_p"] == repeated_p(row["p_value"], (0.25, 0.5, 0.75, 1.0), 2)
    assert [row["adjusted_p"] for row in rows] == adjust_p_values([row["repeated_p"] for row in rows])
    for row in rows:
        assert row["significant"] == (row["adjusted_p"] is not None and row["adjusted_p"] <= 0.05)
        assert row["significant"] == (row["verdict"] in ("biased", "significant_but_small"))
    assert analysis.composites["skin"]["repeated_p"] > analysis.composites["skin"]["p_value"]
    assert analysis.settings["looks"] == {"at": (0.25, 0.5, 0.75, 1.0), "now": 2, "spending": "obrien_fleming"}
    assert any(line.startswith("Look 2 of 4") for line in analysis.notes)
    assert "repeated_p" not in found[0].disparities[0]


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


@pytest.mark.usefixtures("mlflow_store")
def test_a_run_says_how_often_its_answers_were_analysed_before(bench: Bench) -> None:
    first = bench.run("tracking=mlflow").folder
    same = bench.run("tracking=mlflow").folder
    other = bench.run("tracking=mlflow", "cut.by=[region]").folder
    assert [results_of(folder)["earlier_looks"] for folder in (first, same, other)] == [0, 0, 1]
    assert any("analysed in 1 earlier run(s)" in line for line in results_of(other)["limitations"])
    envelope = json.loads((other / "passport.json").read_text(encoding="utf-8"))
    assert json.loads(base64.b64decode(envelope["payload"]))["predicate"]["earlier_looks"] == 1
    assert fp2("rescore", str(other), *bench.paths, "analysis.alpha=0.01", "tracking=mlflow") == 0
    again = results_of(bench.run_folders()[-1])
    assert again["earlier_looks"] == 2
    assert sum("analysed in" in line for line in again["limitations"]) == 1
    assert "earlier_looks" not in results_of(bench.run("cut.by=[region]").folder)
