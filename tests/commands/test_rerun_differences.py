"""What `fp2 rerun` compares: every number, name and key of a block, and no sentence."""

from __future__ import annotations

from typing import Any

import pytest

from fp2.commands.rerun import differences

OLD: dict[str, Any] = {
    "rows": [{"cut": "age", "raw": 0.25, "why": "an old sentence", "worst": "60+"}],
    "features": {"bald": "an old definition", "headwear": "another one"},
    "notes": ["an old note"],
}


def test_sentences_may_be_written_better() -> None:
    new = {
        "rows": [{**OLD["rows"][0], "raw": 0.25 + 1e-12, "why": "a new one"}],
        "features": {"bald": "a new definition", "headwear": "and another"},
        "notes": ["a new note", "and another"],
    }
    assert list(differences(OLD, new)) == []


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"rows": [{**OLD["rows"][0], "raw": 0.26}]}, "rows.0.raw"),
        ({"rows": [{**OLD["rows"][0], "worst": "50-59"}]}, "rows.0.worst"),
        ({"rows": [{key: value for key, value in OLD["rows"][0].items() if key != "why"}]}, "rows.0.why"),
        ({"features": {"bald": "an old definition"}}, "features.headwear"),
    ],
)
def test_everything_else_is_compared(changed: dict[str, Any], place: str) -> None:
    assert list(differences(OLD, {**OLD, **changed})) == [place]
