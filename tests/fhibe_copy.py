"""A synthetic copy of FHIBE in all its forms, byte for byte in their format, with nothing of the real data in it.

`write_copy` writes the downsampled release (whole pictures and face crops), `write_fullres` the same people in full
resolution: a list of files and annotations, no processed table.

Every subject, place and value is invented from a seed. `EDGES` sets single cells by hand to what real releases hold
and easy readers get wrong; they are written out here literally, so that they do not depend on the code under test.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from fp2.methods.fhibe_release import vocab

VERSION = "fhibe.20990101.t.SYNTH0_a"
FOLDER = f"{VERSION}_downsampled_public"
CSV = "data/processed/fhibe_downsampled/fhibe_downsampled.csv"
FACE_CSV = "data/processed/fhibe_face_crop_align/fhibe_face_crop_align.csv"
DOWNSAMPLED, FULLRES = "fhibe_downsampled", "fhibe_fullres"
WRAPPED = f"fhibe-full-resolution-0a1b2c3d/{VERSION}_public_fullres"
SIDE = 24

# (row, column) -> the cell as it stands in the file
EDGES: dict[tuple[int, str], str] = {
    (0, "pronoun"): "['0. She/her/hers', '2. They/them/their']",
    (0, "ancestry"): "['0. Africa']",
    (0, "age"): "18",
    (0, "natural_skin_color"): "0. [102, 78, 65]",
    (0, "apparent_skin_color"): "5. [198, 180, 157]",
    (1, "ancestry"): "['11. Asia', '15. Southern Asia', '17. Europe']",
    (1, "age"): "29",
    (1, "natural_skin_color"): "1. [136, 105, 81]",
    (1, "location_region"): "NA",
    (1, "location_country"): "pakistan ",
    (2, "age"): "30",
    (2, "pronoun"): "['3. Ze/zir/zirs']",
    (2, "natural_skin_color"): "2. [164, 131, 103]",
    (2, "location_region"): " Ñuñoa, Región Metropolitana ",
    (2, "location_country"): "vietnam",
    (3, "age"): "60",
    (3, "pronoun"): "['4. None of the above']",
    (3, "natural_skin_color"): "3. [175, 148, 120]",
    (3, "hairstyle"): "18. Free-text",
    (3, "natural_hair_type"): "6. Report string",
    (4, "age"): "75",
    (4, "pronoun"): "['5. Prefer not to say']",
    (4, "natural_skin_color"): "4. [189, 163, 137]",
    (4, "apparent_hair_color"): "['10. White', '9. Gray']",
    (5, "natural_skin_color"): "5. [198, 180, 157]",
    (5, "keypoints"): "{'10. Mouth left': [3.5, 2.0, 1], '0. Nose': [4.0, 1.5, 0]}",
    (5, "scene"): "8. Outdoor: Houses, cabins, gardens, and farms",
    (6, "hairstyle_QAannotator_id"): "['{a}', '{b}']",
    (6, "location_country"): "",
    (7, "aperture_value"): "",
    (7, "manufacturer"): "",
    (7, "natural_hair_color"): "['12. Free-text']",
    (7, "apparent_facial_haircolor"): "['12. Report string']",
    (7, "natural_left_eye_color"): "['8. Free-text']",
    (7, "facial_marks"): "['10. Free-text']",
    (7, "action_body_pose"): "15. Free-text",
    (7, "action_subject_object_interaction"): "['32. Free-text']",
    (7, "action_subject_subject_interaction"): "['14. Free-text']",
    (7, "nationality"): "['226. Free-text']",
}
# What stands in `image_annotation`; everything else belongs to a subject.
_OF_THE_IMAGE = (
    "aperture_value", "camera_distance", "camera_position", "focal_length", "iso_speed_ratings", "lighting",
    "location_country", "location_region", "manufacturer", "model", "scene", "shutter_speed_value",
    "user_date_captured", "user_hour_captured", "weather",
)  # fmt: skip
_NOT_IN_JSON = {"image_id", "filepath", "json_path", "image_height", "image_width", "consent"}


@dataclass
class Copy:
    """Where the copy is, and the rows that its tables hold (cells as written, in order)."""

    root: Path
    kind: str = DOWNSAMPLED
    rows: list[dict[str, str]] = field(default_factory=list)
    faces: list[dict[str, str]] = field(default_factory=list)

    @property
    def csv_path(self) -> Path:
        return self.root / CSV

    @property
    def face_path(self) -> Path:
        return self.root / FACE_CSV

    @property
    def files_path(self) -> Path:
        return self.root / f"data/raw/{FULLRES}/filepaths.csv"

    def save(self, header: list[str] | None = None) -> None:
        """Write the CSV again from `rows`, with `header` or the release's own."""
        write_csv(self.csv_path, self.rows, header or list(vocab.DOWNSAMPLED_HEADER))

    def annotation(self, image_id: str) -> Path:
        """Return the path of an image's annotation."""
        return self.root / next(row["json_path"] for row in self.rows if row["image_id"] == image_id)

    def remove(self, subject_id: str) -> set[str]:
        """Take one person out, as a later release would; return the ids of the images that go with them."""
        gone = {row["image_id"] for row in self.rows if row["subject_id"] == subject_id}
        self.rows = [row for row in self.rows if row["image_id"] not in gone]
        self.save()
        return gone


