"""The narrow tasks in reports: share found, scores by group, highest disparities, and face verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.extension import Block, Finding, Results, Section, cut_label, number, plain
from fp2.methods.fhibe.narrow.figures import by_group, hairstyle_errors, hairstyle_panels, tasks, threshold_curves
from fp2.methods.fhibe.narrow.protocol import NOT_MEASURABLE
from fp2.methods.fhibe.scores.figures import large_top, short_group, top_disparities
from fp2.methods.fhibe.scores.section import intersection_findings

_MAX_PAIRS = 12  # of hairstyles, for each pronoun


class NarrowSection(Section):
    """A table of tasks and models; for each measurable one its groups, disparities and verification rates."""

    name = "fhibe_narrow"
    title = "Narrow vision tasks"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables of each outcome, without the numbers of groups of fewer than `min_cell` subjects."""
        short = [
            {**row, **{end: short_group(row[end]) for end in ("worst", "best")}} for row in large_top(block, min_cell)
        ]
        return {
            "narrow": block,
            "outcomes": [_outcome(one, min_cell) for one in block["outcomes"]],
            "top": short,
            "least": min_cell,
            "not_measurable": NOT_MEASURABLE,
            "alts": {name: alt for name, alt, *_ in _files(block, min_cell)},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the share found, the highest disparities, and each task's score by group."""
        for name, _, kind, place in _files(block, min_cell):
            one, path = block["outcomes"][place], folder / name
            if kind == "tasks":
                yield tasks(block, results, path)
            elif kind == "top":
                yield top_disparities(
                    large_top(block, min_cell), results, path, "Narrow tasks: highest significant disparities"
                )
            elif kind == "groups":
                rows = [{**row, "value": row["mean"]} for row in one["groups"] if row["n_subjects"] >= min_cell]
                yield by_group(rows, results, path, plain(one["label"]), one["metrics"][one["metric"]])
            elif kind == "curves":
                yield threshold_curves(one, results, path, min_cell)
            elif kind == "hairstyles":
                yield hairstyle_errors(one, results, path, min_cell)
            else:
                rows = [
                    {**row, "value": row["tar"], "low": row["tar_low"], "high": row["tar_high"]}
                    for row in _rated(one["verification"], min_cell)
                ]
                title = f"Face verification: {plain(one['model'])}"
                yield by_group(rows, results, path, title, "true acceptance rate at a false acceptance rate of 0.001")

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per task and model, and one per condition."""
        out = []
        for one in block["outcomes"]:
            out.append(_line(one))
            for within in one["within"]:
                changes = "; ".join(f"{cut_label(row['cut'])} {row['change']}" for row in within["rows"])
                out.append(Text(f"  within {plain(within['condition'])}: {changes}"))
        if results["dataset"]["name"].startswith("peeps"):
            out.append(Text("Drawn people: a disparity by region is one between backdrops.", style="dim"))
        return out

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield the rows of the intersections, which are of the same family as those of the run's cuts."""
        yield from intersection_findings(block, results)


def _line(one: Mapping[str, Any]) -> Text:
    line = Text(f"{plain(one['label'])}: ")
    if not one["measurable"]:
        return line.append(f"{NOT_MEASURABLE} ({one['why']})", style="yellow")
    line.append(f"{one['metric']} {number(one['means'].get(one['metric']))}, {one['found_share']:.0%} found")
    if one["verification"] and one["verification"]["whole"]["tar"] is not None:
        line.append(f", TAR {number(one['verification']['whole']['tar'])} at FAR 0.001")
    if one["benchmark"] and (top := one["benchmark"]["top"]):
        words = f"{cut_label(top[0]['cut'])}: {short_group(top[0]['worst'])} worse than {short_group(top[0]['best'])}"
        line.append(f"; highest published disparity {number(top[0]['disparity'], 2)} ({words})")
    if one["scale_note"]:
        line.append(f"; {one['scale_note']}")
    return line


def _outcome(one: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    hidden = dict.fromkeys(("mean", "low", "high", "median"))
    groups = [
        {
            **row,
            **(hidden if row["n_subjects"] < min_cell else {}),
            "found_share": row["found_share"] if row["n_judged_subjects"] >= min_cell else None,
            "group": short_group(row["group"]),
        }
        for row in one["groups"]
    ]
    others = {name: one["means"][name] for name in one["metrics"] if name in one["means"] and name != one["metric"]}
    return {
        **one,
        "groups": groups,
        "others": others,
        "published": _published(one, min_cell),
        "verification": _verification(one["verification"], min_cell),
    }


def _published(one: Mapping[str, Any], min_cell: int) -> list[dict[str, Any]]:
    """Return the published metrics with the groups of the run's cuts that are large enough."""
    cuts = {row["cut"] for row in one["groups"]}
    found = []
    for metric in one.get("published") or ():
        rows = [row for row in metric["groups"] if row["cut"] in cuts and row["n_subjects"] >= min_cell]
        found.append({**metric, "groups": [{**row, "group": short_group(row["group"])} for row in rows]})
    return found


def _verification(block: Mapping[str, Any] | None, min_cell: int) -> dict[str, Any] | None:
    if not block:
        return None
    whole = block["whole"]
    pairs = [row for row in whole["hairstyles"] if row["n_subjects"] >= min_cell]
    pairs.sort(key=lambda row: (row["pronoun"], -row["n_same"]))
    pronouns = dict.fromkeys(row["pronoun"] for row in pairs)
    return {
        **block,
        "pairs": [row for word in pronouns for row in [row for row in pairs if row["pronoun"] == word][:_MAX_PAIRS]],
        "by_hairstyle": [row for row in whole["by_hairstyle"] if row["n_subjects"] >= min_cell],
        "groups": [
            {**row, "group": short_group(row["group"]), "tar": row["tar"] if row["n_subjects"] >= min_cell else None}
            for row in block["groups"]
        ],
    }


def _rated(verification: Mapping[str, Any] | None, min_cell: int) -> list[Mapping[str, Any]]:
    """Return the groups with a rate that are large enough to be drawn."""
    rows = verification["groups"] if verification else []
    return [row for row in rows if row["tar"] is not None and row["n_subjects"] >= min_cell]


def _files(block: Block, min_cell: int) -> list[tuple[str, str, str, int]]:
    """Return file name, alternative text, kind and outcome of every figure."""
    files = [("fhibe_narrow_tasks.png", "Share of people found and mean score of each task and model", "tasks", 0)]
    if large_top(block, min_cell):
        files.append(("fhibe_narrow_top.png", "Highest significant disparities of the narrow tasks", "top", 0))
    for place, one in enumerate(block["outcomes"]):
        if any(row["n_subjects"] >= min_cell for row in one["groups"]):
            alt = f"{plain(one['label'])} by group: mean {one['metric']} over subjects with 95 % intervals"
            files.append((f"fhibe_narrow_groups_{place}.png", alt, "groups", place))
        if _rated(one["verification"], min_cell):
            alt = f"True acceptance rate of {plain(one['model'])} at a false acceptance rate of 0.001, by group"
            files.append((f"fhibe_narrow_verification_{place}.png", alt, "verification", place))
        if one.get("curves"):
            alt = f"{plain(one['label'])}: mean score at each threshold, by group"
            files.append((f"fhibe_narrow_curves_{place}.png", alt, "curves", place))
        if hairstyle_panels(one, min_cell):
            alt = f"False rejection rate of {plain(one['model'])} by the hairstyles of the two images and by pronoun"
            files.append((f"fhibe_narrow_hairstyles_{place}.png", alt, "hairstyles", place))
    return files
