"""The attributes of one row of FHIBE, under this project's names.

`ancestry` gives `region` and `subregion`; the skin colours give `skin_tone` (natural) and `apparent_skin_tone` as
Fitzpatrick types; `age` gives an age group. `location_country`, free text, is normalised by the library
`country_converter`, and gives the regions of the UN geoscheme (M49), the same words as FHIBE's ancestry regions and
subregions (https://unstats.un.org/unsd/methodology/m49/). Every other column with a vocabulary keeps its name.

What the camera wrote into the file (manufacturer, model, ISO, aperture, focal length, shutter) becomes classes, since
single values of a rare camera would point to a person; the model itself may not leave the data folder
(`fp2.tables.MUST_NOT_LEAVE`). The columns have the names of EXIF's tags, of which `ApertureValue` and
`ShutterSpeedValue` are logarithms (APEX): a step of 1 is a factor of 2 in light, and the class a step of the number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, NamedTuple

from fp2.extension import age_group
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.vocab import REGION_OF

if TYPE_CHECKING:
    from country_converter import CountryConverter

# The library reads "NA" as the code of Namibia; in free text it is as often a missing value.
_NOT_A_CODE = "NA"
_CODES = {2: "ISO2", 3: "ISO3"}
_TEXT = ("continent", "UNregion", "EXIO1", "EXIO2", "EXIO3", "WIOD", "ISO2", "ISO3")
_WHOLE = ("ISOnumeric", "UNcode", "FAOcode", "GBDcode", "EURO", "UN", "UNmember", "obsolete", "GEOnumeric")


class Country(NamedTuple):
    """A country's short name, and its UN subregion and region (None if it has none, as Antarctica)."""

    name: str
    subregion: str | None
    region: str | None


@cache
def find_country(text: str) -> Country | None:
    """Return the country that `text` names in any usual spelling, or None if there is none or several."""
    plain = " ".join(text.split())
    if not plain or plain.upper() == _NOT_A_CODE:
        return None
    converter = _converter()
    codes = [_CODES[len(plain)]] if plain.isupper() and len(plain) in _CODES else []
    for source in ("regex", *codes):
        name = converter.convert(plain, src=source, to="name_short", not_found=None)
        if isinstance(name, str) and (name != plain or name in _names()):  # else its input: no match; or a list
            subregion = str(converter.convert(plain, src=source, to="UNregion", not_found=None))
            region = REGION_OF.get(subregion)
            return Country(name, subregion if region else None, region)
    return None


@cache
def _names() -> frozenset[str]:
    return frozenset(_converter().data["name_short"])


@cache
def _converter() -> CountryConverter:
    """Return the converter, built once. Its table is read here: under pandas 3 the library reads `NA` as missing."""
    import logging

    import country_converter
    import pandas as pd

    logging.getLogger("country_converter").setLevel(logging.CRITICAL)  # unknown places are counted by `AttributeReader`
    with as_file(files(country_converter) / "country_data.tsv") as path:
        table = pd.read_csv(path, sep="\t", encoding="utf-8", keep_default_na=False, na_values=[""])
    table = table.fillna(dict.fromkeys(_TEXT, ""))
    for column in _WHOLE:
        table[column] = pd.to_numeric(table[column]).astype("Int64")
    return country_converter.CountryConverter(country_data=table)


_RENAMED = {"ancestry": "", "natural_skin_color": "skin_tone", "apparent_skin_color": "apparent_skin_tone"}
_ANCESTRIES = {*vocab.ANCESTRY_BLOCKS, *REGION_OF}
_PLAIN = ("location_region", "user_date_captured", "user_hour_captured", "apparent_skin_color_hue_lum")


