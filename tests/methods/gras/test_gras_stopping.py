"""GRAS runs that stop when certain: differences of groups, decisions, what is asked, and what is computed of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, check_counts, fp2, interrupted, predicate_of, results_of
from scipy.stats import norm
from simulated_answers import QUICK, world_with_changing_age

from benchmarks.gras_worlds import World
from fp2.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED
from fp2.methods.gras.decisions import (
    COMPOSITE,
    DIFFERENT,
    EQUIVALENT,
    FUTILE,
    OPEN,
    ROWS,
    TraitLooks,
    critical_value,
    decide_composite,
    part_of_alpha,
)
from fp2.methods.gras.grouping import group_answers
from fp2.methods.gras.pairs import PairTests
from fp2.methods.gras.resampling import TraitTests

AT = (0.1, 0.3, 1.0)
STOP = "answers.stop=certain"
TRUTH = (
    "model.truth={yes_no: {effects: {gender: {f: 2.0}}, unaffected: [calm], noise: {subject_sd: 0.1, image_sd: 0.1}}}"
)
WORDS = (
    "probe=gras", "probe.traits={kind: 2.6, cruel: -2.9, calm: 2.0}", "probe.select=[direct,evidence]", TRUTH,
    "probe.options.permutations=100", "probe.options.bootstrap=20", "analysis.min_subjects=4", "scorer=none",
)  # fmt: skip


def world(sizes: tuple[int, ...] = (40, 25, 15)) -> tuple[Any, Any, World]:
    made = World(sum(sizes), groups={"age": len(sizes)}, sizes={"age": sizes}, skew=(-2.0, 1.0), traits=3, templates=2)
    people = made.people(np.random.default_rng(1))
    return made.answers(people, np.random.default_rng(2)), people, made


def test_differences_are_studentised_as_by_hand() -> None:
    answers, people, made = world()
    tests = TraitTests(answers, group_answers(answers, people, made.cuts, QUICK), QUICK, "images")
    found = PairTests.of(tests, 30)
    y = answers.columns["p_yes_first_token"].reshape(len(people), -1).astype(float)
    group = np.array([cell[0] for cell in people["attr_age"]])
    of_groups = [y[group == name] for name in np.unique(group)]
    n, mean, variance = zip(*((len(a), a.mean(axis=0), a.var(axis=0, ddof=1)) for a in of_groups), strict=True)
    pooled = sum((k - 1) * v for k, v in zip(n, variance, strict=True)) / (sum(n) - 3)
    error = [np.maximum(v, ((k - 1) * v + pooled) / k) / k for k, v in zip(n, variance, strict=True)]
    for row, (g, h) in enumerate([(0, 1), (0, 2), (1, 2)]):
        assert found.gap[0][row] == pytest.approx(np.abs(mean[g] - mean[h]), rel=1e-5)
        assert found.error[0][row] == pytest.approx(np.sqrt(error[g] + error[h]), rel=1e-5)
    assert found.permuted.shape == (30, 1, 6)
    assert found.fewest[0] == pytest.approx(15)
    assert 1 / 31 <= found.composite_p <= 1


def test_a_subject_counts_once_and_groups_that_are_too_small_are_not_compared() -> None:
    answers, people = world_with_changing_age(missing=True)
    cuts = World(groups={"gender": 2, "age": 4}).cuts
    answers.columns["p_yes_first_token"][:, 0, 0] = np.where(
        [cell == ["age 0"] for cell in people["attr_age"]], np.nan, answers.columns["p_yes_first_token"][:, 0, 0]
    )
    tests = TraitTests(answers, group_answers(answers, people, cuts, QUICK), QUICK, "subjects")
    found = PairTests.of(tests, 20)
    assert found.groups[1, 0] == 3
    assert np.isinf(found.error[1][:3, 0]).all()
    assert (found.groups[:, 1:] == [[2], [4]]).all()
    assert found.fewest[0].max() <= people["subject_id"].nunique()


def test_critical_values_give_permutation_p_values_of_their_level() -> None:
    largest = np.random.default_rng(1).normal(size=(199, 2))
    for level in (0.005, 0.05, 0.3):
        for value in (critical_value(largest, level) + step for step in (1e-9, -1e-9)):
            p = (1 + (largest >= value).sum(axis=0)) / 200
            assert ((p <= level + 1e-12) == (value > critical_value(largest, level))).all()
    assert np.isinf(critical_value(largest, 0.004)).all()


def test_the_looks_share_alpha_as_the_spending_function_says() -> None:
    parts = [part_of_alpha(AT, look) for look in (1, 2, 3)]
    assert sum(parts) == pytest.approx(1)
    assert parts[0] == pytest.approx(math.log(1 + (math.e - 1) * 0.1))
    state, repeated = decide_composite(0.9 * parts[1] * COMPOSITE * 0.05, AT, 2, 0.05)
    assert (state, repeated) == (DIFFERENT, pytest.approx(0.9 * COMPOSITE * 0.05))
    assert decide_composite(0.9, AT, 2, 0.05)[0] == FUTILE
    assert decide_composite(0.9, AT, 3, 0.05)[0] == OPEN


def pair_tests(gap: list[float], error: float, groups: int = 2, subjects: int = 500) -> PairTests:
    """Return one attribute with two groups, each question with a gap; permuted statistics of a normal distribution."""
    z = np.abs(np.random.default_rng(3).normal(size=(20_000, 1, len(gap))))
    known = np.full((1, len(gap)), groups), np.full((1, len(gap)), subjects)
    return PairTests([np.array([gap])], [np.full((1, len(gap)), error)], *known, z)


def looks(n: int, **changed: Any) -> TraitLooks:
    questions = tuple((f"trait {k}", "T1") for k in range(n))
    given = {"at": AT, "alpha": 0.05, "smallest_effect": 0.1, "width": 1.0, "groups": (2,), "subjects": (900,)}
    return TraitLooks(**{**given, "questions": questions, **changed})


def test_a_question_ends_once_its_rows_and_the_composite_are_decided() -> None:
    tests = pair_tests([0.5, 0.0, 0.11, 0.25], 0.02)
    after = looks(4, now=2).after(tests)
    assert after.decided is not None
    assert after.decided[0].tolist() == [DIFFERENT, EQUIVALENT, FUTILE, DIFFERENT]
    assert after.last == {question: 2 for question in after.questions}
    rows, level = after.intervals(tests), ROWS * 0.05 * part_of_alpha(AT, 2)
    z = -norm.ppf((1 - (1 - level) ** (1 / 4)) / 2)
    assert rows.low[0, 0] == pytest.approx(0.5 - 0.02 * z, abs=0.004)
    assert rows.high[0, 0] == pytest.approx(0.5 + 0.02 * z, abs=0.004)
    unclear = replace(tests, gap=[np.array([[0.02, 0.02, 0.03, 0.03]])], error=[np.full((1, 4), 0.08)])
    assert looks(4, now=2, composite=OPEN).after(unclear).last == {}
    ends = looks(4, now=3).after(unclear)
    assert set(ends.last.values()) == {3}
    assert ends.decided is not None
    assert set(ends.decided.ravel()) == {OPEN}


def test_nothing_is_equivalent_before_rare_answers_would_show_or_all_groups_are_compared() -> None:
    small = [0.0, 0.0, 0.0, 0.0]
    for tests, expected in (
        (pair_tests(small, 0.01), EQUIVALENT),
        (pair_tests(small, 0.01, subjects=40), OPEN),
        (pair_tests(small, 0.01, groups=1), OPEN),
    ):
        after = looks(4, now=2, composite=DIFFERENT).after(tests)
        assert after.decided is not None
        assert set(after.decided.ravel()) == {expected}
    never = looks(4, now=2, composite=DIFFERENT, subjects=(40,)).after(pair_tests(small, 0.01, subjects=40))
    assert never.decided is not None
    assert set(never.decided.ravel()) == {FUTILE}


def test_a_decision_stays_and_futility_does_not_bind() -> None:
    tests = pair_tests([0.5, 0.11], 0.02)
    first = looks(2, now=1, decided=np.array([[EQUIVALENT, FUTILE]]), look=np.array([[1, 1]]))
    after = replace(first, now=2).after(replace(tests, gap=[np.array([[0.5, 0.5]])]))
    assert after.decided is not None
    assert after.decided[0].tolist() == [EQUIVALENT, DIFFERENT]
    assert after.look is not None
    assert after.look[0].tolist() == [1, 2]


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory, squares: Any) -> Bench:
    """A project with one run that stopped; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("certain"), squares)
    bench.run(*WORDS, STOP, "report=default", "report.figures=false", folder="one")
    return bench


