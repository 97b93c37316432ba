"""Specifications of one claim: three estimators under one permutation, and the joint test of their curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.methods.adjusted.model import Design, adjusted_panel
from fp2.methods.curves.estimators import ADJUSTED, IMAGES, SUBJECTS, first_return
from fp2.methods.curves.panel import (
    SpecifiedPanel,
    SpecifiedTest,
    curve_test,
    p_values,
    specification_panel,
)
from fp2.stats.disparities import disparity_panel
from fp2.stats.rows import TOO_FEW, UNINFORMATIVE, Outcome, PanelSettings

S, GROUPS, B = 120, ("a", "b", "c", "tiny"), 299


class World:
    """Subjects with one to four images in unequal groups; two outcomes with missing values, and a covariate."""

    def __init__(self, seed: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.group = np.repeat(np.arange(4), (50, 40, 18, 12))
        self.subject = np.repeat(np.arange(S), rng.integers(1, 5, S))
        person = 0.15 * rng.normal(size=(S, 2))
        noise = 0.2 * rng.normal(size=(len(self.subject), 2))
        self.values = person[self.subject] + noise + 0.2 * (self.group == 1)[self.subject][:, None]
        self.values[rng.random(self.values.shape) < 0.1] = np.nan
        self.covariate = rng.normal(size=(S, 1))
        self.labels = np.array(GROUPS)[self.group][self.subject]
        self.names = np.array([f"s{code:03d}" for code in self.subject])
        self.images = np.arange(len(self.subject))

    def adjustment(self, names: Any) -> tuple[Design, np.ndarray]:
        assert list(names) == [f"s{code:03d}" for code in range(S)]
        return Design(np.eye(4)[self.group], GROUPS, self.covariate, ("age",)), np.ones(S, dtype=bool)

    def tested(self, *tests: SpecifiedTest, values: np.ndarray | None = None) -> SpecifiedPanel:
        values = self.values if values is None else values
        m = values.shape[1]
        return specification_panel(
            values,
            self.labels,
            self.names,
            self.images,
            tests,
            smallest_effects=[0.05] * m,
            yes_no=[False] * m,
            settings=PanelSettings(n_permutations=B, seed=3),
            adjustment=self.adjustment,
        )


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def tested(world: World) -> SpecifiedPanel:
    tests = [
        SpecifiedTest(j, name, least) for name in (SUBJECTS, IMAGES, ADJUSTED) for least in (10, 15) for j in (0, 1)
    ]
    return world.tested(*tests)


def test_subjects_alike_are_tested_as_in_a_disparity_row(world: World, tested: SpecifiedPanel) -> None:
    row = disparity_panel(
        world.values,
        world.labels,
        world.names,
        Outcome(value_range=(-9.0, 9.0)),
        PanelSettings(n_permutations=B, seed=3),
        images=world.images,
    )
    for j in (0, 1):
        own = tested.panel.rows[j]
        for name in ("raw", "max_t", "p_value", "shrunken", "ci_low", "ci_high", "minimum_effect_p", "equivalence_p"):
            assert getattr(own, name) == pytest.approx(getattr(row.rows[j], name), abs=1e-9), name
    np.testing.assert_allclose(tested.panel.max_t_permuted[:, :2], row.max_t_permuted)
    np.testing.assert_allclose(tested.panel.raw_permuted[:, :2], row.raw_permuted)
    np.testing.assert_allclose(tested.panel.influence[:, :2], row.influence, atol=1e-12)


def test_images_alike_are_means_over_images_with_errors_clustered_by_subject(
    world: World, tested: SpecifiedPanel
) -> None:
    values = world.values[:, 0]
    means, errors = {}, {}
    for name in GROUPS:
        here = (world.labels == name) & np.isfinite(values)
        means[name] = values[here].mean()
        total = [values[here & (world.subject == s)] - means[name] for s in np.unique(world.subject[here])]
        k = len(total)
        errors[name] = np.sqrt(sum(part.sum() ** 2 for part in total) * k / (k - 1)) / here.sum()
    place = tested.tests.index(SpecifiedTest(0, IMAGES, 10))
    assert tested.means[place] == pytest.approx(means)
    row = tested.panel.rows[place]
    t = max(abs(means[g] - means[h]) / np.hypot(errors[g], errors[h]) for g in GROUPS for h in GROUPS if g < h)
    assert row.raw == pytest.approx(max(means.values()) - min(means.values()))
    assert row.max_t == pytest.approx(t)
    low, high = (pick(means, key=means.__getitem__) for pick in (min, max))
    assert np.sqrt((tested.panel.influence[:, place] ** 2).sum()) == pytest.approx(np.hypot(errors[low], errors[high]))
    assert row.ci_low <= row.raw <= row.ci_high


def test_covariates_are_held_equal_as_in_the_block_adjusted(world: World, tested: SpecifiedPanel) -> None:
    known = np.isfinite(world.values[:, 0])
    sums, counts = (np.bincount(world.subject[known], w, minlength=S) for w in (world.values[known, 0], None))
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    (row,) = adjusted_panel(
        means[:, None],
        world.adjustment(list(dict.fromkeys(world.names)))[0],
        PanelSettings(n_permutations=1999, seed=1),
    )
    own = tested.panel.rows[tested.tests.index(SpecifiedTest(0, ADJUSTED, 10))]
    assert (own.raw, own.max_t, own.ci_high) == pytest.approx((row.gap, row.max_t, row.ci_high))
    # other permutations: the same within their Monte-Carlo error
    assert own.p_value == pytest.approx(row.p_value, abs=0.02)
    assert own.ci_low == pytest.approx(row.ci_low, abs=0.03)


def test_one_permutation_serves_every_specification(tested: SpecifiedPanel) -> None:
    """Specifications of nearly the same data stay nearly the same under every permutation, missing values or not."""
    place = {test: k for k, test in enumerate(tested.tests)}
    t = tested.panel.max_t_permuted
    for other in (IMAGES, ADJUSTED):
        one = np.corrcoef(t[:, place[SpecifiedTest(0, SUBJECTS, 10)]], t[:, place[SpecifiedTest(0, other, 10)]])[0, 1]
        assert one > 0.6, other
        apart = np.corrcoef(t[:, place[SpecifiedTest(0, SUBJECTS, 10)]], t[:, place[SpecifiedTest(1, other, 10)]])[0, 1]
        assert abs(apart) < 0.25, other


def test_a_larger_least_size_leaves_the_small_groups_out(tested: SpecifiedPanel) -> None:
    for name in (SUBJECTS, IMAGES, ADJUSTED):
        place = tested.tests.index(SpecifiedTest(0, name, 15))
        assert "tiny" not in tested.means[place]
        assert "tiny" in tested.means[tested.tests.index(SpecifiedTest(0, name, 10))]


def test_what_cannot_be_tested_says_why(world: World) -> None:
    values = world.values.copy()
    values[:, 1] = 0.3
    found = world.tested(
        SpecifiedTest(0, SUBJECTS, 45),
        SpecifiedTest(0, IMAGES, 45),
        SpecifiedTest(0, ADJUSTED, 45),
        SpecifiedTest(1, SUBJECTS, 10),
        values=values,
    )
    assert [row.status for row in found.panel.rows] == [TOO_FEW, TOO_FEW, TOO_FEW, UNINFORMATIVE]
    nobody = world.tested(SpecifiedTest(0, SUBJECTS, 1000))
    assert nobody.panel.rows[0].status == TOO_FEW


def test_batches_do_not_change_the_numbers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = [SpecifiedTest(0, name, 10) for name in (SUBJECTS, IMAGES, ADJUSTED)]
    before = world.tested(*tests).panel.max_t_permuted
    monkeypatch.setattr("fp2.stats.core.units.CHUNK_BYTES", 200_000)
    np.testing.assert_allclose(world.tested(*tests).panel.max_t_permuted, before)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(0, 2**32 - 1))
def test_the_first_return_permutes_the_subjects_used_and_agrees_where_it_can(chosen_: list[bool], seed: int) -> None:
    used = np.array(chosen_)
    given_ = np.stack([np.random.default_rng(seed + k).permutation(12) for k in range(3)])
    found = first_return(given_, used)
    chosen = np.flatnonzero(used)
    for row, whole in zip(found, given_, strict=True):
        assert sorted(row) == list(range(len(chosen)))
        for place, subject in enumerate(chosen):
            if used[whole[subject]]:
                assert chosen[row[place]] == whole[subject]


def test_a_curve_is_tested_against_its_own_permutations() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(size=(200, 1))
    permuted = np.abs(0.9 * common + 0.4 * rng.normal(size=(200, 7)))
    gaps, observed = 0.1 * permuted, np.array([2.6, 1.0, 2.4, 0.3, 2.2, 3.0, 1.9])
    found = curve_test(0.1 * observed, gaps, observed, permuted)
    pooled = np.vstack([observed, permuted])
    p = (pooled[None] >= pooled[:, None]).sum(axis=1) / 201
    share = (p <= 0.05).mean(axis=1)
    assert found.share == share[0]
    assert found.share_null == pytest.approx(share[1:].mean())
    assert found.share_p == pytest.approx((1 + (share[1:] >= share[0] - 1e-9).sum()) / 201)
    medians = np.median(gaps, axis=1)
    assert (found.median, found.median_null) == pytest.approx((0.22, medians.mean()))
    middle = np.median(p, axis=1)
    assert found.median_p == pytest.approx((1 + (middle[1:] <= middle[0]).sum()) / 201)


def test_ties_and_missing_statistics_count_against_significance() -> None:
    permuted = np.ones((99, 2))
    permuted[:3, 1] = np.nan
    observed, found = p_values(np.array([1.0, 5.0]), permuted)
    assert observed.tolist() == [1.0, 0.04]  # three without a statistic, and itself
    assert (found[:, 0] == 1.0).all()
    with pytest.raises(ValueError, match="need"):
        curve_test(np.zeros(0), np.zeros((9, 0)), np.zeros(0), np.zeros((9, 0)))
