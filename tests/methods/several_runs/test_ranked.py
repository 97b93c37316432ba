"""The files of a leaderboard: no spreadsheet or renderer acts on them."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import Any

from report.test_leaderboard import leaderboard

from fp2.methods.several_runs.ranked import to_csv, to_markdown
from fp2.report.leaderboard import LeaderboardRow


def test_csv_reads_back_and_runs_no_formula(results: dict[str, Any]) -> None:
    results["model"]["name"] = "=HYPERLINK(1)"
    read = list(csv.DictReader(io.StringIO(to_csv(leaderboard([results])))))
    assert read[0]["model"] == "'=HYPERLINK(1)"
    assert float(read[0]["composite"]) == results["composites"]["region"]["value"]
    assert [row["rank"] for row in read] == ["1"] * 4


def test_markdown_is_a_table_whatever_the_names(hostile_results: dict[str, Any]) -> None:
    hostile_results["model"]["name"] = "a|b <script> *c* [d](e)"
    lines = [line for line in to_markdown(leaderboard([hostile_results])).splitlines() if line.startswith("|")]
    assert len(lines) == 4 * 3
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "<script>" not in lines[2]
    assert r"\[d\](e) (partial)" in lines[2]


def test_markdown_tells_who_refused_and_what_to_know_of_the_ranks(results: dict[str, Any]) -> None:
    results["answers"] |= {"answered": 200, "refused": 50}
    text = to_markdown(leaderboard([results]), ["a note on *ranks*", "another"])
    assert text.count("| 25 % |") == 4
    assert text.endswith("a note on \\*ranks\\*\n\nanother\n")


def test_a_spreadsheet_evaluates_no_cell() -> None:
    values = {field.name: None for field in fields(LeaderboardRow)}
    row = LeaderboardRow(**{**values, "model": "=cmd|' /C calc'!A1", "dataset": "x\ny"})  # type: ignore[arg-type]
    (read,) = csv.DictReader(io.StringIO(to_csv([row])))
    assert read["model"].startswith("'=")
    assert read["dataset"] == "x y"
