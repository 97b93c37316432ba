"""The ground truth of each person: boxes, keypoints and masks of the annotation beside an image, read when needed.

Data sets without annotation files have what their people table has: boxes and a mask file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import BoolArray, Fp2Error
from fp2.methods.fhibe_release.geometry import Box, Geometry, annotation_path, read_geometry
from fp2.methods.fhibe_release.masks import mask_array, region_mask

if TYPE_CHECKING:
    import pandas as pd

_CROP = "faces_crop_"


@dataclass(frozen=True)
class Person:
    """One person in one image: a row of the people table."""

    image_id: str
    subject_id: str
    image_path: Path
    n_people: int
    person_box: Box | None = None
    face_box: Box | None = None
    mask_path: Path | None = None

    @property
    def face_id(self) -> str:
        """The name of this person's face crop, as FHIBE names it: `<image id>_<subject id>`."""
        own = self.image_id.endswith(f"_{self.subject_id}") or self.is_crop
        return self.image_id if own else f"{self.image_id}_{self.subject_id}"

    @property
    def is_crop(self) -> bool:
        """Whether the image is a face crop itself."""
        return self.image_path.name.startswith(_CROP)

    @property
    def crop_path(self) -> Path:
        """Where the aligned crop of the face would be beside the image."""
        return self.image_path.with_name(f"{_CROP}and_align_{self.face_id}.png")

    def face_crop(self) -> Path | None:
        """Return the aligned face crop: the image itself, or the file beside it; None if there is none."""
        if self.is_crop:
            return self.image_path
        return self.crop_path if self.crop_path.is_file() else None

    def geometry(self) -> Geometry:
        """Return the annotation of the image; without one, the boxes of the people table."""
        annotated = annotation_of(self.image_path, self.subject_id)
        return Geometry(person_box=self.person_box, face_box=self.face_box) if annotated is None else annotated


def annotation_of(image: Path, subject_id: str) -> Geometry | None:
    """Return a subject's annotation beside an image or face crop; None if there is no file."""
    path = annotation_path(image)
    return None if path.stem == image.stem or not path.is_file() else read_geometry(path, subject_id)


def people_of(people: pd.DataFrame) -> list[Person]:
    """Return every row of a people table as a person, in order."""
    return [_person(row) for row in people.to_dict("records")]


def people_by_image(people: Iterable[Person]) -> dict[str, list[Person]]:
    """Return image id -> the people in it, in their order."""
    groups: dict[str, list[Person]] = {}
    for person in people:
        groups.setdefault(person.image_id, []).append(person)
    return groups


def _person(row: dict[Any, Any]) -> Person:
    mask = row.get("mask_path")
    return Person(
        image_id=str(row["image_id"]),
        subject_id=str(row["subject_id"]),
        image_path=Path(row["image_path"]),
        n_people=int(row["n_people"]),
        person_box=_box([row.get(f"box_{side}") for side in "xywh"]),
        face_box=_box([row.get(f"face_{side}") for side in "xywh"]),
        mask_path=Path(mask) if isinstance(mask, str) and mask else None,
    )


def _box(values: Sequence[Any]) -> Box | None:
    if any(value is None or value != value for value in values):
        return None
    return Box(*(float(value) for value in values))


def image_size(path: Path, geometry: Geometry) -> tuple[int, int]:
    """Return an image's width and height in pixels, from the annotation or the file."""
    if geometry.size is not None:
        return geometry.size
    from fp2.extension import image_file

    try:
        with image_file(path) as image:
            return image.size
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the image cannot be read: {type(error).__name__}", where=str(path)) from None


def polygon_mask(geometry: Geometry, size: tuple[int, int]) -> BoolArray | None:
    """Return the union of a person's polygons, shape (height, width); None if there are none or it is empty."""
    shapes = [polygon.tolist() for parts in geometry.polygons.values() for polygon in parts if len(polygon) >= 3]
    mask = mask_array(region_mask(size, shapes))
    return mask if mask.any() else None


def person_mask(person: Person, geometry: Geometry, size: tuple[int, int]) -> BoolArray | None:
    """Return the mask of a person, shape (height, width): the union of their polygons, or their mask file.

    None if the data have neither, or an empty one.
    """
    if geometry.polygons or person.mask_path is None:
        return polygon_mask(geometry, size)
    from fp2.extension import open_rgb

    where, fix = str(person.mask_path), "A person's mask has the size of the image, and is black outside the person"
    try:
        mask = mask_array(open_rgb(person.mask_path).convert("L"))
    except (OSError, ValueError, SyntaxError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else type(error).__name__
        raise Fp2Error(f"a mask of the data set cannot be read: {reason}", where=where, fix=fix) from None
    if mask.shape != (size[1], size[0]):
        what = f"a mask of the data set has {mask.shape[1]} x {mask.shape[0]} pixels, its image {size[0]} x {size[1]}"
        raise Fp2Error(what, where=where, fix=fix)
    return mask if mask.any() else None
