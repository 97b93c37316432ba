"""The person's region in an image, in pixels: the polygons of an annotation, a mask, or a box.

A region is planned before the model is asked, and is small enough to be kept for every image of a run: polygons and
masks are read again when the variant is made, and refused if they have changed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fp2.extension import Fp2Error, digest, open_rgb, sha256_file
from fp2.methods.fhibe_release.geometry import Geometry, annotation_path, read_geometry
from fp2.methods.image_variants.images import Box

if TYPE_CHECKING:
    from PIL import Image

_CHANGED = "the person's region has changed since the run was planned"


class Region(Protocol):
    """The region of one person in one image."""

    def identity(self) -> dict[str, Any]:
        """Return the region's part of the response key: its kind, and its digest or numbers."""
        ...

    def arguments(self) -> dict[str, Any]:
        """Return the region as keyword arguments of the functions of `fp2.methods.image_variants.images`."""
        ...


@dataclass(frozen=True, slots=True)
class PolygonRegion:
    """The union of a subject's segments in an annotation file."""

    annotation: Path
    subject_id: str
    sha256: str

    def identity(self) -> dict[str, Any]:
        """Return the digest of the vertices."""
        return {"region": "polygons", "region_sha256": self.sha256}

    def arguments(self) -> dict[str, Any]:
        """Read the polygons again."""
        try:
            polygons = _polygons(read_geometry(self.annotation, self.subject_id))
        except Fp2Error as error:  # it names the file, which a row of the answers table must not
            raise Fp2Error(_CHANGED) from error
        if digest(polygons) != self.sha256:
            raise Fp2Error(_CHANGED)
        return {"polygons": polygons}


@dataclass(frozen=True, slots=True)
class MaskRegion:
    """An image file that is not black where the person is."""

    path: Path
    sha256: str

    def identity(self) -> dict[str, Any]:
        """Return the digest of the file."""
        return {"region": "mask", "region_sha256": self.sha256}

    def arguments(self) -> dict[str, Any]:
        """Read the mask again."""
        try:
            same = sha256_file(self.path) == self.sha256
        except OSError as error:  # it names the file, which a row of the answers table must not
            raise Fp2Error(_CHANGED) from error
        if not same:
            raise Fp2Error(_CHANGED)
        return {"mask": _open_mask(self.path)}


@dataclass(frozen=True, slots=True)
class BoxRegion:
    """A box (x, y, width, height)."""

    box: Box

    def identity(self) -> dict[str, Any]:
        """Return the box's numbers."""
        return {"region": "box", "box": list(self.box)}

    def arguments(self) -> dict[str, Any]:
        """Return the box."""
        return {"box": self.box}


@dataclass(frozen=True)
class PersonLocation:
    """The annotated location of one person in one image of `size` = (width, height).

    The annotation file beside the image is found by its name (FHIBE's layout); boxes and mask are those of the people
    table. Every method raises `Fp2Error` with the reason if the data do not have what is asked for.
    """

    image_path: Path
    subject_id: str
    size: tuple[int, int]
    person_box: Box | None = None
    face_box: Box | None = None
    mask_path: Path | None = None

    def region(self, *, box: bool = False) -> Region:
        """Return the person's region: the polygons, or else the mask, or else the box; the box at once if asked for."""
        if box:
            person = self.person()
            _check_inside(person, self.size)
            return BoxRegion(_plain(person))
        if (geometry := self._geometry()) is not None and (polygons := _polygons(geometry)):
            _check_inside(_bounds(polygons), self.size)
            return PolygonRegion(annotation_path(self.image_path), self.subject_id, digest(polygons))
        if self.mask_path is not None:
            return self._mask(self.mask_path)
        own_box = self.person_box or (geometry.person_box if geometry else None)
        if own_box is None:
            raise Fp2Error("the data do not locate the person: no polygons, mask or box")
        _check_inside(own_box, self.size)
        return BoxRegion(_plain(own_box))

    def person(self) -> Box:
        """Return the person's box, or else the bounding box of the polygons or of the mask."""
        if self.person_box is not None:
            return self.person_box
        geometry = self._geometry()
        if geometry is not None and geometry.person_box is not None:
            return _plain(geometry.person_box)
        if geometry is not None and (polygons := _polygons(geometry)):
            return _bounds(polygons)
        if self.mask_path is None:
            raise Fp2Error("the data do not locate the person: no box, polygons or mask")
        self._mask(self.mask_path)
        x_min, top, right, bottom = _open_mask(self.mask_path).getbbox() or (0, 0, 0, 0)
        return float(x_min), float(top), float(right - x_min), float(bottom - top)

    def face(self) -> Box:
        """Return the face's box."""
        if self.face_box is not None:
            return self.face_box
        geometry = self._geometry()
        if geometry is None or geometry.face_box is None:
            raise Fp2Error("the data do not locate the face: no face box")
        return _plain(geometry.face_box)

    def _geometry(self) -> Geometry | None:
        """Return the geometry in the annotation file beside the image, or None if there is no such file."""
        path = annotation_path(self.image_path)
        if path.stem == self.image_path.stem or not path.is_file():
            return None
        geometry = read_geometry(path, self.subject_id)
        if geometry.size is not None and geometry.size != self.size:
            raise Fp2Error(f"the annotation is of an image of {_by(geometry.size)} pixels, not {_by(self.size)}")
        return geometry

    def _mask(self, path: Path) -> MaskRegion:
        """Return the mask as a region, if it can be read, has the image's size, and is not empty."""
        try:
            mask, sha256 = _open_mask(path), sha256_file(path)
        except Exception as error:  # decoders raise many kinds; each concerns this image only, not the run
            raise Fp2Error(f"the mask cannot be read: {type(error).__name__}") from error
        if mask.size != self.size:
            raise Fp2Error(f"the mask has {_by(mask.size)} pixels, the image {_by(self.size)}")
        if mask.getbbox() is None:
            raise Fp2Error("the mask is empty")
        return MaskRegion(path, sha256)


def _open_mask(path: Path) -> Image.Image:
    return open_rgb(path).convert("L")


def _polygons(geometry: Geometry) -> list[list[list[float]]]:
    """Return the polygons of a person with at least three vertices, as lists of [x, y]."""
    return [polygon.tolist() for polygons in geometry.polygons.values() for polygon in polygons if len(polygon) >= 3]


def _bounds(polygons: list[list[list[float]]]) -> Box:
    xs, ys = ([point[axis] for polygon in polygons for point in polygon] for axis in (0, 1))
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


def _check_inside(box: Box, size: tuple[int, int]) -> None:
    x, y, width, height = box
    if not (width > 0 and height > 0 and x < size[0] and y < size[1] and x + width > 0 and y + height > 0):
        raise Fp2Error("the person's region is empty or outside the image")


def _plain(box: Box) -> Box:
    x, y, width, height = box
    return float(x), float(y), float(width), float(height)


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
