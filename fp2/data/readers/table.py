"""The user's own images, listed in a table: CSV, TSV, Parquet or JSON Lines."""

from __future__ import annotations

import codecs
import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fp2.data.base import ATTRIBUTE_NAME, Dataset, people_table
from fp2.data.minors import MINORS, says_who_is_minor
from fp2.errors import Fp2Error, nearest
from fp2.tables import FIELD_PREFIX, IMAGE_B, ITEM_ROW, PRIVATE_PREFIX, SUBJECT_B
from fp2.text import in_number, normal_id, plural

_IMAGE, _ITEM = "image", "item"
_SUBJECT = ("subject", "subject_id")
_MASK = "person_mask"
_BOXES = tuple(tuple(f"{what}_{side}" for side in "xywh") for what in ("box", "face"))
_SET = "set_id"
_RESERVED = {"image_id", "image_path", "is_primary", "n_people"}
_SEPARATOR = ";"
_DELIMITER = "delimiter"
_MISSING = frozenset({"nan", "<na>", "nat", "n/a", "#n/a"})
"""How programs write a missing value, in lower case. `NA` and `None` may be values: a country, an answer."""


def load_table(
    path: Path, columns: Mapping[str, str], image_root: Path | None = None, *, found: bool = True
) -> Dataset:
    """Return the people of a table; `columns` maps our names to the table's columns.

    `found` is whether any of the images must exist; where the answers are supplied, none needs to.

    Our names are:

    - `image` (required): a path, relative to `image_root` or else to the table's folder;
    - `subject`: the subject's id; without it, each image is a subject of its own;
    - `box_x, box_y, box_w, box_h` and `face_x, face_y, face_w, face_h`: boxes in pixels; `person_mask`: the path of an
      image that is not black where the person is;
    - `set_id`: the counterfactual set, that is, the same scene with one attribute changed;
    - `item`: the id of the row, where an image stands in several rows; it takes the place of the image's;
    - `image_b`: the path of a second image that is shown after the first, with `subject_b`, who is in it (by default,
      a subject of its own); an empty cell shows one image;
    - `field_<name>`: a text of the item, which questions are filled in with (`fp2.probes.items`);
    - any attribute. A cell may hold several values, as a list or separated by ";"; an empty cell and `nan`
      are no value. An age in whole years is replaced by its age group.
    """
    root = (image_root or path.parent).expanduser().absolute()
    return frame_people(read_table(path), columns, root, path, found=found)


def frame_people(
    frame: pd.DataFrame, columns: Mapping[str, str] | None, root: Path, path: Path, *, found: bool = True
) -> Dataset:
    """Return the people of a table that was read, as `load_table` does; image paths are relative to `root`.

    Without `columns` the table has our names. `path` is the file whose rows are those of the table, or else a folder;
    a column `fp2.tables.ITEM_ROW` may say which row of which file each is.
    """
    if columns is None:
        columns = {name: name for name in map(str, frame) if name != ITEM_ROW}
    if frame.columns.empty:
        raise Fp2Error("the table is empty", where=str(path))
    subject_key = _check_columns(columns, [str(name) for name in frame.columns], path)
    if frame.empty:
        raise Fp2Error("the table has no rows", where=str(path))
    if ITEM_ROW not in frame:
        frame = frame.assign(**{ITEM_ROW: range(1, len(frame) + 1)})
    notes: list[str] = []
    image_ids, image_paths = _images(frame, columns, _IMAGE, root, path, notes, found)
    if _ITEM in columns:
        image_ids = _filled(frame, columns, _ITEM, path)
    if subject_key is None:
        subject_ids = image_ids
        notes.append("no subject column is given: each image counts as a subject of its own")
    else:
        subject_ids = _filled(frame, columns, subject_key, path)
    image_ids, subject_ids = [normal_id(name) for name in image_ids], [normal_id(name) for name in subject_ids]
    per_image = Counter(image_ids)
    people: dict[str, list[object]] = {
        "image_id": list(image_ids),
        "subject_id": list(subject_ids),
        "image_path": [str(image) for image in image_paths],
        "is_primary": [True] * len(frame),
        "n_people": [per_image[image_id] for image_id in image_ids],
    }
    people |= _regions(frame, columns, root, path)
    if _SET in columns:
        people[_SET] = [_text(cell) or None for cell in frame[columns[_SET]].tolist()]
    if IMAGE_B in columns:
        people |= _second_images(frame, columns, root, path, notes, found)
    for name in columns:
        if name.startswith(FIELD_PREFIX):
            people[name] = list(_filled(frame, columns, name, path))
            people[ITEM_ROW] = frame[ITEM_ROW].tolist()
    for name in attribute_names(columns):
        cells = [_values(cell) for cell in frame[columns[name]].tolist()]
        people[f"attr_{name}"] = list(map(_age_groups, cells) if name == "age" else cells)
    read = {columns[name] for name in columns if says_who_is_minor(name)}
    for column in frame:  # it says who is a minor, also where no attribute of that name is read from it
        if says_who_is_minor(str(column)) and column not in read:
            people[f"{PRIVATE_PREFIX}{column}"] = [_values(cell) for cell in frame[column].tolist()]
    table = people_table(people)
    _check_pairs(image_ids, subject_ids, path)
    return Dataset(path.stem, None, table, tuple(notes))


