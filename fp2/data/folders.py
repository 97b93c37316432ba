"""Pictures sorted into folders: one folder per group, and within it perhaps one folder per person."""

from __future__ import annotations

from pathlib import Path

from fp2.data.dataset import Dataset
from fp2.data.labelled import Labelled, labelled_people, pictures_below
from fp2.errors import Fp2Error


def load_folders(root: Path, attribute: str = "group") -> Dataset:
    """Return the pictures below `root`: the first folder on the way is the value of `attribute`.

    A picture directly in its group's folder is a person of its own; pictures in one folder further down
    (`GROUP/PERSON/...`) are of one person. Pictures directly in `root` belong to no group and are left out.

    Raises
    ------
    Fp2Error
        If the folder is missing, or holds fewer than two groups with pictures.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    pictures, loose, alone = [], 0, 0
    for path in pictures_below(root):
        group, *between = path.relative_to(root).parts[:-1] or ("",)
        if not group:
            loose += 1
            continue
        alone += not between
        # the group is part of the name: folders called "1" in two groups are two people
        subject = f"{group}/{between[0]}" if between else None
        pictures.append(Labelled(path.relative_to(root).as_posix(), {attribute: [group]}, subject))
    groups = {picture.attributes[attribute][0] for picture in pictures}
    if len(groups) < 2:
        raise Fp2Error(
            f"{len(groups)} sub-folder(s) with pictures are there, and a comparison needs two",
            where=str(root),
            fix="Sort the pictures into one sub-folder per group",
        )
    notes = []
    if alone:
        notes.append(f"{alone} picture(s) directly in their group's folder count as a person of their own each")
    if loose:
        notes.append(f"{loose} picture(s) outside the groups' folders were left out")
    return Dataset(root.name, None, labelled_people(pictures, root, root), tuple(notes))
