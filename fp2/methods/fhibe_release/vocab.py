"""FHIBE's vocabularies: the values of each column, their format, and the order of the columns on disk.

In the release a value is `"<index>. <label>"`. A single-choice cell is that string; a multi-choice cell is the Python
repr of a list of them, in lexicographic order of the strings (`'10. White'` before `'9. Gray'`). The rest of the
program uses labels only: `label` removes the index, `json_value` adds it for writing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from fp2.extension import Fp2Error, check_names

FREE_TEXT = "Free-text"
_INDEXED = re.compile(r"^\s*(\d+)\.\s+(.*?)\s*$", re.DOTALL)


@dataclass(frozen=True)
class Vocabulary:
    """The values of one column.

    `open` says that the vocabulary is known in part only, so that labels that are not listed are not unusual.
    """

    column: str
    values: Mapping[int, str]
    multi: bool = False
    open: bool = False

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Index of each label."""
        return {name: index for index, name in self.values.items()}

    @property
    def labels(self) -> list[str]:
        """Labels in index order."""
        return [self.values[index] for index in sorted(self.values)]


def _words(text: str, separator: str = "|") -> tuple[str, ...]:
    return tuple(text.split(separator))


def _listed(column: str, labels: str, *, multi: bool = False, open: bool = False) -> Vocabulary:
    """Return a vocabulary whose labels are numbered from 0; `labels` separates them by a bar."""
    return Vocabulary(column, dict(enumerate(_words(labels))), multi, open)


# Region -> its subregions. A region's index is the first of its block, so regions are 0, 6, 11, 17 and 22.
ANCESTRY_BLOCKS: dict[str, tuple[str, ...]] = {
    "Africa": ("Northern Africa", "Eastern Africa", "Middle Africa", "Southern Africa", "Western Africa"),
    "Americas": ("Caribbean", "Central America", "South America", "Northern America"),
    "Asia": ("Central Asia", "Eastern Asia", "South-eastern Asia", "Southern Asia", "Western Asia"),
    "Europe": ("Eastern Europe", "Northern Europe", "Southern Europe", "Western Europe"),
    "Oceania": ("Australia and New Zealand", "Melanesia", "Micronesia", "Polynesia"),
}
REGIONS: tuple[str, ...] = tuple(ANCESTRY_BLOCKS)
REGION_OF: dict[str, str] = {name: region for region, block in ANCESTRY_BLOCKS.items() for name in block}
_ANCESTRY = "|".join(name for region, block in ANCESTRY_BLOCKS.items() for name in (region, *block))

# Index -> colour. The index runs from dark to light, the Fitzpatrick type from I (light) to VI: type = 6 - index.
SKIN_RGB: dict[int, tuple[int, int, int]] = {
    0: (102, 78, 65),
    1: (136, 105, 81),
    2: (164, 131, 103),
    3: (175, 148, 120),
    4: (189, 163, 137),
    5: (198, 180, 157),
}
FITZPATRICK: dict[int, str] = {0: "VI", 1: "V", 2: "IV", 3: "III", 4: "II", 5: "I"}
SKIN_TONES: tuple[str, ...] = ("I", "II", "III", "IV", "V", "VI")
_SKIN = "|".join(str(list(SKIN_RGB[index])) for index in sorted(SKIN_RGB))


