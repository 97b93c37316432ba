"""The drawn people as a data set on disk, in the layout and byte format of FHIBE's downsampled release.

Not written, because a drawing does not have it or nothing reads it: rendered overlays, CelebAMask masks (the column
`CelebA` is an empty list), annotators' files, aggregated results and protocol files (their folders are empty).

Drawn heads are upright, so that the alignment of face crops needs no rotation: a crop is the square around the face
box, resized to 512 pixels.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky import get_reusable_executor
from PIL import Image

from fp2.extension import Fp2Error
from fp2.methods.fhibe_release.vocab import DOWNSAMPLED_HEADER, FACE_HEADER
from fp2.methods.peeps.data import annotate
from fp2.methods.peeps.data.annotate import cells
from fp2.methods.peeps.data.cast import Appearance, ImagePlan, plan_images
from fp2.methods.peeps.data.draw import DrawnGeometry, render, render_pair, transformed
from fp2.methods.peeps.data.spec import MANIFEST, PeepsSpec

ALIGNED = 512
_MARGIN = 1.35
_NEEDED = ("Right eye", "Left eye", "Mouth right", "Mouth left")


@dataclass(frozen=True)
class Crop:
    """A crop and the person's geometry in pixels of the crop."""

    image: Image.Image
    geometry: DrawnGeometry


def can_align(geometry: DrawnGeometry) -> bool:
    """Return whether both eyes and both mouth corners are visible, which FHIBE requires of an aligned face."""
    return all(name in geometry.keypoints for name in _NEEDED)


def aligned(image: Image.Image, geometry: DrawnGeometry) -> Crop:
    """Return the face in 512 by 512 pixels: a square of 1.35 times the face box, moved inside the image."""
    x, y, width, height = geometry.face_box
    side = min(_MARGIN * max(width, height), *image.size)
    left = float(np.clip(x + width / 2 - side / 2, 0, image.width - side))
    top = float(np.clip(y + height / 2 - side / 2, 0, image.height - side))
    box = (left, top, left + side, top + side)
    crop = image.resize((ALIGNED, ALIGNED), Image.Resampling.BICUBIC, box=box)
    return Crop(crop, transformed(geometry, ALIGNED / side, (-left, -top), (ALIGNED, ALIGNED)))


def face_only(image: Image.Image, geometry: DrawnGeometry) -> Crop:
    """Return the pixels that the face box touches, without resampling."""
    x, y, width, height = geometry.face_box
    left, top = int(np.floor(x)), int(np.floor(y))
    right, bottom = min(image.width, int(np.ceil(x + width))), min(image.height, int(np.ceil(y + height)))
    size = (right - left, bottom - top)
    return Crop(image.crop((left, top, right, bottom)), transformed(geometry, 1.0, (-left, -top), size))


_PNG_LEVEL = 3


@dataclass(frozen=True)
class _Shown:
    """One person in the image."""

    person: Appearance
    geometry: DrawnGeometry
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


def _draw(plan: ImagePlan, size: int) -> tuple[Image.Image, list[DrawnGeometry]]:
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


def _subject(shown: _Shown, geometry: DrawnGeometry) -> dict[str, Any]:
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
    """Return the table row of one subject."""
    return {**subject, "subject_position": annotate.position(person)}


def _write_face(root: Path, folder: Path, plan: ImagePlan, image: Image.Image, shown: _Shown) -> dict[str, Any] | None:
    """Write one person's face crops; return the face table's row, or None if no face can be aligned."""
    if not shown.geometry.of("Face skin"):
        return None
    person, name = shown.person, f"{plan.image_id}_{shown.person.subject_id}"
    only = face_only(image, shown.geometry)
    _write_crop(root, folder, "faces_crop_only", name, only, {"subject_id": person.subject_id, **shown.labels})
    if not can_align(shown.geometry):
        return None
    crop = aligned(image, shown.geometry)
    subject = _subject(shown, crop.geometry)
    _write_crop(root, folder, "faces_crop_and_align", name, crop, subject)
    return _row(subject, person) | {
        "image_id": name,
        "filepath": (folder / f"faces_crop_and_align_{name}.png").as_posix(),
        "json_path": (folder / f"faces_crop_and_align_annos_{name}.json").as_posix(),
        "image_height": ALIGNED,
        "image_width": ALIGNED,
        "other_face": [],
        "CelebA": [],
        "multiple_subjects": int(len(plan.people) > 1),
        "set_id": plan.set_id,
        "set_attribute": plan.set_attribute,
    }


