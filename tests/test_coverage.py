"""`docs/coverage.csv` has a row for every capability, and the totals of its page are right."""

from __future__ import annotations

import csv
import re
from collections import Counter

from bench import REPOSITORY

DOCS = REPOSITORY / "docs"
STATUSES = ("works", "differs", "left out")
N_ROWS = 150


def rows() -> list[dict[str, str]]:
    """Return the rows: number, document, capability, how to get it, status, remark."""
    with (DOCS / "coverage.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_capability_has_a_row_and_the_totals_are_right() -> None:
    assert [int(row["number"]) for row in rows()] == list(range(1, N_ROWS + 1))
    assert {row["status"] for row in rows()} == set(STATUSES)
    assert [row for row in rows() if row["status"] != "works" and not row["remark"]] == []  # what differs, or why not
    assert [row for row in rows() if row["status"] != "left out" and not row["how_to_get_it"]] == []
    counts = Counter((document, row["status"]) for row in rows() for document in (row["document"], "all"))
    page = (DOCS / "coverage.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| ([\w² ]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.M)
    assert {document for document, *_ in stated} == {document for document, _ in counts}
    for document, *numbers in stated:
        each = [counts[document, status] for status in STATUSES]
        assert [*map(int, numbers)] == [sum(each), *each], document
