"""Reading `results.json` for display: which rows, in which order, with which labels, and without small groups.

Nothing is computed here. Of groups with few subjects, tables show the size and no other number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fp2.config import FIRST_PRIMARY
from fp2.report.values import Link
from fp2.results import NO_MODEL, ComparedRow, RunResults, ScorerFacts
from fp2.tables import CONTROLS, UNENDED, WITHOUT_ATTEMPT
from fp2.text import printable
from fp2.verdicts import Verdict

DASH = "–"
HOW_TO_READ = "How to read these numbers"
"""Above explanations that are folded."""
FEWEST_SPOKES = 3
"""Probes that a radar, and so a fingerprint, needs: fewer make no area."""
MIN_CELL = 10
"""The default of `report.suppress_below`."""
_OUTCOMES = ("refused", "failed", UNENDED, *WITHOUT_ATTEMPT, "answered")

CORRECTIONS = {
    "holm": "Holm", "bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli", "bonferroni": "Bonferroni", "none": "no",
}  # fmt: skip
VARIANT_MEANINGS = {
    "blind": "No image was shown (a neutral grey one where the model requires an image).",
    "grey": "A neutral grey square was shown in place of every image.",
    "swapped": "Each subject's image was replaced by another subject's.",
    "masked": "The person was painted black.",
    "blurred": "The person was blurred.",
    "background_removed": "Everything but the person was painted black.",
    "face_crop": "Images were cropped to the face.",
    "person_crop": "Images were cropped to the person.",
}
CONTROL = (
    "This is a negative control: a difference between groups that remains does not come from the person in the image."
)
SUPPLIED = "Answers were supplied, not asked here."
POSITIVE_CONTROL = "Positive control: effects were planted in the model. Not a finding about people."
WITHOUT_EFFECTS = "Simulated model without planted effects: not a finding about people."


def plain(text: object) -> str:
    """Return `text` on one line, bounded; control characters and direction overrides are escapes (`printable`)."""
    return " ".join(printable(text).split())


def spaced(text: str) -> str:
    """Return `plain(text)` with the spaces at its ends, for a part of a sentence."""
    inner = plain(text)
    return f"{' ' if text[:1].isspace() else ''}{inner}{' ' if inner and text[-1:].isspace() else ''}"


def sentence(text: str) -> str:
    """Return `text` with a capital first letter; the others stay as they are (`UN region`, `Fitzpatrick`)."""
    return text[:1].upper() + text[1:]


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Return the first `most` texts in one, with the number of the others."""
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return "; ".join([*texts[:most], *more])


MOST_CHARACTERS = 400
"""Of an answer that is shown."""


def shorten(text: object) -> str:
    """Return an answer on one line, cut to a readable length."""
    text_line = plain(text)
    return text_line if len(text_line) <= MOST_CHARACTERS else text_line[: MOST_CHARACTERS - 1] + "…"


def number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    """Format a number, or a dash where there is none; `signed` adds a plus sign unless it is negative."""
    if value is None:
        return DASH
    value = round(value, digits) + 0.0  # no minus sign before zero
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.replace("-", "\u2212")


def probability(value: float | None) -> str:
    """Format a p-value with three decimals, or as `<0.001`."""
    if value is None:
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def leaves(value: Mapping[str, object], before: str = "") -> Iterator[tuple[str, bool | float | str | None]]:
    """Yield the numbers and words of nested mappings with their dotted names; lists are left out."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from leaves(item, f"{before}{key}.")
        elif item is None or isinstance(item, (bool, int, float, str)):
            yield f"{before}{key}", item


def cut_label(cut: str, scales: Mapping[str, str] | None = None) -> str:
    """Return a cut's label: `skin_tone_x_age` -> `skin tone × age`; with `scales`, `skin tone (Fitzpatrick) × age`."""
    named = {
        attribute: f" ({scales[attribute]})" if scales and attribute in scales else "" for attribute in cut.split("_x_")
    }
    return plain(" × ".join(attribute.replace("_", " ") + scale for attribute, scale in named.items())).replace(
        " un ", " UN "
    )


def scorer_label(scorer: str) -> str:
    """Return a scorer's label: `trust_rating` -> `trust rating`."""
    return "valence in context" if scorer == "valence_context" else plain(scorer.replace("_", " "))


def model_name(results: RunResults) -> str:
    """Return the model's display name."""
    model = results["model"]
    return plain(model.get("name") or model.get("id") or "unnamed model")