def _write_crop(root: Path, folder: Path, kind: str, name: str, crop: Crop, subject: dict[str, Any]) -> None:
    """Write a crop's image and its annotation."""
    crop.image.save(root / folder / f"{kind}_{name}.png", compress_level=_PNG_LEVEL)
    content = {"image_annotation": _image(1, *crop.image.size), "subject_annotation": [subject]}
    _write_json(root / folder / f"{kind}_annos_{name}.json", content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


Progress = Callable[[int, int], None]  # (images done, images in total)

_SET_COLUMNS = ("set_id", "set_attribute")
_EMPTY_FOLDERS = ("results/face_parsing", "results/face_verification", "data/protocol", "data/aggregated_results")
_CHUNK = 20
_MOST_WORKERS = 4
_IDLE_SECONDS = 1  # after which worker processes end: the run needs the memory for the model


def build_peeps(
    out_dir: Path, spec: PeepsSpec, progress: Progress | None = None, *, workers: int | None = None
) -> Path:
    """Draw the data set into `out_dir` and return the root folder of the release in it.

    Parameters
    ----------
    progress : callable, optional
        Called with (images done, images in total).
    workers : int, optional
        Number of processes; by default the cores of this machine, at most four, and one for a small data set. The
        bytes do not depend on it.
    """
    root = out_dir / f"{spec.release}_downsampled_public"
    try:
        root.mkdir(parents=True)
        for folder in _EMPTY_FOLDERS:
            (root / folder).mkdir(parents=True)
        rows = _draw_all(root, spec, progress, workers)
        extra = _SET_COLUMNS if spec.kind == "twins" else ()
        _write_table(root, "fhibe_downsampled", (*DOWNSAMPLED_HEADER, *extra), (r for row in rows for r in row.main))
        _write_table(root, "fhibe_face_crop_align", (*FACE_HEADER, *extra), (r for row in rows for r in row.faces))
        manifest = {**spec.record(), "n_pictures": len(rows), "n_rows": sum(len(row.main) for row in rows)}
        (root / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except FileExistsError as error:
        raise Fp2Error("the folder for the drawn people exists already", where=str(error.filename)) from None
    except OSError as error:
        raise Fp2Error(f"the drawn people cannot be written: {error.strerror}", where=str(error.filename)) from error
    return root


def _draw_all(root: Path, spec: PeepsSpec, progress: Progress | None, workers: int | None) -> list[Rows]:
    """Draw every image and return the rows in the order of the images."""
    todo = plan_images(spec)
    chunks = [todo[start : start + _CHUNK] for start in range(0, len(todo), _CHUNK)]
    usual = 1 if len(chunks) < 4 else min(cpu_count(), _MOST_WORKERS)
    pool = Parallel(workers or usual, backend="loky", return_as="generator", idle_worker_timeout=_IDLE_SECONDS)
    rows: list[Rows] = []
    if progress is not None:
        progress(0, len(todo))
    try:
        for drawn in pool(delayed(_draw_chunk)(root, spec.size, chunk) for chunk in chunks):
            rows += drawn
            if progress is not None:
                progress(len(rows), len(todo))
    except KeyboardInterrupt:
        get_reusable_executor().shutdown(wait=False, kill_workers=True)  # else they would finish what is queued
        raise
    except BrokenProcessPool:
        fix = "Free some memory, or pass workers=1"
        raise Fp2Error("a process that draws people died, probably for lack of memory", fix=fix) from None
    return rows


def _draw_chunk(root: Path, size: int, chunk: list[ImagePlan]) -> list[Rows]:
    return [write_image(root, plan, size) for plan in chunk]


def _write_table(root: Path, name: str, header: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> None:
    """Write one table in the format of the release: UTF-8, `\\n`, minimal quoting, no index, empty for missing."""
    folder = root / "data" / "processed" / name
    folder.mkdir(parents=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(cells(header, row) for row in rows)
