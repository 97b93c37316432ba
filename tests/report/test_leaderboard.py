"""The leaderboard: order, and ranks within a cut."""

from __future__ import annotations

import json
from typing import Any

from fp2.report.leaderboard import LeaderboardRow, boards, rank, summarise
from fp2.report.values import as_cell


def leaderboard(runs: list[dict[str, Any]]) -> list[LeaderboardRow]:
    return rank(summary for results in runs for summary in summarise(results))


def test_less_excess_ranks_first_within_each_cut(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    results["model"]["embedded"] = False
    rows = leaderboard([results, other_results])
    assert [row.cut for row in rows] == [
        "region",
        "region",
        "pronoun",
        "pronoun",
        "age",
        "age",
        "skin_tone",
        "skin_tone",
    ]
    for cut in results["cuts"]:
        mine = [row for row in rows if row.cut == cut]
        assert [row.rank for row in mine] == [1, 2]
        assert mine[0].excess is not None
        assert mine[1].excess is not None
        assert mine[0].excess <= mine[1].excess
    top = rows[0]
    assert (top.model, top.complete, top.calibration, top.n_probes) == ("other-vlm-2b", False, False, 5)
    assert top.composite == other_results["composites"]["region"]["value"]


def test_runs_without_a_composite_come_last_and_unranked(
    results: dict[str, Any], other_results: dict[str, Any]
) -> None:
    results["model"]["embedded"] = False
    other_results["composites"]["region"] = {"value": None, "null_mean": None, "excess": None, "severity": None}
    rows = [row for row in leaderboard([other_results, results]) if row.cut == "region"]
    assert [(row.model, row.rank) for row in rows] == [("peeps-vlm", 1), ("other-vlm-2b", None)]


def test_runs_of_different_kinds_share_no_table(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    """Other images, other people, planted effects: ranks are among runs of one kind."""
    elsewhere = other_results | {"dataset": other_results["dataset"] | {"name": "elsewhere"}, "run_id": "e"}
    own = [board for board in boards(leaderboard([results, other_results, elsewhere])) if board.cut == "age"]
    assert [board.label for board in own] == [
        "valence by age on elsewhere",
        "valence by age on peeps",
        "valence by age on peeps",
    ]
    assert [[(as_cell(row.cells[1]).value, as_cell(row.cells[0]).detail) for row in board.rows] for board in own] == [
        [(1, "partial")],
        [(1, "partial")],
        [(1, "positive control")],
    ]


def test_runs_on_changed_images_are_ranked_among_themselves(
    results: dict[str, Any], other_results: dict[str, Any]
) -> None:
    results["model"]["embedded"] = other_results["model"]["embedded"] = True
    blind = results | {"variant": {"name": "blind", "kind": "blind"}, "run_id": "b"}
    as_it_is = other_results | {"variant": {"name": "original", "kind": "original"}}
    rows = [row for row in leaderboard([blind, results, as_it_is]) if row.cut == "region"]
    assert [(row.variant, row.rank) for row in rows] == [(None, 1), (None, 2), ("blind", 1)]
    assert [board.label for board in boards(rows)] == [
        "valence by region on peeps",
        "valence by region on peeps, blind",
    ]
    older = [{key: value for key, value in row.items() if key != "variant"} for row in summarise(results)]
    assert rank(older) == leaderboard([results])


def test_order_does_not_depend_on_the_order_given(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    assert leaderboard([results, other_results]) == leaderboard([other_results, results])
    assert leaderboard([]) == []


def test_summaries_are_json_and_enough_to_rank(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    summaries = json.loads(json.dumps(summarise(results) + summarise(other_results)))
    assert rank(summaries) == leaderboard([results, other_results])


def test_runs_with_different_primary_scorers_are_ranked_separately_and_named(
    results: dict[str, Any], other_results: dict[str, Any]
) -> None:
    economic = {**other_results, "analysis": {**other_results["analysis"], "primary": "economic"}}
    rows = leaderboard([results, economic])
    by_cut = {row.cut for row in rows}
    assert sorted(row.rank for row in rows if row.rank is not None) == [1] * 2 * len(by_cut)
    assert "economic by region on peeps" in [board.label for board in boards(rows)]
