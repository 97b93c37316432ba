"""The GRAS analysis where the truth is known, a fast version of benchmarks/gras_validity.py."""

from __future__ import annotations

import pytest

from benchmarks.gras_validity import (
    cell_worlds,
    cells_found,
    null_coverage,
    null_mean,
)
from benchmarks.gras_worlds import World

SMALL = World(48, groups={"gender": 2}, traits=24, templates=5, trait_correlation=0.3)


@pytest.mark.thorough
def test_exchangeable_labels_stay_inside_their_null() -> None:
    """400 data sets without any effect: the score is in the central 95 % of its own permutations in 93-97 %."""
    assert 0.93 <= null_coverage(SMALL, 400, 99) <= 0.97


def test_no_cell_is_found_by_chance_in_small_groups_with_skewed_answers() -> None:
    """Groups of 60 to 10: Holm over asymptotic p-values finds one in half of the data sets, step-down max-F in 5 %."""
    called, by_step_down, by_holm = cells_found(cell_worlds()[0][1], 200, "images")[:, :, 0].mean(axis=0)
    assert by_step_down <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    assert by_holm >= 0.35
    assert called <= by_step_down


@pytest.mark.parametrize(("correlation", "expected", "within"), [(0.0, 22.6, 1.0), (1.0, 5.0, 0.5)])
def test_what_a_model_without_bias_scores(correlation: float, expected: float, within: float) -> None:
    """Independent templates: 100 (1 - 0.95^5) = 22.6 in the published orientation; less as they agree."""
    groups = {"gender": 2, "race": 7, "age": 5}
    world = World(700, groups=groups, tones=500, traits=100, trait_correlation=0.0, template_correlation=correlation)
    assert null_mean(world, 60) == pytest.approx(expected, abs=within)
