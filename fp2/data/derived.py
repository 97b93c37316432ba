"""Attributes that are added to the people table where a run asks for them: from other attributes, or from the image.

They are no part of the data set's digest, because they hold nothing that the attributes and images do not. Image facts
(brightness and contrast, for `analysis.adjust`) are attributes with one number, so that they stay with the tables of a
run and the analysis can be repeated without the images.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.cuts import check_may_leave
from fp2.errors import check_names
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

REGION, FIRST_REGION = "region", "first_region"
APART = "Northern America"
"""The subregion that the Fingerprint² page counts as a region of its own."""
_AMERICAS = {"Caribbean", "Central America", "South America", APART}
_LISTED = ("Africa", APART, "Asia", "Europe", "Oceania", "Americas")
"""In the order of the text of their values: 0, 10, 11, 17, 22 and 6."""


def first_region(regions: Sequence[str], subregions: Sequence[str]) -> list[str]:
    """Return the region of the ancestry that FHIBE lists first, with Northern America apart; nothing without one.

    A cell lists its values in the order of their text, so that `10. Northern America` stands before `6. Americas`; no
    other subregion stands before its region. The Fingerprint² page takes the first value, and so has a sixth region. A
    bare region that counts for all its subregions (`data.expand_regions`) names none of them.
    """
    listed = [*regions, *([APART] if APART in subregions and not set(subregions) >= _AMERICAS else [])]
    coded = [name for name in listed if name in _LISTED]
    return [min(coded, key=_LISTED.index)] if coded else list(listed[:1])


_DERIVED: Mapping[str, tuple[tuple[str, ...], Callable[..., list[str]]]] = {
    FIRST_REGION: ((REGION, "subregion"), first_region)
}
"""Name -> the attributes that it follows from, and the function of a subject's values of them."""


def derivable(attributes: Collection[str]) -> list[str]:
    """Return the derived attributes that are not among `attributes` and follow from them."""
    present = set(attributes)
    return [name for name, (needed, _) in _DERIVED.items() if name not in present and present.issuperset(needed)]


def with_derived(people: pd.DataFrame, wanted: Collection[str]) -> pd.DataFrame:
    """Return the people with those of the derived attributes that are wanted and can be derived."""
    out = people.copy(deep=False)
    for name in derivable(attribute_columns(people)):
        if name in wanted:
            needed, derive = _DERIVED[name]
            cells = zip(*(people[ATTRIBUTE_PREFIX + attribute] for attribute in needed), strict=True)
            out[ATTRIBUTE_PREFIX + name] = [derive(*values) for values in cells]
    return out


def first_listed(people: pd.DataFrame, cut: Cut) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the people with the first value of each attribute of the cut only, and the attributes it was taken from.

    The region is that of the ancestry listed first, where the people table knows it; otherwise its first value.
    """
    out, sources = people.copy(deep=False), []
    for name in cut.by:
        source = FIRST_REGION if name == REGION and ATTRIBUTE_PREFIX + FIRST_REGION in people else name
        cells = [list(cell[:1]) for cell in people[ATTRIBUTE_PREFIX + source]]
        out[ATTRIBUTE_PREFIX + name] = cells
        sources.append(source)
    return out, tuple(sources)


IMAGE_FACTS = ("brightness", "contrast")
"""Mean and standard deviation of the luma of the whole image, 0 to 1."""
_SIDE = 256


def check_covariates(names: Sequence[str], people: pd.DataFrame) -> None:
    """Raise unless every covariate is an attribute of the people or an image fact, and may leave the data folder.

    Raises
    ------
    Fp2Error
        Naming the first that is not.
    """
    attributes = [*attribute_columns(people), *IMAGE_FACTS]
    check_names(names, attributes, "no attribute or image fact", "analysis.adjust")
    check_may_leave(names, "analysis.adjust")


def with_image_facts(people: pd.DataFrame, wanted: Collection[str]) -> pd.DataFrame:
    """Return the people with an attribute for each image fact of `wanted` that the data set does not have itself.

    An image that cannot be read has no value.
    """
    present = attribute_columns(people)
    names = [name for name in IMAGE_FACTS if name in wanted and name not in present]
    if not names:
        return people
    paths = {path: image_facts(Path(path)) for path in dict.fromkeys(people["image_path"])}
    out = people.copy()
    for name in names:
        cells = [[f"{paths[path][name]:.4f}"] if paths[path] else [] for path in people["image_path"]]
        out[ATTRIBUTE_PREFIX + name] = cells
    return out


def image_facts(path: Path) -> dict[str, float]:
    """Return the facts of an image, measured at a side of at most 256 pixels; nothing if it cannot be read."""
    import numpy as np

    from fp2.data.pixels import open_rgb

    try:
        image = open_rgb(path).convert("L")
    except Exception:  # decoders raise many kinds; the image then has no facts
        return {}
    image.thumbnail((_SIDE, _SIDE))
    luma = np.asarray(image, dtype=np.float64) / 255
    return {"brightness": float(luma.mean()), "contrast": float(luma.std())}
