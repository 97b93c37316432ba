"""FHIBE's bias analyses in reports: highest disparities, conditions, error models, error patterns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.extension import (
    Block,
    Finding,
    Results,
    Section,
    cut_label,
    number,
    plain,
    primary_scorer,
    row_finding,
    worst_and_best,
)
from fp2.methods.fhibe.scores.figures import importances, large_top, rules, short_group, top_disparities, tree
from fp2.methods.fhibe.scores.published import REASONS

_DRAWN = 4  # outcomes that are drawn
_RULES = 20
AGREES = {
    "both": "both",
    "published_only": "published only",
    "ours_only": "subject-level only",
    "neither": "neither",
    "none": "not compared",
}


class ScoresSection(Section):
    """The highest disparities, and for each outcome the two analyses, the error model and the error patterns."""

    name = "fhibe_scores"
    title = "FHIBE's bias analyses"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables of each outcome, without the numbers of groups of fewer than `min_cell` subjects."""
        return {
            "scores": block,
            "outcomes": [_outcome(one, min_cell) for one in block["outcomes"]],
            "top": [
                {**line, **{end: short_group(line[end]) for end in ("worst", "best")}}
                for line in large_top(block, min_cell)
            ],
            "agrees": AGREES,
            "least": min_cell,
            "alts": {name: alt for name, alt, *_ in _files(block, min_cell)},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the disparities, and for the first outcomes importances, tree and rules."""
        for name, _, kind, place in _files(block, min_cell):
            one, path = block["outcomes"][place], folder / name
            if kind == "top":
                yield top_disparities(
                    large_top(block, min_cell), results, path, "Highest significant disparities between groups"
                )
            elif kind == "importances":
                yield importances(one["error_model"], results, path, one["label"])
            elif kind == "tree":
                yield tree(one["error_model"], results, path, one["label"], min_cell)
            else:
                yield rules(one["patterns"], results, path, one["label"], min_cell)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return each outcome's highest disparity, its selected features and its best replicated rule."""
        out = []
        for one in block["outcomes"]:
            out.append(_disparity_line(one))
            model = one.get("error_model") or {}
            if model.get("status") == "ok":
                names = ", ".join(plain(name.replace("_", " ")) for name in model["selected"])
                found = f"errors are associated with {names}" if model["explains"] else "no feature predicts the errors"
                out.append(Text(f"  {found} (out-of-fold R² {number(model['r2'], 2)})"))
            held = [rule for rule in (one.get("patterns") or {}).get("rules", ()) if rule["held"]]
            if held:
                words = f"  low scores under {plain(held[0]['text'].replace('_', ' '))}"
                out.append(Text(f"{words}: lift {number(held[0]['held_lift'], 1)} on held-out subjects"))
            for within in one["within"]:
                changes = "; ".join(f"{cut_label(row['cut'])} {row['change']}" for row in within["rows"])
                out.append(Text(f"  within {plain(within['condition'])}: {changes}"))
        return out

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield the rows of the intersections, which are of the same family as those of the run's cuts."""
        yield from intersection_findings(block, results)


def intersection_findings(block: Block, results: Results) -> Iterator[Finding]:
    """Yield the subject-level rows of every outcome that are not among the disparities of the run."""
    primary = primary_scorer(results)
    for one in block["outcomes"]:
        for row in (one["benchmark"] or {}).get("rows", ()):
            ours = row["ours"]
            if row["cut"] not in results["cuts"]:
                name = f"{plain(one['label'])} by {cut_label(row['cut'])}"
                yield row_finding(name, ours, worst_and_best(ours), sized=one["metric"] == primary)


def _disparity_line(one: Mapping[str, Any]) -> Text:
    line = Text(f"{plain(one['label'])}: ", style="bold")
    top = one["benchmark"]["top"]
    if not top:
        return line.append("no significant disparity in the published analysis", style="not bold")
    first, rows = top[0], one["benchmark"]["rows"]
    groups = f"{short_group(first['worst'])} worse than {short_group(first['best'])}"
    line.append(f"highest disparity {number(first['disparity'], 2)} ", style="not bold")
    line.append(f"({first['intersection']}: {groups}), ", style="dim")
    count = sum(row["agreement"] == "both" for row in rows)
    words = f"{count} of {one['benchmark']['n_cases']} cases significant in the subject-level analysis too"
    return line.append(words, style="not bold")


def _outcome(one: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    model, patterns = one.get("error_model") or {}, one.get("patterns") or {}
    large = [r for r in patterns.get("rules", ()) if min(r["n_subjects"], r["held_subjects"]) >= min_cell]
    return {
        **one,
        "rows": [{**row, "label": cut_label(row["cut"]), "why": _why(row)} for row in one["benchmark"]["rows"]],
        "model": model,
        "directions": [
            d for d in model.get("directions", ()) if min(d["n_subjects_low"], d["n_subjects_high"]) >= min_cell
        ],
        "patterns": patterns,
        "rules": large[:_RULES],
        "followed_up": [_followed_up(found) for found in patterns.get("found", ())],
    }


def _why(row: Mapping[str, Any]) -> str:
    """Return why the two analyses differ, in this version's words."""
    return "; ".join(REASONS.get(code, code) for code in row["reasons"])


def _followed_up(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found, "rows": [{**row, "label": cut_label(row["cut"])} for row in found["rows"]]}


_ALTS = {
    "top": "Highest significant disparities between groups, with the worst and the best group of each",
    "importances": "Importance of each feature for the errors",
    "tree": "Decision tree of the selected features",
    "rules": "Rules for low scores: share of low scores on the discovery and on the held-out subjects",
}


def _files(block: Block, min_cell: int) -> list[tuple[str, str, str, int]]:
    """Return file name, alternative text, kind and outcome of every figure."""
    found = [("fhibe_scores_top.png", _ALTS["top"], "top", 0)] if large_top(block, min_cell) else []
    for place, one in enumerate(block["outcomes"][:_DRAWN]):
        model, patterns = one.get("error_model") or {}, one.get("patterns") or {}
        kinds = {
            "importances": model.get("status") == "ok",
            "tree": model.get("status") == "ok" and len(model["tree"]["nodes"]) > 1,
            "rules": bool(patterns.get("rules")),
        }
        found += [
            (f"fhibe_scores_{place}_{kind}.png", f"{_ALTS[kind]}: {plain(one['label'])}", kind, place)
            for kind, present in kinds.items() if present
        ]  # fmt: skip
    return found