def model_was_used(results: RunResults) -> bool:
    """Return whether the results are about a model; a data set report may be without one."""
    return bool(results["model"].get("name") != NO_MODEL)


def variant_name(results: RunResults) -> str | None:
    """Return the name of the image variant that was shown, None for unchanged images."""
    variant = results.get("variant") or {}
    return None if variant.get("kind", "original") == "original" else plain(variant.get("name") or variant["kind"])


def variant_line(results: RunResults) -> str | None:
    """Return what was shown in place of the images, and how to read it; None for unchanged images."""
    name = variant_name(results)
    if name is None:
        return None
    variant = results["variant"]
    numbers = ", ".join(f"{key} {plain(variant[key])}" for key in variant if key not in ("name", "kind"))
    meaning = VARIANT_MEANINGS.get(variant["kind"], "")
    control = f" {CONTROL}" if variant["kind"] in CONTROLS else ""
    return f"Stimulus: {name}{f' ({numbers})' if numbers else ''}. {meaning}{control}".strip()


def were_supplied(results: RunResults) -> bool:
    """Return whether the answers existed already, and no model was asked."""
    return "supplied" in results["model"]


def absent_words(answers: Mapping[str, int]) -> list[str]:
    """Return the counts of answers that are missing without having failed: `12 not supplied`."""
    return [f"{answers[key]:,} {key.replace('_', ' ')}" for key in WITHOUT_ATTEMPT if answers.get(key)]


def failed_words(answers: Mapping[str, int]) -> str:
    """Return the count of failed answers, and of those among them whose reasoning did not end."""
    unended = f" ({answers[UNENDED]:,} of them still reasoning at the limit of tokens)" if answers.get(UNENDED) else ""
    return f"{answers['failed']:,} failed{unended}"


def calls_words(results: RunResults) -> str:
    """Return the number of model calls, what is counted where there were any, and what servers were asked for them."""
    n = results["answers"]["model_calls"]
    remark = " (a batch is one; repeated attempts and checks count)" if n else ""
    calls = f"{n:,} model call{'' if n == 1 else 's'}{remark}"
    if not (spent := results.get("serving", {}).get("spent")):
        return calls
    reasoning = f" ({spent['reasoning_tokens']:,} of reasoning)" if spent["reasoning_tokens"] else ""
    cost = "" if spent["cost"] is None else f", cost {spent['cost']:,.4g}"
    return f"{calls}; {spent['tokens_in']:,} tokens in, {spent['tokens_out']:,} out{reasoning}{cost}"


def calibration_of(results: RunResults) -> dict[str, bool]:
    """Return whether the model is simulated or effects were planted in it, and whether it is simulated without any."""
    model = results["model"]
    return {"calibration": bool(model.get("embedded")), "without_effects": bool(model.get("without_effects"))}


def calibration_words(runs: Iterable[Mapping[str, object]]) -> str:
    """Return what readers have to know of such runs (each with the keys of `calibration_of`), or an empty text."""
    kinds = {WITHOUT_EFFECTS if run.get("without_effects") else POSITIVE_CONTROL for run in runs if run["calibration"]}
    return " ".join(sorted(kinds))


def group_order(results: RunResults, cut: str) -> list[str]:
    """Return the groups of `cut` in the order of the data set, then those that only the rows have."""
    group_names = dict.fromkeys(results.get("dataset", {}).get("groups", {}).get(cut, {}))
    rows = (row for row in results["disparities"] if row["cut"] == cut)
    return list(group_names | dict.fromkeys(group["group"] for row in rows for group in row["groups"]))


def primary_scorer(results: RunResults) -> str:
    """Return the scorer of the composites, which is shown first."""
    return str(results["analysis"].get("primary") or FIRST_PRIMARY)


def scorer_names(results: RunResults) -> list[str]:
    """Return the scorers that have rows, the primary one first, the others in the run's order."""
    present = {row["scorer"] for row in results["disparities"]}
    names = [scorer["name"] for scorer in results["scorers"] if scorer["name"] in present]
    return sorted(names, key=lambda name: name != primary_scorer(results))


def rows_of(results: RunResults, cut: str, scorer: str | None = None) -> dict[str, ComparedRow]:
    """Return the disparity rows of one cut and scorer (the primary one by default) by probe, in the probes' order."""
    scorer = scorer or primary_scorer(results)
    rows_of_scorer = {
        row["probe"]: row for row in results["disparities"] if row["cut"] == cut and row["scorer"] == scorer
    }
    return {probe["id"]: rows_of_scorer[probe["id"]] for probe in results["probes"] if probe["id"] in rows_of_scorer}


