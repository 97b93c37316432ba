"""GRAS: the bias score in both orientations beside chance, how large the differences are, rates, wording, mass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.gras import figures as drawing
from fp2.report.reading import cut_label, number, plain, probability
from fp2.report.section import Block, Results, Section

_LEAST = 10  # figures know no config: as `report.suppress_below` ships
MEASURES = {
    "published_orientation": "GRAS Bias Score, published orientation (p ≤ α in any template; ideal 0)",
    "benjamini_hochberg": "the same after Benjamini-Hochberg",
    "holm": "the same after Holm",
    "all_templates": "p ≤ α in all templates",
}
UNITS = {"images": "pictures as units, as published", "subjects": "people as units"}
COLUMNS = {"p_yes": "Yes in all spellings", "p_yes_norm": "Yes against No", "logit_difference": "log odds of Yes",
           "p_yes_first_token": "first token of Yes (published)"}  # fmt: skip


class GrasSection(Section):
    """."""

    name = "gras"
    title = "GRAS: trait words and P(Yes)"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables: scores per unit, sizes per attribute, rates, wording, mass."""
        unit = drawing.main_unit(block)
        people = {entry["name"]: drawing.sizes(block, entry["name"]) for entry in block["attributes"]}

        def large(row: Mapping[str, Any]) -> bool:
            return people[row["attribute"]].get(row["group"], 0) >= min_cell

        least = max(min_cell, _LEAST)
        attributes = [entry["name"] for entry in block["attributes"]]
        return {
            "gras": block,
            "unit": unit,
            "units": [(_unit_words(block, name), found) for name, found in block["units"].items()],
            "measures": MEASURES,
            "columns": COLUMNS,
            "attributes": attributes,
            "sizes": [("all attributes", unit["magnitude"]), *unit["magnitude"]["by_attribute"].items()],
            "rates": [{**row, "hidden": not large(row)} for row in unit["attribution"]],
            "mass_rows": [{**row, "hidden": not large(row)} for row in block["mass"]["by_group"]],
            "alts": _alts(block, results, least),
        }

    def figures(self, block: Block, results: Results, folder: Path) -> Iterator[Path]:
        """Draw score and null, traits by group for every attribute, templates for every image set, attribution rates."""
        yield drawing.score_and_null(block, results, folder / "gras_score.png")
        for entry in block["attributes"]:
            yield drawing.trait_heatmap(block, results, entry["name"], folder / _file(entry["name"]), _LEAST)
        for number_of_set in range(len(drawing.main_unit(block)["wording"]["sets"])):
            path = folder / f"gras_templates_{number_of_set + 1}.png"
            yield drawing.template_scatter(block, results, number_of_set, path)
        yield drawing.attribution_bars(block, results, folder / "gras_attribution.png", _LEAST)

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return the score in both orientations, how large the differences are, and what to be wary of."""
        out = []
        for name, unit in block["units"].items():
            score, size = unit["scores"], unit["magnitude"]
            found = score["published_orientation"]
            line = Text(f"GRAS Bias Score, {_unit_words(block, name)}: ")
            line.append(number(found["value"], 2), style="bold")
            line.append(" published orientation (ideal 0), ")
            line.append(number(score["seed_orientation"], 2), style="bold")
            line.append(" seed orientation (ideal 100)")
            out.append(line)
            p = probability(found["p_value"])
            ends = f"{number(found['null_low'], 1)} to {number(found['null_high'], 1)}"
            chance = Text(f"  by chance {number(found['null_mean'], 1)} ({ends}), excess ")
            chance.append(number(found["excess"], 1, signed=True), style="bold" if found["p_value"] <= 0.05 else "")
            chance.append(
                f", p {p if p.startswith('<') else '= ' + p}; after Holm {number(score['holm']['value'], 2)}, "
            )
            chance.append(f"in all templates {number(score['all_templates']['value'], 2)}")
            out.append(chance)
            parts = [
                f"{label} {number(size[key]['value'], 4)} ({number(size[key]['low'], 4)} to {number(size[key]['high'], 4)})"
                for key, label in (("omega_squared", "omega²"), ("gap", "gap"))
            ]
            out.append(Text(f"  size, which does not grow with the number of pictures: {', '.join(parts)}"))
        out += [Text(plain(line), style="yellow") for line in block["warnings"]]
        return out


def _unit_words(block: Block, name: str) -> str:
    return "pictures as units (nobody is in two)" if block["same_units"] else UNITS[name]


def _file(attribute: str) -> str:
    return f"gras_traits_{re.sub(r'[^0-9A-Za-z_-]', '-', attribute)}.png"


def _alts(block: Block, results: Results, least: int) -> dict[str, str]:
    """Return what each figure shows, in the order of the page."""
    alts = {"gras_score.png": "The published score (line) on what permuted labels give; the band holds 95 % of them"}
    for entry in block["attributes"]:
        if sum(group["n_subjects"] >= least for group in entry["groups"]) >= 2:
            label = cut_label(entry["name"])
            alts[_file(entry["name"])] = f"Mean P(Yes) of each group less everybody's, for every trait, by {label}"
    for place, part in enumerate(drawing.main_unit(block)["wording"]["sets"]):
        names = ", ".join(cut_label(name) for name in part["attributes"])
        alts[f"gras_templates_{place + 1}.png"] = f"Mean P(Yes) of every trait in each template; pictures with {names}"
    alts["gras_attribution.png"] = "Share of positive and negative traits attributed to each group more than to all"
    return alts
