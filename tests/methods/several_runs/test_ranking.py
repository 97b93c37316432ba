"""The runs of a sweep ranked: intervals of the ranks hold, and runs that cannot be ranked say why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom
from simulated_runs import biased, crowd, run_of

from fp2.methods.peeps.planted.truth import load_truth
from fp2.methods.several_runs.leaderboard_command import _legend
from fp2.methods.several_runs.ranked import with_places
from fp2.methods.several_runs.ranking import rankings
from fp2.report.leaderboard import boards, rank, summarise
from fp2.report.values import as_cell
from fp2.runs.reader import LoggedRun


def test_a_clearly_better_model_has_a_rank_of_its_own() -> None:
    people = crowd(90)
    fair = run_of("fair", people, {"seed": 1})
    harsh = [run_of(f"harsh {k}", people, biased(-3, seed=k)) for k in (2, 3)]
    ranking = rankings([*harsh, fair])[0]
    assert ranking.reason is None
    assert ranking.places[0].name == "fair-id"
    assert (ranking.places[0].rank_low, ranking.places[0].rank_high) == (1, 1)
    assert [(p.rank_low, p.rank_high) for p in ranking.places[1:]] == [(2, 3), (2, 3)]
    assert len({p.letters for p in ranking.places[1:]}) == 1
    assert ranking.places[0].letters != ranking.places[1].letters
    rows = with_places(rank(s for run in (fair, *harsh) for s in summarise(run.results)), [ranking])
    assert [row.run_id for row in rows] == [place.name for place in ranking.places]
    assert [row.rank for row in rows] == [1, 2, 3]
    (board,) = boards(rows)
    cells = [[as_cell(cell) for cell in row.cells[1:4]] for row in board.rows]
    assert [[cell.value for cell in row] for row in cells] == [[1, "1", "a"], [2, "2–3", "b"], [3, "2–3", "b"]]
    assert [row[0].muted for row in cells] == [False, True, True]


def test_a_ranking_has_the_level_of_its_first_run_and_others_are_reported() -> None:
    people = crowd()
    settings = {"primary": "valence", "min_subjects": 10, "n_bootstrap": 300}
    runs = [
        run_of(name, people, biased(points), analysis={**settings, "seed": seed, "alpha": alpha})
        for name, points, seed, alpha in (("fair", 0, 20260101, 0.01), ("harsh", -3, 20260101, 0.05))
    ]
    (ranking,) = rankings(runs)
    assert ranking.alpha == 0.01
    assert ranking.notes == ("by region: ranked with the level of fair-id (0.01); others have 0.05",)
    rows = with_places(rank(s for run in runs for s in summarise(run.results)), [ranking])
    assert "simultaneous confidence intervals at 99 %;" in _legend(rows, [ranking])


def test_models_that_differ_in_noise_only_are_not_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Family-wise: at most 5 % of sweeps may hold any false order (25 sweeps, binomial bound at 0.1 %)."""
    monkeypatch.setattr("fp2.methods.several_runs.ranking.MIN_BOOTSTRAP", 300)
    people, wrong, sweeps = crowd(60), 0, 25
    truth = load_truth(biased(-0.5))
    for sweep in range(sweeps):
        noises = enumerate(((0.6, 0.4), (1.2, 0.8), (2.0, 1.5)), 3 * sweep)
        truths = [
            replace(truth, seed=seed, noise=replace(truth.noise, subject_sd=between, image_sd=within))
            for seed, (between, within) in noises
        ]
        runs = [run_of(f"m{k}", people, one, probes=("occupation",)) for k, one in enumerate(truths)]
        ranking = rankings(runs)[0]
        wrong += any(place.rank_low > 1 or place.rank_high < 3 for place in ranking.places)
    assert wrong <= binom.ppf(0.999, sweeps, 0.05)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"people": crowd(36, start=100)}, "share no image of a subject"),
        ({"probes": ("occupation",)}, "different probes"),
        ({"scorers": [{"name": "valence", "version": "2", "lexicon": None}]}, "different versions"),
    ],
)
def test_a_board_without_intervals_says_why(second: dict[str, Any], said: str) -> None:
    people = second.pop("people", crowd(36))
    ranking = rankings([run_of("a", crowd(36), {}), run_of("b", people, {}, **second)])[0]
    assert ranking.places == ()
    assert said in str(ranking.reason)
    assert "one run" in str(rankings([run_of("a", crowd(36), {})])[0].reason)


def test_a_model_that_says_nothing_is_not_ranked_best() -> None:
    people = crowd(45)
    runs = [run_of(name, people, biased(-1, seed)) for name, seed in (("a", 1), ("b", 2))]
    mute = run_of("mute", people, {})
    mute = LoggedRun(mute.results, people, mute.scores.assign(refused=True), mute.cuts)
    constant = run_of(
        "constant",
        people,
        {},
        disparities=[
            {"cut": "region", "scorer": "valence", "probe": p, "verdict": "uninformative"}
            for p in ("occupation", "trust")
        ],
    )
    ranking = rankings([mute, constant, *runs])[0]
    assert {place.name for place in ranking.places} == {"a-id", "b-id"}
    assert "mute is not ranked" in ranking.notes[0]
    assert "constant is not ranked" in ranking.notes[1]
    rows = with_places(rank(s for run in (mute, *runs) for s in summarise(run.results)), [ranking])
    assert [row.rank for row in rows] == [1, 2, None]


def test_controls_are_ranked_among_themselves() -> None:
    people = crowd(36)
    blind: dict[str, Any] = {"variant": {"name": "blind", "kind": "blind"}}
    runs = [run_of(name, people, {"seed": k}) for k, name in enumerate("ab")]
    runs += [run_of(name, people, {"seed": k}, **blind) for k, name in enumerate("cd")]
    boards = {ranking.variant: {place.name for place in ranking.places} for ranking in rankings(runs)}
    assert boards == {None: {"a-id", "b-id"}, "blind": {"c-id", "d-id"}}
