"""Runs that stop when certain: waves, statistics after stopping, what is asked, decided and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import Bench, check_counts, fp2, interrupted, predicate_of, results_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fp2.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, Fp2Error
from fp2.methods.stopping.decisions import take_look
from fp2.methods.stopping.estimates import (
    crossing_probability,
    median_unbiased,
    predictive_power,
    stopping_probabilities,
    with_spread,
)
from fp2.methods.stopping.looks import BIASED, EQUIVALENT, FUTILE, OPEN, Decision, StoppingLooks
from fp2.methods.stopping.order import FIRST, Waves, make_waves
from fp2.stats.disparities import disparity

STOP = "answers.stop=certain"
FEW = "analysis.min_subjects=4"
STRONG = "model.truth={seed: 4, effects: {all: {gender: {f: -6}}}}"
FAST = ("analysis.permutations=1999", "analysis.bootstrap=0")


def population(sizes: Sequence[int]) -> dict[str, dict[str, list[str]]]:
    """Return subjects in groups of these sizes of one cut, alternating between two groups of another."""
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    return {f"s{i}": {"a": [str(group)], "b": ["xy"[i % 2]]} for i, group in enumerate(groups)}


def waves_of(people: dict[str, dict[str, list[str]]], seed: int, least: int, images: int = 1) -> Waves:
    return make_waves(people, {subject: [f"{i}" for i in range(images)] for subject in people}, seed, least)


@given(st.integers(0, 50), st.lists(st.integers(45, 200), min_size=2, max_size=4), st.integers(1, 3))
def test_each_wave_has_its_share_of_every_group(seed: int, sizes: list[int], images: int) -> None:
    people = population(sizes)
    waves = waves_of(people, seed, 10, images)
    assert waves.at[-1] == 1
    assert {subject for subject, _ in waves.wave} == set(people)
    for group, size in enumerate(sizes):
        inside = {key: number for key, number in waves.wave.items() if people[key[0]]["a"] == [str(group)]}
        ahead = max(1.0, 15 / min(size, sum(sizes) // 2) / max(FIRST * images, 15 / max(*sizes, (sum(sizes) + 1) // 2)))
        for look, t in enumerate(waves.at, 1):
            asked = [subject for (subject, _), number in inside.items() if number <= look]
            assert len(set(asked)) >= 15
            assert len(asked) >= t * size * images - 4  # two strata a group
            assert len(asked) <= max(ahead * t * size * images + 4, 18)
    assert list(waves.asked) == sorted(waves.asked)
    assert waves.asked[-1] == 1


def test_a_second_image_of_a_subject_is_asked_about_after_one_of_each() -> None:
    people = population((60, 80))
    waves = waves_of(people, 1, 10, 3).wave
    for group in ("0", "1"):
        subjects = [subject for subject, cuts in people.items() if cuts["a"] == [group]]
        last = [sorted(waves[subject, f"{i}"] for i in range(3)) for subject in subjects]
        assert max(first for first, _, _ in last) <= min(second for _, second, _ in last)


def test_the_order_follows_from_the_seed_and_the_subjects_alone() -> None:
    people = population((80, 90))
    waves = waves_of(people, 3, 10)
    assert waves_of(dict(reversed(people.items())), 3, 10) == waves
    assert waves_of(people, 4, 10).wave != waves.wave
    assert waves_of(population((400, 400)), 3, 10).at[0] == pytest.approx(FIRST, abs=0.005)


def test_a_small_group_stays_ahead_and_one_that_is_never_compared_does_not() -> None:
    waves = waves_of({**population((300, 300, 25)), **{f"t{i}": {"a": ["9"]} for i in range(5)}}, 1, 10)
    small = [number for (subject, _), number in waves.wave.items() if subject in {f"s{600 + i}" for i in range(25)}]
    assert 15 <= small.count(1) <= 17
    assert max(small) < len(waves.at) / 2
    assert waves.groups == {"a": 3, "b": 2}
    assert any(waves.wave[f"t{i}", "0"] > 1 for i in range(5))


@pytest.mark.parametrize("sizes", [(9, 200), (15, 15)], ids=["one group", "everybody in the first wave"])
def test_too_few_subjects_are_refused(sizes: tuple[int, ...]) -> None:
    people = {subject: {"a": cuts["a"]} for subject, cuts in population(sizes).items()}
    with pytest.raises(Fp2Error):
        waves_of(people, 1, 10)


@pytest.mark.parametrize(
    ("bounds", "one_sided"),
    [
        # two-sided boundaries at 5 % for five looks, Jennison and Turnbull (2000), tables 2.1 and 2.3
        ([2.413] * 5, 0.025),
        ([2.040 * math.sqrt(5 / k) for k in range(1, 6)], 0.025),
        ([2.361] * 4, 0.025),
    ],
    ids=["Pocock 5", "O'Brien-Fleming 5", "Pocock 4"],
)
def test_published_boundaries_are_crossed_with_their_level(bounds: list[float], one_sided: float) -> None:
    fractions = [(k + 1) / len(bounds) for k in range(len(bounds))]
    assert crossing_probability(0.0, fractions, bounds) == pytest.approx(one_sided, abs=1e-4)


@pytest.mark.parametrize(
    ("theta", "upper", "lower"),
    [
        (
            0.0,
            (0.000337, 0.000448, 0.000543, 0.000735, 0.000874, 0.000720),
            (0.308538, 0.251819, 0.211120, 0.143118, 0.068526, 0.013222),
        ),
        (
            4.0,
            (0.007756, 0.036160, 0.075673, 0.179311, 0.254370, 0.178487),
            (0.069464, 0.037168, 0.042610, 0.037060, 0.045658, 0.036283),
        ),
    ],
)
def test_both_bounds_are_reached_as_often_as_in_another_implementation(
    theta: float, upper: tuple[float, ...], lower: tuple[float, ...]
) -> None:
    """The integration of gsdesign 0.1.5 (`h1`, `hupdate`, r = 40)."""
    at, above, below = (0.06, 0.15, 0.24, 0.4, 0.63, 1.0), (3.4, 3.3, 3.2, 3.1, 3.0, 2.9), (-0.5, 0, 0.6, 1.2, 2, 2.9)
    first = stopping_probabilities(theta, at, above, below)
    assert [p for p, _ in first] == pytest.approx(list(upper), abs=1e-6)
    assert [p for _, p in first] == pytest.approx(list(lower), abs=1e-6)


def test_a_single_look_has_the_normal_distribution() -> None:
    assert crossing_probability(1.3, [0.4], [1.1]) == pytest.approx(norm.sf(1.1 - 1.3 * math.sqrt(0.4)), abs=1e-9)
    assert median_unbiased(2.2, [0.3], []) == 2.2


@pytest.mark.parametrize(
    ("z", "fractions", "bounds", "expected"),
    [
        (3.6, (0.1, 0.2, 0.4), (3.2, 3.2), 3.497804),
        (3.3, (0.06, 0.08, 0.1, 0.14), (3.3, 3.25, 3.2), 3.191586),
        (2.5, (0.25, 0.5, 0.75, 1), (4.3326, 2.9631, 2.3590), 2.364954),
    ],
)
def test_the_median_unbiased_statistic_is_that_of_another_integration(
    z: float, fractions: tuple[float, ...], bounds: tuple[float, ...], expected: float
) -> None:
    """Solved with the integration of gsdesign 0.1.5 (`h1`, `hupdate`, r = 60)."""
    assert median_unbiased(z, fractions, bounds) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("z", "critical", "t", "expected"), [(1.5, 3.0, 0.25, 0.5), (1.0, 2.5, 0.4, 0.226553), (-0.5, 2.5, 0.6, 5.84753e-5)]
)
def test_predictive_power_is_the_conditional_power_over_a_flat_prior(
    z: float, critical: float, t: float, expected: float
) -> None:
    """The conditional power times the posterior density of theta, integrated by SciPy."""
    assert predictive_power(z, critical, t) == pytest.approx(expected, rel=1e-5)


def test_rates_of_0_and_1_have_a_standard_error_after_stopping() -> None:
    """That of Agresti and Caffo in statsmodels, which divides by n + 2."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    test = disparity(
        [1.0] * 15 + [0.0] * 15,
        ["x"] * 15 + ["y"] * 15,
        range(30),
        n_permutations=999,
        n_bootstrap=0,
        seed=1,
        value_range=(0, 1),
        yes_no=True,
    ).test
    assert test is not None
    low, high = confint_proportions_2indep(15, 15, 0, 15, method="agresti-caffo", compare="diff")
    error = (high - low) / 2 / norm.isf(0.025) * math.sqrt(17 / 15)
    assert with_spread(test).own_error == pytest.approx([error])
    assert with_spread(test).low(0.01) < 0.9 < test.low(0.01) == pytest.approx(1)
    assert with_spread(test).exceeds_p(0) == test.exceeds_p(0)


