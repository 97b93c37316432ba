"""The narrow tasks in reports: what each model found, its score by group, disparities, and face verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.fhibe.scores.figures import short_group, top_disparities
from fp2.protocols.narrow import figures as drawings
from fp2.report.reading import cut_label, number, plain
from fp2.report.section import Block, Results, Section

NOT_MEASURABLE = "not measurable here"
_LEAST = 10  # figures know no config: as `report.suppress_below` ships
_PAIRS = 12


class NarrowSection(Section):
    """."""

    name = "fhibe_narrow"
    title = "Narrow vision tasks"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables of each outcome, groups of fewer than `min_cell` people without their numbers."""
        top = [
            {**line, "worst": short_group(line["worst"]), "best": short_group(line["best"])} for line in block["top"]
        ]
        return {
            "narrow": block,
            "outcomes": [_outcome(one, min_cell) for one in block["outcomes"]],
            "top": top,
            "least": min_cell,
            "not_measurable": NOT_MEASURABLE,
            "alts": {name: alt for name, alt, *_ in _drawings(block)},
        }

    def figures(self, block: Block, results: Results, folder: Path) -> Iterator[Path]:
        """Draw what was found, the largest disparities, and each task's score by group."""
        for name, _, kind, place in _drawings(block):
            one, path = block["outcomes"][place], folder / name
            if kind == "tasks":
                yield drawings.tasks(block, results, path)
            elif kind == "top":
                yield top_disparities(block["top"], results, path, "Narrow tasks: largest significant disparities")
            elif kind == "groups":
                rows = [{**row, "value": row["mean"]} for row in one["groups"] if row["n_subjects"] >= _LEAST]
                yield drawings.by_group(rows, results, path, plain(one["label"]), one["metrics"][one["metric"]])
            else:
                rows = [
                    {"cut": r["cut"], "group": r["group"], "n_subjects": r["n_subjects"], "value": r["tar"],
                     "low": r["tar_low"], "high": r["tar_high"]}
                    for r in one["verification"]["groups"]
                    if r["tar"] is not None and r["n_subjects"] >= _LEAST
                ]  # fmt: skip
                title = f"Face verification: {plain(one['model'])}"
                yield drawings.by_group(
                    rows, results, path, title, "true pairs accepted where 1 false pair in 1,000 is"
                )

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return one line per task and model."""
        out = []
        for one in block["outcomes"]:
            line = Text(f"{plain(one['label'])}: ")
            if not one["measurable"]:
                line.append(f"{NOT_MEASURABLE} ({one['why']})", style="yellow")
                out.append(line)
                continue
            line.append(f"{one['metric']} {number(one['means'].get(one['metric']))}, {one['found_share']:.0%} found")
            if one["verification"] and one["verification"]["whole"]["tar"] is not None:
                line.append(f", TAR {number(one['verification']['whole']['tar'])} at FAR 0.001")
            top = one["benchmark"]["top"] if one["benchmark"] else []
            if top:
                words = f"{cut_label(top[0]['cut'])}: {short_group(top[0]['worst'])} → {short_group(top[0]['best'])}"
                line.append(f"; largest published disparity {number(top[0]['disparity'], 2)} ({words})")
            if one["scale_note"]:
                line.append(f"; {one['scale_note']}")
            out.append(line)
            for within in one["within"]:
                changes = "; ".join(f"{cut_label(row['cut'])} {row['change']}" for row in within["rows"])
                out.append(Text(f"  within {plain(within['condition'])}: {changes}"))
        if results["dataset"]["name"].startswith("peeps"):
            out.append(Text("The people are drawings: a gap by region is one between backdrops.", style="dim"))
        return out


def _outcome(one: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    hidden = {"mean": None, "low": None, "high": None, "median": None}
    groups = [
        {**g, **(hidden if g["n_subjects"] < min_cell else {}), "group": short_group(g["group"])} for g in one["groups"]
    ]
    for group in groups:
        if group["n_judged_subjects"] < min_cell:
            group["found_share"] = None
    others = {name: one["means"][name] for name in one["metrics"] if name in one["means"] and name != one["metric"]}
    verification = one["verification"]
    if verification:
        whole = verification["whole"]
        pairs = [row for row in whole["hairstyles"] if row["n_subjects"] >= min_cell]
        pairs.sort(key=lambda row: (row["pronoun"], -row["n_same"]))
        verification = {
            **verification,
            "pairs": _first(pairs),
            "by_hairstyle": [row for row in whole["by_hairstyle"] if row["n_subjects"] >= min_cell],
            "groups": [
                {
                    **row,
                    "group": short_group(row["group"]),
                    "tar": row["tar"] if row["n_subjects"] >= min_cell else None,
                }
                for row in verification["groups"]
            ],
        }
    return {**one, "groups": groups, "others": others, "verification": verification}


def _first(pairs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the most frequent pairs of hairstyles of each pronoun."""
    counts: dict[str, int] = {}
    kept = []
    for row in pairs:
        counts[row["pronoun"]] = counts.get(row["pronoun"], 0) + 1
        if counts[row["pronoun"]] <= _PAIRS:
            kept.append(row)
    return kept


def _drawings(block: Block) -> list[tuple[str, str, str, int]]:
    """Return file name, alternative text, kind and number of the outcome for every figure."""
    files = [("fhibe_narrow_tasks.png", "Share of people found and mean score of each task and model", "tasks", 0)]
    if block["top"]:
        files.append(("fhibe_narrow_top.png", "Largest significant disparities of the narrow tasks", "top", 0))
    for place, one in enumerate(block["outcomes"]):
        name = f"{one['metric']} of {plain(one['label'])}, mean over people with 95 % intervals, by group"
        if any(row["n_subjects"] >= _LEAST for row in one["groups"]):
            files.append((f"fhibe_narrow_groups_{place}.png", name, "groups", place))
        rows = one["verification"]["groups"] if one["verification"] else []
        if any(row["tar"] is not None and row["n_subjects"] >= _LEAST for row in rows):
            alt = f"True acceptance rate of {plain(one['model'])} at a false acceptance rate of 0.001, by group"
            files.append((f"fhibe_narrow_verification_{place}.png", alt, "verification", place))
    return files
