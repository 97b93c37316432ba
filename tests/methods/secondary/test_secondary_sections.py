"""Report sections of the supplements: small groups are not shown, and findings are named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fp2.methods.secondary.missing import MissingSection
from fp2.methods.secondary.pairwise import PairwiseSection
from fp2.report.values import Sentence, Value, Weight, as_cell, suppressed, tables

RESULTS: dict[str, Any] = {
    "probes": [{"id": "trust", "label": "P4 Trust"}],
    "cuts": ["gender"],
    "scorers": [{"name": "valence"}],
    "analysis": {"primary": "valence"},
}


def test_pairs_with_a_small_group_are_counted_and_not_shown() -> None:
    pair = {"difference": 0.3, "hedges_g": 1.0, "rank_biserial": 0.5, "p_permutation": 0.01, "p_mann_whitney": 0.02}
    pairs = [
        {"first": "a", "second": "b", "n_first": 40, "n_second": 30, **pair},
        {"first": "a", "second": "few", "n_first": 40, "n_second": 9, **pair},
        {"first": "b", "second": "c", "n_first": 30, "n_second": 30, **pair, "p_permutation": 0.4},
    ]
    block = {"scorer": "valence", "alpha": 0.05, "rows": [{"probe": "trust", "cut": "gender", "pairs": pairs}]}
    block |= {"n_permutations": 1000, "family_size": 3}
    (table,) = tables(suppressed(PairwiseSection().values(block, RESULTS), 10))
    assert [as_cell(row.cells[1]).value for row in table.rows] == ["b"]
    assert table.label.endswith("; 1 of small groups not shown")


def test_rates_of_small_groups_are_not_shown() -> None:
    groups = [{"group": "a", "n_subjects": 30, "rate": 0.1}, {"group": "few", "n_subjects": 3, "rate": 1.0}]
    row = {
        "probe": "trust",
        "scorer": "economic",
        "cut": "gender",
        "raw": 0.4,
        "verdict": "biased",
        "worst_group": "b",
        "groups": groups,
        "n_missing": 3,
        "n_images": 60,
        "adjusted_p": 0.01,
        "significant": True,
    }
    block = {"rows": [row] * 5, "two_part": [], "n_permutations": 100, "family": "all rows"}
    values = list(MissingSection().values(block, RESULTS))
    (table,) = (table for table in tables(suppressed(values, 10)) if table.rows)
    assert [column.label for column in table.columns[-2:]] == ["a", "few"]
    assert [as_cell(cell).value for cell in table.rows[0].cells[-2:]] == [0.1, "too few subjects"]
    assert "and 4 more" in _said(values)[0]


def _said(values: Iterable[Value]) -> list[str]:
    sentences = [value for value in values if isinstance(value, Sentence) and value.weight is not Weight.DETAIL]
    return ["".join(sentence.parts) for sentence in sentences]
