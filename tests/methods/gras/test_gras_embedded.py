"""The embedded model asked as a whole run: the planted cells and groups are found, the planted zeros are not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gras_embedded import ask, found_cells, kinds, planted_cells, towards, unit_of


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """150 drawn people, 21 words, two framings: benchmarks/gras_embedded.py asks all five."""
    return ask(tmp_path_factory.mktemp("embedded"), framings=("direct", "evidence"))


@pytest.mark.thorough
def test_every_planted_cell_is_found_and_no_planted_zero(block: dict[str, Any]) -> None:
    words = list(kinds().values())
    assert (words.count("none"), words.count("double_skin"), words.count("usual")) == (10, 6, 5)
    assert len(block["templates"]) == 2
    assert found_cells(block) == planted_cells()


@pytest.mark.thorough
def test_the_planted_groups_are_at_the_ends(block: dict[str, Any]) -> None:
    for word, kind in kinds().items():
        if kind == "none":
            continue
        means = towards(block, "skin_tone", word)
        order = sorted(means, key=lambda group: -means[group])
        assert order[-1] == "VI", word
        assert set(order[:2]) == {"I", "II"}, word
        if kind == "double_skin":
            assert order[0] == "I", word


@pytest.mark.thorough
def test_only_the_planted_attribute_has_a_size(block: dict[str, Any]) -> None:
    sizes = unit_of(block)["magnitude"]["by_attribute"]
    assert sizes["skin_tone"]["omega_squared"]["low"] > 0.03
    assert sizes["region"]["omega_squared"]["low"] < 0 < sizes["region"]["omega_squared"]["high"]
    assert sizes["region"]["gap"]["low"] == 0
