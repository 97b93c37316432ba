"""People as label files list them: each with the file name of an image, an id, boxes and labels.

Images are found by their file names anywhere below the folder, so that a part of a release can be read; labels of
images that are not there are counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import Fp2Error, images_below, in_number, people_table

if TYPE_CHECKING:
    import pandas as pd

Box = tuple[float, float, float, float]
"""Left edge, top edge, width and height in pixels."""
_NO_BOX: Box = (math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Boxed:
    """One person: the file name of the image, an id within the data set, a box of the person or the face, labels."""

    image: str
    subject: str
    box: Box = _NO_BOX
    face: Box = _NO_BOX
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Pictures:
    """The image files below a folder, by their names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paths = {path.name: path.relative_to(root).as_posix() for path in images_below(root)}
        if not self._paths:
            raise Fp2Error("there are no images", where=str(root), fix="Put the images below data.root")

    def find(self, name: str) -> str | None:
        """Return the path of an image below the folder; None if it is not there."""
        return self._paths.get(name)

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.values())


def boxed_people(
    people: Sequence[Boxed], pictures: Pictures, where: Path, others: Iterable[str] = ()
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the people table without those whose image is missing, and a note of how many are.

    The primary person of an image is the one with the largest box. `others` names the image of everybody (or of every
    crowd) who is annotated and left out: they count in `n_people`.
    """
    present = [(person, path) for person in people if (path := pictures.find(person.image)) is not None]
    if not present:
        example = people[0].image if people else "?"
        message = f"labels were found, but none of their images, such as {example}"
        raise Fp2Error(message, where=str(where), fix="Put the images below data.root")
    per_image = Counter(path for _, path in present)
    per_image.update(path for image in others if (path := pictures.find(image)) is not None)
    largest: dict[str, tuple[float, int]] = {}
    for number, (person, path) in enumerate(present):
        area = max(_area(person.box), _area(person.face))
        if path not in largest or area > largest[path][0]:
            largest[path] = (area, number)
    primary = {number for _, number in largest.values()}
    names = list(dict.fromkeys(name for person, _ in present for name in person.attributes))
    columns: dict[str, list[object]] = {
        "image_id": [path for _, path in present],
        "subject_id": [person.subject for person, _ in present],
        "image_path": [str((pictures.root / path).absolute()) for _, path in present],
        "is_primary": [number in primary for number in range(len(present))],
        "n_people": [per_image[path] for _, path in present],
        **{f"box_{side}": [person.box[n] for person, _ in present] for n, side in enumerate("xywh")},
    }
    if any(not math.isnan(person.face[0]) for person, _ in present):
        columns |= {f"face_{side}": [person.face[n] for person, _ in present] for n, side in enumerate("xywh")}
    columns |= {f"attr_{name}": [list(person.attributes.get(name, ())) for person, _ in present] for name in names}
    n_out = len(people) - len(present)
    notes = (
        (in_number(n_out, f"{n_out} labelled [person|people] whose image is not there [was|were] left out"),)
        if n_out
        else ()
    )
    return people_table(columns), notes


def _area(box: Box) -> float:
    return 0.0 if math.isnan(box[2]) else box[2] * box[3]


def counted(left_out: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note per reason for which people were left out."""
    return tuple(in_number(n, f"{n} {reason} [was|were] left out") for reason, n in left_out.items() if n)


def read_lines(file: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeError) as error:
        raise Fp2Error(f"the labels cannot be read: {type(error).__name__}", where=str(file)) from None
