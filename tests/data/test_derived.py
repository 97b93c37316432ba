"""Attributes that follow from others: the region of the ancestry that FHIBE lists first."""

import pandas as pd
import pytest

from fp2.data.derived import derivable, first_region, with_derived
from fp2.data.fhibe import vocab

AMERICAS = list(vocab.ANCESTRY_BLOCKS["Americas"])


def regions_of(ancestry: list[str]) -> tuple[list[str], list[str]]:
    """Return regions and subregions as FHIBE's reader does, in the order of the cell."""
    regions = [vocab.REGION_OF.get(name, name) for name in ancestry]
    return list(dict.fromkeys(regions)), [name for name in ancestry if name in vocab.REGION_OF]


@pytest.mark.parametrize(
    ("ancestry", "first"),
    [
        (["Africa"], "Africa"),
        (["Africa", "Western Africa"], "Africa"),
        (["Americas"], "Americas"),
        (["Americas", "South America"], "Americas"),
        (["Americas", "Northern America"], "Northern America"),  # '10. Northern America' < '6. Americas' as text
        (["Africa", "Eastern Africa", "Americas", "Northern America"], "Africa"),
        (["Asia", "Eastern Asia", "Americas", "Northern America"], "Northern America"),
        (["Europe", "Americas"], "Europe"),  # '17. Europe' < '6. Americas'
        (["Asia", "Europe"], "Asia"),
        (["Oceania", "Polynesia", "Americas", "Caribbean"], "Oceania"),
    ],
)
def test_the_first_value_in_the_order_of_its_text(ancestry: list[str], first: str) -> None:
    assert first_region(*regions_of(ancestry)) == [first]
    # what stands first in the cell of the release, which is sorted as text
    written = sorted(vocab.code("ancestry", name) for name in ancestry)[0]
    name = vocab.label(written)
    assert first == (name if name == "Northern America" else vocab.REGION_OF.get(name, name))


def test_a_bare_region_that_counts_for_all_its_subregions_names_none_of_them() -> None:
    assert first_region(["Americas"], AMERICAS) == ["Americas"]
    assert first_region([], []) == []
    assert first_region(["North", "South"], []) == ["North"]  # not FHIBE's words: the first value


def test_it_is_added_where_it_is_wanted_and_can_be_derived() -> None:
    people = pd.DataFrame({"attr_region": [["Americas"], []], "attr_subregion": [["Northern America"], []]})
    assert derivable(people) == ["first_region"]
    assert "attr_first_region" not in with_derived(people, ["region"])
    assert with_derived(people, ["first_region"])["attr_first_region"].tolist() == [["Northern America"], []]
    assert list(people.columns) == ["attr_region", "attr_subregion"]
    assert derivable(people[["attr_region"]]) == []
