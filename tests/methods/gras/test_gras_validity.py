"""The GRAS analysis where the truth is known, a fast version of benchmarks/gras_validity.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gras_validity import (
    EFFECTS,
    cell_worlds,
    cells_found,
    null_coverage,
    null_mean,
    planted_cells,
    rate_coverage,
    sizes,
)
from benchmarks.gras_worlds import World

SMALL = World(48, groups={"gender": 2}, traits=24, templates=5, trait_correlation=0.3)


def test_exchangeable_labels_stay_inside_their_null() -> None:
    """400 data sets without any effect: the score is in the central 95 % of its own permutations in 93-97 %."""
    assert 0.93 <= null_coverage(SMALL, 400, 99) <= 0.97


def test_no_cell_is_found_by_chance_in_small_groups_with_skewed_answers() -> None:
    """Groups of 60 to 10: Holm over asymptotic p-values finds one in half of the data sets, step-down max-F in 5 %."""
    called, by_step_down, by_holm = cells_found(cell_worlds()[0][1], 200, "images")[:, :, 0].mean(axis=0)
    assert by_step_down <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    assert by_holm >= 0.35
    assert called <= by_step_down


def test_subjects_are_permuted_where_they_have_several_images() -> None:
    """Five correlated images of a subject: permuting images would find bias almost everywhere."""
    world = World(24, images=5, groups={"gender": 2}, traits=10, templates=3, subject_correlation=0.7)
    for kind in ("images", "subjects"):
        assert null_coverage(world, 60, 99, kind) >= 0.88, kind


@pytest.mark.parametrize(
    ("correlation", "expected", "within"), [(0.0, 22.6, 1.0), (0.5, 18.5, 1.0), (0.9, 10.25, 1.0), (1.0, 5.0, 0.5)]
)
def test_what_a_model_without_bias_scores(correlation: float, expected: float, within: float) -> None:
    """Independent templates: 100 (1 - 0.95^5) = 22.6 in the published orientation; less as they agree."""
    groups = {"gender": 2, "race": 7, "age": 5}
    world = World(700, groups=groups, tones=500, traits=100, trait_correlation=0.0, template_correlation=correlation)
    assert null_mean(world, 60) == pytest.approx(expected, abs=within)


def test_sizes_do_not_grow_with_the_number_of_images_and_significance_does() -> None:
    """The same truth at n, 4n and 16n people."""
    worlds = {n: World(n, traits=12, templates=3, effects=EFFECTS, template_correlation=0.7) for n in (80, 320, 1280)}
    few, some, many = (sizes(worlds[n], 6) for n in worlds)
    truth = {"omega": worlds[80].true_omega(), "gap": worlds[80].true_gap()}
    for which, true in truth.items():
        for found in (few, some, many):
            ends = np.array([getattr(s, which) for s in found])
            assert ((ends[:, 0] <= true) & (true <= ends[:, 2])).sum() >= 5, which
            assert ends[:, 1].mean() == pytest.approx(true, rel=0.25)
        agree = [
            getattr(a, which)[0] <= getattr(b, which)[1] <= getattr(a, which)[2] for a, b in zip(few, some, strict=True)
        ]
        assert sum(agree) >= 5, which
    planted = planted_cells(worlds[80])
    assert all(s.found == planted for s in many)
    assert np.mean([len(s.found) for s in few]) < np.mean([len(s.found) for s in some]) < len(planted) + 0.5
    assert all(not s.found - planted for s in few + some)


def test_intervals_of_rates_hold_the_true_shares() -> None:
    """Where the sign of an effect cannot be known, the interval must say so."""
    assert rate_coverage(0.01, 15) >= 0.93


def test_a_world_without_effects_has_no_size() -> None:
    found = sizes(replace(SMALL, traits=10), 10)
    inside = [s.omega[0] <= 0 <= s.omega[2] for s in found]
    assert sum(inside) >= 9
    assert sum(s.gap[0] == 0 for s in found) >= 9
