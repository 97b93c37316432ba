"""FairFace by its label files, UTKFace and CausalFace by the names of their files.

Sources of the formats: FairFace (Karkkainen & Joo, WACV 2021) and its label files; UTKFace's page
(susanqq.github.io/UTKFace); `datasets/causalface.py` of carinahausladen/clip-face-bias.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from fp2.extension import (
    EACH_ITS_OWN,
    Dataset,
    Fp2Error,
    LabelledImages,
    age_group,
    fairface_labels,
    find_files,
    frame_people,
    image_folder,
    images_below,
    label_rows,
    labelled_people,
    plural,
)

FAIRFACE_LABELS = "fairface_label*.csv"
_UTK_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d{8,}")
_UTK_GENDERS = ("Male", "Female")
_UTK_RACES = ("White", "Black", "Asian", "Indian", "Others")


def load_fairface(root: Path, image_root: Path | None = None) -> Dataset:
    """Return FairFace's images by its label files (`fairface_label_train.csv`, `fairface_label_val.csv`).

    Attributes: gender, race, age and `split` (`train` or `val`).
    """
    files = find_files(root, FAIRFACE_LABELS)
    if not files:
        fix = "data.root is the folder with fairface_label_train.csv"
        raise Fp2Error("there are no FairFace label files", where=str(root), fix=fix)
    images = []
    for file in files:
        for _, row in label_rows(file, ("file", "age", "gender", "race")):
            path = row["file"].strip()
            images.append(LabelledImages(path, {**fairface_labels(row), "split": [Path(path).parts[0]]}))
    folder = image_folder(files[0].parent, [image.path for image in images], image_root)
    return Dataset("fairface", None, labelled_people(images, folder, files[0]), (EACH_ITS_OWN,))


def load_utkface(root: Path) -> Dataset:
    """Return UTKFace's images; gender, race and age (as age groups) are read from the file names.

    A name is `[age]_[gender]_[race]_[date and time]`, gender 0 male and 1 female, race 0 White, 1 Black, 2 Asian,
    3 Indian, 4 Others; images with another name are left out and counted.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    images: list[LabelledImages] = []
    odd = 0
    for path in images_below(root):
        match = _UTK_NAME.match(path.name)
        if match is None:
            odd += 1
            continue
        attributes = {
            "gender": [_UTK_GENDERS[int(match.group(2))]],
            "race": [_UTK_RACES[int(match.group(3))]],
            "age": [age_group(int(match.group(1)))],
        }
        images.append(LabelledImages(path.relative_to(root).as_posix(), attributes))
    if not images:
        fix = "An image of UTKFace is named age_gender_race_date.jpg"
        raise Fp2Error("no image is named like UTKFace's", where=str(root), fix=fix)
    odd_note = (f"{plural(odd, 'image')} without a label in the name left out",) if odd else ()
    notes = (EACH_ITS_OWN, *odd_note)
    return Dataset("utkface", None, labelled_people(images, root, root), notes)


_CAUSAL_NAME = re.compile(
    r"(?P<race>asian|black|white)_(?P<gender>female|male)_(?:age|l|y|smiling|brightness)_(?P<level>-?\d+(?:\.\d+)?)"
    r"(?:_o2)?(?P<corrected>_corrected)?\.png"
)


def load_causalface(root: Path) -> Dataset:
    """Return CausalFace's generated faces: `final_picked_CHANGED/seed_NUMBER/RACE_GENDER_CHANGED_LEVEL.png`.

    The subject is the seed; a set has the six faces of a seed at one level, which differ in race and gender. Of smiling
    faces the ones of corrected brightness count, where there are some. Attributes: `race`, `gender`, `changed` (age,
    lighting, pose, smiling, brightness) and its `level`, a number without unit.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for path in sorted(images_below(root)) if root.is_dir() else ():
        match, folder = _CAUSAL_NAME.fullmatch(path.name), path.parent.parent.name
        if match is None or not folder.startswith("final_picked_") or not path.parent.name.startswith("seed_"):
            continue
        changed, seed, level = folder.removeprefix("final_picked_"), path.parent.name, match["level"]
        key = (changed, seed, level, match["race"], match["gender"])
        if key not in rows or match["corrected"]:
            rows[key] = {
                "image": path.relative_to(root).as_posix(),
                "subject": seed,
                "set_id": f"{changed}/{seed}/{level}",
                "race": match["race"],
                "gender": match["gender"],
                "changed": changed,
                "level": level,
            }
    if not rows:
        fix = "data.root has the folders final_picked_age, final_picked_smiling and so on"
        raise Fp2Error("no image is named like CausalFace's", where=str(root), fix=fix)
    frame = pd.DataFrame(rows.values())
    people = frame_people(frame, None, root.absolute(), root).people
    return Dataset("causalface", None, people, terms="images on request; generated faces")
