"""FHIBE's bias analyses in reports: the table of highest disparities, conditions, error models, error patterns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.fhibe.scores.agreement import REASONS
from fp2.protocols.fhibe.scores.figures import importances, rules, short_group, top_disparities, tree
from fp2.report.reading import cut_label, number, plain
from fp2.report.section import Block, Results, Section

_LEAST = 10  # figures know no config: as `report.suppress_below` ships
_MOST = 4  # outcomes that are drawn
_RULES = 20
AGREES = {
    "both": "both",
    "published_only": "published only",
    "ours_only": "ours only",
    "neither": "neither",
    "none": "not compared",
}


class ScoresSection(Section):
    """."""

    name = "fhibe_scores"
    title = "FHIBE's bias analyses"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables of each outcome, groups and leaves of fewer than `min_cell` people without their numbers."""
        outcomes = [_outcome(one, min_cell) for one in block["outcomes"]]
        return {
            "scores": block,
            "outcomes": outcomes,
            "top": [_top(line) for line in block["top"]],
            "reasons": REASONS,
            "agrees": AGREES,
            "least": min_cell,
            "alts": _alts(block),
        }

    def figures(self, block: Block, results: Results, folder: Path) -> Iterator[Path]:
        """Draw the disparities, and for the first outcomes importances, tree and rules."""
        for name, kind, place in _files(block):
            one, path = block["outcomes"][place], folder / name
            if kind == "top":
                yield top_disparities(block["top"], results, path, "Highest significant disparities between groups")
            elif kind == "importances":
                yield importances(one["error_model"], results, path, one["label"])
            elif kind == "tree":
                yield tree(one["error_model"], results, path, one["label"], _LEAST)
            else:
                yield rules(one["patterns"], results, path, one["label"], _LEAST)

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return the highest disparity of each outcome, what its errors go with, and the pattern that held best."""
        out = []
        for one in block["outcomes"]:
            out.append(_disparity_line(one))
            model = one.get("error_model") or {}
            if model.get("status") == "ok":
                names = ", ".join(plain(name.replace("_", " ")) for name in model["selected"])
                said = f"errors go with {names}" if model["explains"] else "the features explain nothing of the errors"
                out.append(Text(f"  {said} (R² on other people {number(model['r2'], 2)})"))
            held = [rule for rule in (one.get("patterns") or {}).get("rules", ()) if rule["held"]]
            if held:
                best = held[0]
                words = f"  low scores come with {plain(best['text'].replace('_', ' '))}"
                out.append(Text(f"{words}: {number(best['held_lift'], 1)} times as often, on other people"))
            for within in one["within"]:
                changes = "; ".join(f"{cut_label(row['cut'])} {row['change']}" for row in within["rows"])
                out.append(Text(f"  within {plain(within['condition'])}: {changes}"))
        return out


def _top(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "worst": short_group(line["worst"]), "best": short_group(line["best"])}


def _outcome(one: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    model, patterns = one.get("error_model") or {}, one.get("patterns") or {}
    shown = [
        rule
        for rule in patterns.get("rules", ())
        if min(rule["n_subjects"], rule["held_subjects"]) >= min_cell
    ]  # fmt: skip
    return {
        **one,
        "rows": [{**row, "label": cut_label(row["cut"])} for row in one["benchmark"]["rows"]],
        "model": model,
        "directions": [
            d for d in model.get("directions", ()) if min(d["n_subjects_low"], d["n_subjects_high"]) >= min_cell
        ],
        "patterns": patterns,
        "rules": shown[:_RULES],
        "looked": [_looked(found, min_cell) for found in patterns.get("found", ())],
    }


def _looked(found: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    rows = []
    for row in found["rows"]:
        groups = [{**g, "mean": g["mean"] if g["n_subjects"] >= min_cell else None} for g in row["groups"]]
        rows.append({**row, "groups": groups, "label": cut_label(row["cut"])})
    return {**found, "rows": rows}


def _files(block: Block) -> list[tuple[str, str, int]]:
    """Return name, kind and outcome of every figure that there is something for."""
    found = [("fhibe_scores_top.png", "top", 0)] if block["top"] else []
    for place, one in enumerate(block["outcomes"][:_MOST]):
        if (one.get("error_model") or {}).get("status") == "ok":
            found.append((f"fhibe_scores_{place}_importances.png", "importances", place))
            if len(one["error_model"]["tree"]["nodes"]) > 1:
                found.append((f"fhibe_scores_{place}_tree.png", "tree", place))
        if (one.get("patterns") or {}).get("rules"):
            found.append((f"fhibe_scores_{place}_rules.png", "rules", place))
    return found


_ALTS = {
    "top": "Highest significant disparities between groups, with the worst and the best group of each",
    "importances": "How much each feature of the pictures goes with the errors",
    "tree": "Decision tree: which way the most important features go",
    "rules": "Which values come together with a low score, where found and on other people",
}


def _alts(block: Block) -> dict[str, str]:
    return {
        name: _ALTS[kind] + ("" if kind == "top" else f": {plain(block['outcomes'][place]['label'])}")
        for name, kind, place in _files(block)
    }


def _disparity_line(one: Mapping[str, Any]) -> Text:
    line = Text(f"{plain(one['label'])}: ", style="bold")
    top = one["benchmark"]["top"]
    if not top:
        return line.append("no significant disparity by the published method", style="not bold")
    first = top[0]
    line.append(f"highest disparity {number(first['disparity'], 2)} ", style="not bold")
    line.append(
        f"({first['intersection']}: {short_group(first['worst'])} → {short_group(first['best'])}), ", style="dim"
    )
    count = sum(row["agreement"] == "both" for row in one["benchmark"]["rows"])
    return line.append(f"{count} of {one['benchmark']['n_cases']} cases also with people as units", style="not bold")
