"""Face parsing: F1 (the Sørensen-Dice coefficient) of each part of a face, and their mean.

Parts are CelebAMask-HQ's (Lee et al., 2020), by their index in its maps of 19 classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.data.variants import mask_array, region_mask

Labels = npt.NDArray[np.uint8]

PARTS: tuple[str, ...] = (
    "background", "skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear", "mouth", "u_lip",
    "l_lip", "hair", "hat", "ear_r", "neck_l", "neck", "cloth",
)  # fmt: skip
"""Part of each index. `l_` is the person's left."""
SCORED: tuple[str, ...] = tuple(
    part for part in PARTS if part not in ("background", "l_ear", "r_ear", "ear_r", "neck_l")
)
"""Parts that are scored: FHIBE annotates no ears (they are skin) and no jewellery by its place (`ear_r`, `neck_l`)."""
_FROM_FHIBE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("neck", ("Upper body skin",)),
    ("cloth", ("Upper body clothes", "Full body clothes", "Neckwear")),
    ("skin", ("Face skin",)),
    ("l_brow", ("Left eyebrow",)),
    ("r_brow", ("Right eyebrow",)),
    ("l_eye", ("Left eye",)),
    ("r_eye", ("Right eye",)),
    ("nose", ("Nose",)),
    ("mouth", ("Inner mouth",)),
    ("u_lip", ("Upper lip",)),
    ("l_lip", ("Lower lip",)),
    ("hair", ("Head hair",)),
    ("eye_g", ("Eyewear",)),
    ("hat", ("Headwear",)),
)
_INDEX = {part: index for index, part in enumerate(PARTS)}
_MIRRORED = (("l_eye", "r_eye"), ("l_brow", "r_brow"))
_AS = {"l_ear": "skin", "r_ear": "skin", "ear_r": "background", "neck_l": "neck"}


def from_polygons(size: tuple[int, int], polygons: Mapping[str, Sequence[Any]]) -> Labels:
    """Return a map of parts, shape (height, width), painted from FHIBE's segment polygons; later parts cover earlier.

    Parameters
    ----------
    size : (int, int)
        Width and height in pixels.
    polygons : mapping
        FHIBE's segment class -> polygons (`fp2.data.fhibe.geometry.Geometry.polygons`).
    """
    labels = np.zeros((size[1], size[0]), dtype=np.uint8)
    for part, classes in _FROM_FHIBE:
        shapes = [polygon for name in classes for polygon in polygons.get(name, ())]
        if shapes:
            labels[mask_array(region_mask(size, shapes))] = _INDEX[part]
    return labels


def as_annotated(labels: Labels, *, mirrored: bool = False) -> Labels:
    """Return a model's map in the terms of the annotation: ears are skin; `mirrored` swaps left and right."""
    table = np.arange(256, dtype=np.uint8)
    for part, other in _AS.items():
        table[_INDEX[part]] = _INDEX[other]
    for left, right in _MIRRORED if mirrored else ():
        table[[_INDEX[left], _INDEX[right]]] = _INDEX[right], _INDEX[left]
    return table[labels]


def part_f1(found: Labels, true: Labels, parts: Sequence[str] = SCORED) -> dict[str, float]:
    """Return the F1 of each part that is in either map: 2 |found and true| / (|found| + |true|).

    A part that only one of the two has scores 0; one that neither has is left out.
    """
    scores = {}
    for part in parts:
        a, b = found == _INDEX[part], true == _INDEX[part]
        total = int(a.sum()) + int(b.sum())
        if total:
            scores[part] = 2 * int((a & b).sum()) / total
    return scores


def mean_f1(found: Labels, true: Labels, parts: Sequence[str] = SCORED) -> float:
    """Return the mean F1 over the parts that are in either map; NaN if there is none."""
    scores = part_f1(found, true, parts)
    return float(np.mean(list(scores.values()))) if scores else float("nan")