def can_be_name(name: str) -> bool:
    """Whether one of our columns, such as an attribute, can have this name."""
    return name not in _RESERVED and bool(ATTRIBUTE_NAME.fullmatch(name))


def attribute_names(columns: Iterable[str]) -> list[str]:
    """Return those of our names that are attributes: all that `load_table` does not define."""
    other_names = {_IMAGE, _ITEM, _MASK, _SET, IMAGE_B, SUBJECT_B, *_SUBJECT, *_BOXES[0], *_BOXES[1]}
    return [name for name in columns if name not in other_names and not name.startswith(FIELD_PREFIX)]


def read_table(path: Path) -> pd.DataFrame:
    """Return a CSV, TSV, Parquet or JSON Lines file as a table; text is not converted (`NA` is not a missing value)."""
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": _read_delimited,
        ".tsv": lambda file: _read_delimited(file, "\t"),
        ".parquet": pd.read_parquet,
        ".jsonl": _read_jsonl,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise Fp2Error(
            f"a table cannot have the suffix {path.suffix!r}", where=str(path), fix=nearest(path.suffix, readers)
        )
    try:
        return reader(path)
    except FileNotFoundError:
        raise Fp2Error("the table does not exist", where=str(path)) from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise Fp2Error(f"the table cannot be read: {reason}", where=str(path)) from None


def _read_delimited(path: Path, delimiter: str = ",") -> pd.DataFrame:
    """Return a CSV or TSV file, every cell as text.

    A CSV file may be separated by semicolons or tabs, if its header is; a byte order mark makes it UTF-16.
    """
    csv_dialect = dialect(path)
    mark = csv_dialect.delimiter if delimiter == "," else delimiter
    header: list[str] = []
    rows = [row for _, row in read_rows(path, header.extend, delimiter=mark, encoding=csv_dialect.encoding)]
    frame = pd.DataFrame(rows, columns=header, dtype="object")
    frame.attrs[_DELIMITER] = mark
    return frame


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, and its header."""

    delimiter: str
    encoding: str
    header: tuple[str, ...]


def dialect(path: Path) -> Dialect:
    """Return the dialect of a CSV file by its first line and byte order mark.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    with path.open("rb") as handle:
        encoding = "utf-16" if handle.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    with path.open(encoding=encoding, errors="replace", newline="") as handle:
        first = handle.readline()
    headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in ",;\t"}
    delimiter = max(headers, key=lambda mark: len(headers[mark]))
    return Dialect(delimiter, encoding, tuple(name.strip() for name in headers[delimiter]))


