"""Normalisation of countries: free text -> short name and United Nations regions, by the library `country_converter`.

The regions are those of the UN geoscheme (M49), the same words as FHIBE's ancestry regions and subregions.
Source: https://unstats.un.org/unsd/methodology/m49/ as `country_converter` ships it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, NamedTuple

from fp2.data.fhibe.vocab import REGION_OF

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
    source = "regex"
    name = _one(converter.convert(plain, src=source, to="name_short", not_found=None), plain)
    if name is None and plain.isupper() and len(plain) in _CODES:
        source = _CODES[len(plain)]
        name = _one(converter.convert(plain, src=source, to="name_short", not_found=None), plain)
    if name is None:
        return None
    subregion = str(converter.convert(plain, src=source, to="UNregion", not_found=None))
    region = REGION_OF.get(subregion)
    return Country(name, subregion if region else None, region)


def _one(found: Any, asked: str) -> str | None:
    """Return the single name found, or None: without a match the library returns its input, with several a list."""
    if not isinstance(found, str):
        return None
    return found if found != asked or found in _names() else None


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
