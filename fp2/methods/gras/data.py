"""GRAS's images by its official lists: `selected_images_fairface.csv`, `selected_images_aiface.csv`.

Source: GRAS (EACL 2026 Findings), section on data: FairFace for gender, race and age, and the real part of AI-Face for
the Monk Skin Tone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fp2.extension import (
    EACH_ITS_OWN,
    Dataset,
    Fp2Error,
    LabelledImages,
    fairface_labels,
    find_files,
    image_folder,
    label_rows,
    labelled_people,
)

GRAS_FACES, GRAS_TONES = "selected_images_fairface.csv", "selected_images_aiface.csv"
_TONES = 10
TONES_ALONE = (
    "skin tone is known for the AI-Face images only, which were not balanced for gender, age or race and have no "
    "other labels: a difference between skin tones may be confounded with these, which cannot be checked"
)


def load_gras(root: Path, image_root: Path | None = None, *, needs_images: bool = True) -> Dataset:
    """Return GRAS's images by the official lists, from the user's own copy.

    The attribute `subset` separates two sources: `fairface` has gender, race and age; `aiface` has the skin tone only,
    as `MST 01` to `MST 10`. Unless `needs_images`, the files are not looked for.
    """
    faces, tones = (_only(root, name) for name in (GRAS_FACES, GRAS_TONES))
    images = [
        LabelledImages(row["file"].strip(), {"subset": ["fairface"], **fairface_labels(row)})
        for _, row in label_rows(faces, ("file", "age", "gender", "race"))
    ]
    images += [
        LabelledImages(
            row["file"].strip(), {"subset": ["aiface"], "skin_tone": [_monk(row["Skin Tone"], tones, number)]}
        )
        for number, row in label_rows(tones, ("file", "Skin Tone"))
    ]
    paths = [image.path for image in images]
    folder = image_folder(faces.parent, paths, image_root) if needs_images else image_root or faces.parent
    notes = (EACH_ITS_OWN, TONES_ALONE, *_uneven(images, ("gender", "race", "age")), *_uneven(images, ("skin_tone",)))
    return Dataset("gras", None, labelled_people(images, folder, faces), notes)


def _uneven(images: Sequence[LabelledImages], names: Sequence[str]) -> Iterator[str]:
    """Yield a note if the images with these attributes are not spread evenly over the combinations of values."""
    values = [[image.attributes.get(name, []) for name in names] for image in images]
    cells = Counter(tuple(value[0] for value in row) for row in values if all(row))
    every = math.prod(len({cell[index] for cell in cells}) for index in range(len(names)))
    if len(set(cells.values())) > 1 or len(cells) < every:
        least = min(cells.values()) if len(cells) == every else 0
        attributes = " x ".join(name.replace("_", " ") for name in names)
        most = max(cells.values())
        yield f"the images are not distributed evenly over {attributes}: {least} to {most} in each of {every} cells"


def _monk(cell: str, where: Path, number: int) -> str:
    """Return a tone of the Monk Skin Tone scale, with two digits so that names sort as numbers."""
    digits = re.sub(r"(?i)mst|[\s_-]", "", cell)
    tone = digits.removesuffix(".0")
    if not tone.isdecimal() or not 1 <= int(tone) <= _TONES:
        raise Fp2Error(f"row {number} has the skin tone {cell!r}, not one from 1 to {_TONES}", where=str(where))
    return f"MST {int(tone):02d}"


def _only(root: Path, name: str) -> Path:
    files = find_files(root, name)
    if not files:
        raise Fp2Error(
            f"GRAS's list {name} was not found",
            where=str(root),
            fix="data.root is the folder with both lists and the image folder beside them",
        )
    return files[0]