def comparable(results: dict[str, Any]) -> str:
    return json.dumps([results["stopping"], results["gras"]], sort_keys=True)


def test_a_run_states_what_was_asked_decided_and_saved(certain: Bench) -> None:
    results = results_of(certain.outputs / "one")
    block, answers = results["stopping"], results["answers"]
    check_counts(results)
    headline, rows = block["headline"], block["rows"]["gender"]
    assert results["complete"] is True
    assert answers["cached"] == 0
    assert headline["asked"] == answers["planned"] - answers["not_asked"] < answers["planned"] == headline["planned"]
    decided = dict(zip([trait["word"] for trait in results["gras"]["traits"]], rows["decided"], strict=True))
    assert decided["kind"] == decided["cruel"] == ["different", "different"]
    assert "different" not in decided["calm"]
    for name in ("repeated_ci_low", "repeated_ci_high"):
        assert np.shape(rows[name]) == (3, 2)
    assert (np.array(rows["repeated_ci_low"]) <= np.array(rows["gap"])).all()
    assert (np.array(rows["gap"]) <= np.array(rows["repeated_ci_high"])).all()
    assert results["gras"]["n_images"] == block["shared_images"] < results["n_images"]
    assert any(str(block["shared_images"]) in warning for warning in results["gras"]["warnings"])
    assert predicate_of(certain.outputs / "one")["findings"]["stopping"] == headline
    assert "Stopped when certain" in (certain.outputs / "one" / "dashboard.html").read_text(encoding="utf-8")
    assert fp2("check", str(certain.outputs / "one"), *certain.paths) == 0