_HAIR_COLOR = (
    "None|Very light blond|Light blond|Blond|Dark blond|Light brown to medium brown|Dark brown/black|Red|Red blond"
    "|Gray|White|Not listed|Free-text"
)
_EYE_COLOR = "None|Blue|Gray|Green|Hazel|Brown|Red and violet|Not listed|Free-text"
_HAIR_TYPE = "None|Straight|Wavy|Curly|Kinky-coily|Not listed|Free-text"
_SCENE = (
    "Outdoor: Water, ice, snow|Outdoor: Mountains, hills, desert, sky|Outdoor: Forest, field, jungle"
    "|Outdoor: Man-made elements|Outdoor: Transportation|Outdoor: Cultural or historical building/place"
    "|Outdoor: Sports fields, parks, leisure spaces|Outdoor: Industrial and construction"
    "|Outdoor: Houses, cabins, gardens, and farms|Outdoor: Commercial buildings, shops, markets, cities, and towns"
    "|Indoor: Shopping and dining|Indoor: Workplace|Indoor: Home or hotel|Indoor: Transportation"
    "|Indoor: Sports and leisure|Indoor: Cultural"
)
_HAIRSTYLE = (
    "None|Buzz cut|Short|Up (Short)|Half-up (Short)|Down (Short)|Not listed(Short)|Medium|Up (Medium)|Half-up (Medium)"
    "|Down (Medium)|Not listed(Medium)|Long|Up (Long)|Half-up (Long)|Down (Long)|Not listed(Long)|Not listed|Free-text"
)
_POSE = (
    "Standing|Sitting|Walking|Bending/bowing|Lying down/sleeping|Performing martial/fighting arts|Dancing"
    "|Running/jogging|Crouching/kneeling|Getting up|Jumping/leaping|Falling down|Crawling|Swimming|Not listed|Free-text"
)
_WITH_OBJECT = (
    "None|Riding|Driving|Watching|Smoking|Eating|Drinking|Opening or closing|Lifting/picking up or putting down"
    "|Writing/drawing or painting|Catching or throwing|Pushing, pulling or extracting"
    "|Putting on or taking off clothing|Entering or exiting|Climbing|Pointing at|Shooting at|Digging/shoveling"
    "|Playing with pets/animals|Playing musical instrument|Playing|Using an electronic device|Cutting or chopping"
    "|Cooking|Fishing|Rowing|Sailing|Brushing teeth|Hitting|Kicking|Turning|Not listed|Free-text"
)
_WITH_PERSON = (
    "Not applicable|Talking/listening/singing|Watching/looking|Grabbing|Hitting|Kicking|Pushing|Hugging/embracing"
    "|Giving/serving or taking/receiving|Kissing|Lifting|Hand shaking|Playing with|Not listed|Free-text"
)
_MARKS = "None|Tattoos|Birthmarks|Scars|Burns|Growths|Make-up|Face paint|Acne|Not listed|Free-text"
_LIGHT = "from above|from below|in front of|from behind|from the left of|from the right of"
# Only the demonyms whose index is known; the others are matched by label, and are not reported as unknown.
_NATIONALITY = {
    3: "American",
    5: "Angolan",
    71: "Filipino",
    73: "French",
    93: "Indian",
    102: "Japanese",
    105: "Kenyan",
    138: "Moroccan",
    146: "Nigerian",
    153: "Pakistani",
    184: "South African",
    191: "Stateless",
    224: "Zimbabwean",
    225: "Not listed",
    226: "Free-text",
}

VOCABULARIES: dict[str, Vocabulary] = {
    vocabulary.column: vocabulary
    for vocabulary in (
        _listed(
            "pronoun",
            "She/her/hers|He/him/his|They/them/their|Ze/zir/zirs|None of the above|Prefer not to say",
            multi=True,
        ),
        _listed("ancestry", _ANCESTRY, multi=True),
        Vocabulary("nationality", _NATIONALITY, multi=True, open=True),
        _listed("natural_skin_color", _SKIN),
        _listed("apparent_skin_color", _SKIN),
        _listed("scene", _SCENE),
        _listed("lighting", "|".join(f"Lighting {where} the head/face" for where in _LIGHT.split("|")), multi=True),
        _listed("weather", "Fog|Haze|Snow/hail|Rain|Humid|Cloud|Clear", multi=True),
        _listed("camera_position", "Typical|Atypical High|Atypical Low"),
        _listed("camera_distance", "CD I|CD II|CD III|CD IV|CD V"),
        _listed("head_pose", "Typical|Atypical"),
        _listed("action_body_pose", _POSE),
        _listed("hairstyle", _HAIRSTYLE),
        _listed("natural_hair_type", _HAIR_TYPE),
        _listed("apparent_hair_type", _HAIR_TYPE),
        _listed("natural_hair_color", _HAIR_COLOR, multi=True),
        _listed("apparent_hair_color", _HAIR_COLOR, multi=True),
        _listed("facial_hairstyle", "None|Beard|Mustache|Goatee", multi=True),
        _listed("natural_facial_haircolor", _HAIR_COLOR, multi=True),
        _listed("apparent_facial_haircolor", _HAIR_COLOR, multi=True),
        _listed("natural_left_eye_color", _EYE_COLOR, multi=True),
        _listed("apparent_left_eye_color", _EYE_COLOR, multi=True),
        _listed("natural_right_eye_color", _EYE_COLOR, multi=True),
        _listed("apparent_right_eye_color", _EYE_COLOR, multi=True),
        _listed("facial_marks", _MARKS, multi=True),
        _listed("action_subject_object_interaction", _WITH_OBJECT, multi=True),
        _listed("action_subject_subject_interaction", _WITH_PERSON, multi=True),
        Vocabulary("subject_position", {2: "Right", 4: "None"}, open=True),
    )
}

# BlazePose order, right before left.
KEYPOINTS: tuple[str, ...] = _words(
    "Nose|Right eye inner|Right eye|Right eye outer|Left eye inner|Left eye|Left eye outer|Right ear|Left ear"
    "|Mouth right|Mouth left|Right shoulder|Left shoulder|Right elbow|Left elbow|Right wrist|Left wrist"
    "|Right pinky knuckle|Left pinky knuckle|Right index knuckle|Left index knuckle|Right thumb knuckle"
    "|Left thumb knuckle|Right hip|Left hip|Right knee|Left knee|Right ankle|Left ankle|Right heel|Left heel"
    "|Right foot index|Left foot index"
)
SEGMENT_CLASSES: tuple[str, ...] = _words(
    "Face skin|Upper body skin|Left arm skin|Right arm skin|Left leg skin|Right leg skin|Head hair|Left eyebrow"
    "|Right eyebrow|Left eye|Right eye|Nose|Upper lip|Lower lip|Inner mouth|Left shoe|Right shoe|Headwear|Mask"
    "|Eyewear|Upper body clothes|Lower body clothes|Full body clothes|Sock or legwarmer|Neckwear|Bag|Glove"
    "|Jewelry or timepiece"
)

