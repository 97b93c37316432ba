"""What one FHIBE row says about a person and a picture, under this project's attribute names.

`ancestry` becomes `region` and `subregion`; the skin colours become `skin_tone` (natural) and `apparent_skin_tone`
as Fitzpatrick types; `age` becomes an age group. Every other vocabulary column keeps its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fp2.data.fhibe import vocab

_RENAMED = {"ancestry": "", "natural_skin_color": "skin_tone", "apparent_skin_color": "apparent_skin_tone"}
_PLAIN = ("location_region", "user_hour_captured", "apparent_skin_color_hue_lum")

# Spellings seen for one and the same country, after stripping and title case -> the United Nations' short name.
_COUNTRY = {
    "Usa": "United States of America",
    "Us": "United States of America",
    "U.S.A.": "United States of America",
    "United States": "United States of America",
    "United States Of America": "United States of America",
    "Uk": "United Kingdom of Great Britain and Northern Ireland",
    "United Kingdom": "United Kingdom of Great Britain and Northern Ireland",
    "Vietnam": "Viet Nam",
    "Turkey": "Türkiye",
    "South Korea": "Republic of Korea",
}


def country(text: str) -> str:
    """Return free text for a country with stray spaces, case and common spellings evened out.

    A word of two letters in capitals (a country code such as `NA`) is left as it is.
    """
    stripped = " ".join(text.split())
    titled = stripped.title()
    if titled in _COUNTRY:
        return _COUNTRY[titled]
    return stripped if len(stripped) == 2 and stripped.isupper() else titled


class AttributeReader:
    """Turns rows into attributes, and counts the labels and ages that it does not know."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._unknown: dict[str, Counter[str]] = {}
        self._ages: Counter[str] = Counter()

    def read(self, row: Mapping[str, str]) -> dict[str, list[str]]:
        """Return attribute -> plain labels (an empty list where the row gives none) for the columns that `row` has."""
        ancestry = self._labels("ancestry", row["ancestry"])
        found = {
            "region": _regions(ancestry),
            "subregion": [name for name in ancestry if name in vocab.REGION_OF],
            "pronoun": self._labels("pronoun", row["pronoun"]),
            "age": self._age(row["age"]),
        }
        for column in vocab.VOCABULARIES:
            name = _RENAMED.get(column, column)
            if name and name not in found and column in row:
                found[name] = self._labels(column, row[column])
        if "location_country" in row:
            found["location_country"] = [country(row["location_country"])] if row["location_country"].strip() else []
        for column in _PLAIN:
            if column in row:
                found[column] = [row[column].strip()] if row[column].strip() else []
        return found

    def notes(self) -> tuple[str, ...]:
        """Return one line per column with labels outside its vocabulary, and one for ages."""
        lines = []
        for column, counts in sorted(self._unknown.items()):
            shown = ", ".join(repr(value) for value, _ in counts.most_common(3))
            lines.append(f"column {column}: {counts.total()} value(s) outside the known vocabulary, such as {shown}")
        if self._ages:
            shown = ", ".join(repr(value) for value in sorted(self._ages)[:3])
            lines.append(f"column age: {self._ages.total()} value(s) without an age group, such as {shown}")
        return tuple(lines)

    def _labels(self, column: str, cell: str) -> list[str]:
        """Return the labels of one cell; equal cells are parsed once, their unknown values counted every time."""
        key = (column, cell)
        if key not in self._parsed:
            self._parsed[key] = _parse(column, cell)
        labels, unknown = self._parsed[key]
        if unknown:
            self._unknown.setdefault(column, Counter()).update(unknown)
        return list(labels)

    def _age(self, cell: str) -> list[str]:
        """Return the age group of the row's own age in years."""
        try:
            group = vocab.age_group(int(float(cell)))
        except (ValueError, OverflowError):
            group = None
        if group is None:
            self._ages[cell] += 1
        return [] if group is None else [group]


def _parse(column: str, cell: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the distinct plain labels of a cell, and those of its written values that the vocabulary does not have.

    A skin colour gives its Fitzpatrick type, read from the index; without a known type it gives no label.
    """
    words = vocab.VOCABULARIES[column]
    values = vocab.parse_list(cell)
    written = [vocab.split_value(value) for value in values]
    unknown = [
        value
        for value, (index, name) in zip(values, written, strict=True)
        if index is None or words.values.get(index) != name
    ]
    if column.endswith("_skin_color"):
        labels = [tone for value in values if (tone := vocab.fitzpatrick(value))]
    else:
        labels = [name for _, name in written if name]
    return tuple(dict.fromkeys(labels)), () if words.open else tuple(unknown)


def _regions(ancestry: list[str]) -> list[str]:
    """Return the regions named, and those that a subregion lies in (a subregion always comes with its region)."""
    regions = [name if name in vocab.ANCESTRY_BLOCKS else vocab.REGION_OF.get(name) for name in ancestry]
    return list(dict.fromkeys(name for name in regions if name))
