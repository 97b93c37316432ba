"""What one FHIBE row says about a person and a picture, under this project's attribute names.

`ancestry` becomes `region` and `subregion`; the skin colours become `skin_tone` (natural) and `apparent_skin_tone`
as Fitzpatrick types; `age` becomes an age group; `location_country` is evened out and gives the UN's regions. Every
other vocabulary column keeps its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fp2.data.fhibe import vocab
from fp2.data.fhibe.countries import find_country

_RENAMED = {"ancestry": "", "natural_skin_color": "skin_tone", "apparent_skin_color": "apparent_skin_tone"}
_PLAIN = ("location_region", "user_hour_captured", "apparent_skin_color_hue_lum")


class AttributeReader:
    """Turns rows into attributes, and counts the labels, ages and countries that it does not know.

    Parameters
    ----------
    expand_regions : bool
        Whether a bare region of ancestry counts for all its subregions (the FHIBE paper's rule; its evaluation code
        counts listed subregions only, as is done here without it).
    """

    def __init__(self, expand_regions: bool = False) -> None:
        self._expand = expand_regions
        self._parsed: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self.unknown: dict[str, Counter[str]] = {}
        """Written values outside each column's vocabulary, with how often each came."""
        self.ages: Counter[str] = Counter()
        """Ages without a group."""
        self.places: Counter[str] = Counter()
        """Places that are no country."""

    def read(self, row: Mapping[str, str]) -> dict[str, list[str]]:
        """Return attribute -> plain labels (an empty list where the row gives none) for the columns that `row` has."""
        ancestry = self._labels("ancestry", row.get("ancestry", ""))
        found = {
            "region": _regions(ancestry),
            "subregion": _subregions(ancestry, self._expand),
            "pronoun": self._labels("pronoun", row.get("pronoun", "")),
            "age": self._age(row.get("age", "")),
        }
        for column in vocab.VOCABULARIES:
            name = _RENAMED.get(column, column)
            if name and name not in found and column in row:
                found[name] = self._labels(column, row[column])
        if "location_country" in row:
            found |= self._place(row["location_country"])
        for column in _PLAIN:
            if column in row:
                found[column] = [row[column].strip()] if row[column].strip() else []
        return found

    def _place(self, cell: str) -> dict[str, list[str]]:
        """Return the country and its UN regions; text that names no country stays as it is, without regions."""
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
        """Return the labels of one cell; equal cells are parsed once, their unknown values counted every time."""
        key = (column, cell)
        if key not in self._parsed:
            self._parsed[key] = _parse(column, cell)
        labels, unknown = self._parsed[key]
        if unknown:
            self.unknown.setdefault(column, Counter()).update(unknown)
        return list(labels)

    def _age(self, cell: str) -> list[str]:
        """Return the age group of the row's own age in years."""
        try:
            group = vocab.age_group(int(float(cell)))
        except (ValueError, OverflowError):
            group = None
        if group is None:
            self.ages[cell] += 1
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


def _subregions(ancestry: list[str], expand: bool) -> list[str]:
    """Return the subregions named; with `expand`, all of a region that is named without any of its own."""
    named = [name for name in ancestry if name in vocab.REGION_OF]
    if not expand:
        return named
    covered = {vocab.REGION_OF[name] for name in named}
    bare = [name for name in ancestry if name in vocab.ANCESTRY_BLOCKS and name not in covered]
    return [*named, *(subregion for region in bare for subregion in vocab.ANCESTRY_BLOCKS[region])]