def test_after_stopping_the_corrected_estimate_is_median_unbiased_and_the_observed_one_is_not() -> None:
    fractions, bounds, theta = np.array([0.1, 0.2, 0.4, 1.0]), np.array([3.2, 3.2, 3.2, 3.2]), 8.0
    rng, observed, corrected = np.random.default_rng(1), [], []
    steps = np.sqrt(np.diff([0.0, *fractions]))
    for _ in range(120):
        z = (rng.normal(size=4) * steps).cumsum() / np.sqrt(fractions) + theta * np.sqrt(fractions)
        last = int(np.argmax(z >= bounds)) if (z >= bounds).any() else 3
        at, before = fractions[: last + 1].tolist(), bounds[:last].tolist()
        observed.append(z[last] / math.sqrt(at[-1]))
        corrected.append(median_unbiased(float(z[last]), at, before) / math.sqrt(at[-1]))
    assert np.mean(np.array(corrected) > theta) == pytest.approx(0.5, abs=0.12)
    assert abs(np.mean(corrected) - theta) < np.mean(observed) - theta


def looks(now: int, **decisions: Decision) -> StoppingLooks:
    rows = {(probe, "s", "c"): decision for probe, decision in decisions.items()}
    return StoppingLooks(
        at=(0.1, 0.4, 1.0),
        now=now,
        spending="pocock",
        alpha=0.05,
        smallest_share=0.1,
        primary="s",
        groups={"c": 2},
        rows=rows,
    )


