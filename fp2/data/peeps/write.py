"""Writing one image of drawn people: the files of FHIBE's folder per image, and its table rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from fp2.data.peeps import annotate, crops
from fp2.data.peeps.cast import Appearance, ImagePlan
from fp2.data.peeps.draw import render, render_pair
from fp2.data.peeps.geometry import Geometry

_PNG_LEVEL = 3


@dataclass(frozen=True)
class _Shown:
    """One person in the image."""

    person: Appearance
    geometry: Geometry
    labels: dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """An image's table rows (column -> value): one per person in each of the two tables."""

    main: tuple[dict[str, Any], ...]
    faces: tuple[dict[str, Any], ...]


def write_image(root: Path, plan: ImagePlan, size: int) -> Rows:
    """Draw one image, write its folder below `root` and return its rows.

    Rendered overlays (`main_bbox_*` and so on) are not written, because nothing reads them.
    """
    image, geometries = _draw(plan, size)
    folder = Path("data/raw/fhibe_downsampled") / plan.primary.subject_id / plan.image_id
    (root / folder).mkdir(parents=True)
    main = folder / f"main_{plan.image_id}.png"
    notes = folder / f"main_annos_{plan.image_id}.json"
    image.save(root / main, compress_level=_PNG_LEVEL)
    people = [
        _Shown(person, geometry, annotate.labels(person))
        for person, geometry in zip(plan.people, geometries, strict=True)
    ]
    subjects = [_subject(shown, shown.geometry) for shown in people]
    _write_json(root / notes, {"image_annotation": _image(len(people), size, size), "subject_annotation": subjects})
    shared = {
        "image_id": plan.image_id,
        "filepath": main.as_posix(),
        "json_path": notes.as_posix(),
        "image_height": size,
        "image_width": size,
        "set_id": plan.set_id,
        "set_attribute": plan.set_attribute,
    }
    rows = tuple(_row(subject, shown.person) | shared for subject, shown in zip(subjects, people, strict=True))
    faces = [_write_face(root, folder, plan, image, shown) for shown in people]
    return Rows(rows, tuple(face for face in faces if face is not None))


def _draw(plan: ImagePlan, size: int) -> tuple[Image.Image, list[Geometry]]:
    """Return the image and each person's geometry in the order of `plan.people`."""
    if len(plan.people) == 1:
        drawing = render(plan.people[0].cues, size)
        return drawing.image, [drawing.geometry]
    left, right = sorted(plan.people, key=lambda person: person.right)
    pair = render_pair(left.cues, right.cues, left.cues.region, size)
    return pair.image, [pair.right if person.right else pair.left for person in plan.people]


def _image(n_people: int, width: int, height: int) -> dict[str, Any]:
    """Return `image_annotation`, with the fields that a drawing has."""
    return {"humans_per_image": n_people, "image_width": width, "image_height": height}


def _subject(shown: _Shown, geometry: Geometry) -> dict[str, Any]:
    """Return one entry of `subject_annotation`, with the geometry of the image or of a crop."""
    return {
        "subject_id": shown.person.subject_id,
        "is_primary": shown.person.is_primary,
        **shown.labels,
        "face_bbox": annotate.box(geometry.face_box),
        "person_bbox": annotate.box(geometry.person_box),
        "keypoints": annotate.keypoints(geometry),
        "segments": annotate.segments(geometry),
    }


def _row(subject: dict[str, Any], person: Appearance) -> dict[str, Any]:
    """Return the table row of one subject; the only position in the vocabulary of the table is "Right"."""
    return {**subject, "subject_position": "2. Right" if person.right else None}


def _write_face(root: Path, folder: Path, plan: ImagePlan, image: Image.Image, shown: _Shown) -> dict[str, Any] | None:
    """Write one person's face crops; return the face table's row, or None if no face can be aligned."""
    if not shown.geometry.of("Face skin"):
        return None
    person, name = shown.person, f"{plan.image_id}_{shown.person.subject_id}"
    only = crops.face_only(image, shown.geometry)
    _write_crop(root, folder, "faces_crop_only", name, only, {"subject_id": person.subject_id, **shown.labels})
    if not crops.can_align(shown.geometry):
        return None
    crop = crops.aligned(image, shown.geometry)
    subject = _subject(shown, crop.geometry)
    _write_crop(root, folder, "faces_crop_and_align", name, crop, subject)
    return _row(subject, person) | {
        "image_id": name,
        "filepath": (folder / f"faces_crop_and_align_{name}.png").as_posix(),
        "json_path": (folder / f"faces_crop_and_align_annos_{name}.json").as_posix(),
        "image_height": crops.ALIGNED,
        "image_width": crops.ALIGNED,
        "other_face": [],
        "CelebA": [],
        "multiple_subjects": int(len(plan.people) > 1),
        "set_id": plan.set_id,
        "set_attribute": plan.set_attribute,
    }


def _write_crop(root: Path, folder: Path, kind: str, name: str, crop: crops.Crop, subject: dict[str, Any]) -> None:
    """Write a crop's image and its annotation."""
    crop.image.save(root / folder / f"{kind}_{name}.png", compress_level=_PNG_LEVEL)
    content = {"image_annotation": _image(1, *crop.image.size), "subject_annotation": [subject]}
    _write_json(root / folder / f"{kind}_annos_{name}.json", content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
