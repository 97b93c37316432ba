"""Welch tests and permuted sums, against SciPy and against tables with permuted labels."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f_oneway, ttest_ind
from simulated_answers import QUICK, STRADDLING, World, trait_tests, world_with_changing_age

from fp2.protocols.gras.grouping import LabelPermuter


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
        member = part.member[labels[b][part.record]][:, : len(names)] > 0
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
    monkeypatch.setattr("fp2.protocols.gras.group_sums._CHUNK_BYTES", 1)
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