def row(probe: str, larger: float = 1.0, smaller: float = 1.0, power: float = 0.5) -> dict[str, Any]:
    p_values = {"repeated_p": 1.0, "repeated_minimum_effect_p": larger, "repeated_equivalence_p": smaller}
    return {
        "probe": probe,
        "scorer": "s",
        "cut": "c",
        "raw": 0.1,
        "n_subjects": 9,
        "family_level": 0.01,
        **p_values,
        "adjusted_minimum_effect_p": larger,
        "adjusted_equivalence_p": smaller,
        "power_biased": power,
        "power_equivalent": 0.0,
    }


def composite(p: float, adjusted: float) -> dict[str, dict[str, Any]]:
    return {"c": {"p_value": p, "repeated_p": p, "adjusted_p": adjusted}}


def test_a_probe_stops_once_its_rows_are_decided_and_the_composite_which_needs_all_probes() -> None:
    rows = [row("p", larger=0.01), row("q", smaller=0.02), row("r", power=0.01), row("t")]
    open_composite = take_look(looks(2), rows, composite(0.001, 0.2), "pqrt")
    assert [d.decided for d in open_composite.rows.values()] == [BIASED, EQUIVALENT, FUTILE, OPEN]
    assert open_composite.last == {}
    decided = take_look(looks(2), rows, composite(0.001, 0.01), "pqrt")
    assert decided.last == {"p": 2, "q": 2, "r": 2}
    assert take_look(looks(3), rows, composite(1.0, 1.0), "pqrt").last == dict.fromkeys("pqrt", 3)


def test_rows_of_other_scorers_are_waited_for_only_where_the_primary_one_has_no_value() -> None:
    rows = [row("p", larger=0.01), {**row("p"), "scorer": "t"}, {**row("q"), "raw": None}, {**row("q"), "scorer": "t"}]
    decided = take_look(looks(2), rows, composite(0.001, 0.01), "pq")
    assert decided.last == {"p": 2}
    assert set(decided.awaited) == {("p", "s", "c"), ("q", "s", "c"), ("q", "t", "c")}


def test_nothing_is_futile_or_equivalent_before_all_groups_are_compared() -> None:
    """A third group with too few subjects so far may be the one that differs."""
    values = np.random.default_rng(1).normal(0, 0.01, 45)
    of_data = disparity(
        values, ["x"] * 20 + ["y"] * 20 + ["z"] * 5, range(45), n_permutations=199, n_bootstrap=0, seed=1
    )
    for n_groups, waits in ((3, True), (2, False)):
        running = replace(looks(2), running=True, groups={"c": n_groups})
        columns = running.columns(("p", "s", "c"), of_data, of_data)
        assert (columns["power_biased"] == 1.0) is waits
        p_values = running.repeated_p_values(("p", "s", "c"), of_data)
        assert (p_values["equivalence_p"] == 1.0) is waits