class AttributeReader:
    """Converts rows to attributes, and counts unknown labels, ages and countries.

    Parameters
    ----------
    expand_regions : bool
        Whether a bare region of ancestry counts for all its subregions, as in the FHIBE paper. By default only listed
        subregions count, as in its evaluation code.
    """

    def __init__(self, expand_regions: bool = False) -> None:
        self._expand = expand_regions
        self._parsed: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        self.unknown: dict[str, Counter[str]] = {}
        """Column -> counts of the values outside its vocabulary."""
        self.ages: Counter[str] = Counter()
        """Counts of the ages without a group."""
        self.places: Counter[str] = Counter()
        """Counts of the places that are not a country."""

    def read(self, row: Mapping[str, str]) -> dict[str, list[str]]:
        """Return attribute -> labels (an empty list if the row has none) for the columns that `row` has."""
        ancestry = self._labels("ancestry", row.get("ancestry", ""))
        named = [name for name in ancestry if name in REGION_OF]
        covered = {REGION_OF[name] for name in named}
        bare = [name for name in ancestry if name in vocab.ANCESTRY_BLOCKS and name not in covered]
        labels_of = {
            "region": list(dict.fromkeys(REGION_OF.get(name, name) for name in ancestry if name in _ANCESTRIES)),
            "subregion": [*named, *(name for region in bare if self._expand for name in vocab.ANCESTRY_BLOCKS[region])],
            "pronoun": self._labels("pronoun", row.get("pronoun", "")),
            "age": self._age(row.get("age", "")),
        }
        for column in vocab.VOCABULARIES:
            name = _RENAMED.get(column, column)
            if name and name not in labels_of and column in row:
                labels_of[name] = self._labels(column, row[column])
        if "location_country" in row:
            labels_of |= self._place(row["location_country"])
        for column in _PLAIN:
            if column in row:
                labels_of[column] = [row[column].strip()] if row[column].strip() else []
        return labels_of | camera_attributes(row)

    def _place(self, cell: str) -> dict[str, list[str]]:
        """Return the country and its UN regions; text that names no country is kept, without regions."""
        text = " ".join(cell.split())
        country = find_country(text)
        if text and country is None:
            self.places[text] += 1
        name = country.name if country else text
        return {
            "location_country": [name] if name else [],
            "location_un_region": [country.region] if country and country.region else [],
            "location_un_subregion": [country.subregion] if country and country.subregion else [],
        }

    def _labels(self, column: str, cell: str) -> list[str]:
        """Return the distinct labels of a cell; equal cells are parsed once, unknown values counted every time.

        The label of a skin colour is its Fitzpatrick type, by its index; a colour without a known type has no label.
        """
        key = (column, cell)
        if key not in self._parsed:
            vocabulary, values = vocab.VOCABULARIES[column], vocab.parse_list(cell)
            written = [vocab.split_value(value) for value in values]
            outside = [
                value
                for value, (index, name) in zip(values, written, strict=True)
                if not vocabulary.open and (index is None or vocabulary.values.get(index) != name)
            ]
            names = map(vocab.fitzpatrick, values) if column.endswith("_skin_color") else (name for _, name in written)
            self._parsed[key] = list(dict.fromkeys(name for name in names if name)), outside
        labels, unknown = self._parsed[key]
        if unknown:
            self.unknown.setdefault(column, Counter()).update(unknown)
        return list(labels)

    def _age(self, cell: str) -> list[str]:
        try:
            return [age_group(int(float(cell)))]
        except (ValueError, OverflowError):
            self.ages[cell] += 1
            return []


_ISO = (100, 200, 400, 800, 1600)
_FOCAL = (5, 10, 35, 70)  # millimetres, not converted to another sensor: most phones are below 10
_STEPS = {"aperture": 1, "shutter": 2}
CAMERA_COLUMNS: dict[str, str] = {
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
    labels_of = {}
    for name, column in CAMERA_COLUMNS.items():
        if column not in row:
            continue
        text = " ".join(row[column].replace("\x00", " ").split())
        if name == "camera_model":
            value: str | None = text
        elif name == "camera_manufacturer":
            value = text.upper() if len(text) <= 3 else text.title()  # files have `samsung` and `SAMSUNG`
        else:
            value = _camera_class(name, _number(text))
        labels_of[name] = [value] if value else []
    return labels_of


def _number(text: str) -> float:
    """Return a number or a fraction such as `1/60`; NaN of other text."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return math.nan


def _camera_class(name: str, value: float) -> str | None:
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
