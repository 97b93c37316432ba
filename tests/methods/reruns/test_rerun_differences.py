"""What `fp2 rerun` compares: every number, name and key of a block, and no sentence."""

from __future__ import annotations

from typing import Any

import pytest

from fp2.results import differences

OLD: dict[str, Any] = {
    "rows": [{"cut": "age", "raw": 0.25, "why": "an old sentence", "worst": "60+"}],
    "features": {"bald": "an old definition", "headwear": "another one"},
    "notes": ["an old note"],
    "found": {"worst": "South Asia", "best": "North Africa"},
    "method": "an old method",
    "templates": {"T1": "Is the person {trait}?"},
}


def test_sentences_may_be_written_better() -> None:
    new = {
        **OLD,
        "rows": [{**OLD["rows"][0], "raw": 0.25 + 1e-12, "why": "a new one"}],
        "features": {"bald": "a new definition", "headwear": "and another"},
        "notes": ["a new note", "and another"],
        "method": "a new method",
    }
    assert list(differences(OLD, new)) == []


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"rows": [{**OLD["rows"][0], "raw": 0.26}]}, "rows.0.raw"),
        ({"rows": [{**OLD["rows"][0], "worst": "50-59"}]}, "rows.0.worst"),
        ({"rows": [{key: value for key, value in OLD["rows"][0].items() if key != "why"}]}, "rows.0.why"),
        ({"features": {"bald": "an old definition"}}, "features.headwear"),
        ({"found": {"worst": "East Asia", "best": "North Africa"}}, "found.worst"),
        ({"templates": {"T1": "Is this person {trait}?"}}, "templates.T1"),
        ({"method": None}, "method"),
        ({"method": 2}, "method"),
        ({"notes": [1, 2]}, "notes"),
    ],
)
def test_everything_else_is_compared(changed: dict[str, Any], place: str) -> None:
    assert list(differences(OLD, {**OLD, **changed})) == [place]
