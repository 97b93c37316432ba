"""`fp2 plan --power`: sample sizes from a pilot run or a stated spread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import Bench, fp2


def test_a_pilot_gives_the_numbers_of_its_own_cuts(
    finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pilot = finished.outputs / "one"
    out, curve, vector = tmp_path / "n.json", tmp_path / "power.png", tmp_path / "power.svg"
    words = ["--power", "--pilot", str(pilot), "--gap", "0.2", "--json", str(out), *finished.paths]
    assert fp2("plan", *words, "--figure", str(curve)) == 0
    shown = capsys.readouterr().out
    assert "80 % power at a gap of 0.2 (valence)" in shown
    found = json.loads(out.read_text(encoding="utf-8"))
    results = json.loads((pilot / "results.json").read_text(encoding="utf-8"))
    rows = [row for row in results["disparities"] if row["scorer"] == "valence"]
    assert (found["family_size"], found["alpha"]) == (rows[0]["family_size"], 0.05)
    assert found["level"] == pytest.approx(0.05 / rows[0]["family_size"])
    assert {(row["cut"], row["probe"]) for row in found["rows"]} == {(row["cut"], row["probe"]) for row in rows}
    for row, logged in zip(found["rows"], rows, strict=True):
        assert row["icc"] == pytest.approx(max(logged["icc"], 0), abs=1e-9)
        one, *_, many = row["needs"]
        assert one["subjects"] >= many["subjects"]
        assert one["subjects"] <= one["subjects_cautious"]
    assert curve.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert fp2("plan", *words, "--figure", str(vector)) == 0
    assert "<svg" in vector.read_text(encoding="utf-8")


def test_a_stated_spread_needs_no_data_and_follows_the_family(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    needs = []
    for cuts in ("cut=region", "cut.each=[pronoun,age,skin_tone,region]"):
        out = tmp_path / "n.json"
        words = ["--power", "--icc", "0.3", "--sd", "0.2", "--groups", "5", "--gap", "0.1", "--json", str(out), cuts]
        assert fp2("plan", *words) == 0
        found = json.loads(out.read_text(encoding="utf-8"))
        needs.append((found["family_size"], found["rows"][0]["needs"][1]["subjects"]))
    assert [size for size, _ in needs] == [14, 56]  # rows and composites of the primary scorer have half of alpha
    assert needs[0][1] < needs[1][1] == 99
    assert "Level 0.00089: 0.05 over a family of 56 tests (holm, its first step)" in " ".join(
        capsys.readouterr().out.split()
    )