def number_column(frame: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    """Return a column of a table that `read_table` read as numbers; an empty cell, `nan` and the like are NaN.

    Where columns are separated by semicolons or tabs, a decimal comma is read as a point.

    Raises
    ------
    ValueError
        Naming the first cell that is no number.
    """
    if frame[name].dtype.kind in "fiu":
        return frame[name].to_numpy(dtype=np.float64)
    comma = frame.attrs.get(_DELIMITER, ",") != ","
    out = np.full(len(frame), np.nan)
    for index, cell in enumerate(frame[name].tolist()):
        text = str(cell).strip() if isinstance(cell, str) else _text(cell)
        if text and text.lower() not in _MISSING:
            plain = text.replace(",", ".") if comma and text.count(",") == 1 and "." not in text else text
            try:
                out[index] = float(plain)
            except ValueError:
                raise ValueError(f"row {index + 1}: {name} is {text}, not a number") from None
    return out


def _read_jsonl(path: Path) -> pd.DataFrame:
    """Return a JSON Lines file: one row per line that is not blank."""
    rows = []
    for number, text in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            raise ValueError(f"line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not a JSON object")
        rows.append(row)
    return pd.DataFrame(rows, dtype="object")


def _check_columns(columns: Mapping[str, str], present: list[str], path: Path) -> str | None:
    """Return our name of the subject column, if there is one; raise Fp2Error if `columns` does not fit the table."""
    if _IMAGE not in columns:
        raise Fp2Error("no column is given for the image paths", where="data.columns", fix="Add image: COLUMN")
    for name in columns:
        if not can_be_name(name):
            fix = "Use letters, digits and _; the name of the table's column may have any"
            raise Fp2Error(f"{name!r} cannot be an attribute's name", where="data.columns", fix=fix)
    subjects = [name for name in _SUBJECT if name in columns]
    if len(subjects) > 1:
        raise Fp2Error("the subject column is given twice", where="data.columns")
    for name, column in columns.items():
        if column not in present:
            fix = nearest(column, present)
            raise Fp2Error(f"the table has no column {column!r} (for {name})", where=str(path), fix=fix)
    return subjects[0] if subjects else None


def _filled(frame: pd.DataFrame, columns: Mapping[str, str], name: str, path: Path) -> list[str]:
    texts = [_text(cell) for cell in frame[columns[name]].tolist()]
    if "" in texts:
        problem = f"column {columns[name]!r} is empty in {_row_name(frame, columns, texts.index(''))}"
        raise Fp2Error(problem, where=str(path))
    return texts


def _row_name(frame: pd.DataFrame, columns: Mapping[str, str], index: int) -> str:
    """Return what a message calls a row: its number in the file, and the id of its item."""
    item = f" (item {_text(frame[columns[_ITEM]].iloc[index])!r})" if _ITEM in columns else ""
    return f"row {frame[ITEM_ROW].iloc[index]}{item}"


def _images(
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    name: str,
    root: Path,
    path: Path,
    notes: list[str],
    look_for_files: bool,
) -> tuple[list[str], list[Path]]:
    """Return the id (the path relative to `root`, if it is below) and the absolute path of each image."""
    texts = _filled(frame, columns, name, path)
    path_of = {text: Path(os.path.normpath(root / Path(text).expanduser())) for text in dict.fromkeys(texts)}
    id_of = {
        text: (image.relative_to(root) if image.is_relative_to(root) else image).as_posix()
        for text, image in path_of.items()
    }
    outside = {text for text, image in path_of.items() if not image.is_relative_to(root)}
    if outside:
        n_outside = sum(text in outside for text in texts)
        notes.append(
            f"{plural(n_outside, 'image lies', 'images lie')} outside {root.name or root}, with the full path as id, "
            "so that the data set's digest holds for this machine only (set data.image_root)"
        )
    if look_for_files and not any(image.is_file() for image in path_of.values()):
        raise Fp2Error(
            f"none of the {len(texts)} images was found, the first is {path_of[texts[0]]}, "
            f"of {_row_name(frame, columns, 0)}",
            where=str(path),
            fix="Paths are relative to data.image_root, or else to the table's folder",
        )
    return [id_of[text] for text in texts], [path_of[text] for text in texts]


def _second_images(
    frame: pd.DataFrame, columns: Mapping[str, str], root: Path, path: Path, notes: list[str], look_for_files: bool
) -> dict[str, list[object]]:
    """Return the path of each item's second image and who is in it; None for an item with one image."""
    cells = frame[columns[IMAGE_B]].tolist()
    rows = [number for number, cell in enumerate(cells) if _text(cell)]
    if not rows:
        raise Fp2Error(f"column {columns[IMAGE_B]!r} is empty in every row", where=str(path))
    with_two = frame.iloc[rows]
    subjects, paths = _images(with_two, columns, IMAGE_B, root, path, notes, look_for_files)
    if SUBJECT_B in columns:
        subjects = _filled(with_two, columns, SUBJECT_B, path)
    second: dict[str, list[object]] = {IMAGE_B: [None] * len(cells), SUBJECT_B: [None] * len(cells)}
    for row, image, subject in zip(rows, paths, subjects, strict=True):
        second[IMAGE_B][row], second[SUBJECT_B][row] = str(image), normal_id(subject)
    return second


def _regions(frame: pd.DataFrame, columns: Mapping[str, str], root: Path, path: Path) -> dict[str, list[object]]:
    """Return the columns with the person's region: boxes in pixels (NaN for an empty cell) and the paths of masks."""
    regions: dict[str, list[object]] = {}
    for box in _BOXES:
        columns_given = [name for name in box if name in columns]
        if columns_given and len(columns_given) < len(box):
            lacking = ", ".join(name for name in box if name not in columns_given)
            raise Fp2Error(f"a box needs four columns: {lacking} is not given", where="data.columns")
        for name in columns_given:
            regions[name] = [_pixels(cell, columns[name], path) for cell in frame[columns[name]].tolist()]
    if _MASK in columns:
        texts = [_text(cell) for cell in frame[columns[_MASK]].tolist()]
        regions["mask_path"] = [os.path.normpath(root / Path(text).expanduser()) if text else None for text in texts]
    return regions


def _pixels(cell: object, column: str, path: Path) -> float:
    text = _text(cell)
    try:
        value = float(text or "nan")
    except ValueError:
        value = float("inf")
    if value in (float("inf"), float("-inf")):
        raise Fp2Error(f"column {column!r} has {text!r}, which is not a number of pixels", where=str(path))
    return value


def _check_pairs(image_ids: list[str], subject_ids: list[str], path: Path) -> None:
    """Raise Fp2Error for the first (image, subject) pair that is repeated."""
    first_rows: dict[tuple[str, str], int] = {}
    for number, pair in enumerate(zip(image_ids, subject_ids, strict=True), start=1):
        if pair in first_rows:
            raise Fp2Error(
                f"rows {first_rows[pair]} and {number} have one image and subject: {pair[0]!r}, {pair[1]!r}",
                where=str(path),
                fix='Put several values of one subject into one cell, separated by ";"',
            )
        first_rows[pair] = number


def _text(cell: object) -> str:
    """Return a scalar as stripped text; None, NaN and their spellings (`_MISSING`) are empty, and 34.0 is 34."""
    if cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float | np.floating) and np.isnan(cell)):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    text = str(cell).strip()
    return "" if text.lower() in _MISSING else text


