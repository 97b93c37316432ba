"""Readers of the benchmarks' files: each returns one row per item, with its texts as fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fp2.extension import Dataset, Fp2Error, frame_people, images_below, read_table

GENDERS = ("masculine", "feminine")
_VISO = {
    "Sector": "sector", "Occupation": "occupation", "Occupation_perceived_gender": "gender",
    "Participant_perceived_gender": "participant",
}  # fmt: skip


def load_visogender(root: Path, image_root: Path | None, images_needed: bool = True) -> Dataset:
    """Return VisoGender's images by the newest `OO_Visogender_*.tsv` and `OP_Visogender_*.tsv` below a checkout.

    The lists have addresses, not images: those that were downloaded are below `image_root`, named by their IDX
    (`OO_1.jpg`). Images that are not there are left out and counted; unless `images_needed`, none has to be.

    Attributes: `gender` of who has the occupation (`masculine`, `feminine`), `occupation`, `sector`, and the same
    gender for the images of one part: `gender_oo`, `gender_op`, `gender_op_same`, `gender_op_different` (two people of
    one gender, or of two). The field `occupation` is its name in lower case.
    """
    lists = {kind: _newest(root, kind) for kind in ("OO", "OP")}
    frames = []
    for kind, path in lists.items():
        frame = read_table(path)
        _check_header(frame, ["IDX", *_VISO][: 4 if kind == "OO" else 5], path)
        frames.append(frame.rename(columns=_VISO).assign(kind=kind))
        for number, gender in enumerate(frames[-1]["gender"], start=1):
            if gender not in GENDERS:
                what = f"row {number} ({frame['IDX'].iloc[number - 1]}) has the gender {gender!r}"
                raise Fp2Error(what, where=str(path), fix=f"It is one of {', '.join(GENDERS)}")
    people = pd.concat(frames, ignore_index=True).fillna("")
    same = people["gender"] == people["participant"]
    for name, chosen in (
        ("gender_oo", people["kind"] == "OO"),
        ("gender_op", people["kind"] == "OP"),
        ("gender_op_same", (people["kind"] == "OP") & same),
        ("gender_op_different", (people["kind"] == "OP") & ~same),
    ):
        people[name] = people["gender"].where(chosen, "")
    people["field_occupation"] = people["occupation"].str.strip().str.lower()
    notes = []
    if images_needed:
        if image_root is None:
            raise Fp2Error("data=visogender needs the folder of the images", where="data.image_root",
                           fix="Download the addresses of the lists, name each image by its IDX; add data.image_root=PATH")  # fmt: skip
        files = {path.stem: path.relative_to(image_root).as_posix() for path in images_below(image_root)}
        there = people["IDX"].isin(files)
        if not there.any():
            what = f"none of the {len(people)} images is there, such as {people['IDX'].iloc[0]}.jpg"
            raise Fp2Error(what, where=str(image_root), fix="Name each image by its IDX")
        if absent := int((~there).sum()):
            notes.append(f"{absent} of the {len(people)} images of the lists are not in the image folder")
        people = people[there].assign(file=people["IDX"].map(files))
    else:
        people = people.assign(file=people["IDX"])
    names = ("gender", "gender_oo", "gender_op", "gender_op_same", "gender_op_different", "occupation", "sector")
    columns = {"image": "file", "item": "IDX", "subject": "IDX", "field_occupation": "field_occupation"}
    columns |= {name: name for name in names}
    dataset = frame_people(people, columns, (image_root or root).absolute(), lists["OO"], found=images_needed)
    return Dataset("visogender", lists["OP"].stem.rpartition("_")[2], dataset.people, tuple(notes), terms="CC BY 4.0")


def _newest(root: Path, kind: str) -> Path:
    """Return the list of a kind with the latest date in its name (day, month, year)."""
    files = sorted(root.rglob(f"{kind}_Visogender_*.tsv"), key=lambda path: _date(path.stem)) if root.is_dir() else []
    if not files:
        fix = "data.root is the checkout of VisoGender's repository"
        raise Fp2Error(f"{kind}_Visogender_DATE.tsv was not found", where=str(root), fix=fix)
    return files[-1]


def _date(stem: str) -> str:
    day = stem.rpartition("_")[2]
    return day[4:] + day[2:4] + day[:2]


def _check_header(frame: pd.DataFrame, needed: Sequence[str], path: Path) -> None:
    if missing := [name for name in needed if name not in frame]:
        raise Fp2Error(f"the table lacks a column: {', '.join(missing)}", where=str(path))