def test_whatever_the_store_has_the_decisions_are_the_same(certain: Bench, bench: Bench) -> None:
    stopped = results_of(certain.outputs / "one")
    with interrupted(2):
        assert bench.run(*WORDS, STOP, "engine.batch_size=4").exit_status == EXIT_INTERRUPTED
    resumed = bench.run(*WORDS, STOP).results
    assert comparable(resumed) == comparable(stopped)
    assert resumed["answers"]["cached"] > 0
    everything = bench.run(*WORDS).results
    assert everything["answers"]["cached"] == stopped["stopping"]["headline"]["asked"]
    assert "not_asked" not in everything["answers"]
    status = everything["gras"]["units"]["subjects"]["tests"]["gender"]["status"]
    assert [found.endswith("_differs") for found in status] == [True, True, False]
    again = bench.run(*WORDS, STOP).results
    assert again["answers"]["model_calls"] == 0
    assert comparable(again) == comparable(stopped)


def test_a_purge_keeps_the_decisions_and_computes_the_rest_again(certain: Bench, own_root: Any) -> None:
    copy = certain.copied_to(own_root)
    before = results_of(copy.outputs / "one")
    person = pd.read_csv(copy.table)["person"].iloc[0]
    assert fp2("purge", "--subject", person, "--yes", *copy.paths) == 0
    after = results_of(copy.outputs / "one")
    assert after["n_subjects"] == before["n_subjects"] - 1
    assert after["stopping"]["rows"]["gender"]["decided"] == before["stopping"]["rows"]["gender"]["decided"]
    assert after["stopping"]["headline"]["planned"] < before["stopping"]["headline"]["planned"]
    assert after["stopping"]["shared_images"] <= before["stopping"]["shared_images"]


def test_fewer_answers_are_expected_for_larger_gaps(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    expected = []
    for gap in ("0.6", "1.5"):
        assert fp2("plan", *bench.words(*WORDS, STOP), "--gap", gap, "--json", "-") == 0
        row = json.loads(capsys.readouterr().out)["plans"][0]["rows"]["answers until certain"]
        expected.append(int(row.split()[1].replace(",", "")))
    assert 0 < expected[1] < expected[0] < 432


@pytest.mark.parametrize("words", [("answers.stop=sure",), (STOP, "shard=1/2"), (STOP, "analysis.min_subjects=19")])
def test_what_does_not_go_together_is_one_line(
    bench: Bench, words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    assert bench.launch(*WORDS, *words) == EXIT_BAD_INPUT
    assert "Traceback" not in (err := capfd.readouterr().err)
    assert "error:" in err
    assert not bench.run_folders()
