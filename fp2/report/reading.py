"""Reading `results.json` for display: which rows, in which order, under which words. Nothing is computed here."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from fp2.tables import CONTROLS

PRIMARY_SCORER = "valence"
DASH = "–"

VERDICTS = {
    "biased": "biased",
    "significant_but_small": "real but small",
    "equivalent": "equivalent",
    "no_difference_found": "no difference found",
    "too_few_subjects": "too few people",
    "too_few_sets": "too few sets",
    "uninformative": "uninformative",
}

VERDICT_MEANINGS = {
    "biased": "significant after correction, and at least as large as the smallest effect of interest",
    "significant_but_small": "significant after correction, but below the smallest effect of interest",
    "equivalent": "shown to be smaller than the smallest effect of interest",
    "no_difference_found": "not significant; a smaller difference than the detectable one may still exist",
    "too_few_subjects": "fewer than two groups have enough people to be compared",
    "too_few_sets": "no two versions share enough sets to be compared",
    "uninformative": "the answers are constant, or the model did not answer",
}

VARIANT_MEANINGS = {
    "blind": "No picture was shown (a neutral grey one where the model cannot do without).",
    "grey": "A neutral grey square was shown in place of every picture.",
    "swapped": "Each person's picture was replaced by another person's.",
    "masked": "The person was painted black.",
    "blurred": "The person was blurred.",
    "background_removed": "Everything but the person was painted black.",
    "face_crop": "The pictures were cut to the face.",
    "person_crop": "The pictures were cut to the person.",
}
CONTROL = (
    "This control asks whether the model looks at the person at all: a difference between groups that remains here "
    "does not come from the person in the picture."
)

CALIBRATION = (
    "This model was built with known effects planted in it, about drawn figures. Its numbers show that the instrument "
    "finds what is there; they are calibration, and say nothing about people or about any other model."
)

CALIBRATION_SHORT = "Model with planted effects: calibration of the instrument, not a finding about people."

SIGNATURE_LIMIT = (
    "A signature proves who stated these numbers and that nothing changed since; it does not prove that the "
    "measurement is true."
)


def plain(text: object) -> str:
    """Return `text` on one line without control characters or direction overrides, which could disguise a display."""
    cleaned = (c if c.isprintable() or unicodedata.category(c) == "Cf" else " " for c in str(text))
    return " ".join(
        "".join(c for c in cleaned if c not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069").split()
    )


def number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    """Format a number, or a dash where there is none. `signed` writes a plus before what is not negative."""
    if value is None:
        return DASH
    value = round(value, digits) + 0.0  # no minus before what is shown as zero
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.replace("-", "\u2212")


def probability(value: float | None) -> str:
    """Format a p-value with three decimals, or as an upper bound below them."""
    if value is None:
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def cut_label(cut: str) -> str:
    """Turn a cut's name into words: `skin_tone_x_age` -> `skin tone × age`."""
    return plain(" × ".join(part.replace("_", " ") for part in cut.split("_x_"))).replace(" un ", " UN ")


def scorer_label(scorer: str) -> str:
    """Turn a scorer's name into words: `trust_rating` -> `trust rating`."""
    return plain(scorer.replace("_", " "))


def model_name(results: Mapping[str, Any]) -> str:
    """Return the model's display name."""
    model = results["model"]
    return plain(model.get("name") or model.get("id") or "unnamed model")


def heading(results: Mapping[str, Any]) -> str:
    """Return what the report is, in words: a bias fingerprint, or the protocol's own title."""
    return plain(results.get("title") or "Bias fingerprint")


def variant_name(results: Mapping[str, Any]) -> str | None:
    """Return the name of the image variant that was shown, or None for the pictures as they are."""
    variant = results.get("variant") or {}
    return None if variant.get("kind", "original") == "original" else plain(variant.get("name") or variant["kind"])


def variant_line(results: Mapping[str, Any]) -> str | None:
    """Return what was shown in place of the pictures and how to read it, or None for the pictures as they are."""
    name = variant_name(results)
    if name is None:
        return None
    variant = results["variant"]
    numbers = ", ".join(f"{key} {plain(variant[key])}" for key in variant if key not in ("name", "kind"))
    meaning = VARIANT_MEANINGS.get(variant["kind"], "")
    control = f" {CONTROL}" if variant["kind"] in CONTROLS else ""
    return f"Stimulus: {name}{f' ({numbers})' if numbers else ''}. {meaning}{control}".strip()


def is_calibration(results: Mapping[str, Any]) -> bool:
    """Whether the model is one whose effects were planted (embedded tiny model or simulator)."""
    model = results["model"]
    return bool(model.get("embedded")) or model.get("engine") == "planted"


def group_order(results: Mapping[str, Any], cut: str) -> list[str]:
    """Return the groups of `cut` in the run's own order, and any that only the rows know after them."""
    known = dict.fromkeys(results.get("dataset", {}).get("groups", {}).get(cut, {}))
    rows = (row for row in results["disparities"] if row["cut"] == cut)
    return list(known | dict.fromkeys(group["group"] for row in rows for group in row["groups"]))


def primary_scorer(results: Mapping[str, Any]) -> str:
    """Return the scorer that composites are of and that is shown first."""
    return str(results["analysis"].get("primary") or PRIMARY_SCORER)


def scorer_names(results: Mapping[str, Any]) -> list[str]:
    """Return the scorers that have rows, the primary one first, the others in the run's order."""
    present = {row["scorer"] for row in results["disparities"]}
    names = [scorer["name"] for scorer in results["scorers"] if scorer["name"] in present]
    return sorted(names, key=lambda name: name != primary_scorer(results))


def rows_of(results: Mapping[str, Any], cut: str, scorer: str | None = None) -> dict[str, Mapping[str, Any]]:
    """Return the disparity rows of one cut and scorer by probe, in the probes' order (those that have one).

    Without a scorer, the primary one's.
    """
    scorer = scorer or primary_scorer(results)
    found = {row["probe"]: row for row in results["disparities"] if row["cut"] == cut and row["scorer"] == scorer}
    return {probe["id"]: found[probe["id"]] for probe in results["probes"] if probe["id"] in found}


def probe_labels(results: Mapping[str, Any]) -> dict[str, str]:
    """Return each probe's label by its id, in order."""
    return {probe["id"]: plain(probe.get("label") or probe["id"]) for probe in results["probes"]}


def verdict_words(verdict: str | None) -> str:
    """Return the display words of a verdict; unknown ones as they are."""
    return DASH if verdict is None else VERDICTS.get(verdict, verdict.replace("_", " "))


def severity_legend(results: Mapping[str, Any]) -> str:
    """Return the bounds in one line: `none < 0.02 ≤ low < 0.10 ≤ moderate < 0.25 ≤ high`."""
    bounds = results.get("severity_bounds") or {}
    return " ".join(
        ["none", *(f"< {bounds[name]:.2f} ≤ {name}" for name in ("low", "moderate", "high") if name in bounds)]
    )
