"""The style Open Peeps, adapted: its definition, and the SVG markup of one figure.

The definition is the one that `dicebear-styles` ships (Open Peeps by Pablo Stanley, CC0 1.0). Three changes, which
dicebear-core supports, make every cue controllable:

* outlines and hair share the colour `ink`; in heads and facial hair it is a separate colour `hair`, so that hair
  tone can follow the age group on all heads;
* a head is split into `skull` (skin) and `head` (hair and outline) with face lines between them, so that hair covers
  lines;
* neck, frames and the outline of the body have the colours `neck`, `frames` and `outline`: the geometry renderer
  distinguishes parts by key colours.
"""

from __future__ import annotations

import copy
import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dicebear import Avatar, Style

from fp2.data.peeps.figure import BEARDS, EXPRESSIONS, GLASSES, HEADS

CANVAS = 704.0
SKIN_RGB = ((198, 180, 157), (189, 163, 137), (175, 148, 120), (164, 131, 103), (136, 105, 81), (102, 78, 65))
HAIR = ("#000000", "#2f2b28", "#65605c", "#999591", "#cfccc8")
CLOTHING = ("#8fa7df", "#78e185", "#ffcf77", "#e279c7", "#e78276", "#555b73", "#f5f3f0")
INK = "#000000"

# One set of lines per age group after the first, in canvas units: forehead, eye corners, cheek, brow.
_LINE_SETS = (
    ("M376 366q-13 -3 -22 -11M375 380q-13 2 -23 8",),
    ("M402 262q42 -15 88 -6",),
    ("M428 452q-13 17 -8 40M396 404q14 10 32 6",),
    ("M414 236q34 -12 68 -5M405 287q40 -14 84 -5M398 446q-14 20 -8 46",),
)
# What dicebear-core puts around the figure: document, licence note (the package's notice names it) and canvas clip.
_WRAPPING = re.compile(
    r"<metadata.*?</metadata>|<!--.*?-->|</?svg[^>]*>|<clipPath.*?</clipPath>|\sclip-path=\"[^\"]*\"", re.S
)


def _recolour(elements: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """Return a copy of `elements` with fills renamed; a literal fill is looked up by its own text."""
    changed = copy.deepcopy(elements)
    queue = list(changed)
    while queue:
        element = queue.pop()
        fill = element.get("attributes", {}).get("fill")
        old = fill["name"] if isinstance(fill, dict) else fill
        if old in names:
            element["attributes"]["fill"] = {"type": "color", "name": names[old]}
        queue.extend(element.get("children", []))
    return changed


def _is_skin(element: dict[str, Any]) -> bool:
    fill = element.get("attributes", {}).get("fill")
    return isinstance(fill, dict) and fill["name"] == "skin"


def _lines(age: int) -> dict[str, Any]:
    """Return the face lines of one age group as a component variant."""
    attributes = {
        "fill": "none",
        "stroke": {"type": "color", "name": "ink"},
        "stroke-width": "7",
        "stroke-linecap": "round",
    }
    data = " ".join(path for group in _LINE_SETS[:age] for path in group) or "M0 0"
    return {"elements": [{"type": "element", "name": "path", "attributes": {"d": data, **attributes}}]}


def _definition() -> dict[str, Any]:
    """Return Open Peeps' definition with the changes that the module describes."""
    source = json.loads(files("dicebear_styles").joinpath("open-peeps.json").read_text("utf-8"))
    parts, variants = source["components"], {"ink": "hair", "headContrast": "hair", "clothing": "tie"}
    heads = {name: parts["head"]["variants"][name]["elements"] for name in HEADS}

    def component(like: str, chosen: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
        size = {key: parts[like][key] for key in ("width", "height")}
        return {**size, "variants": {name: {"elements": elements} for name, elements in chosen.items()}}

    def taken(name: str, chosen: tuple[str, ...], names: dict[str, str]) -> dict[str, Any]:
        kept = {item: _recolour(parts[name]["variants"][item]["elements"], names) for item in chosen}
        return component(name, kept)

    lines = {f"lines{age}": _lines(age) for age in range(len(_LINE_SETS) + 1)}
    source["components"] = {
        "skull": component("head", {name: [e for e in body if _is_skin(e)] for name, body in heads.items()}),
        "lines": {"width": CANVAS, "height": CANVAS, "variants": lines},
        "head": component(
            "head", {name: _recolour([e for e in body if not _is_skin(e)], variants) for name, body in heads.items()}
        ),
        "expression": taken("expression", EXPRESSIONS, {"white": "teeth"}),
        "facialHair": taken("facialHair", BEARDS, variants),
        "accessories": taken("accessories", tuple(name for name in GLASSES if name), {"ink": "frames"}),
    }
    placed = {e["name"]: e["attributes"] for e in source["canvas"]["elements"] if e["type"] == "component"}
    body = [e for e in source["canvas"]["elements"] if e["type"] == "element"]
    neck, clothes, outline = body
    order = [("skull", placed["head"]), ("lines", {}), ("head", placed["head"])]
    order += [(name, placed[name]) for name in ("expression", "facialHair", "accessories")]
    source["canvas"]["elements"] = [
        *_recolour([neck], {"skin": "neck"}),
        clothes,
        *_recolour([outline], {"black": "outline"}),
        *({"type": "component", "name": name, "attributes": attributes} for name, attributes in order),
    ]
    for name in ("hair", "tie", "neck", "frames", "outline", "teeth"):
        source["colors"][name] = {"values": [INK]}
    del source["colors"]["headContrast"]
    return dict(source)


@lru_cache(maxsize=1)
def _style() -> Style:
    return Style(_definition())


def figure_markup(parts: dict[str, str], colours: dict[str, str], name: str = "figure") -> str:
    """Return the SVG elements of one figure in canvas units (704 by 704; the body goes on below).

    Parameters
    ----------
    parts : dict
        Variant per component (`skull`, `lines`, `head`, `expression`, `facialHair`, `accessories`); a component that
        is not named is not drawn.
    colours : dict
        `#rrggbb` per colour name (`skin`, `neck`, `hair`, `tie`, `clothing`, `ink`, `outline`, `frames`, `teeth`).
    name : str
        Distinguishes the SVG ids of two figures in one image.
    """
    options: dict[str, Any] = {"seed": name}
    for component in ("skull", "lines", "head", "expression", "facialHair", "accessories"):
        variant = parts.get(component, "")
        options[f"{component}Probability"] = 100 if variant else 0
        if variant:
            options[f"{component}Variant"] = variant
    options |= {f"{colour}Color": value for colour, value in colours.items()}
    return _WRAPPING.sub("", Avatar(_style(), options).to_string())
