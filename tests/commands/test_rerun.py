"""What a rerun compares beyond the fingerprint: the blocks of other protocols, number by number."""

from __future__ import annotations

from typing import Any

import pytest

from fp2.commands.rerun import differences

OLD = {"a": 1.0, "b": [1, 2.5, None], "c": {"d": "x", "e": True}}


@pytest.mark.parametrize(
    ("new", "places"),
    [
        (OLD, []),
        ({**OLD, "a": 1.0 + 1e-12}, []),
        ({**OLD, "a": 1.0001}, ["a"]),
        ({**OLD, "a": None}, ["a"]),
        ({**OLD, "b": [1, 2.6, None]}, ["b.1"]),
        ({**OLD, "b": [1, 2.5]}, ["b"]),
        ({**OLD, "c": {"d": "y", "e": 1, "f": 0}}, ["c.d", "c.e", "c.f"]),
        ({"a": 1.0}, ["b", "c"]),
        (None, [""]),
    ],
)
def test_every_place_that_differs_is_named(new: Any, places: list[str]) -> None:
    found = list(differences(OLD, new))
    assert found == places
