"""Runs that stop when their order is certain: tests of an order, decisions, what is asked, compared and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import Bench, check_counts, fp2, interrupted, predicate_of, results_of
from scipy.stats import binom

from fp2.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED
from fp2.methods.several_runs.compare import CompareSettings, compare
from fp2.methods.several_runs.profiles import OrderTest, order_tests, resampled_profiles
from fp2.methods.several_runs.ranking import rankings
from fp2.methods.stopping.looks import EQUIVALENT, FUTILE, OPEN, StoppingLooks
from fp2.methods.stopping.standing import LARGER, SMALLER, UNDECIDED, PairKey, Standing, is_tested, take_standings
from fp2.runs.reader import LoggedRun, read_run

STOP = "answers.stop=order"
FEW = "analysis.min_subjects=4"
FAST = ("analysis.permutations=1999", "analysis.bootstrap=0")
STRONG, WEAK = (
    f"model.truth={{seed: {seed}, effects: {{all: {{gender: {{f: {size}}}}}}}}}" for seed, size in ((4, -6), (5, 0))
)
GROUPS, SUBJECTS = np.repeat(["x", "y", "z"], 40), np.arange(120)


def order_of(gaps: tuple[float, float], margin: float, seed: int) -> OrderTest:
    """Return the test of two models with gaps of different groups; answers of a subject are correlated."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(1, 120, 2))
    values = 0.1 * (shared + rng.normal(size=(2, 120, 2)))
    for model, (gap, group) in enumerate(zip(gaps, "xz", strict=True)):
        values[model, group == GROUPS] += gap
    return order_tests(*resampled_profiles(values, GROUPS, SUBJECTS, None, 199, seed, 10), [(0, 1)], margin)[0]


def test_an_order_is_found_where_there_is_one_and_its_size_is_unbiased() -> None:
    found = [order_of((0.3, 0.1), 0.05, seed) for seed in range(20)]
    assert all(test.p_value <= 0.01 and test.differences[0] > test.differences[1] for test in found)
    assert all(test.equivalence_p > 0.4 for test in found)
    assert np.mean([test.differences for test in found], axis=0) == pytest.approx(
        np.array([0.3, 0.1]) * np.sqrt(2 / 3), abs=0.01
    )


def test_equal_differences_of_other_groups_are_not_ordered_and_equivalent_within_a_wide_margin() -> None:
    """False orders at most 5 % (60 data sets, binomial bound at 0.1 %)."""
    tests = [order_of((0.2, 0.2), 0.2, seed) for seed in range(60)]
    assert sum(test.p_value <= 0.05 for test in tests) <= binom.ppf(0.999, 60, 0.05)
    assert all(test.equivalence_p <= 0.01 for test in tests)


def test_differences_that_are_the_margin_apart_are_not_called_equivalent() -> None:
    margin = 0.15 * np.sqrt(2 / 3)
    tests = [order_of((0.25, 0.1), margin, seed) for seed in range(60)]
    assert sum(test.equivalence_p <= 0.05 for test in tests) <= binom.ppf(0.999, 60, 0.05)


def test_a_model_without_any_spread_is_equivalent_to_none() -> None:
    values = np.stack([np.zeros((120, 1)), np.random.default_rng(1).normal(0, 1e-3, (120, 1))])
    drawn = resampled_profiles(values, GROUPS, SUBJECTS, None, 99, 1, 10)
    assert order_tests(*drawn, [(0, 1)], 0.05)[0].equivalence_p == 1.0


def looks(now: int) -> StoppingLooks:
    return StoppingLooks(
        at=(0.1, 0.4, 1.0), now=now, spending="pocock", alpha=0.05, smallest_share=1, primary="s", groups={"c": 2}
    )


NEW = Standing()


def decided(now: int, *tests: OrderTest, before: Standing = NEW, last: int = 3) -> list[Standing]:
    keys: list[PairKey] = [(f"r{k}", "c") for k in range(len(tests))]
    taken = {key: (test, 9) for key, test in zip(keys, tests, strict=True)}
    return list(take_standings(looks(now), dict.fromkeys(keys, before), taken, dict.fromkeys(keys, last)).values())


