"""Validation of a data set before a model is asked: image files, their sizes and annotations, repeated images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from fp2.data.base import ImageFile
    from fp2.data.pixels import PixelDigest

_SHOWN = 3


@dataclass
class Findings:
    """What was found: `errors` have to be fixed, `warnings` should be known; both map a message to image ids.

    `n_files` and `n_bytes` count the files that were read; `decoded` says whether their pixels were.
    """

    errors: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    warnings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    n_files: int = 0
    n_bytes: int = 0
    decoded: bool = False

    def lines(self) -> list[str]:
        """Return one line per message, with the first few image ids."""
        found = [*(("ERROR", *item) for item in self.errors.items()), *(("warning", *i) for i in self.warnings.items())]
        return [f"{level} {len(ids)} {message}: {_first_few(ids)}" for level, message, ids in found if ids]


def check_files(files: Sequence[ImageFile]) -> Findings:
    """Check every image's file, header and annotation file; no pixel is decoded."""
    findings = Findings(n_files=len(files))
    for file in files:
        try:
            n_bytes = file.path.stat().st_size
        except OSError:
            findings.errors["image(s) missing"].append(file.image_id)
            continue
        findings.n_bytes += n_bytes
        size = _header_size(file.path)
        if size is None:
            findings.errors["image(s) cannot be read"].append(file.image_id)
        elif file.size is not None and size != file.size:
            findings.errors["image(s) of another size than stated"].append(file.image_id)
        if file.annotation is not None and not file.annotation.is_file():
            findings.warnings["annotation file(s) missing"].append(file.image_id)
    return findings


def check_pixels(
    people: pd.DataFrame, files: Sequence[ImageFile], pixels: Mapping[Path, PixelDigest], findings: Findings
) -> None:
    """Add what decoded pixels show: damage behind an intact header, and the same pixels under several ids."""
    findings.decoded = True
    subjects = people.groupby("image_id")["subject_id"].agg(frozenset).to_dict()
    known = {image_id for ids in findings.errors.values() for image_id in ids}
    same: dict[str, list[str]] = defaultdict(list)
    for file in files:
        found = pixels[file.path]
        if found.sha256 is not None:
            same[found.sha256].append(file.image_id)
        elif file.image_id not in known:
            findings.errors["image(s) cannot be decoded"].append(file.image_id)
    for ids in same.values():
        if len(ids) > 1:
            one = len({subjects[image_id] for image_id in ids}) == 1
            findings.warnings["image(s) repeated " + ("for one subject" if one else "for several subjects")] += ids


def _header_size(path: Path) -> tuple[int, int] | None:
    """Return the image's (width, height) by its EXIF orientation, or None if it is not an image."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            # Reading the EXIF data of a PNG that has none would decode the whole image.
            exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            turned = exif.get(0x0112, 1) in (5, 6, 7, 8)  # orientations that swap width and height
            return (image.height, image.width) if turned else image.size
    except Exception:  # decoders raise many kinds; each means that this is not a readable image
        return None


def _first_few(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more