FACE_HEADER: tuple[str, ...] = _words(
    "image_id,filepath,json_path,subject_id,is_primary,image_height,image_width,aperture_value,"
    "camera_QAannotator_id,camera_distance,camera_position,focal_length,iso_speed_ratings,lighting,"
    "lighting_QAannotator_id,location_country,location_region,manufacturer,model,scene,shutter_speed_value,"
    "user_date_captured,user_hour_captured,user_hour_captured_QAannotator_id,weather,weather_QAannotator_id,"
    "consent,subject_position,age,nationality,ancestry,pronoun,natural_skin_color,apparent_skin_color,hairstyle,"
    "natural_hair_type,apparent_hair_type,natural_hair_color,apparent_hair_color,facial_hairstyle,"
    "natural_facial_haircolor,apparent_facial_haircolor,natural_left_eye_color,apparent_left_eye_color,"
    "natural_right_eye_color,apparent_right_eye_color,facial_marks,action_body_pose,"
    "action_subject_object_interaction,action_subject_subject_interaction,apparent_skin_color_QAannotator_id,"
    "hairstyle_QAannotator_id,apparent_hair_type_QAannotator_id,apparent_hair_color_QAannotator_id,"
    "facial_hairstyle_QAannotator_id,apparent_facial_haircolor_QAannotator_id,"
    "apparent_left_eye_color_QAannotator_id,apparent_right_eye_color_QAannotator_id,facial_marks_QAannotator_id,"
    "action_body_pose_QAannotator_id,action_subject_object_interaction_QAannotator_id,"
    "action_subject_subject_interaction_QAannotator_id,keypoints,keypoints_annotator_id,keypoints_QAannotator_id,"
    "segments,segments_annotator_id,segments_QAannotator_id,head_pose,head_pose_annotator_id,"
    "head_pose_QAannotator_id,other_face,camera_position_QAannotator_id,CelebA,multiple_subjects",
    separator=",",
)
# The CSV of whole images: that of the faces without the columns of crops, plus the two boxes. Read by name only.
DOWNSAMPLED_HEADER: tuple[str, ...] = (
    *(name for name in FACE_HEADER if name not in {"other_face", "CelebA", "multiple_subjects"}),
    "person_bbox",
    "face_bbox",
)


def split_value(value: str) -> tuple[int | None, str]:
    """Return `(index, label)` of one value as written; the index is None if the value has none.

    Both spellings of a withheld free answer (`Report string` in the documents, `Free-text` in the data) become
    `Free-text`.
    """
    match = _INDEXED.match(value)
    index, name = (int(match[1]), match[2]) if match else (None, value.strip())
    return index, FREE_TEXT if name == "Report string" else name


def label(value: str) -> str:
    """Return the label of one value as written: `'12. Indoor: Home or hotel'` gives `'Indoor: Home or hotel'`."""
    return split_value(value)[1]


def vocabulary(column: str) -> Vocabulary:
    """Return the vocabulary of `column`."""
    check_names([column], VOCABULARIES, "FHIBE has no vocabulary for column")
    return VOCABULARIES[column]


def code(column: str, name: str) -> str:
    """Return `"<index>. <label>"` for one label (for a skin colour also a Fitzpatrick type, I to VI)."""
    terms = vocabulary(column)
    if column.endswith("_skin_color") and name in SKIN_TONES:
        name = terms.values[5 - SKIN_TONES.index(name)]
    check_names([name], terms.labels, f"column {column!r} has no label")
    return f"{terms.index_of[name]}. {name}"


def json_value(column: str, labels: str | Iterable[str]) -> str | list[str]:
    """Return labels as in the annotation file: a sorted list (multi-choice) or one string."""
    names = [labels] if isinstance(labels, str) else list(labels)
    codes = sorted({code(column, name) for name in names})
    if vocabulary(column).multi:
        return codes
    if len(codes) != 1:
        raise Fp2Error(f"column {column!r} takes exactly one label, not {len(codes)}")
    return codes[0]


def parse_list(cell: str) -> list[str]:
    """Return the values of one CSV cell as written: of a list's repr, a single one, or none for an empty cell.

    Never evaluates code. A cell that opens with a bracket and is not a list of strings is taken as one bare value.
    """
    text = cell.strip()
    if not text:
        return []
    if text.startswith("["):
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return [text]
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            return values
    return [text]


def fitzpatrick(value: str) -> str | None:
    """Return the Fitzpatrick type (I light .. VI dark) of a skin colour as written, or None if its index is unknown."""
    index, _ = split_value(value)
    return None if index is None else FITZPATRICK.get(index)
