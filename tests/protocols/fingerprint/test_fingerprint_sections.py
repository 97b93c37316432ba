"""Report sections of the supplements: small groups are not shown, and findings are named."""

from __future__ import annotations

from typing import Any

from fp2.protocols.fingerprint.intersections import IntersectionsSection
from fp2.protocols.fingerprint.missing import MissingSection
from fp2.protocols.fingerprint.pairwise import PairwiseSection
from fp2.protocols.fingerprint.prompt_sensitivity import PromptSensitivitySection

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
    (table,) = PairwiseSection().context(block, RESULTS, 10)["tables"]
    assert [pair["second"] for pair in table["found"]] == ["b"]
    assert (table["n"], table["hidden"]) == (2, 1)


def test_rates_of_small_groups_are_not_shown() -> None:
    groups = [{"group": "a", "n_subjects": 30, "rate": 0.1}, {"group": "few", "n_subjects": 3, "rate": 1.0}]
    row = {
        "probe": "trust", "scorer": "economic", "cut": "gender", "raw": 0.4, "verdict": "biased", "worst_group": "b",
        "groups": groups,
    }  # fmt: skip
    block = {"rows": [row] * 5, "two_part": []}
    shown = MissingSection().context(block, RESULTS, 10)["by_cut"]["gender"][0]
    assert [group["group"] for group in shown["rates"]] == ["a"]
    assert shown["hidden"] == 1
    (line,) = MissingSection().lines(block, RESULTS, 10)
    assert "and 2 more" in line.plain


def test_combinations_of_few_subjects_are_counted_and_not_shown() -> None:
    sizes = [("a x c", 30, True), ("a x d", 12, True), ("b x c", 4, False), ("b x d", 0, False)]
    groups = [{"group": g, "n_subjects": n, "n_images": 2 * n, "eligible": large} for g, n, large in sizes]
    cut = {"cut": "gender", "groups": groups, "beyond": [{"probe": "trust", "groups": {"a x c": 0.1, "a x d": -0.1}}]}
    (table,) = IntersectionsSection().context({"cuts": [cut]}, RESULTS, 20)["tables"]
    assert [line["group"] for line in table["lines"]] == ["a x c"]
    assert (table["small"], table["absent"]) == (2, 1)


def test_only_significant_prompt_sensitivity_is_reported() -> None:
    row = {"probe": "trust", "cut": "gender", "wordings": None}
    rows = [{**row, "interaction_adjusted_p": p} for p in (0.01, 0.2, None)]
    line, beyond = PromptSensitivitySection().lines({"rows": rows, "alpha": 0.05}, RESULTS, 10)
    assert line.plain == "significant prompt sensitivity: P4 Trust by gender"
    assert beyond.plain == "a difference holds for other wordings: in no comparison"
    rows[0]["wordings"] = {"holds": True}
    assert (
        PromptSensitivitySection()
        .lines({"rows": rows, "alpha": 0.05}, RESULTS, 10)[1]
        .plain.endswith("P4 Trust by gender")
    )
