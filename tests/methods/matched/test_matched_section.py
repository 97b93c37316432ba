"""The report section of matched sets: the interval, and sets that are too few."""

from __future__ import annotations

from typing import Any

from fp2.methods.matched.section import MatchedSection

RESULTS: dict[str, Any] = {
    "probes": [{"id": "trust", "label": "P4 Trust"}],
    "cuts": ["gender"],
    "scorers": [{"name": "valence"}],
    "analysis": {"primary": "valence"},
}


def test_within_sets_the_interval_runs_from_worst_to_best_and_needs_enough_sets() -> None:
    pair = {"first": "I", "second": "VI", "n_sets": 20, "difference": -0.4, "ci_low": -0.5, "ci_high": -0.3}
    row = {
        "probe": "trust", "scorer": "valence", "cut": "gender", "raw": 0.4, "verdict": "biased", "significant": True,
        "worst_version": "I", "best_version": "VI", "pairs": [pair],
    }  # fmt: skip
    block = {"cuts": [{"cut": "gender", "n_sets": 20, "versions": []}], "rows": [row]}
    line = MatchedSection().context(block, RESULTS, 10)["tables"][0]["lines"][0]
    assert (line["pair"]["low"], line["pair"]["high"]) == (0.3, 0.5)
    hidden = MatchedSection().context(block, RESULTS, 21)["tables"][0]["lines"][0]
    assert (hidden["pair"], hidden["hidden"]) == (None, True)
    (line,) = MatchedSection().lines(block, RESULTS, 10)
    assert line.plain == "within 20 sets that vary in gender: P4 Trust 0.400 biased (I worse than VI)"
