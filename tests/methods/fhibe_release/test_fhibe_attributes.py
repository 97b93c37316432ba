"""Free text for a country: one short name and the UN's regions, or the text as it is."""

import pytest

from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.attributes import AttributeReader, Country, find_country


@pytest.mark.parametrize(
    ("written", "country"),
    [
        ("pakistan ", Country("Pakistan", "Southern Asia", "Asia")),
        ("vietnam", Country("Vietnam", "South-eastern Asia", "Asia")),
        ("Viet Nam", Country("Vietnam", "South-eastern Asia", "Asia")),
        ("USA", Country("United States", "Northern America", "Americas")),
        (" United  States", Country("United States", "Northern America", "Americas")),
        ("Turkey", Country("Türkiye", "Western Asia", "Asia")),
        ("uk", Country("United Kingdom", "Northern Europe", "Europe")),
        ("South Korea", Country("South Korea", "Eastern Asia", "Asia")),
        ("NG", Country("Nigeria", "Western Africa", "Africa")),
        ("KEN", Country("Kenya", "Eastern Africa", "Africa")),
        ("Namibia", Country("Namibia", "Southern Africa", "Africa")),
        ("Côte d'Ivoire", Country("Côte d'Ivoire", "Western Africa", "Africa")),
        ("New Zealand", Country("New Zealand", "Australia and New Zealand", "Oceania")),
        ("Antarctica", Country("Antarctica", None, None)),
    ],
)
def test_spellings_of_countries(written, country):
    assert find_country(written) == country


@pytest.mark.parametrize("written", ["", " ", "NA", "Na", "xyz", "somewhere nice", "niger or nigeria or kenya"])
def test_what_is_no_country_is_none(written):
    assert find_country(written) is None


def test_regions_are_the_words_of_the_ancestry_vocabulary():
    for name in ("Kenya", "Brazil", "Japan", "France", "Fiji", "Jamaica", "Samoa", "Canada", "India", "Egypt"):
        country = find_country(name)
        assert country is not None
        assert country.subregion in vocab.ANCESTRY_BLOCKS[country.region]


def test_text_that_names_no_country_is_kept_without_a_region_and_counted():
    reader = AttributeReader()
    values = reader.read({"location_country": " Some  Town ", "age": "30"})
    assert values["location_country"] == ["Some Town"]
    assert values["location_un_region"] == values["location_un_subregion"] == []
    assert reader.places.total() == 1
