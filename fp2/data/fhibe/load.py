"""FHIBE's downsampled release, read into a people table.

The CSV has one row per (image, subject). Columns are read by name; what is missing, extra or unheard of in columns that
the comparison does not need becomes a note, because releases differ. Keypoints and segments (the bulk of the file) are
never parsed here: see `fp2.data.fhibe.geometry`.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from pathlib import Path

import pandas as pd

from fp2.data.dataset import Dataset, people_table
from fp2.data.delimited import read_rows
from fp2.data.fhibe import vocab
from fp2.data.fhibe.attributes import AttributeReader
from fp2.data.fhibe.release import Release, find_release
from fp2.errors import Fp2Error

__all__ = ["Release", "find_release", "load_fhibe"]

REQUIRED: tuple[str, ...] = (
    "image_id",
    "filepath",
    "subject_id",
    "is_primary",
    "age",
    "pronoun",
    "ancestry",
    "natural_skin_color",
)
# Ours (set_id), the API's optional attribute, and what only the face table is known to have.
_EXPECTED_EXTRAS = {
    "set_id", "set_attribute", "apparent_skin_color_hue_lum", "other_face", "CelebA", "multiple_subjects",
}  # fmt: skip
_BULK = ("keypoints", "segments")


def load_fhibe(root: Path) -> Dataset:
    """Return the people of the FHIBE release at `root` (found by searching; see `find_release`).

    Two-person pictures give two rows with `n_people` = 2. Every attribute is the row's own, since age and appearance
    differ between a subject's pictures.

    Raises
    ------
    Fp2Error
        If there is no release, its CSV cannot be read or lacks a required column, or none of its pictures is there.
    """
    release = find_release(root)
    reader = _PeopleReader(release)
    for number, row in read_rows(release.csv_path, reader.check_header, skip=_BULK):
        reader.add(number, row)
    return Dataset("fhibe", release.version, reader.people(), reader.notes())


class _PeopleReader:
    """Collects rows into columns, and counts what is unusual on the way."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.attributes = AttributeReader()
        self.columns: dict[str, list[object]] = {}
        self.header: list[str] = []
        self.seen: set[tuple[str, str]] = set()
        self.oddities: Counter[str] = Counter()

    def check_header(self, header: list[str]) -> None:
        """Raise with the list of the required columns that `header` lacks."""
        self.header = header
        missing = [name for name in REQUIRED if name not in header]
        if missing:
            raise Fp2Error(
                f"the FHIBE table lacks the column(s) {', '.join(missing)}", where=str(self.release.csv_path)
            )

    def add(self, number: int, row: dict[str, str]) -> None:
        """Take one row, unless consent is withdrawn or the (image, subject) pair was there before."""
        image_id, subject_id, relative = row["image_id"].strip(), row["subject_id"].strip(), Path(row["filepath"])
        where = f"{self.release.csv_path}, row {number}"
        if not image_id or not subject_id or not row["filepath"]:
            raise Fp2Error("image_id, subject_id or filepath is empty", where=where)
        if relative.is_absolute() or ".." in relative.parts:
            raise Fp2Error(f"filepath {row['filepath']!r} leads out of the release folder", where=where)
        if row.get("consent", "").strip().lower() == "false":
            self.oddities["row(s) without consent were left out"] += 1
            return
        if (image_id, subject_id) in self.seen:
            self.oddities["repeated (image, subject) row(s) were left out"] += 1
            return
        self.seen.add((image_id, subject_id))
        if row.get("json_path", "").strip() not in {"", str(relative.parent / f"main_annos_{image_id}.json")}:
            self.oddities["annotation file(s) are not named main_annos_<image_id>.json beside the picture"] += 1
        box = self._box(row.get("person_bbox", ""))
        values: dict[str, object] = {
            "image_id": image_id,
            "subject_id": subject_id,
            "image_path": str(self.release.root / relative),
            "is_primary": self._flag(row["is_primary"], where),
            "set_id": row.get("set_id", "").strip() or None,
            **dict(zip(("box_x", "box_y", "box_w", "box_h"), box, strict=True)),
            **{f"attr_{name}": labels for name, labels in self.attributes.read(row).items()},
        }
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)

    def people(self) -> pd.DataFrame:
        """Return the people table of all rows taken."""
        if not self.seen:
            raise Fp2Error("the FHIBE table has no rows", where=str(self.release.csv_path))
        per_image = Counter(self.columns["image_id"])
        self.columns["n_people"] = [per_image[image_id] for image_id in self.columns["image_id"]]
        frame = people_table(self.columns)
        self._check_pictures(frame["image_path"].unique().tolist())
        return frame

    def notes(self) -> tuple[str, ...]:
        """Return one line per kind of oddity."""
        header, known = set(self.header), {*vocab.DOWNSAMPLED_HEADER, *_EXPECTED_EXTRAS}
        absent = [name for name in (*vocab.VOCABULARIES, "person_bbox", "location_country") if name not in header]
        extra = [name for name in self.header if name not in known]
        lines = [f"{count} {what}" for what, count in sorted(self.oddities.items())]
        if self.release.version is None:
            lines.append("the folder's name carries no FHIBE version, so none is recorded")
        if absent:
            lines.append(f"columns of the known release that are absent: {', '.join(absent)}")
        if extra:
            lines.append(f"columns that are not known here were left aside: {', '.join(extra)}")
        return (*lines, *self.attributes.notes())

    def _box(self, cell: str) -> tuple[float, float, float, float]:
        """Return the `[x, y, width, height]` of a cell, or missing values (counted unless the cell is empty)."""
        missing = (math.nan, math.nan, math.nan, math.nan)
        if not cell.strip():
            return missing
        try:
            x, y, width, height = (float(value) for value in ast.literal_eval(cell))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            self.oddities["person box(es) could not be read"] += 1
            return missing
        return x, y, width, height

    @staticmethod
    def _flag(cell: str, where: str) -> bool:
        """Return a written truth value."""
        flags = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
        try:
            return flags[cell.strip().lower()]
        except KeyError:
            raise Fp2Error(f"is_primary is {cell!r}, neither True nor False", where=where) from None

    def _check_pictures(self, paths: list[str]) -> None:
        """Raise if none of a spread of pictures exists: then the table came without its raw folder."""
        sample = paths[:: max(1, len(paths) // 50)]
        if not any(Path(path).is_file() for path in sample):
            raise Fp2Error(
                "the FHIBE table is there, but its pictures are not",
                where=sample[0],
                fix="Unpack the whole downsampled archive: the pictures are under data/raw",
            )
