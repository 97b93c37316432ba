"""Folders of groups as a data set."""

from pathlib import Path

import pytest
from bench import load_config
from PIL import Image

from fp2.data.base import load_configured
from fp2.data.readers.labelled import load_folders
from fp2.errors import Fp2Error
from fp2.progress import Progress


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


def test_a_folder_per_group_and_perhaps_per_person(tmp_path):
    root = tmp_path / "mine"
    for name in ("nurse/a.png", "nurse/ada/1.png", "nurse/ada/more/2.png", "pilot/ada/1.png", "loose.png"):
        picture(root / name)
    (root / ".cache").mkdir()
    picture(root / ".cache" / "x.png")
    dataset = load_folders(root, "job")
    people = dataset.people.set_index("image_id")
    assert dict(people["subject_id"]) == {
        "nurse/a.png": "nurse/a.png",
        "nurse/ada/1.png": "nurse/ada",
        "nurse/ada/more/2.png": "nurse/ada",
        "pilot/ada/1.png": "pilot/ada",
    }
    assert people["attr_job"].map(lambda cell: cell[0]).tolist() == ["nurse"] * 3 + ["pilot"]
    assert [note[0] for note in dataset.notes] == ["1", "1"]
    with pytest.raises(Fp2Error, match=r"1 sub-folder has"):
        load_folders(root / "nurse")


def test_a_folder_from_the_config(tmp_path):
    for name in ("a/1.png", "b/1.png"):
        picture(tmp_path / name)
    config = load_config(["data=folder", f"data.root={tmp_path}", "data.attribute=kind", "cut.by=[kind]"])
    assert "attr_kind" in load_configured(config, Progress(quiet=True)).people
    for kind in ("folder", "fhibe"):
        with pytest.raises(Fp2Error, match=rf"data={kind} needs .*data\.root"):
            load_config([f"data={kind}"])