def panels(results: RunResults, scorers: Sequence[str]) -> list[tuple[str, str, dict[str, ComparedRow]]]:
    """Return (cut, scorer, rows by probe) for all that have rows."""
    pairs = ((cut, scorer) for cut in results["cuts"] for scorer in scorers)
    return [(cut, scorer, rows) for cut, scorer in pairs if (rows := rows_of(results, cut, scorer))]


def shown_interval(row: ComparedRow) -> tuple[float | None, float | None]:
    """Return the interval of a disparity that reports show: of a significant row that corrected for its selection."""
    selected = row.get("selected_ci_low"), row.get("selected_ci_high")
    return selected if row["significant"] and None not in selected else (row["ci_low"], row["ci_high"])


NO_COMMON_GROUPS = "no two groups have enough subjects with a value in every probe"


def left_out_of_composites(results: RunResults) -> dict[str, list[str]]:
    """Return the groups that count in some probe of a cut's composite and not in all, for cuts that have any."""
    out = {}
    for cut, composite in results["composites"].items():
        rows = (
            rows_of(results, cut, primary_scorer(results))
            if composite.get("value") is not None and "groups" in composite
            else {}
        )
        shown = [rows[probe] for probe in composite.get("probes", ()) if probe in rows]
        counted = (group["group"] for row in shown for group in row["groups"] if group["eligible"])
        if other_groups := [name for name in dict.fromkeys(counted) if name not in composite.get("groups", ())]:
            out[cut] = other_groups
    return out


LITTLE_COVERED = 0.75
"""Shares of images with a value below this are reported beside the disparities in the terminal."""


def coverage_of(results: RunResults, cut: str, scorer: str) -> dict[str, float]:
    """Return, by probe, the share of a cut's images with a value; the others were refused or failed, or say nothing.

    An image in several groups of the cut counts in each. Probes without images are left out.
    """
    totals: dict[str, list[int]] = {}
    for row in results.get("coverage") or ():
        if row["cut"] == cut and row["scorer"] == scorer:
            total = totals.setdefault(row["probe"], [0, 0])
            total[0] += row["with_value"]
            total[1] += row["n_images"]
    return {probe: n_found / images for probe, (n_found, images) in totals.items() if images}


def probe_labels(results: RunResults) -> dict[str, str]:
    """Return each probe's label by its id, in order."""
    return {probe["id"]: plain(probe.get("label") or probe["id"]) for probe in results["probes"]}


def scorer_identity(scorer: ScorerFacts) -> str:
    """Return version and lexicon of a scorer as one string: equal where its numbers can be compared.

    The version of a scorer that asks a model has the digest of that model.
    """
    return json.dumps([scorer["version"], scorer.get("lexicon")], sort_keys=True)


def scorer_version(scorer: ScorerFacts) -> str:
    """Return the same in words: `version 1, lexicon stereotype version 2 (sha256 4f1c...)`."""
    identity, lexicon, model = f"version {scorer['version']}", scorer.get("lexicon"), scorer.get("model")
    if isinstance(lexicon, Mapping):
        sha256 = f" (sha256 {str(lexicon['sha256'])[:12]}…)" if lexicon.get("sha256") else ""
        identity += f", lexicon {lexicon.get('name', '')} version {lexicon.get('version', DASH)}{sha256}"
    elif lexicon:
        identity += f", lexicon {lexicon}"
    if model:
        checkpoint = model.get("checkpoint") or model
        named = (checkpoint.get("model"), checkpoint.get("revision") or checkpoint.get("weights"))
        identity += f", model {' '.join(str(word) for word in named if word)}"
    return plain(identity)


def verdict_words(verdict: str | None) -> str:
    """Return the label of a verdict; unknown ones without underscores."""
    known_verdict = Verdict.of(verdict)
    return known_verdict.label if known_verdict else (verdict or DASH).replace("_", " ")


def verdict_meanings(rows: Iterable[ComparedRow]) -> dict[str, str]:
    """Return the meanings of the verdicts that occur in the rows."""
    occurring = {row["verdict"] for row in rows}
    return {verdict: verdict.meaning for verdict in Verdict if verdict in occurring}


def untested_words(rows: Iterable[ComparedRow]) -> str:
    """Return why rows of which none was tested were not: `the answers all have the same value, or too few have one`."""
    return " or ".join(verdict_meanings(rows).values())


