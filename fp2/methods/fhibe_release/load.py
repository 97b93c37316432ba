"""A FHIBE release as a people table: whole images (downsampled or in full resolution) or face crops.

There is one row per (image, subject). Columns are read by name. Releases differ: missing, extra and unknown values in
columns that the comparison does not need are listed in the schema report. Keypoints and segments, most of the files,
are not parsed here (see `fp2.methods.fhibe_release.geometry`).
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    NOT_DIGESTED,
    Dataset,
    Fp2Error,
    ImageFile,
    in_number,
    needing,
    normal_id,
    people_table,
    plural,
    read_rows,
)
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.attributes import AttributeReader
from fp2.methods.fhibe_release.release import (
    AUTO,
    BULK,
    FACE_ALIGNED,
    FACE_UNALIGNED,
    Cells,
    Release,
    find_release,
    listed_rows,
)

# Of the drawn people (set_id), of the API (optional), of the face table only, and of the JSON files only.
_EXPECTED_EXTRAS = {
    "set_id", "set_attribute", "apparent_skin_color_hue_lum", "other_face", "CelebA", "multiple_subjects",
    "humans_per_image",
}  # fmt: skip


NEEDED: tuple[str, ...] = ("subject_id", "is_primary", "age", "pronoun", "ancestry", "natural_skin_color")
REQUIRED: tuple[str, ...] = ("image_id", "filepath", *NEEDED)
_FACES = (FACE_ALIGNED, FACE_UNALIGNED)


def load_fhibe(root: Path, form: str = AUTO, *, expand_regions: bool = False) -> Dataset:
    """Return the people of the FHIBE release at `root`; see `read_release`."""
    return read_release(find_release(root, form), expand_regions=expand_regions)


def read_release(
    release: Release,
    *,
    expand_regions: bool = False,
    fallback: Path | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Dataset:
    """Return a release as a data set, with its image files and the lines of its schema report.

    Images of two people have `n_people` = 2 in both rows. Attributes are those of the row, because age and appearance
    differ between the images of a subject. A face crop is an image of its own, `<image id>_<subject id>`; a crop from
    an image of two people keeps `n_people` = 2, because the other person may be visible.

    Parameters
    ----------
    release : Release
        From `find_release`.
    expand_regions : bool
        Whether a bare region of ancestry counts for all its subregions.
    fallback : Path, optional
        For full resolution: the processed CSV with the fields that the annotations lack.
    tick : callable
        Called after each row or annotation.
    """
    reader = _PeopleReader(release, expand_regions)
    if release.lists_files:
        tables = (path for path in sorted(release.root.glob("data/processed/*/*.csv")) if "face" not in path.stem)
        rows = list(listed_rows(release, NEEDED, fallback or next(tables, None), reader.oddities, tick))
        reader.header = list(rows[0][1]) if rows else []
        for where, row in rows:
            reader.add(where, row)
    else:
        for number, row in read_rows(release.table, reader.check_header, skip=BULK):
            reader.add(f"{release.table}, row {number}", row)
            tick()
    return reader.dataset()


class _PeopleReader:
    """Collects rows into columns, and counts what is unusual."""

    def __init__(self, release: Release, expand_regions: bool) -> None:
        self.release = release
        self.attributes = AttributeReader(expand_regions)
        self.settings = {"form": release.form, "bare_region": "all its subregions" if expand_regions else "listed only"}
        self.columns: dict[str, list[object]] = {}
        self.main_ids: list[str] = []
        """The image of each row; of a face crop the image that it is from."""
        self.files: dict[str, ImageFile] = {}
        self.header: list[str] = []
        self.seen: set[tuple[str, str]] = set()
        self.people_in: Counter[str] = Counter()
        self.oddities: Counter[str] = Counter()

    def check_header(self, header: list[str]) -> None:
        """Raise Fp2Error with the required columns that `header` lacks."""
        self.header = header
        needing(REQUIRED, self.release.table, "the FHIBE table lacks")(header)

    def add(self, where: str, row: Cells) -> None:
        """Add one row, unless consent is withdrawn or the (image, subject) pair is repeated."""
        main_id, subject_id = normal_id(row["image_id"]), normal_id(row.get("subject_id", ""))
        relative = Path(row["filepath"])
        if not main_id or not subject_id or not row["filepath"]:
            raise Fp2Error("image_id, subject_id or filepath is empty", where=where)
        if relative.is_absolute() or ".." in relative.parts:
            raise Fp2Error(f"filepath {row['filepath']!r} leads out of the release folder", where=where)
        if (main_id, subject_id) in self.seen:
            self.oddities["repeated (image, subject) [row was|rows were] left out"] += 1
            return
        self.seen.add((main_id, subject_id))
        self.people_in[main_id] += 1  # subjects who are left out are in the image too
        if row.get("consent", "").strip().lower() == "false":
            self.oddities["[row|rows] without consent [was|were] left out"] += 1
            return
        if (file := self._file(main_id, subject_id, relative, row)) is None:
            return
        box = self._box(row.get("person_bbox", "") if self.release.form not in _FACES else "")
        values: dict[str, object] = {
            "image_id": file.image_id,
            "subject_id": subject_id,
            "image_path": str(file.path),
            "is_primary": self._flag(row["is_primary"], where),
            "n_people": self._stated(row),  # at least: `dataset` takes the rows of the image into account
            "set_id": row.get("set_id", "").strip() or None,
            **dict(zip(("box_x", "box_y", "box_w", "box_h"), box, strict=True)),
            **{f"attr_{name}": labels for name, labels in self.attributes.read(row).items()},
        }
        self.files[file.image_id] = file
        self.main_ids.append(main_id)
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)

    def dataset(self) -> Dataset:
        """Return the data set of the rows that were added."""
        if not self.columns:
            raise Fp2Error("the FHIBE table has no rows", where=str(self.release.table))
        frame = people_table({name: cells for name, cells in self.columns.items() if not unused(name, cells)})
        in_image = [self.people_in[main_id] for main_id in self.main_ids]
        frame["n_people"] = [max(numbers) for numbers in zip(frame["n_people"], in_image, strict=True)]
        self._check_images(frame["image_path"].unique().tolist())
        lines = tuple(self._schema_lines())
        return Dataset(
            "fhibe",
            self.release.version,
            frame,
            lines,
            self.settings,
            lines,
            tuple(self.files.values()),
            scales={"skin_tone": "Fitzpatrick"},
        )

    def _schema_lines(self) -> Iterator[str]:
        """Yield a line per kind of difference from the known format; none for that format. No place is named."""
        for oddity, count in sorted(self.oddities.items()):
            yield in_number(count, f"{count} {oddity}")
        if self.release.version is None:
            yield "the folder's name carries no FHIBE version, so none is recorded"
        boxes = () if self.release.form == FACE_ALIGNED else ("person_bbox",)
        expected = (*vocab.VOCABULARIES, "location_country", *boxes)
        if absent := [name for name in expected if name not in self.header]:
            yield f"columns of the known release that are absent: {', '.join(absent)}"
        known_columns = {*vocab.DOWNSAMPLED_HEADER, *vocab.FACE_HEADER, *_EXPECTED_EXTRAS}
        if extra := [name for name in self.header if name not in known_columns]:
            yield f"unknown columns were ignored: {', '.join(extra)}"
        for column, counts in sorted(self.attributes.unknown.items()):
            examples = ", ".join(repr(value) for value, _ in counts.most_common(3))
            yield f"column {column}: {plural(counts.total(), 'value')} outside the known vocabulary, such as {examples}"
        if ages := self.attributes.ages:
            examples = ", ".join(repr(value) for value in sorted(ages)[:3])
            yield f"column age: {plural(ages.total(), 'value')} without an age group, such as {examples}"
        if n := self.attributes.places.total():
            yield in_number(n, f"column location_country: {n} [value names|values name] no country, kept as written")

    def _file(self, main_id: str, subject_id: str, relative: Path, row: Cells) -> ImageFile | None:
        """Return the image of the row, or None if there is no face crop of this subject."""
        path = self.release.root / relative
        if self.release.form == FACE_UNALIGNED and path.name.startswith("main_"):
            name = f"{main_id}_{subject_id}"
            crop = path.with_name(f"faces_crop_only_{name}.png")
            if not crop.is_file():
                self.oddities["[row has|rows have] no face crop"] += 1
                return None
            return ImageFile(name, crop, crop.with_name(f"faces_crop_only_annos_{name}.json"), None)
        stem = path.stem.replace(f"_{main_id}", f"_annos_{main_id}", 1)
        if row.get("json_path", "").strip() not in {"", (relative.parent / f"{stem}.json").as_posix()}:
            self.oddities["annotation [file|files] with another name than that of the image and _annos_"] += 1
        json_path = row.get("json_path", "").strip()
        return ImageFile(main_id, path, self.release.root / json_path if json_path else None, _size(row))

    @staticmethod
    def _stated(row: Cells) -> int:
        """Return the number of people in the image that the row states (1 if it states none)."""
        for name, extra in (("humans_per_image", 0), ("multiple_subjects", 1)):
            text = row.get(name, "").strip()
            if text.isdecimal():
                return max(1, int(text) + extra)
        return 1

    def _box(self, cell: str) -> tuple[float, float, float, float]:
        """Return the `[x, y, width, height]` of a cell, or missing values (counted, unless the cell is empty)."""
        missing = (math.nan, math.nan, math.nan, math.nan)
        if not cell.strip():
            return missing
        try:
            x, y, width, height = (float(value) for value in ast.literal_eval(cell))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            self.oddities["person [box|boxes] could not be read"] += 1
            return missing
        return x, y, width, height

    @staticmethod
    def _flag(cell: str, where: str) -> bool:
        flags = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
        try:
            return flags[cell.strip().lower()]
        except KeyError:
            raise Fp2Error(f"is_primary is {cell!r}, neither True nor False", where=where) from None

    def _check_images(self, paths: list[str]) -> None:
        """Raise Fp2Error if none of a sample of the images exists: the table was copied without its images."""
        sample = paths[:: max(1, len(paths) // 50)]
        if not any(Path(path).is_file() for path in sample):
            raise Fp2Error(
                "the FHIBE table was found, but not its images",
                where=sample[0],
                fix="Unpack the whole archive: the images are in data/raw",
            )


def unused(name: str, cells: list[object]) -> bool:
    """Whether a column is an attribute of the camera of which no row has a value, as in the drawn people."""
    return name.removeprefix(ATTRIBUTE_PREFIX) in NOT_DIGESTED and not any(cells)


def _size(row: Cells) -> tuple[int, int] | None:
    try:
        return int(float(row["image_width"])), int(float(row["image_height"]))
    except (KeyError, ValueError):
        return None
