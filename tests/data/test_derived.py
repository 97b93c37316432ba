"""Attributes that follow from others: the region of the ancestry that FHIBE lists first."""

from pathlib import Path

import pandas as pd
import pytest
from bench import load_config
from fhibe_copy import write_copy

from fp2.compose import build_protocol
from fp2.cuts import check_publishable, memberships
from fp2.data.base import load_configured
from fp2.data.derived import derivable, first_region, with_derived
from fp2.methods.fhibe_release import vocab
from fp2.progress import Progress
from fp2.runs.inputs import load_people, with_cuts
from fp2.tables import attribute_columns

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
    assert derivable(attribute_columns(people)) == ["first_region"]
    assert "attr_first_region" not in with_derived(people, ["region"])
    assert with_derived(people, ["first_region"])["attr_first_region"].tolist() == [["Northern America"], []]
    assert list(people.columns) == ["attr_region", "attr_subregion"]
    assert derivable(["region"]) == []


@pytest.mark.package(name="fhibe")
def test_the_cuts_by_jurisdiction_and_by_the_first_region_group_a_release(own_root: Path) -> None:
    copy = write_copy(own_root / "release", n_subjects=8, n_pairs=0)
    for place, row in enumerate(copy.rows):
        row["location_country"] = ("Kenya", "viet nam", "nowhere land", "BRAZIL")[place % 4]
        row["ancestry"] = ("['10. Northern America', '6. Americas']", "['11. Asia', '17. Europe']")[place % 2]
    copy.save()
    words = ("data=fhibe", f"data.root={copy.root}", "data.accept_terms=true", "model=planted")
    people = load_configured(load_config(words), Progress(quiet=True)).people
    found, cuts = with_cuts(people, load_config([*words, "cut=jurisdiction"]))
    check_publishable(cuts)
    groups = memberships(found, cuts[0])["group"].value_counts().to_dict()
    at = [place % 4 for place in range(len(copy.rows))]
    assert groups == {"Africa": at.count(0), "Asia": at.count(1), "Americas": at.count(3)}
    assert found.columns.tolist() == people.columns.tolist()
    found, (cut,) = with_cuts(people, load_config([*words, "cut=first_region"]))
    assert set(memberships(found, cut)["group"]) == {"Northern America", "Asia"}
    sample = load_config([*words, "data.limit=6", "data.stratify=[first_region]"])
    _, chosen = load_people(sample, build_protocol(sample), None, Progress(quiet=True))
    groups = memberships(with_derived(chosen.people, ["first_region"]), cut)["group"].value_counts()
    assert groups.to_dict() == {"Northern America": 3, "Asia": 3}, "equal shares of a derived attribute"
    assert chosen.people.columns.tolist() == people.columns.tolist()
    both = with_cuts(people, load_config([*words, "cut=first_region_x_pronoun"]))[1]
    assert both[0].by == ("first_region", "pronoun")