def extreme_groups(row: ComparedRow) -> tuple[str | None, str | None]:
    """Return the worst and the best group of a row; none where the difference is not significant."""
    return (row["worst_group"], row["best_group"]) if row.get("significant", True) else (None, None)


EFFECTS = ((0.2, "small"), (0.5, "medium"), (0.8, "large"), (1.2, "very large"), (2.0, "huge"))
"""Least standardised difference of each magnitude: conventions of Cohen (1988), extended by Sawilowsky (2009)."""


def effect_words(d: float | None) -> str | None:
    """Return the magnitude of a standardised difference in words; None without one."""
    if d is None:
        return None
    return next((label for threshold, label in reversed(EFFECTS) if abs(d) >= threshold), "negligible")


def row_name(row: ComparedRow) -> str:
    """Return what a disparity is called in addresses and by `fp2 view --row`: `region/lifestyle/valence`."""
    return f"{row['cut']}/{row['probe']}/{row['scorer']}"


def answers_anchor(row: ComparedRow) -> str:
    """Return the anchor of the answers of a significant difference on a page."""
    return f"answers/{quote(row_name(row))}"


def answers_link(words: str, row: ComparedRow) -> str:
    """Return words that lead to the answers of a significant difference."""
    return Link(words, answers_anchor(row)) if row["significant"] else words


def correction_label(correction: str) -> str:
    """Return the label of a correction for multiple tests; unknown ones as they are."""
    return plain(CORRECTIONS.get(correction, correction))


def confidence_level(alpha: float) -> str:
    """Return the level of an interval with an error of `alpha`, as `95 % CI`."""
    return f"{100 * (1 - alpha):g} % CI"


def severity_words(severity: str | None, composite: float | None, complete: bool = True) -> str:
    """Return the severity of a composite; without one the reason."""
    if composite is None:
        return Verdict.UNINFORMATIVE.label
    return plain(severity or ("not significant" if complete else "withheld (partial run)"))


def severity_legend(results: RunResults) -> str:
    """Return the bounds of the magnitude in one line: `none < 0.02 ≤ low < 0.10 ≤ moderate < 0.25 ≤ high`."""
    bounds = results.get("severity_bounds") or {}
    return " ".join(
        ["none", *(f"< {bounds[name]:.2f} ≤ {name}" for name in ("low", "moderate", "high") if name in bounds)]
    )


def suppress_small_cells(results: Mapping[str, Any], min_cell: int = MIN_CELL) -> dict[str, Any]:
    """Return a copy of `results` without the numbers of groups of fewer than `min_cell` subjects, except their sizes.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    min_cell : int
        For smaller groups, mean and standard deviation (per disparity row) and the counts of answers become None, with
        `suppressed: true`. A group of unknown size counts as small.

    Returns
    -------
    dict
        A new dict; `results` is unchanged. The function is idempotent.
    """
    shown_results = dict(results)
    shown_results["disparities"] = [
        {**row, "groups": [_blank(g, g["n_subjects"], ("mean", "sd"), min_cell) for g in row.get("groups", [])]}
        for row in results.get("disparities", [])
    ]
    small = {
        (row["cut"], group["group"])
        for row in shown_results["disparities"]
        for group in row["groups"]
        if group["suppressed"]
    }
    if results.get("composites"):
        shown_results["composites"] = {cut: dict(composite) for cut, composite in results["composites"].items()}
        for cut, composite in shown_results["composites"].items():
            if "covariances" in composite:  # those of small groups are of few subjects' values
                matrices = composite["covariances"].items()
                composite["covariances"] = {g: matrix for g, matrix in matrices if (cut, g) not in small}
    sizes = results.get("dataset", {}).get("groups", {})
    shown_results["answers_by_group"] = []
    for row in results.get("answers_by_group", []):
        n = sizes.get(row["cut"], {}).get(row["group"], {}).get("n_subjects", 0)
        shown_results["answers_by_group"].append(_blank(row, n, [key for key in _OUTCOMES if key in row], min_cell))
    return shown_results


def _blank(entry: Mapping[str, Any], n_subjects: int, names: Iterable[str], min_cell: int) -> dict[str, Any]:
    """Return what is known of a group, without the numbers `names` where it is small."""
    small = n_subjects < min_cell
    return {**entry, **dict.fromkeys(names if small else ()), "suppressed": small}
