"""`docs/coverage.md`: every capability has a row, and the totals are right. Its commands run in `test_docs_run.py`."""

from __future__ import annotations

import re
from collections import Counter

from bench import REPOSITORY

PAGE = REPOSITORY / "docs" / "coverage.md"
STATUSES = ("works", "differs", "left out")
N_ROWS = 150


def rows() -> list[list[str]]:
    """Return the cells of the page's rows: number, what the document says, how to get it, status, remark."""
    found = re.findall(r"^\| \d+ \|.*$", PAGE.read_text(encoding="utf-8"), re.M)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found]


def test_every_capability_has_a_row_and_the_totals_are_right() -> None:
    assert [int(row[0]) for row in rows()] == list(range(1, N_ROWS + 1))
    assert [row[0] for row in rows() if len(row) != 5 or row[3] not in STATUSES] == []
    assert [
        row[0] for row in rows() if row[3] != STATUSES[0] and not row[4]
    ] == []  # what differs, or why it is left out
    assert [row[0] for row in rows() if row[3] != STATUSES[2] and "`" not in row[2]] == []
    text = PAGE.read_text(encoding="utf-8")
    parts = [Counter(re.findall(r"^\| \d+ \|.*\| ([a-z ]+) \|[^|]*\|$", part, re.M)) for part in text.split("\n## ")]
    counts = [part for part in parts if part]
    counts.append(sum(counts, Counter()))
    stated = re.findall(r"^\| [\w² ]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert [[part.total(), *(part[name] for name in STATUSES)] for part in counts] == [
        [*map(int, row)] for row in stated
    ]
