"""The style Open Peeps, adapted: its definition, the SVG markup of one figure, its placement and the backdrops.

The definition is the one that `dicebear-styles` ships (Open Peeps by Pablo Stanley, CC0 1.0). Three changes, which
dicebear-core supports, make every cue controllable:

* outlines and hair share the colour `ink`; in heads and facial hair it is a separate colour `hair`, so that hair
  tone can follow the age group on all heads;
* a head is split into `skull` (skin) and `head` (hair and outline) with face lines between them, so that hair covers
  lines;
* neck, frames and the outline of the body have the colours `neck`, `frames` and `outline`: the geometry renderer
  distinguishes parts by key colours.

A backdrop is a flat colour with a pattern in a second colour. It is the only cue of a region: no physical trait
represents one.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dicebear import Avatar, Style

from fp2.methods.peeps.data.figure import BEARDS, EXPRESSIONS, GLASSES, HEADS, Cues

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


@lru_cache(maxsize=1)
def _style() -> Style:
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
    return Style(dict(source))


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


# Ground and pattern colour per region, in the order of figure.REGIONS.
BACKDROPS = (
    ("#fbe3c0", "#e5b064"),
    ("#cfe5f2", "#8db7d8"),
    ("#fbd5d8", "#e39aa2"),
    ("#d6efd4", "#98c894"),
    ("#e5d9f5", "#b39ddb"),
)
PAIR_WIDTH = 0.56


@dataclass(frozen=True)
class BodyPlacement:
    """An affine map from canvas units to pixels: pixel = offset + scale * canvas."""

    scale: float
    x: float
    y: float

    @property
    def transform(self) -> str:
        """The same map as an SVG transform."""
        return f"translate({self.x:.4f} {self.y:.4f}) scale({self.scale:.6f})"


def place(cues: Cues, size: int, *, left: float = 0.0, width: float = 1.0) -> BodyPlacement:
    """Return the placement of a figure: its canvas is centred in a square, its lower edge is the image's.

    Parameters
    ----------
    left, width : float
        The square's left edge and side, as fractions of the image's side; the square is at the lower edge.
    """
    side = size * width
    scale = cues.scale * side / CANVAS
    x = left * size + side * (0.5 + cues.dx) - scale * CANVAS / 2
    y = size + side * cues.dy - scale * CANVAS
    return BodyPlacement(scale, x, y)


def backdrop(region: int, phase: float) -> str:
    """Return the SVG elements of a region's backdrop on a unit square; `phase` in [0, 1) shifts the pattern."""
    ground, ink = BACKDROPS[region]
    shapes = (_stripes, _bars, _dots, _checks, _waves)[region](phase)
    return f'<rect width="1" height="1" fill="{ground}"/><g fill="{ink}" stroke="none">{shapes}</g>'


def _stripes(phase: float) -> str:
    step, width = 0.16, 0.075
    edges = [(n + phase) * step - 1.2 for n in range(16)]
    return "".join(f'<path d="M{a:.5f} 0L{a + 1:.5f} 1h{width}L{a + width:.5f} 0z"/>' for a in edges)


def _bars(phase: float) -> str:
    step = 0.15
    tops = [(n + phase) * step - 0.2 for n in range(9)]
    return "".join(f'<rect x="0" y="{top:.5f}" width="1" height="{step / 2}"/>' for top in tops)


def _dots(phase: float) -> str:
    step, dots = 0.17, []
    for row in range(9):
        for column in range(9):
            x, y = (column + phase + 0.5 * (row % 2)) * step - 0.25, (row + phase) * step - 0.25
            dots.append(f'<circle cx="{x:.5f}" cy="{y:.5f}" r="0.042"/>')
    return "".join(dots)


def _checks(phase: float) -> str:
    step, tiles = 0.17, []
    for row in range(8):
        for column in range(row % 2, 9, 2):
            x, y = (column + 2 * phase) * step - 0.45, (row + phase) * step - 0.2
            tiles.append(f'<rect x="{x:.5f}" y="{y:.5f}" width="{step}" height="{step}"/>')
    return "".join(tiles)


def _waves(phase: float) -> str:
    step, length, height = 0.15, 0.28, 0.075
    start, lines = -(1 + phase) * length, []
    for row in range(9):
        top = (row + phase) * step - 0.2
        arcs = f"q{length / 4:.4f} {-height} {length / 2:.4f} 0t{length / 2:.4f} 0" * 6
        lines.append(f'<path d="M{start:.5f} {top:.5f}{arcs}" fill="none"/>')
    return f'<g stroke="{BACKDROPS[4][1]}" stroke-width="0.034">{"".join(lines)}</g>'