def write_csv(path: Path, rows: list[dict[str, str]], header: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([row.get(name, "") for name in header] for row in rows)


def write_copy(folder: Path, *, seed: int = 0, n_subjects: int = 14, n_pairs: int = 3) -> Copy:
    """Write the downsampled release under `folder`: 1-3 images a subject, then `n_pairs` images of two."""
    copy = _people(Copy(folder / FOLDER), seed, n_subjects, n_pairs)
    for name in ("results/face_parsing", "results/face_verification", "data/protocol", "data/annotator_metadata"):
        (copy.root / name).mkdir(parents=True)
    copy.save()
    write_csv(copy.face_path, copy.faces, list(vocab.FACE_HEADER))
    return copy


def write_fullres(folder: Path, *, seed: int = 0, n_subjects: int = 14, n_pairs: int = 3) -> Copy:
    """Write the same people in full resolution: `filepaths.csv` and annotations, inside an outer folder."""
    copy = _people(Copy(folder / WRAPPED, FULLRES), seed, n_subjects, n_pairs)
    listed = []
    for image in dict.fromkeys(row["image_id"] for row in copy.rows):
        row = next(row for row in copy.rows if row["image_id"] == image)
        place = f"{Path(row['filepath']).parent.parent.name}/{image}"
        listed.append({"uid": image, "img": f"{place}/main_{image}.png", "json": f"{place}/main_annos_{image}.json"})
    write_csv(copy.files_path, listed, ["uid", "img", "json", "img_face_crop_and_align"])
    return copy


def _people(copy: Copy, seed: int, n_subjects: int, n_pairs: int) -> Copy:
    """Make the people and write their images and annotations; rows and faces are left to be written."""
    rng = random.Random(seed)
    subjects = [_uuid(rng) for _ in range(n_subjects)]
    for subject in subjects:
        for _ in range(rng.randint(1, 3)):
            _picture(copy, rng, [subject])
    for number in range(n_pairs):
        # the first pair's second person is known from pictures of their own, the others are seen only here
        _picture(copy, rng, [subjects[number], subjects[-1] if number == 0 else _uuid(rng)])
    for (number, column), cell in EDGES.items():
        copy.rows[number][column] = cell.replace("{a}", _uuid(rng)).replace("{b}", _uuid(rng))
    many = [{"class_name": "0. Face skin", "num": 1, "polygon": [{"x": i / 7, "y": i / 3} for i in range(4000)]}]
    copy.rows[2]["segments"] = repr(many)
    for image in dict.fromkeys(row["image_id"] for row in copy.rows):
        write_annotation(copy, [row for row in copy.rows if row["image_id"] == image])
    for row in copy.rows[1:]:  # the first picture shows no face
        _face(copy, rng, row, pair=sum(other["image_id"] == row["image_id"] for other in copy.rows) > 1)
    return copy


def write_annotation(copy: Copy, rows: list[dict[str, str]]) -> None:
    """Write the annotation JSON of one image from its CSV rows, subjects in another order than there."""
    image = {name: _plain(name, rows[0][name]) for name in _OF_THE_IMAGE if rows[0].get(name)}
    image |= {"humans_per_image": str(len(rows)), "image_width": SIDE, "image_height": SIDE}
    if "manufacturer" in image:
        image["manufacturer"] = "Maker\x00\x00"
    skipped = {*_OF_THE_IMAGE, *_NOT_IN_JSON}
    subjects = [
        {name: _plain(name, cell) for name, cell in row.items() if name not in skipped and cell} for row in rows
    ]
    annotation = {"image_annotation": image, "subject_annotation": subjects[::-1]}
    (copy.root / rows[0]["json_path"]).write_text(json.dumps(annotation), encoding="utf-8")


def _plain(name: str, cell: str) -> object:
    """Return a cell as the JSON holds it: real lists and objects, a number for the age, a flag for is_primary."""
    if name == "age":
        return int(cell)
    if name == "is_primary":
        return cell == "True"
    if (name in vocab.VOCABULARIES and vocab.VOCABULARIES[name].multi) or cell.startswith(("[", "{")):
        return ast.literal_eval(cell)
    return cell


def _face(copy: Copy, rng: random.Random, row: dict[str, str], *, pair: bool) -> None:
    """Write both face crops of one row; only some can be aligned, and those are in the face table."""
    name, folder = f"{row['image_id']}_{row['subject_id']}", Path(row["filepath"]).parent
    kinds = ["faces_crop_only", *(["faces_crop_and_align"] if pair or rng.random() < 0.8 else [])]
    for kind in kinds:
        _noise(rng).save(copy.root / folder / f"{kind}_{name}.png")
        (copy.root / folder / f"{kind}_annos_{name}.json").write_text(
            json.dumps({"image_annotation": {}, "subject_annotation": [{"subject_id": row["subject_id"]}]})
        )
    if len(kinds) == 2:
        face = {
            **row,
            "image_id": name,
            "filepath": (folder / f"faces_crop_and_align_{name}.png").as_posix(),
            "json_path": (folder / f"faces_crop_and_align_annos_{name}.json").as_posix(),
            "other_face": "[]",
            "CelebA": f"['data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format/{name}/skin.png']",
            "multiple_subjects": str(int(pair)),
        }
        copy.faces.append({key: cell for key, cell in face.items() if key in vocab.FACE_HEADER})


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _picture(copy: Copy, rng: random.Random, people: list[str]) -> None:
    """Write one image with its overlays, which are no images of anybody, in the first person's folder."""
    image = _uuid(rng)
    place = f"data/raw/{copy.kind}/{people[0]}/{image}"
    folder = copy.root / place
    folder.mkdir(parents=True)
    for name in ("main", "main_bbox", "main_keypoints", "main_masks"):
        _noise(rng).save(folder / f"{name}_{image}.png")
    rows = [_row(rng, image, place, person, is_primary=person == people[0]) for person in people]
    copy.rows += [row | {name: rows[0][name] for name in _OF_THE_IMAGE if name in row} for row in rows]


def _row(rng: random.Random, image: str, place: str, person: str, *, is_primary: bool) -> dict[str, str]:
    """Return the CSV row of one person in one image."""
    chosen = {
        name: rng.sample(words.labels, rng.randint(1, 2)) if words.multi else rng.choice(words.labels)
        for name, words in vocab.VOCABULARIES.items()
    }
    region = rng.choice(vocab.REGIONS)
    chosen["ancestry"] = [region, rng.choice(vocab.ANCESTRY_BLOCKS[region])]
    keypoints = {
        f"{i}. {name}": [rng.uniform(0, SIDE), rng.uniform(0, SIDE), 1] for i, name in enumerate(vocab.KEYPOINTS)
    }
    polygon = [{"x": 2.25, "y": 3.5}, {"x": 20.0, "y": 3.5}, {"x": 20.0, "y": 22.75}]
    segments = [
        {"class_name": f"{vocab.SEGMENT_CLASSES.index(name)}. {name}", "num": number, "polygon": polygon}
        for name, number in (("Face skin", 1), ("Head hair", 1), ("Head hair", 2))
    ]
    return {
        "image_id": image,
        "filepath": f"{place}/main_{image}.png",
        "json_path": f"{place}/main_annos_{image}.json",
        "subject_id": person,
        "is_primary": str(is_primary),
        "image_height": str(SIDE),
        "image_width": str(SIDE),
        "aperture_value": "1.8",
        "location_country": "Kenya",
        "location_region": "Somewhere",
        "manufacturer": "Maker",
        "user_date_captured": "May-2023",
        "user_hour_captured": rng.choice(("00:00-05:59", "06:00-11:59", "12:00-17:59", "18:00-23:59")),
        "consent": "True",
        "age": str(rng.randint(18, 75)),
        **{name: str(vocab.json_value(name, labels)) for name, labels in chosen.items()},
        "keypoints": repr(dict(sorted(keypoints.items()))),
        "segments": repr(segments),
        "person_bbox": "[2, 3, 18, 20]",
        "face_bbox": "[4, 4, 6, 6]",
    }


def _noise(rng: random.Random) -> Image.Image:
    return Image.frombytes("RGB", (SIDE, SIDE), rng.randbytes(SIDE * SIDE * 3))


def csv_bytes(rows: list[list[str]]) -> bytes:
    """Return `rows` as the release's CSV dialect writes them."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()
