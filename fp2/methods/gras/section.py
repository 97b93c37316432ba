"""GRAS in the reports: scores beside their null, effect sizes, rates, prompt sensitivity and answer mass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.extension import Beside, Block, Cell, Finding, Results, Section, cut_label, number, plain, probability
from fp2.methods.gras import figures as drawing
from fp2.methods.gras.analysis import MEAN, MEAN_OR_SPREAD, NOT_TESTED

MEASURES = {
    "published_orientation": "GRAS Bias Score, published orientation (p ≤ α in any template; ideal 0)",
    "benjamini_hochberg": "p ≤ α in any template, after Benjamini-Hochberg correction",
    "holm": "p ≤ α in any template, after Holm correction (anti-conservative for skewed answers in small groups)",
    "all_templates": "p ≤ α in all templates",
}
UNITS = {"images": "images as units, as published", "subjects": "subjects as units"}
COLUMNS = {
    "p_yes": "P(Yes) in all spellings",
    "p_yes_norm": "P(Yes) / (P(Yes) + P(No))",
    "logit_difference": "log odds of Yes",
    "p_yes_first_token": "P(first token of Yes), as published",
}
_RATE, _CHANCE = ("share", "low", "high"), ("null_mean", "null_low", "null_high")


class GrasSection(Section):
    """Everything of the block `gras`."""

    name = "gras"
    title = "GRAS: trait words and P(Yes)"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables: scores per unit, effect sizes per attribute, rates, prompt sensitivity, mass."""
        unit = drawing.main_unit(block)
        subjects = {entry["name"]: drawing.sizes(block, entry["name"]) for entry in block["attributes"]}

        def large(row: Mapping[str, Any]) -> bool:
            return subjects[row["attribute"]].get(row["group"], 0) >= min_cell

        return {
            "gras": block,
            "unit": unit,
            "units": [(unit_label(block, name), found) for name, found in block["units"].items()],
            "measures": MEASURES,
            "columns": COLUMNS,
            "attributes": [entry["name"] for entry in block["attributes"]],
            "sizes": [("all attributes", unit["magnitude"]), *unit["magnitude"]["by_attribute"].items()],
            "rates": [{**row, "hidden": not large(row)} for row in unit["attribution"]],
            "mass_rows": [{**row, "hidden": not large(row)} for row in block["mass"]["by_group"]],
            "alts": _alts(block, min_cell),
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw score and null, traits by group per attribute, templates per image set, and attribution rates."""
        yield drawing.score_and_null(block, results, folder / "gras_score.png")
        for entry in _compared(block, min_cell):
            yield drawing.trait_heatmap(block, results, entry["name"], folder / _file(entry["name"]), min_cell)
        for number_of_set in range(len(drawing.main_unit(block)["wording"]["sets"])):
            path = folder / f"gras_templates_{number_of_set + 1}.png"
            yield drawing.template_scatter(block, results, number_of_set, path)
        if _compared(block, min_cell):
            yield drawing.attribution_bars(block, results, folder / "gras_attribution.png", min_cell)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return per unit the scores beside the null, and the effect sizes; then the warnings."""
        out: list[Text] = []
        for name, unit in block["units"].items():
            out += _unit_lines(unit_label(block, name), unit["scores"], unit["magnitude"])
        return [*out, *(Text(plain(line), style="yellow") for line in block["warnings"])]

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield one finding per attribute: whether the mean differs in a trait.

        Traits in which the mean or the spread differs are counted, and are no difference of means.
        """
        for name, part in drawing.main_unit(block)["tests"].items():
            status = part.get("status", [])  # results of 0.3.0 have none
            n = Counter(status)
            message = f"{n[MEAN]} of {len(status)} traits differ significantly in the mean"
            if n[MEAN_OR_SPREAD]:
                message += f", {n[MEAN_OR_SPREAD]} in the mean or the spread"
            yield Finding(
                f"traits by {cut_label(name)}",
                None if n[NOT_TESTED] == len(status) else n[MEAN] > 0,
                message if status else "the version that made this run corrected no test over traits: use fp2 rerun",
                kind="traits",
                condition="no trait differs significantly in the mean",
            )

    def beside(self, blocks: Sequence[Block], min_cell: int) -> list[Beside]:
        """Return the attribution rates of each attribute that all blocks have, and what chance gives, in %."""
        tables = []
        names = [{entry["name"] for entry in block["attributes"]} for block in blocks]
        for name in [entry["name"] for entry in blocks[0]["attributes"] if all(entry["name"] in own for own in names)]:
            rows: dict[str, list[Cell]] = {}
            for place, block in enumerate(blocks):
                size = drawing.sizes(block, name)
                for row in drawing.main_unit(block)["attribution"]:
                    if row["attribute"] == name and size.get(row["group"], 0) >= min_cell:
                        label = f"{plain(row['group'])}, {row['polarity']} traits"
                        for words, keys in ((label, _RATE), (f"{label}, by chance", _CHANCE)):
                            cells = rows.setdefault(words, [None] * len(blocks))
                            cells[place] = tuple(100 * row[key] for key in keys)
            if rows:
                what = "traits in % for which the group's mean is above the overall mean in all templates"
                tables.append(Beside(f"{cut_label(name)}: {what}", rows))
        return tables


def unit_label(block: Block, name: str) -> str:
    """Return what the units are, in words."""
    return "images as units (one per subject)" if block["same_units"] else UNITS[name]


def _unit_lines(label: str, score: Mapping[str, Any], size: Mapping[str, Any]) -> list[Text]:
    """Return four lines: the score in both orientations, its null, the significant cells, the effect sizes."""
    found = score["published_orientation"]
    first = Text(f"GRAS Bias Score, {label}: ")
    first.append(number(found["value"], 2), style="bold")
    first.append(" published orientation (ideal 0), ")
    first.append(number(score["seed_orientation"], 2), style="bold")
    first.append(" orientation of the abstract (ideal 100)")
    p = probability(found["p_value"])
    ends = f"{number(found['null_low'], 1)} to {number(found['null_high'], 1)}"
    null = Text(f"  null mean {number(found['null_mean'], 1)} ({ends}), excess ")
    null.append(number(found["excess"], 1, signed=True), style="bold" if found["p_value"] <= 0.05 else "")
    null.append(f", p {p if p.startswith('<') else '= ' + p}; in all templates ")
    null.append(number(score["all_templates"]["value"], 2))
    sizes = []
    for key, words in (("omega_squared", "omega²"), ("gap", "gap")):
        value, low, high = (number(size[key][end], 4) for end in ("value", "low", "high"))
        sizes.append(f"{words} {value} ({low} to {high})")
    size_line = Text(f"  effect sizes (they do not grow with the number of images): {', '.join(sizes)}")
    return [first, null, _finding(score), size_line]


def _finding(score: Mapping[str, Any]) -> Text:
    """Return the line with the cells that differ significantly, family-wise over all cells."""
    found = score["step_down"]
    line = Text("  significant cells: ")
    line.append(f"{number(found['value'], 2)} %", style="bold")
    p = probability(found["p_value"])
    line.append(f" of {score['n_cells']} (step-down max-F over all cells; smallest adjusted p ")
    line.append(f"{p if p.startswith('<') else '= ' + p})")
    if unsure := found.get("mean_or_spread"):
        line.append(f"; in {number(unsure, 2)} % the mean or the spread differs", style="yellow")
    return line


def _file(attribute: str) -> str:
    return f"gras_traits_{re.sub(r'[^0-9A-Za-z_-]', '-', attribute)}.png"


def _compared(block: Block, least: int) -> list[Mapping[str, Any]]:
    """Return the attributes of which at least two groups have `least` subjects."""
    return [e for e in block["attributes"] if sum(group["n_subjects"] >= least for group in e["groups"]) >= 2]


def _alts(block: Block, least: int) -> dict[str, str]:
    """Return the caption of each figure, in the order of the page."""
    alts = {"gras_score.png": "The score (line) and its distribution under permuted labels; the band holds 95 % of it"}
    for entry in _compared(block, least):
        label = cut_label(entry["name"])
        alts[_file(entry["name"])] = f"Mean P(Yes) of each group less the overall mean, for every trait, by {label}"
    for place, part in enumerate(drawing.main_unit(block)["wording"]["sets"]):
        names = ", ".join(cut_label(name) for name in part["attributes"])
        alts[f"gras_templates_{place + 1}.png"] = f"Mean P(Yes) of every trait in each template; images with {names}"
    alts["gras_attribution.png"] = "Share of positive and negative traits attributed to each group more than overall"
    return alts
