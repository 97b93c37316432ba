"""Two simulated runs compared: planted differences are found, and only what both runs share is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_runs import TEXTS, biased, crowd, run_of

from fp2.errors import Fp2Error
from fp2.methods.several_runs.compare import CompareSettings, compare
from fp2.methods.several_runs.ranking import rankings
from fp2.runs.reader import LoggedRun

QUICK = CompareSettings(n_permutations=499, n_bootstrap=200, seed=3)


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
    assert any("the 39 subjects of both runs" in line for line in found["notes"])
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
        ({"people": crowd(36, start=100), "dataset_digest": "one"}, "share no image of a subject"),
        ({"probes": ("lifestyle",)}, "different probes"),
        ({"cuts": ("pronoun",)}, "no cut in common"),
        ({"scorers": [{"name": "valence", "version": "2", "lexicon": None}]}, "no scorer of the same version"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(second: dict[str, Any], said: str) -> None:
    people = second.pop("people", crowd(36))
    with pytest.raises(Fp2Error, match=said) as error:
        compared(run_of("a", crowd(36), {}, dataset_digest="one"), run_of("b", people, {}, **second))
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
    with pytest.raises(Fp2Error, match="with different texts"):
        compared(run_of("a", crowd(36), {}, probes=("occupation",)), second)


def test_a_scorer_that_is_not_for_every_probe_hinders_nothing() -> None:
    people, runs = crowd(60), []
    for name, truth in (("a", biased(-1)), ("b", biased(-1, seed=4))):
        run = run_of(name, people, truth)
        runs.append(LoggedRun(run.results, run.people, run.scores[run.scores["probe"] == "trust"], run.cuts))
    found = compared(runs[0], runs[1])
    assert (list(found["probes"]), found["notes"]) == (["trust"], [])
    assert rankings(runs)[0].reason is None


def test_runs_on_different_people_are_two_samples() -> None:
    """A planted difference is found without a shared subject; parallel profiles are not called different."""
    first = run_of("a", crowd(90), biased(-1))
    same, other = (run_of("b", crowd(120, start=500), biased(points, seed=9)) for points in (-1, -5))
    alike, differ = compared(first, same), compared(first, other)
    assert alike["samples"] == differ["samples"] == "independent"
    assert alike["distances"][0]["adjusted_p"] > 0.05
    assert differ["distances"][0]["adjusted_p"] <= 0.01
    assert differ["distances"][0]["ci_low"] > 0
    assert differ["shared"] == {"n_subjects": 0, "n_images": 0, "n_subjects_first": 90, "n_subjects_second": 120}
    assert any("two independent samples" in line for line in differ["notes"])
    table = pd.DataFrame(differ["profiles"])
    squares = ((table["first"] - table["second"]) ** 2).groupby(table["probe"]).mean()
    assert differ["distances"][0]["distance"] == pytest.approx(float(np.sqrt(squares.mean())))


def test_one_data_set_under_two_salts_is_not_two_samples() -> None:
    """Its subjects are the same people, whose keys do not match."""
    runs = [run_of(name, crowd(36, start), {}, dataset_digest="one") for name, start in (("a", 0), ("b", 100))]
    with pytest.raises(Fp2Error, match="share no image of a subject"):
        compared(*runs)
