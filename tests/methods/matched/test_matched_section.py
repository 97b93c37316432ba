"""The report section of matched sets: the interval, and sets that are too few."""

from __future__ import annotations

from typing import Any

from fp2.methods.matched.section import MatchedSection
from fp2.report.values import Estimate, as_cell, charts, findings, suppressed, tables

RESULTS: dict[str, Any] = {
    "probes": [{"id": "trust", "label": "P4 Trust"}],
    "cuts": ["gender"],
    "scorers": [{"name": "valence"}],
    "analysis": {"primary": "valence"},
}


def test_within_sets_the_interval_runs_from_worst_to_best_and_needs_enough_sets() -> None:
    pair = {"first": "I", "second": "VI", "n_sets": 20, "difference": -0.4, "ci_low": -0.5, "ci_high": -0.3}
    versions = [{"name": "I", "level": -0.2, "n_sets": 20}, {"name": "VI", "level": 0.2, "n_sets": 20}]
    row = {
        "probe": "trust",
        "scorer": "valence",
        "cut": "gender",
        "raw": 0.4,
        "verdict": "biased",
        "significant": True,
        "worst_version": "I",
        "best_version": "VI",
        "pairs": [pair],
        "versions": versions,
        "status": "ok",
        "smallest_effect": 0.1,
        **dict.fromkeys(("null_mean", "null_p95", "p_value", "adjusted_p", "n_sets"), 0.01),
    }
    block = {"cuts": [{"cut": "gender", "n_sets": 20, "versions": []}], "rows": [row], "n_sets": 20}
    analysis = {"primary": "valence", "n_permutations": 99, "correction": "holm", "family": "run"}
    values = list(MatchedSection().values(block, {**RESULTS, "analysis": analysis}))
    intervals = [as_cell(tables(suppressed(values, least))[0].rows[0].cells[4]).value for least in (10, 21)]
    assert intervals == [Estimate(0.4, 0.3, 0.5), "too few subjects"]
    differing, chart = charts(values)
    assert [(point.value, point.low, point.high) for point in differing.series[0].points] == [(0.4, 0.3, 0.5)]
    assert [point.mark for point in chart.series[0].points] == ["low", "high"]
    (finding,) = findings(values)
    assert (finding.name, finding.differs, finding.size) == (
        "valence of trust within sets that vary in gender",
        True,
        0.4,
    )