def _values(cell: object) -> list[str]:
    if isinstance(cell, list | tuple | set | np.ndarray):
        texts = [_text(item) for item in (sorted(cell, key=str) if isinstance(cell, set) else cell)]
    else:
        texts = [_text(value) for value in _text(cell).split(_SEPARATOR)]
    return [text for text in dict.fromkeys(texts) if text]


def _age_groups(cell: list[str]) -> list[str]:
    """Return ages in whole years as age groups; other values, such as the user's own groups, are kept."""
    return list(dict.fromkeys(age_group(int(text)) if text.isdecimal() else text for text in cell))


# FHIBE's polygon cells are far over the standard limit of 131,072 characters.
_FIELD_LIMIT = 2**31 - 1


def read_rows(
    path: Path,
    check_header: Callable[[list[str]], None],
    *,
    delimiter: str = ",",
    encoding: str = "utf-8-sig",
    skip: Collection[str] = (),
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield `(row number, cells by column)` of a file with a header; blank lines do not count.

    `check_header` is called once, before the first row, and raises if a column is lacking. Columns in `skip` are left
    out of the rows.
    """
    if csv.field_size_limit() < _FIELD_LIMIT:
        csv.field_size_limit(_FIELD_LIMIT)
    try:
        with path.open(encoding=encoding, newline="") as handle:
            reader = csv.reader(handle, delimiter=delimiter)
            header = next(reader, [])
            repeated = {name for name in header if header.count(name) > 1}
            if repeated:
                raise Fp2Error(f"the header has {', '.join(sorted(repeated))} twice", where=str(path))
            check_header(header)
            columns = [(index, name) for index, name in enumerate(header) if name not in skip]
            number = 0
            for cells in reader:
                if not cells:
                    continue
                number += 1
                if len(cells) != len(header):
                    raise Fp2Error(
                        f"row {number} has {len(cells)} cells, the header has {len(header)}",
                        where=str(path),
                        fix="Was the file copied completely?",
                    )
                yield number, {name: cells[index] for index, name in columns}
    except FileNotFoundError:
        raise Fp2Error("the table does not exist", where=str(path)) from None
    except UnicodeError as error:
        fix = "Save it as UTF-8; a Latin-1 file, as Excel writes it: iconv -f windows-1252 -t utf-8 OLD.csv > NEW.csv"
        raise Fp2Error(f"the table cannot be read: it is not UTF-8 text ({error})", where=str(path), fix=fix) from None
    except (OSError, csv.Error) as error:
        raise Fp2Error(f"the table cannot be read: {error}", where=str(path)) from None


def needing(columns: Collection[str], path: Path, lacks: str = "the table lacks") -> Callable[[Collection[str]], None]:
    """Return a `check_header` that raises Fp2Error, which begins with `lacks`, if one of `columns` is lacking."""

    def check(header: Collection[str]) -> None:
        if missing := [name for name in columns if name not in header]:
            raise Fp2Error(
                in_number(len(missing), f"{lacks} the [column|columns] {', '.join(missing)}"), where=str(path)
            )

    return check


AGE_GROUPS: tuple[str, ...] = ("18-29", "30-39", "40-49", "50-59", "60+")


def age_group(age: int) -> str:
    """Return the age group of `age` in years: `'18-29'` .. `'60+'`, or that of all minors."""
    if age < 18:
        return MINORS
    return AGE_GROUPS[min(max(age, 20) // 10 - 2, 4)]


def read_json(file: Path, what: str = "labels") -> Any:
    """Return what a JSON file holds; `what` it is called in messages."""
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Fp2Error(f"the {what} cannot be read: {error.strerror}", where=str(file)) from None
    except ValueError as error:
        raise Fp2Error(f"the {what} are not JSON: {error}", where=str(file)) from None
