"""Welch tests and permuted sums, against SciPy and against tables with permuted labels."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f as f_distribution
from scipy.stats import f_oneway, ttest_ind
from simulated_answers import QUICK, STRADDLING, World, trait_tests, world_with_changing_age

from fp2.methods.gras.grouping import LabelPermuter


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", ["images", "subjects"])
def test_welch_is_scipys(kind: str, missing: bool) -> None:
    answers, people = world_with_changing_age(missing)
    found, _ = trait_tests(answers, people, STRADDLING.cuts, QUICK, kind).observed()
    y = answers.columns["p_yes_first_token"].astype(float).reshape(180, 18)
    for a, name in enumerate(("gender", "age")):
        long = people[["subject_id", f"attr_{name}"]].rename(columns={f"attr_{name}": "group"})
        for q in (0, 7, 17):
            frame = long.assign(y=y[:, q]).explode("group").dropna()
            if kind == "subjects":
                frame = frame.groupby(["subject_id", "group"], as_index=False)["y"].mean()
            parts = [part["y"].to_numpy() for _, part in frame.groupby("group")]
            expected = f_oneway(*parts, equal_var=False)
            assert found.f[0, a, q] == pytest.approx(expected.statistic, rel=1e-8)
            assert found.p[0, a, q] == pytest.approx(expected.pvalue, rel=1e-7)
            if len(parts) == 2:
                assert found.p[0, a, q] == pytest.approx(ttest_ind(*parts, equal_var=False).pvalue, rel=1e-7)
            gain = (len(parts) - 1) * (expected.statistic - 1)
            assert found.omega_squared[0, a, q] == pytest.approx(gain / (gain + len(frame)), abs=1e-9)
            assert found.gap[0, a, q] == pytest.approx(np.ptp([part.mean() for part in parts]), rel=1e-8)


@pytest.mark.parametrize("kind", ["images", "subjects"])
def test_permuted_sums_are_those_of_permuted_tables(kind: str) -> None:
    """A permutation by matrix products equals the analysis of a people table with permuted labels."""
    answers, people = world_with_changing_age(missing=True)
    tests = trait_tests(answers, people, STRADDLING.cuts, QUICK, kind)
    part = tests.grouping.sets[0]
    labels = LabelPermuter(part, 1, 0).draw(3)
    found = tests.tests([tests.values[0].permuted(labels)])
    names = [group for attribute in tests.grouping.attributes for group in attribute.groups]
    for b in range(3):
        member = part.units.label_sets[labels[b][part.record]][:, : len(names)]
        cells = {
            name: [[g for g, on in zip(names, row, strict=True) if on and g.startswith(name)] for row in member]
            for name in ("gender", "age")
        }
        moved = people.assign(**{f"attr_{name}": cell for name, cell in cells.items()})
        again, _ = trait_tests(answers, moved, STRADDLING.cuts, replace(QUICK, min_subjects=2), kind).observed()
        np.testing.assert_allclose(found.p[b], again.p[0], rtol=1e-6)


def test_batches_do_not_change_the_null(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, people = world_with_changing_age(missing=False)
    whole = trait_tests(answers, people, STRADDLING.cuts, QUICK, "subjects").null(12)
    monkeypatch.setattr("fp2.methods.gras.group_sums._CHUNK_BYTES", 1)
    single = trait_tests(answers, people, STRADDLING.cuts, QUICK, "subjects").null(12)
    np.testing.assert_array_equal(whole.scores["published_orientation"], single.scores["published_orientation"])
    np.testing.assert_allclose(whole.omega_squared, single.omega_squared)


def test_constant_columns_and_constant_groups() -> None:
    world = World(60, traits=4, templates=1, groups={"age": 3})
    rng = np.random.default_rng(1)
    people = world.people(rng)
    answers = world.answers(people, rng)
    y = answers.columns["p_yes_first_token"]
    first = np.array([cell == ["age 0"] for cell in people["attr_age"]])
    y[:, 0] = 0.3
    y[first, 1] = 0.5  # one group without spread: SciPy has no answer, the limit has
    y[:, 2] = np.where(first, 0.9, 0.1)[:, None]  # no spread in any group, and different
    tests = trait_tests(answers, people, world.cuts, QUICK, "images")
    found, _ = tests.observed()
    assert found.p[0, 0, 0] == 1.0
    assert found.f[0, 0, 0] == 0.0
    assert found.p[0, 0, 2] < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nearly = y[:, 1, 0].astype(float) + np.where(first, 1e-6 * rng.normal(size=60), 0)
        groups = [nearly[[cell == [f"age {k}"] for cell in people["attr_age"]]] for k in range(3)]
        assert found.p[0, 0, 1] == pytest.approx(f_oneway(*groups, equal_var=False).pvalue, abs=1e-3)
    assert tests.constant.sum() == 1


def test_the_regularised_statistic_averages_each_variance_with_the_pooled_one() -> None:
    """Welch's test of groups whose variances were replaced, from raw data; two groups: Welch's test itself."""
    answers, people = world_with_changing_age(missing=False)
    found, _ = trait_tests(answers, people, STRADDLING.cuts, QUICK, "images").observed()
    np.testing.assert_allclose(found.p_regular[0, 0], found.p[0, 0])
    y = answers.columns["p_yes_first_token"].astype(float).reshape(180, 18)
    for q in (0, 7, 17):
        parts = [part["y"].to_numpy() for _, part in people.assign(y=y[:, q]).explode("attr_age").groupby("attr_age")]
        n, mean, variance = (np.array([f(part) for part in parts]) for f in (len, np.mean, lambda x: x.var(ddof=1)))
        regular = ((n - 1) * variance + ((n - 1) * variance).sum() / (n - 1).sum()) / n
        weight = n / regular
        share, k = weight / weight.sum(), len(n)
        between = (weight * (mean - share @ mean) ** 2).sum() / (k - 1)
        rest = ((1 - share) ** 2 / n).sum()
        f = between / (1 + 2 * (k - 2) / (k**2 - 1) * rest)
        assert found.p_regular[0, 1, q] == pytest.approx(f_distribution.sf(f, k - 1, (k**2 - 1) / (3 * rest)), rel=1e-8)
        assert found.p_regular[0, 1, q] != pytest.approx(found.p[0, 1, q], rel=1e-5)


def test_step_down_p_values_are_those_of_westfall_and_young() -> None:
    """Algorithm 4.1 of Westfall and Young (1993), cell by cell, with the smallest p-value over templates."""
    world = World(80, traits=6, templates=3, effects=(("gender", 1, (0,), 0.15), ("age", 2, (3,), 0.12)))
    people = world.people(np.random.default_rng(3))
    answers = world.answers(people, np.random.default_rng(4))
    tests = trait_tests(answers, people, world.cuts, QUICK, "images")
    observed, _ = tests.observed()
    adjusted = tests.adjusted_p(observed, tests.null(60)).reshape(-1)
    smallest = observed.p_regular[0].reshape(12, 3).min(axis=1)
    drawn = np.concatenate([tests.tests(sums).p_regular for sums in tests.permuted(60)])
    drawn = drawn.reshape(60, 12, 3).min(axis=2)
    order, last = np.argsort(smallest), 0.0
    for step, cell in enumerate(order):
        reached = sum(row[order[step:]].min() <= smallest[cell] for row in drawn)
        last = max(last, (1 + reached) / 61)
        assert adjusted[cell] == pytest.approx(last), cell
    assert sorted(np.flatnonzero(adjusted <= 0.05)) == [0, 6 + 3]


def test_a_cell_without_a_test_has_no_adjusted_p_value_and_does_not_touch_the_others() -> None:
    world = World(60, traits=3, templates=2, groups={"gender": 2})
    people = world.people(np.random.default_rng(3))
    answers = world.answers(people, np.random.default_rng(4))
    answers.columns["p_yes_first_token"][:, 1] = np.nan
    tests = trait_tests(answers, people, world.cuts, QUICK, "images")
    found = tests.adjusted_p(tests.observed()[0], tests.null(40))[0]
    columns = {name: values[:, [0, 2]] for name, values in answers.columns.items()}
    kept = replace(answers, traits=(answers.traits[0], answers.traits[2]), columns=columns)
    alone = trait_tests(kept, people, world.cuts, QUICK, "images")
    assert np.isnan(found[1])
    np.testing.assert_array_equal(found[[0, 2]], alone.adjusted_p(alone.observed()[0], alone.null(40))[0])
