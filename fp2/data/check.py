"""Looking a data set over before anybody is asked: files, sizes, the same picture twice, who is in it.

Works for every kind of data; sizes and annotations are compared where the data set states them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.data.fhibe.load import PictureFile
    from fp2.data.pixels import PixelDigest

_SHOWN = 3


@dataclass
class Findings:
    """What was found: `wrong` has to be mended, `odd` is worth knowing; both map a kind to the ids it was found in."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    odd: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    n_files: int = 0
    n_bytes: int = 0
    decoded: bool = False

    def lines(self) -> list[str]:
        """Return one line per kind, with the first few ids."""
        found = [*(("BAD", *item) for item in self.wrong.items()), *(("odd", *item) for item in self.odd.items())]
        return [f"{mark} {len(ids)} {what}: {_some(ids)}" for mark, what, ids in found if ids]


def files_of(people: pd.DataFrame) -> list[PictureFile]:
    """Return the pictures of any people table, without stated sizes or annotations."""
    from fp2.data.fhibe.load import PictureFile

    first = people.drop_duplicates("image_id")
    return [
        PictureFile(image_id, Path(path), None, None)
        for image_id, path in zip(first["image_id"], first["image_path"], strict=True)
    ]


def check_files(files: Sequence[PictureFile]) -> Findings:
    """Look at every picture's file and header, and for its annotation; no pixel is decoded."""
    findings = Findings(n_files=len(files))
    for file in files:
        try:
            n_bytes = file.path.stat().st_size
        except OSError:
            findings.wrong["picture(s) missing"].append(file.image_id)
            continue
        findings.n_bytes += n_bytes
        size = _header_size(file.path)
        if size is None:
            findings.wrong["picture(s) cannot be read"].append(file.image_id)
        elif file.size is not None and size != file.size:
            findings.wrong["picture(s) of another size than stated"].append(file.image_id)
        if file.annotation is not None and not file.annotation.is_file():
            findings.odd["annotation file(s) missing"].append(file.image_id)
    return findings


def check_pixels(
    people: pd.DataFrame, files: Sequence[PictureFile], pixels: Mapping[Path, PixelDigest], findings: Findings
) -> None:
    """Add what decoded pixels tell: damage behind a good header, and the same pixels under several ids."""
    findings.decoded = True
    subjects = people.groupby("image_id")["subject_id"].agg(frozenset).to_dict()
    known = {image_id for ids in findings.wrong.values() for image_id in ids}
    same: dict[str, list[str]] = defaultdict(list)
    for file in files:
        found = pixels[file.path]
        if found.sha256 is not None:
            same[found.sha256].append(file.image_id)
        elif file.image_id not in known:
            findings.wrong["picture(s) cannot be decoded"].append(file.image_id)
    for ids in same.values():
        if len(ids) > 1:
            one = len({subjects[image_id] for image_id in ids}) == 1
            findings.odd["picture(s) repeated " + ("of one person" if one else "under other people")] += ids


def _header_size(path: Path) -> tuple[int, int] | None:
    """Return the picture's size after it was turned upright, or None if it is no picture."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            # Asking a PNG without EXIF for it would decode the whole picture.
            exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            turned = exif.get(0x0112, 1) in (5, 6, 7, 8)  # orientations that swap width and height
            return (image.height, image.width) if turned else image.size
    except Exception:  # decoders raise many kinds; each means that this is no readable picture
        return None


def cuts_to_count(spec: Mapping[str, object], people: pd.DataFrame, most: int = 40) -> tuple[Cut, ...]:
    """Return the config's cuts; where the data lack their attributes, one per attribute with few values."""
    from fp2.cuts import Cut, resolve_cuts
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    names = attribute_columns(people)
    try:
        return resolve_cuts(spec, names)
    except Fp2Error:
        values = {name: {value for cell in people[ATTRIBUTE_PREFIX + name] for value in cell} for name in names}
        return tuple(Cut(name, (name,)) for name in names if 1 < len(values[name]) <= most)


def group_lines(people: pd.DataFrame, cuts: Sequence[Cut], smallest: int) -> list[tuple[str, str, str, str]]:
    """Return (cut, group, people, pictures) as they may be shown: counts of small groups are not."""
    from fp2.data.sets import group_sizes

    lines = []
    for cut, groups in group_sizes(people, cuts).items():
        for group, size in groups.items():
            small = size["n_subjects"] < smallest
            shown = (f"<{smallest}", "–") if small else (str(size["n_subjects"]), str(size["n_images"]))
            lines.append((cut, group, *shown))
    return lines


def absent_ids(people: pd.DataFrame, newer: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the subjects and the images of `people` that `newer` does not have."""
    subjects = sorted(set(people["subject_id"]) - set(newer["subject_id"]))
    return subjects, sorted(set(people["image_id"]) - set(newer["image_id"]))


def most_images(people: pd.DataFrame) -> int:
    """Return how many pictures the person with the most has."""
    return max(Counter(people.drop_duplicates(["subject_id", "image_id"])["subject_id"]).values(), default=0)


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more
