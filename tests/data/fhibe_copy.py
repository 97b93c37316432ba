"""A synthetic copy of FHIBE's downsampled release, byte for byte in its format, with nothing of the real data in it.

Every subject, place and value is invented from a seed. `EDGES` sets single cells by hand to what real releases hold
and easy readers get wrong; they are written out here literally, so that they do not depend on the code under test.
"""

from __future__ import annotations

import csv
import io
import json
import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from fp2.data.fhibe import vocab

VERSION = "fhibe.20990101.t.SYNTH0_a"
FOLDER = f"{VERSION}_downsampled_public"
CSV = "data/processed/fhibe_downsampled/fhibe_downsampled.csv"
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
}


@dataclass
class Copy:
    """Where the copy is, and the rows that its CSV holds (cells as written, in order)."""

    root: Path
    rows: list[dict[str, str]] = field(default_factory=list)

    @property
    def csv_path(self) -> Path:
        return self.root / CSV

    def save(self, header: list[str] | None = None) -> None:
        """Write the CSV again from `rows`, with `header` or the release's own."""
        write_csv(self.csv_path, self.rows, header or list(vocab.DOWNSAMPLED_HEADER))


def write_csv(path: Path, rows: list[dict[str, str]], header: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([row.get(name, "") for name in header] for row in rows)


def write_copy(folder: Path, *, seed: int = 0, n_subjects: int = 14, n_pairs: int = 3) -> Copy:
    """Write a copy under `folder`: 1-3 pictures a subject, then `n_pairs` pictures of two."""
    rng = random.Random(seed)
    copy = Copy(folder / FOLDER)
    for name in ("results/face_parsing", "results/face_verification", "data/protocol"):
        (copy.root / name).mkdir(parents=True)
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
    copy.save()
    return copy


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _picture(copy: Copy, rng: random.Random, people: list[str]) -> None:
    image = _uuid(rng)
    place = f"data/raw/fhibe_downsampled/{people[0]}/{image}"
    folder = copy.root / place
    folder.mkdir(parents=True)
    for name in ("main", "main_bbox", "main_keypoints", "main_masks"):
        _noise(rng).save(folder / f"{name}_{image}.png")
    annotations = []
    for person in people:
        row, annotation = _person(rng, image, place, person, is_primary=person == people[0])
        copy.rows.append(row)
        annotations.append(annotation)
        if rng.random() < 0.8:
            _noise(rng).save(folder / f"faces_crop_and_align_{image}_{person}.png")
    annotation = {
        "image_annotation": {
            "humans_per_image": str(len(people)),
            "image_width": SIDE,
            "image_height": SIDE,
            "manufacturer": "Maker\x00\x00",
        },
        "subject_annotation": annotations[::-1],
    }
    (folder / f"main_annos_{image}.json").write_text(json.dumps(annotation), encoding="utf-8")


def _person(
    rng: random.Random, image: str, place: str, person: str, *, is_primary: bool
) -> tuple[dict[str, str], dict[str, object]]:
    """Return the CSV row and the JSON entry of one person in one picture."""
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
    age = rng.randint(18, 75)
    fixed = {"person_bbox": [2, 3, 18, 20], "face_bbox": [4, 4, 6, 6]}
    row = {
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
        "user_hour_captured": rng.choice(vocab.HOURS),
        "consent": "True",
        "age": str(age),
        **{name: vocab.format_value(name, labels) for name, labels in chosen.items()},
        "keypoints": repr(dict(sorted(keypoints.items()))),
        "segments": repr(segments),
        **{name: repr(box) for name, box in fixed.items()},
    }
    entry = {
        "subject_id": person,
        "is_primary": is_primary,
        "age": age,
        **{name: vocab.json_value(name, labels) for name, labels in chosen.items()},
        "keypoints": keypoints,
        "segments": segments,
        **fixed,
    }
    return row, entry


def _noise(rng: random.Random) -> Image.Image:
    return Image.frombytes("RGB", (SIDE, SIDE), rng.randbytes(SIDE * SIDE * 3))


def csv_bytes(rows: list[list[str]]) -> bytes:
    """Return `rows` as the release's CSV dialect writes them."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()
