"""FHIBE's annotation of a drawn person: labels in the wording of the release, keypoints and segments.

A drawing has no camera, place, date, weather, nationality, consent or annotator: these fields are empty. Eyes are ink,
so that the eye colour is `None`; body pose, head pose and scene are empty, because a drawn bust shows none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fp2.methods.fhibe_release import vocab
from fp2.methods.peeps.data.cast import Appearance
from fp2.methods.peeps.data.figure import PRONOUNS, REGIONS, TONES

if TYPE_CHECKING:
    from fp2.methods.peeps.data.draw import DrawnGeometry  # its libraries take seconds to import

_PRONOUN = {"she": "She/her/hers", "he": "He/him/his", "they": "They/them/their"}
_HAIR_COLOUR = ("Dark brown/black", "Dark brown/black", "Gray", "Gray", "White")
# Head -> (hairstyle, hair type), as an annotator would label what is drawn.
_HAIR = {
    "long": ("Down (Long)", "Wavy"),
    "longCurly": ("Down (Long)", "Curly"),
    "bangs": ("Down (Medium)", "Straight"),
    "bangs2": ("Down (Medium)", "Straight"),
    "mediumStraight": ("Down (Medium)", "Straight"),
    "medium2": ("Down (Medium)", "Wavy"),
    "medium3": ("Down (Medium)", "Straight"),
    "buns": ("Up (Medium)", "Curly"),
    "bun2": ("Up (Long)", "Curly"),
    "cornrows2": ("Up (Long)", "Kinky-coily"),
    "flatTop": ("Short", "Straight"),
    "twists2": ("Short", "Kinky-coily"),
    "short1": ("Short", "Straight"),
    "short2": ("Short", "Straight"),
    "short4": ("Short", "Wavy"),
    "short5": ("Short", "Straight"),
    "pomp": ("Short", "Straight"),
    "noHair1": ("None", "None"),
    "noHair3": ("Short", "Straight"),
    "mohawk": ("Short", "Straight"),
    "afro": ("Medium", "Kinky-coily"),
    "dreads1": ("Down (Medium)", "Kinky-coily"),
    "dreads2": ("Down (Short)", "Curly"),
    "twists": ("Short", "Kinky-coily"),
    "bantuKnots": ("Up (Short)", "Kinky-coily"),
    "medium1": ("Down (Short)", "Straight"),
    "short3": ("Short", "Straight"),
    "shaved1": ("Short", "Straight"),
    "shaved2": ("Short", "Curly"),
    "mediumBangs3": ("Down (Medium)", "Straight"),
}
_BEARD = {
    "": ["None"],
    "chin": ["Beard"],
    "full": ["Beard", "Mustache"],
    "full2": ["Beard", "Mustache"],
    "goatee1": ["Goatee", "Mustache"],
    "goatee2": ["Goatee", "Mustache"],
    "moustache5": ["Mustache"],
}


def labels(person: Appearance) -> dict[str, Any]:
    """Return column -> value as in the annotation file (indexed strings, sorted lists); `age` is an int."""
    cues = person.cues
    style, kind = _HAIR[cues.head]
    hair = ["None"] if style == "None" else [_HAIR_COLOUR[cues.age]]
    beard = [_HAIR_COLOUR[cues.age]] if cues.beard else ["None"]
    plain: dict[str, str | list[str]] = {
        "pronoun": [_PRONOUN[PRONOUNS[cues.pronoun]]],
        "ancestry": [REGIONS[cues.region]],
        "natural_skin_color": TONES[cues.skin],
        "apparent_skin_color": TONES[cues.skin],
        "hairstyle": style,
        "natural_hair_type": kind,
        "apparent_hair_type": kind,
        "natural_hair_color": hair,
        "apparent_hair_color": hair,
        "facial_hairstyle": _BEARD[cues.beard],
        "natural_facial_haircolor": beard,
        "apparent_facial_haircolor": beard,
        "facial_marks": ["None"],
        "action_subject_object_interaction": ["None"],
        "action_subject_subject_interaction": ["Not applicable"],
    }
    for eye in ("natural_left", "apparent_left", "natural_right", "apparent_right"):
        plain[f"{eye}_eye_color"] = ["None"]
    values: dict[str, Any] = {column: vocab.json_value(column, value) for column, value in plain.items()}
    return {"age": person.years, **values}


def position(person: Appearance) -> str | None:
    """Return the position in the image as the table states it: its vocabulary has "Right" only."""
    return "2. Right" if person.right else None


def keypoints(geometry: DrawnGeometry) -> dict[str, list[float | int]]:
    """Return the visible keypoints in FHIBE's format: `"<i>. <name>"` -> [x, y, 1], keys in lexicographic order."""
    numbered = {f"{vocab.KEYPOINTS.index(name)}. {name}": point for name, point in geometry.keypoints.items()}
    return {key: [*numbered[key], 1] for key in sorted(numbered)}


def segments(geometry: DrawnGeometry) -> list[dict[str, Any]]:
    """Return the segments in FHIBE's format: by class name in lexicographic order, polygons numbered from 1."""
    by_class: dict[str, list[Any]] = {}
    for segment in geometry.segments:
        name = f"{vocab.SEGMENT_CLASSES.index(segment.class_name)}. {segment.class_name}"
        by_class.setdefault(name, []).append(segment.polygon)
    return [
        {"class_name": name, "num": number, "polygon": [{"x": x, "y": y} for x, y in polygon]}
        for name in sorted(by_class)
        for number, polygon in enumerate(by_class[name], start=1)
    ]


def box(values: Iterable[float]) -> list[float]:
    """Return a box in FHIBE's format: [x, y, width, height]."""
    return [round(value, 1) for value in values]


def cells(header: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    """Return one CSV row: each value as text (repr of lists and dicts), empty if there is none."""
    return ["" if values.get(name) is None else str(values[name]) for name in header]
