"""Two runs compared, and the runs of a sweep ranked: on simulated models whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import binom

from fp2.commands.leaderboard import _legend
from fp2.cuts import Cut
from fp2.engines.planted import truth as planted_truth
from fp2.engines.planted.engine import simulate
from fp2.engines.planted.truth import PlantedTruth, load_truth
from fp2.errors import Fp2Error
from fp2.report.leaderboard import rank, summarise, to_markdown, with_places
from fp2.runs.compare import Settings, compare
from fp2.runs.ranking import rankings
from fp2.runs.reader import LoggedRun
from fp2.tables import Question

TEXTS = {
    probe: body["texts"][0]
    for probe, body in yaml.safe_load(
        Path(planted_truth.__file__).with_name("default.yaml").read_text(encoding="utf-8")
    )["probes"].items()
}
QUICK = Settings(n_permutations=499, n_bootstrap=200, seed=3)
REGIONS, PRONOUNS = ("North", "South", "West"), ("She", "He")


@cache
def valence_of(text: str) -> float:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return float(SentimentIntensityAnalyzer().polarity_scores(text)["compound"])


def crowd(n: int = 60, start: int = 0) -> pd.DataFrame:
    """Two pictures each of `n` people in three regions."""
    who = np.repeat(np.arange(start, start + n), 2)
    return pd.DataFrame(
        {
            "image_id": [f"i{2 * s + k % 2}" for k, s in enumerate(who)],
            "subject_id": [f"s{s}" for s in who],
            "attr_region": [[REGIONS[s % 3]] for s in who],
            "attr_pronoun": [[PRONOUNS[(s // 3) % 2]] for s in who],
        }
    )


def run_of(
    name: str,
    people: pd.DataFrame,
    truth: dict[str, Any] | PlantedTruth,
    probes: tuple[str, ...] = ("occupation", "trust"),
    cuts: tuple[str, ...] = ("region",),
    **results: Any,
) -> LoggedRun:
    """A finished run of the simulator, without the pipeline around it."""
    planted = truth if isinstance(truth, PlantedTruth) else load_truth(truth)
    answers = simulate(people, [Question(p, p, TEXTS[p]) for p in probes], planted)
    refused = answers["text"].isin(["refused"])
    scores = answers[["image_id", "subject_id", "probe"]].assign(
        scorer="valence", value=[valence_of(text) for text in answers["text"]], refused=refused
    )
    found: dict[str, Any] = {
        "run_id": f"{name}-id",
        "created": "2026-01-01",
        "model": {"name": name, "engine": "planted"},
        "dataset": {"name": "crowd"},
        "probes": [{"id": p, "label": p.title(), "text": TEXTS[p]} for p in probes],
        "scorers": [{"name": "valence", "version": "1", "lexicon": None}],
        "analysis": {"primary": "valence", "min_subjects": 10, "n_bootstrap": 300, "seed": 1, "alpha": 0.05},
        "cuts": list(cuts),
        "disparities": [],
        "composites": {cut: {"value": 0.2, "null_mean": 0.1, "excess": 0.1, "probes": list(probes)} for cut in cuts},
        "answers": {"answered": len(answers), "refused": 0},
        "n_subjects": people["subject_id"].nunique(),
        "complete": True,
        "config_hash": "c",
        "response_set": "r",
    }
    return LoggedRun(found | results, people, scores, {cut: Cut(cut, (cut,)) for cut in cuts})


def biased(points: float, seed: int = 1) -> dict[str, Any]:
    return {"seed": seed, "effects": {"all": {"region": {"West": points}}}}


def compared(first: LoggedRun, second: LoggedRun) -> dict[str, Any]:
    steps: list[int] = []

    def start(n: int) -> Any:
        steps.extend([n, 0])
        return lambda: steps.__setitem__(1, steps[1] + 1)

    found = compare(first, second, QUICK, start)
    assert steps[0] == steps[1]
    return found


def test_a_planted_difference_is_found_where_it_was_planted() -> None:
    people = crowd(90)
    only = {"seed": 2, "effects": {"occupation": {"region": {"West": -3.0}}}}
    cuts = ("region", "pronoun")
    found = compared(run_of("a", people, {"seed": 1}, cuts=cuts), run_of("b", people, only, cuts=cuts))
    by_cut = {row["cut"]: row for row in found["distances"]}
    assert by_cut["region"]["adjusted_p"] <= 0.01
    assert by_cut["pronoun"]["adjusted_p"] > 0.05
    assert by_cut["region"]["ci_low"] > 0
    probes = {entry["probe"]: entry for entry in by_cut["region"]["by_probe"]}
    assert probes["occupation"]["adjusted_p"] <= 0.02 < probes["trust"]["adjusted_p"]
    assert probes["occupation"]["distance"] > 2 * probes["trust"]["distance"]
    west = {row["probe"]: row for row in found["profiles"] if row["group"] == "West"}
    assert west["occupation"]["second"] < west["occupation"]["first"] - 0.2
    assert found["shared"] == {"n_subjects": 90, "n_images": 180, "n_subjects_first": 90, "n_subjects_second": 90}


def test_the_distance_follows_from_the_profiles_that_are_shown() -> None:
    people = crowd()
    found = compared(run_of("a", people, biased(-2)), run_of("b", people, biased(1, seed=5)))
    table = pd.DataFrame(found["profiles"])
    assert table.groupby("probe")[["first", "second"]].sum().abs().max().max() < 1e-12  # centred
    squares = ((table["first"] - table["second"]) ** 2).groupby(table["probe"]).mean()
    assert found["distances"][0]["distance"] == pytest.approx(float(np.sqrt(squares.mean())))
    for entry in found["distances"][0]["by_probe"]:
        assert entry["distance"] == pytest.approx(float(np.sqrt(squares[entry["probe"]])))


def test_only_shared_people_are_compared_and_it_is_said() -> None:
    first, second = run_of("a", crowd(60), biased(-1)), run_of("b", crowd(60, start=21), biased(-1))
    found = compared(first, second)
    assert found["shared"]["n_subjects"] == 39
    assert found["distances"][0]["n_subjects"] == 39
    assert any("39 people" in line for line in found["notes"])
    kept = first.people["subject_id"].isin(second.people["subject_id"])
    alone = LoggedRun(first.results, first.people[kept], first.scores, first.cuts)
    assert compared(alone, second)["distances"] == found["distances"]


def test_the_same_model_twice_has_no_distance_and_names_that_differ() -> None:
    people = crowd(36)
    found = compared(run_of("m", people, biased(-1)), run_of("m", people, biased(-1), run_id="other-run-id"))
    assert found["distances"][0]["distance"] == pytest.approx(0.0, abs=1e-12)
    assert found["distances"][0]["adjusted_p"] == 1.0
    assert found["distances"][0]["correlation"] == pytest.approx(1.0)
    assert found["first"]["name"] != found["second"]["name"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"people": crowd(36, start=100)}, "share no person"),
        ({"probes": ("lifestyle",)}, "different probes"),
        ({"cuts": ("pronoun",)}, "no cut in common"),
        ({"scorers": [{"name": "valence", "version": "2", "lexicon": None}]}, "no scorer of the same version"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_line(second: dict[str, Any], said: str) -> None:
    people = second.pop("people", crowd(36))
    with pytest.raises(Fp2Error, match=said) as error:
        compared(run_of("a", crowd(36), {}), run_of("b", people, {}, **second))
    assert "\n" not in str(error.value)


def test_probes_in_other_words_are_left_out_and_named() -> None:
    changed = [
        {"id": "occupation", "label": "Work", "text": "What is the job?"},
        {"id": "trust", "label": "Trust", "text": TEXTS["trust"]},
    ]
    found = compared(run_of("a", crowd(36), {}), run_of("b", crowd(36), {}))
    assert set(found["probes"]) == {"occupation", "trust"}
    second = run_of("b", crowd(36), {})
    second = LoggedRun({**second.results, "probes": changed}, second.people, second.scores, second.cuts)
    found = compared(run_of("a", crowd(36), {}), second)
    assert list(found["probes"]) == ["trust"]
    assert any("occupation" in line for line in found["notes"])
    second = LoggedRun({**second.results, "probes": changed[:1]}, second.people, second.scores, second.cuts)
    with pytest.raises(Fp2Error, match="in different words"):
        compared(run_of("a", crowd(36), {}, probes=("occupation",)), second)


def test_a_scorer_that_is_not_for_every_probe_hinders_nothing() -> None:
    people, runs = crowd(60), []
    for name, truth in (("a", biased(-1)), ("b", biased(-1, seed=4))):
        run = run_of(name, people, truth)
        runs.append(LoggedRun(run.results, run.people, run.scores[run.scores["probe"] == "trust"], run.cuts))
    found = compared(runs[0], runs[1])
    assert (list(found["probes"]), found["notes"]) == (["trust"], [])
    assert rankings(runs)[0].reason is None


def test_a_clearly_better_model_has_a_rank_of_its_own() -> None:
    people = crowd(90)
    fair = run_of("fair", people, {"seed": 1})
    harsh = [run_of(f"harsh {k}", people, biased(-3, seed=k)) for k in (2, 3)]
    ranking = rankings([*harsh, fair])[0]
    assert ranking.reason is None
    assert ranking.places[0].run_id == "fair-id"
    assert (ranking.places[0].rank_low, ranking.places[0].rank_high) == (1, 1)
    assert [(p.rank_low, p.rank_high) for p in ranking.places[1:]] == [(2, 3), (2, 3)]
    assert len({p.ties for p in ranking.places[1:]}) == 1
    assert ranking.places[0].ties != ranking.places[1].ties
    rows = with_places(rank(s for run in (fair, *harsh) for s in summarise(run.results)), [ranking])
    assert [row.run_id for row in rows] == [place.run_id for place in ranking.places]
    assert [row.rank for row in rows] == [1, 2, 3]
    lines = to_markdown(rows).splitlines()
    assert "| 1 | 1 | a |" in lines[2]
    assert "| 2 | 2–3 | b |" in lines[3]


def test_the_level_of_a_ranking_is_its_first_runs_and_others_are_told() -> None:
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
    assert "all at once at 99 %;" in _legend(rows, [ranking])


def test_models_that_differ_in_noise_only_are_not_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Family-wise: at most 5 % of sweeps may hold any false order (25 sweeps, binomial bound at 0.1 %)."""
    monkeypatch.setattr("fp2.runs.ranking.MIN_BOOTSTRAP", 300)
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
        ({"people": crowd(36, start=100)}, "share no person"),
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
        "constant", people, {},
        disparities=[{"cut": "region", "scorer": "valence", "probe": p, "verdict": "uninformative"}
                     for p in ("occupation", "trust")],
    )  # fmt: skip
    ranking = rankings([mute, constant, *runs])[0]
    assert {place.run_id for place in ranking.places} == {"a-id", "b-id"}
    assert "mute is not ranked" in ranking.notes[0]
    assert "constant is not ranked" in ranking.notes[1]
    rows = with_places(rank(s for run in (mute, *runs) for s in summarise(run.results)), [ranking])
    assert [row.rank for row in rows] == [1, 2, None]


def test_controls_are_ranked_among_themselves() -> None:
    people = crowd(36)
    blind: dict[str, Any] = {"variant": {"name": "blind", "kind": "blind"}}
    runs = [run_of(name, people, {"seed": k}) for k, name in enumerate("ab")]
    runs += [run_of(name, people, {"seed": k}, **blind) for k, name in enumerate("cd")]
    boards = {ranking.variant: {place.run_id for place in ranking.places} for ranking in rankings(runs)}
    assert boards == {None: {"a-id", "b-id"}, "blind": {"c-id", "d-id"}}
