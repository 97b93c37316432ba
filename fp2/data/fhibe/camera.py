"""What a camera wrote into an image file, as attributes: manufacturer, model, ISO, aperture, focal length, shutter.

Numbers become classes, since single values of a rare camera would point to a person; the model itself may not leave
the data folder (`fp2.tables.MUST_NOT_LEAVE`). The names of the columns are those of EXIF's tags, of which
`ApertureValue` and `ShutterSpeedValue` are logarithms (APEX): a step of 1 is a factor of 2 in light. Their classes are
steps of the number in the column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_ISO = (100, 200, 400, 800, 1600)
_FOCAL = (5, 10, 35, 70)  # millimetres, not converted to another sensor: most phones are below 10
_STEPS = {"aperture": 1, "shutter": 2}
COLUMNS: dict[str, str] = {
    "camera_manufacturer": "manufacturer",
    "camera_model": "model",
    "iso": "iso_speed_ratings",
    "aperture": "aperture_value",
    "focal_length": "focal_length",
    "shutter": "shutter_speed_value",
}
"""Attribute -> column of the release."""


def camera_attributes(row: Mapping[str, str]) -> dict[str, list[str]]:
    """Return attribute -> values (an empty list if there is none) for the columns that `row` has."""
    found = {}
    for name, column in COLUMNS.items():
        if column not in row:
            continue
        text = " ".join(row[column].replace("\x00", " ").split())
        if name == "camera_model":
            value: str | None = text
        elif name == "camera_manufacturer":
            value = _maker(text)
        else:
            value = _class(name, _number(text))
        found[name] = [value] if value else []
    return found


def _maker(text: str) -> str:
    """Return a manufacturer in one spelling: files have `samsung` and `SAMSUNG`."""
    return text.upper() if len(text) <= 3 else text.title()


def _number(text: str) -> float:
    """Return a number or a fraction such as `1/60`; NaN of other text."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return math.nan


def _class(name: str, value: float) -> str | None:
    """Return the class of a number; None without one."""
    if not math.isfinite(value):
        return None
    if name in _STEPS:
        step = _STEPS[name]
        low = math.floor(value / step) * step
        return f"{low} to {low + step}"
    bounds = _ISO if name == "iso" else _FOCAL
    unit = "" if name == "iso" else " mm"
    for low, high in zip((None, *bounds), bounds, strict=False):
        if value <= high:
            return f"up to {high}{unit}" if low is None else f"{low} to {high}{unit}"
    return f"over {bounds[-1]}{unit}"
