"""The simulation of GRAS runs that stop, in a short form."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from benchmarks import gras_stopping


@pytest.mark.thorough
def test_large_gaps_are_found_with_few_answers_and_none_is_claimed_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--runs", "10", "--permutations", "1999", "--worlds", "clustered", "--cases", "0", "4 MDE", "--json"]
    monkeypatch.setattr(sys, "argv", ["gras_stopping.py", *words])
    gras_stopping.main()
    rows: dict[str, Any] = {row["gap"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["0"]["with the composite %"] <= 10
    assert rows["0"]["rows different %"] == 0
    assert rows["4 MDE"]["rows different %"] == 100
    assert rows["4 MDE"]["asked %, median"] < 20
    assert all(row["rows covered %"] > 98 for row in rows.values())


@pytest.mark.parametrize("name", gras_stopping.WORLDS)
def test_answers_differ_by_the_gap_that_was_planted(name: str) -> None:
    study = gras_stopping.Study(gras_stopping.WORLDS[name], 20)
    values = study.draw(gras_stopping.np.random.default_rng(1), 0.1)
    for group in study.groups:
        first, rest = (values[(group == 0) == inside] for inside in (True, False))
        gap = gras_stopping.np.nanmean(first) - gras_stopping.np.nanmean(rest)
        assert gap == pytest.approx(0.1, abs=0.03)
