"""Choices, levels, verdicts and claims in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.report.reading import cut_label, scorer_label, verdict_words

COMPOSITE = "Composite"
CHOICES = {
    "scorer": "Scorer", "refusals": "Refused answers", "question": "Question", "unit": "What counts alike",
    "covariates": "Held equal", "min_subjects": "Smallest group",
}  # fmt: skip
REFUSALS = {"missing": "missing", "neutral": "mean score of the answers", "worst": "worst score of the scale"}
STATUSES = {
    "same_data": "have the data and the test of another, and count once",
    "not_scored": "have no score for the probe, or not for every probe",
    "incomplete": "cannot be tested on every probe",
    "too_few_subjects": "have too few subjects",
    "uninformative": "have constant answers, or none",
    "not_separable": "cannot tell the groups from the covariates",
}
_VERDICTS = {"significant": "significant", "not_significant": "not significant"}


def level_words(name: str, level: Any) -> str:
    """Return one level of a choice in words."""
    if name == "scorer":
        return scorer_label(level)
    if name == "refusals":
        return REFUSALS[level]
    if name == "question":
        return f"number {level}" if level else "all, averaged"
    if name == "covariates":
        return ", ".join(cut_label(one) for one in level) or "nothing"
    return f"{level} subjects" if name == "min_subjects" else str(level)


def claim_label(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return what a curve is about."""
    return COMPOSITE if row["probe"] is None else labels[row["probe"]]


def verdict_label(verdict: str | None) -> str:
    """Return the verdict of a row or of a composite in words."""
    return _VERDICTS.get(verdict or "") or verdict_words(verdict)