def test_each_finished_run_is_decided_by_its_test() -> None:
    tests = [
        OrderTest((0.1, 0.4), 1e-4, 1.0),
        OrderTest((0.4, 0.1), 1e-4, 1.0),
        OrderTest((0.1, 0.1), 0.9, 1e-5),
        OrderTest((0.1, 0.1), 0.9, 0.5),
        OrderTest((0.1, 0.2), 0.05, 0.5),
    ]
    standings = decided(2, *tests)
    assert [standing.decided for standing in standings] == [SMALLER, LARGER, EQUIVALENT, FUTILE, OPEN]
    assert all(1e-4 < standing.p_value < standing.adjusted_p <= 0.05 for standing in standings[:2])
    assert decided(3, tests[-1])[0].decided == UNDECIDED
    assert decided(2, tests[-1], last=2)[0].decided == UNDECIDED, "the finished run has no further answers"


def test_what_is_decided_stays_and_futility_does_not_bind() -> None:
    first = decided(1, OrderTest((0.1, 0.4), 1e-4, 1.0))[0]
    assert not is_tested(looks(2), first, 3)
    key = ("r0", "c")
    later = take_standings(looks(2), {key: first}, {}, {key: 3})[key]
    assert (later.decided, later.look, later.differences) == (SMALLER, 1, (0.1, 0.4))
    futile = Standing(look=1, decided=FUTILE)
    assert is_tested(looks(2), futile, 3)
    assert decided(2, OrderTest((0.1, 0.4), 1e-4, 1.0), before=futile)[0].decided == SMALLER


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Bench:
    """A project with a run that asked everything and one that stopped; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("ordered"), squares)
    bench.run(STRONG, FEW, *FAST, folder="full")
    bench.run(WEAK, *stopping(bench), "report=default", "report.figures=false", folder="one")
    return bench


def stopping(bench: Bench) -> tuple[str, ...]:
    return (STOP, f"answers.against=[{bench.outputs / 'full'}]", FEW, *FAST)


def run_of(bench: Bench, folder: str) -> LoggedRun:
    return read_run(str(bench.outputs / folder), bench.config(), bench.root)


def test_a_run_stops_and_states_its_order_against_whom_and_what_was_saved(ordered: Bench) -> None:
    full, results = (results_of(ordered.outputs / folder) for folder in ("full", "one"))
    block, answers = results["stopping"], results["answers"]
    check_counts(results)
    headline = block["headline"]
    assert results["complete"] is True
    assert headline["asked"] == answers["planned"] - answers["not_asked"] < answers["planned"]
    assert headline["against"] == [full["run_id"]]
    (order,) = block["orders"]
    assert (order["decided"], order["look"]) == (SMALLER, block["now"])
    assert order["differences"][0] < order["differences"][1]
    assert predicate_of(ordered.outputs / "one")["findings"]["stopping"] == headline
    assert full["run_id"] in (ordered.outputs / "one" / "dashboard.html").read_text(encoding="utf-8")
    assert all(row["p_value"] <= row["repeated_p"] for row in results["disparities"])
    assert fp2("check", str(ordered.outputs / "one"), *ordered.paths) == 0


def comparable(results: dict[str, Any]) -> str:
    block = {key: value for key, value in results["stopping"].items() if key != "against"}
    return json.dumps([block, results["disparities"], results["composites"]], sort_keys=True)


def test_whatever_the_store_has_the_order_is_the_same(ordered: Bench, own_root: Path) -> None:
    bench = ordered.copied_to(own_root)
    stopped = results_of(bench.outputs / "one")
    bench.store.unlink()
    with interrupted(2):
        partial = bench.run(WEAK, *stopping(bench), "engine.batch_size=4")
    assert partial.exit_status == EXIT_INTERRUPTED
    assert comparable(bench.run(WEAK, *stopping(bench)).results) == comparable(stopped)
    again = bench.run(WEAK, *stopping(bench)).results
    assert again["answers"]["model_calls"] == 0
    assert comparable(again) == comparable(stopped)
    everything = bench.run(WEAK, FEW, *FAST).results
    assert everything["answers"]["cached"] == stopped["stopping"]["headline"]["asked"]
    assert "not_asked" not in everything["answers"]


def test_scoring_such_a_run_again_keeps_its_order(ordered: Bench, own_root: Path) -> None:
    copy = ordered.copied_to(own_root)
    assert fp2("rescore", str(copy.outputs / "one"), *copy.paths, "tracking=none", "report=none") == 0
    after = next(results_of(folder) for folder in copy.run_folders() if folder.name not in ("one", "full"))
    assert after["stopping"]["headline"] == results_of(copy.outputs / "one")["stopping"]["headline"]


def test_runs_are_compared_and_ranked_on_what_both_were_asked(ordered: Bench) -> None:
    full, one = run_of(ordered, "full"), run_of(ordered, "one")
    n_asked = one.scores["subject_id"].nunique() if one.scores is not None else 0
    assert n_asked < full.people["subject_id"].nunique()
    (ranking,) = rankings([full, one])
    assert [(place.name, place.rank_low, place.rank_high) for place in ranking.places] == [
        (one.run_id, 1, 1),
        (full.run_id, 2, 2),
    ]
    assert {place.name: place.difference for place in ranking.places} == pytest.approx(
        dict(zip((one.run_id, full.run_id), one.results["stopping"]["orders"][0]["differences"], strict=True))
    )
    assert any("look" in note for note in ranking.notes)
    settings = CompareSettings(n_permutations=999, n_bootstrap=0, seed=1, min_subjects=4)
    block = compare(full, one, settings, lambda n: lambda: None)
    assert block["shared"]["n_subjects"] == block["distances"][0]["n_subjects"] == n_asked
    assert block["orders"][0]["decided"] == SMALLER
    assert block["distances"][0]["p_value"] > 0.0015, "repeated: 0.001 is the smallest of one look"


def test_without_names_the_finished_runs_of_the_experiment_are_compared(bench: Bench) -> None:
    first = bench.run(STRONG, STOP, FEW, *FAST, "tracking=mlflow").results
    assert "not_asked" not in first["answers"]
    assert "stopping" not in first
    second = bench.run(WEAK, STOP, FEW, *FAST, "tracking=mlflow")
    assert second.results["stopping"]["headline"]["against"] == [first["run_id"]]
    assert first["run_id"] in (second.folder / "config.yaml").read_text(encoding="utf-8"), "for a rerun"


@pytest.mark.parametrize(
    "words",
    [
        (WEAK, STOP, "answers.against=[nosuchrun]"),
        (STRONG, STOP, "answers.against=[FULL]"),
        (WEAK, STOP, "answers.against=[FULL,FULL]"),
        (WEAK, STOP, "answers.against=[PARTIAL]"),
        (WEAK, STOP, "answers.against=[FULL]", "probe.select=[occupation]"),
        (WEAK, STOP, "answers.against=[FULL]", "data.limit=20"),
        (WEAK, STOP, "answers.against=[FULL]", "cut.by=[region]"),
        (WEAK, STOP, "answers.against=[FULL]", "variant=grey"),
        (WEAK, STOP, "answers.against=[FULL]", "scorer=refusal"),
        (WEAK, "answers.against=[FULL]"),
        (WEAK, "answers.stop=certain", "answers.against=[FULL]"),
        (WEAK, STOP, "shard=1/2"),
        (STOP, "experiment=gras"),
    ],
)
def test_what_cannot_be_compared_is_one_line_before_anything_is_asked(
    ordered: Bench, words: tuple[str, ...], capfd: pytest.CaptureFixture[str], own_root: Path
) -> None:
    bench = ordered.copied_to(own_root)
    partial = shutil.copytree(bench.outputs / "full", bench.outputs / "partial") / "results.json"
    partial.write_text(json.dumps({**results_of(partial.parent), "complete": False}), encoding="utf-8")
    before = len(bench.run_folders())
    named = [word.replace("FULL", str(bench.outputs / "full")) for word in words]
    named = [word.replace("PARTIAL", str(bench.outputs / "partial")) for word in named]
    assert bench.launch(FEW, *named) == EXIT_BAD_INPUT
    error = capfd.readouterr().err
    assert "Traceback" not in error
    assert "error:" in error
    assert len(bench.run_folders()) == before