def test_futility_does_not_bind() -> None:
    futile = Decision(1, FUTILE, {"p_value": 1.0, "minimum_effect_p": 1.0, "equivalence_p": 1.0})
    later = take_look(looks(2, p=futile), [row("p", larger=0.01)], composite(0.001, 0.01), "p")
    assert later.rows["p", "s", "c"].decided == BIASED


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Bench:
    """A project with one run that stopped; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("certain"), squares)
    bench.run(STRONG, STOP, FEW, *FAST, "report=default", "report.figures=false", folder="one")
    return bench


def test_a_run_stops_and_states_what_was_asked_decided_and_saved(certain: Bench) -> None:
    results = results_of(certain.outputs / "one")
    block, answers = results["stopping"], results["answers"]
    check_counts(results)
    headline = block["headline"]
    assert results["complete"] is True
    assert headline["asked"] == answers["planned"] - answers["not_asked"] < answers["planned"] == headline["planned"]
    assert headline["decided"] == {BIASED: 6}
    for row_of_run in results["disparities"]:
        assert row_of_run["verdict"] == "biased"
        assert row_of_run["p_value"] <= row_of_run["repeated_p"] <= row_of_run["adjusted_p"]
        assert row_of_run["repeated_ci_low"] <= row_of_run["ci_low"] <= row_of_run["raw"]
        assert row_of_run["ci_high"] <= row_of_run["repeated_ci_high"]
    assert all(row_of_coverage["n_images"] < 36 for row_of_coverage in results["coverage"])
    assert predicate_of(certain.outputs / "one")["findings"]["stopping"] == headline
    assert "Stopped when certain" in (certain.outputs / "one" / "dashboard.html").read_text(encoding="utf-8")
    assert fp2("check", str(certain.outputs / "one"), *certain.paths) == 0


def comparable(results: dict[str, Any]) -> str:
    return json.dumps([results["stopping"], results["disparities"], results["composites"]], sort_keys=True)


def test_whatever_the_store_has_the_decisions_are_the_same(certain: Bench, bench: Bench) -> None:
    stopped = results_of(certain.outputs / "one")
    with interrupted(2):
        partial = bench.run(STRONG, STOP, FEW, *FAST, "engine.batch_size=4")
    assert partial.exit_status == EXIT_INTERRUPTED
    resumed = bench.run(STRONG, STOP, FEW, *FAST).results
    assert comparable(resumed) == comparable(stopped)
    everything = bench.run(STRONG, FEW, *FAST).results
    assert everything["answers"]["cached"] == stopped["stopping"]["headline"]["asked"]
    assert "not_asked" not in everything["answers"]
    again = bench.run(STRONG, STOP, FEW, *FAST).results
    assert again["answers"]["model_calls"] == 0
    assert comparable(again) == comparable(stopped)


def test_scoring_a_stopped_run_again_gives_the_same_numbers(certain: Bench, own_root: Path) -> None:
    copy = certain.copied_to(own_root)
    before = results_of(copy.outputs / "one")
    assert fp2("rescore", str(copy.outputs / "one"), *copy.paths, "tracking=none", "report=none") == 0
    after = next(results_of(folder) for folder in copy.run_folders() if folder.name != "one")
    for old, new in zip(before["disparities"], after["disparities"], strict=True):
        assert new["verdict"] == old["verdict"]
        assert new["repeated_p"] == old["repeated_p"]
    assert after["stopping"]["headline"] == before["stopping"]["headline"]


def test_missing_answers_are_those_that_were_asked_for(bench: Bench) -> None:
    truth = "model.truth={seed: 4, effects: {all: {gender: {f: -6}}}, errors: {rate: 0.04}}"
    results = bench.run(truth, STOP, FEW, *FAST, "answers.error_budget=0.5").results
    check_counts(results)
    n_failed = results["answers"]["failed"]
    for missing in results.get("missing", {"rows": []})["rows"]:
        assert missing["n_missing"] <= n_failed


@pytest.mark.parametrize(
    "words",
    [
        ("answers.stop=sure",),
        (STOP, FEW, "analysis.looks={at: [0.5, 1.0], now: 1}"),
        (STOP, FEW, "shard=1/2"),
        (STOP, FEW, "analysis.correction=bh"),
        (STOP, "analysis.min_subjects=30"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    bench: Bench, words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    assert bench.launch(STRONG, *words) == EXIT_BAD_INPUT
    assert "Traceback" not in (err := capfd.readouterr().err)
    assert "error:" in err
    assert not bench.run_folders()
