"""Public data sets that are label files over pictures, each on a tiny made-up copy of its format."""

from __future__ import annotations

import csv
import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import fp2, load_config
from PIL import Image
from scipy.io import savemat

from fp2.config import choices
from fp2.data.base import load_configured
from fp2.errors import Fp2Error
from fp2.progress import Progress


def _picture(path: Path, size: tuple[int, int] = (40, 20)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path)


def _csv(path: Path, rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)


MINOR = "1 image of people who are, or may be, below 18 was left out"


def _load(name: str, root: Path) -> Any:
    """Return the data set as a run loads it: by its YAML file, entry point and options."""
    return load_configured(load_config([f"data={name}", f"data.root={root}"]), Progress(quiet=True))


def _coco(root: Path) -> None:
    _picture(root / "val2017" / "000001.jpg")
    people = [
        {"id": 7, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0},
        {"id": 8, "image_id": 1, "category_id": 1, "bbox": [5, 2, 30, 10], "area": 300, "iscrowd": 0},
        {"id": 9, "image_id": 1, "category_id": 18, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0},
        {"id": 10, "image_id": 1, "category_id": 1, "bbox": [0, 0, 40, 20], "area": 800, "iscrowd": 1},
        {"id": 11, "image_id": 2, "category_id": 1, "bbox": [0, 0, 200, 200], "area": 30000, "iscrowd": 0},
    ]
    labels = {
        "images": [{"id": 1, "file_name": "000001.jpg"}, {"id": 2, "file_name": "000002.jpg"}],
        "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
        "annotations": people,
    }
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(labels))


def test_coco(tmp_path: Path) -> None:
    _coco(tmp_path)
    dataset = _load("coco", tmp_path)
    people = dataset.people
    assert people["image_id"].tolist() == ["val2017/000001.jpg"] * 2
    assert people["subject_id"].tolist() == ["val2017/7", "val2017/8"]
    assert people["is_primary"].tolist() == [False, True]
    assert people["n_people"].tolist() == [3, 3]  # the crowd counts too: "this person" would be somebody of several
    assert people.loc[0, ["box_x", "box_y", "box_w", "box_h"]].tolist() == [1, 2, 3, 4]
    assert people["attr_size"].tolist() == [["small"]] * 2
    assert people["attr_split"].tolist() == [["val2017"]] * 2
    assert {"1 crowd was left out", "1 labelled person whose image is not there was left out"} <= set(dataset.notes)
    (tmp_path / "annotations" / "instances_val2017.json").write_text('{"images": []}')
    with pytest.raises(Fp2Error, match="malformed: KeyError"):
        _load("coco", tmp_path)


def test_facet(tmp_path: Path) -> None:
    _picture(tmp_path / "imgs_1" / "sa_1.jpg")
    names = [
        "gender_presentation_masc",
        "gender_presentation_fem",
        "gender_presentation_non_binary",
        "gender_presentation_na",
        *(f"skin_tone_{n}" for n in range(1, 11)),
        "skin_tone_na",
        "age_presentation_young",
        "age_presentation_middle",
        "age_presentation_na",
        "hairtype_curly",
    ]
    box = '{"x": 1.5, "y": 2, "width": 10, "height": 12, "dict_attributes": {}}'
    first = [1, 0, 0, 0, *[0, 0, 2, 3, 3, 0, 0, 0, 0, 0], 0, 0, 1, 0, 1]
    second = [0, 0, 0, 1, *[0] * 10, 3, 0, 0, 1, 0]
    _csv(
        tmp_path / "annotations" / "annotations.csv",
        [
            ["person_id", "filename", "class1", "class2", "bounding_box", *names],
            [11, "sa_1.jpg", "nurse", "", box, *first],
            [12, "sa_1.jpg", "dancer", "singer", "{'x': 0, 'y': 0, 'width': 4, 'height': 5}", *second],
        ],
    )
    people = _load("facet", tmp_path).people.set_index("subject_id")
    assert people.loc["11", "attr_gender"] == ["masculine"]
    assert people.loc["11", "attr_skin_tone"] == ["MST 04", "MST 05"]  # the two with most votes
    assert people.loc["11", "attr_age"] == ["middle"]
    assert people.loc["11", "attr_hair_type"] == ["curly"]
    assert people.loc["12", "attr_occupation"] == ["dancer", "singer"]
    assert people.loc["12", "attr_gender"] == people.loc["12", "attr_skin_tone"] == people.loc["12", "attr_age"] == []
    assert people.loc["11", ["box_x", "box_w"]].tolist() == [1.5, 10]
    assert people["n_people"].tolist() == [2, 2]


def test_miap(tmp_path: Path) -> None:
    _picture(tmp_path / "val" / "ab12.jpg", (200, 100))
    head = [
        "ImageID",
        "LabelName",
        "Confidence",
        "XMin",
        "XMax",
        "YMin",
        "YMax",
        "IsOccluded",
        "IsTruncated",
        "IsGroupOf",
        "IsDepictionOf",
        "IsInsideOf",
        "GenderPresentation",
        "AgePresentation",
    ]

    def row(group: int, gender: str, age: str) -> list[Any]:
        return ["ab12", "/m/01g317", 1, 0.1, 0.35, 0.2, 0.7, 0, 0, group, 0, 0, gender, age]

    _csv(
        tmp_path / "open_images_extended_miap_boxes_val.csv",
        [
            head,
            row(0, "Predominantly Feminine", "Middle"),
            row(0, "Unknown", "Unknown"),
            row(1, "Unknown", "Unknown"),
            row(0, "Unknown", "Young"),
        ],
    )
    dataset = _load("miap", tmp_path)
    people = dataset.people
    assert people["attr_gender"].tolist() == [["Predominantly Feminine"], []]
    assert people["attr_age"].tolist() == [["Middle"], []]
    assert people["attr_split"].tolist() == [["val"]] * 2
    assert people.loc[0, ["box_x", "box_y", "box_w", "box_h"]].tolist() == pytest.approx([20, 20, 50, 50])
    assert people["n_people"].tolist() == [4, 4]  # with the group and the young person, who are left out
    assert any("1 box of groups" in note for note in dataset.notes)
    assert any("1 person labelled as young" in note for note in dataset.notes)


def test_phase(tmp_path: Path) -> None:
    _picture(tmp_path / "val" / "7.jpg", (200, 100))

    def person(ages: list[str], genders: list[str]) -> dict[str, Any]:
        given = [
            {"worker": n, "age": age, "gender": gender}
            for n, (age, gender) in enumerate(zip(ages, genders, strict=True))
        ]
        return {"region": [10, 20, 60, 70], "annotations": given}

    labels = {
        "7.jpg": {
            "caption": "people in a street",
            "0": person(["adult", "adult", "young"], ["female", "female", "male"]),
            "1": person(["adult", "senior", "unsure"], ["male", "male", "male"]),
            "2": person(["young", "young", "adult"], ["male", "male", "male"]),
            "3": person(["child", "adult", "unsure"], ["male", "male", "male"]),
            "4": {"annotations": []},
        }
    }
    file = tmp_path / "phase_gcc_val_all_20221101.json"
    file.write_text(json.dumps(labels))
    dataset = _load("phase", tmp_path)
    people = dataset.people
    assert people["subject_id"].tolist() == ["val/7.jpg/0", "val/7.jpg/1"]
    assert people["attr_age"].tolist() == [["adult"], []]  # a tie is no label
    assert people["attr_gender"].tolist() == [["female"], ["male"]]
    assert people.loc[0, ["box_x", "box_y", "box_w", "box_h"]].tolist() == [10, 20, 50, 50]
    assert people["n_people"].tolist() == [4, 4]
    assert "2 persons labelled as young were left out" in dataset.notes
    file.write_text(json.dumps({"7.jpg": {"0": {"region": [1], "annotations": []}}}))
    with pytest.raises(Fp2Error, match="malformed: ValueError"):
        _load("phase", tmp_path)


def test_wider_face(tmp_path: Path) -> None:
    _picture(tmp_path / "WIDER_val" / "images" / "0--Parade" / "0_Parade_1.jpg")
    _picture(tmp_path / "WIDER_val" / "images" / "9--Press_Conference" / "9_Press_2.jpg")
    lines = [
        "0--Parade/0_Parade_1.jpg",
        "3",
        "4 5 6 7 2 0 1 0 2 1",
        "1 1 9 9 0 1 0 0 0 0 ",
        "1 1 0 9 0 0 0 0 0 0",
        "9--Press_Conference/9_Press_2.jpg",
        "1",
        "1 1 5 5 0 0 0 1 0 0",
        "9--Press_Conference/nobody.jpg",
        "0",
        "0 0 0 0 0 0 0 0 0 0",
    ]
    labels = tmp_path / "wider_face_split" / "wider_face_val_bbx_gt.txt"
    labels.parent.mkdir()
    labels.write_text("\n".join(lines) + "\n")
    dataset = _load("wider_face", tmp_path)
    people = dataset.people
    assert len(people) == 2  # one face without area, one that is marked as invalid
    assert people.loc[0, ["face_x", "face_y", "face_w", "face_h"]].tolist() == [4, 5, 6, 7]
    assert math.isnan(people.loc[0, "box_x"])
    assert {name: people.loc[0, f"attr_{name}"] for name in ("blur", "illumination", "occlusion", "pose", "event")} == {
        "blur": ["heavy blur"],
        "illumination": ["extreme"],
        "occlusion": ["heavy"],
        "pose": ["atypical"],
        "event": ["Parade"],
    }
    assert people.loc[1, "attr_expression"] == ["exaggerated"]
    assert any("2 invalid faces" in note for note in dataset.notes)
    labels.write_text("0--Parade/0_Parade_1.jpg\n2\n4 5 6 7 2 0 1 0 2 1\n")
    with pytest.raises(Fp2Error, match="image 1 is malformed: the file ends"):
        _load("wider_face", tmp_path)


def test_celebamask_hq(tmp_path: Path) -> None:
    for n in range(2):
        _picture(tmp_path / "CelebA-HQ-img" / f"{n}.jpg")
    labels = tmp_path / "CelebAMask-HQ-attribute-anno.txt"
    labels.write_text("2\nMale Young Wearing_Hat\n0.jpg  -1  1 -1\n1.jpg   1 -1  1\n")
    people = _load("celebamask_hq", tmp_path).people
    assert people["attr_gender"].tolist() == [["Female"], ["Male"]]
    assert people["attr_young"].tolist() == [["yes"], ["no"]]
    assert people["attr_wearing_hat"].tolist() == [["no"], ["yes"]]
    assert people["image_id"].tolist() == ["CelebA-HQ-img/0.jpg", "CelebA-HQ-img/1.jpg"]
    labels.write_text("1\nMale Young\n0.jpg 1\n")
    with pytest.raises(Fp2Error, match="line 3 does not have 2 values"):
        _load("celebamask_hq", tmp_path)


def test_celeba_has_a_subject_for_each_identity(tmp_path: Path) -> None:
    for n in range(3):
        _picture(tmp_path / "img_align_celeba" / f"00000{n}.jpg")
    labels = tmp_path / "list_attr_celeba.txt"
    labels.write_text("3\nMale Young\n000000.jpg -1 1\n000001.jpg 1 -1\n000002.jpg -1 1\n")
    assert _load("celeba", tmp_path).people["subject_id"].nunique() == 3
    (tmp_path / "identity_CelebA.txt").write_text("000000.jpg 2880\n000001.jpg 17\n000002.jpg 2880\n")
    dataset = _load("celeba", tmp_path)
    assert dataset.people["subject_id"].tolist() == ["2880", "17", "2880"]
    assert dataset.people["attr_gender"].tolist() == [["Female"], ["Male"], ["Female"]]
    assert dataset.notes == ()


def test_casual_conversations_1(tmp_path: Path) -> None:
    labels = {
        "10": {"files": ["CC/0010/0010_00.MP4"], "label": {"age": "33", "gender": "Female", "skin-type": "3"}},
        "11": {"files": [], "label": {"age": "N/A", "gender": "N/A", "skin-type": "6"}},
        "12": {"files": [], "label": {"age": "17", "gender": "Male", "skin-type": "1"}},
    }
    (tmp_path / "CasualConversations.json").write_text(json.dumps(labels))
    for name in ("0010/0010_00_f1.jpg", "0010/0010_00_f2.jpg", "frames/0011_01_f1.jpg", "0012/a.jpg", "else/b.jpg"):
        _picture(tmp_path / "frames" / name)
    dataset = _load("casual_conversations", tmp_path)
    people = dataset.people
    assert people["subject_id"].tolist() == ["10", "10", "11"]
    assert people["attr_age"].tolist() == [["30-39"], ["30-39"], []]
    assert people["attr_skin_tone"].tolist() == [["III"], ["III"], ["VI"]]
    assert people["attr_gender"].tolist() == [["Female"], ["Female"], []]
    assert dataset.release == "1"
    assert MINOR in dataset.notes
    assert "1 frame of nobody in the labels was left out" in dataset.notes


def test_casual_conversations_2(tmp_path: Path) -> None:
    entry = {
        "video_name": "0001_portuguese_1.mp4",
        "subject_id": "0001",
        "age": "60",
        "gender": "cis woman",
        "monk_skin_tone": {"scale": "scale 5", "confidence": "high"},
        "geo_location": {"country": "brazil"},
        "fitzpatrick_skin_tone": {"type": "type iv", "confidence": "low"},
    }
    (tmp_path / "CasualConversationsV2.json").write_text(json.dumps([entry, entry]))
    _picture(tmp_path / "0001" / "frame.jpg")
    (row,) = _load("casual_conversations", tmp_path).people.to_dict("records")
    assert (row["attr_gender"], row["attr_age"], row["attr_skin_tone"]) == (["cis woman"], ["60+"], ["IV"])
    assert (row["attr_monk_skin_tone"], row["attr_location_country"]) == (["MST 05"], ["brazil"])
    (tmp_path / "0001").rename(tmp_path / "0002")
    with pytest.raises(Fp2Error, match="none of the images is a frame of a labelled subject"):
        _load("casual_conversations", tmp_path)


def _day(year: int, month: int) -> float:
    """Return MATLAB's day number."""
    return float(date(year, month, 1).toordinal() + 366)


def test_imdb_wiki(tmp_path: Path) -> None:
    names = ["01/nm01_rm1_1970-1-1_2000.jpg", "01/nm01_rm2_1970-1-1_2001.jpg", "02/nm02_rm3.jpg", "02/nm02_rm4.jpg"]
    columns = {
        "dob": np.array([_day(1970, 1), _day(1970, 9), _day(1990, 1), _day(1970, 1)]),
        "photo_taken": np.array([2000.0, 2000.0, 2001.0, 2000.0]),
        "full_path": np.array(names, dtype=object),
        "gender": np.array([0.0, 1.0, 1.0, np.nan]),
        "face_score": np.array([3.0, 4.0, 4.0, -np.inf]),
        "second_face_score": np.array([np.nan, 2.0, np.nan, np.nan]),
        "celeb_id": np.array([5.0, 5.0, 6.0, 6.0]),
    }
    savemat(tmp_path / "imdb.mat", {"imdb": columns})
    for name in names:
        _picture(tmp_path / name)
    dataset = _load("imdb_wiki", tmp_path)
    people = dataset.people
    assert people["subject_id"].tolist() == ["imdb/5", "imdb/5"]
    assert people["attr_gender"].tolist() == [["Female"], ["Male"]]
    assert people["attr_age"].tolist() == [["30-39"], ["18-29"]]  # 29 on 1 July
    assert people["n_people"].tolist() == [1, 2]
    assert MINOR in dataset.notes
    assert any("1 image without a detected face" in note for note in dataset.notes)
    (tmp_path / "imdb.mat").write_bytes(b"no MATLAB file")
    with pytest.raises(Fp2Error, match="the labels cannot be read"):
        _load("imdb_wiki", tmp_path)


@pytest.mark.parametrize(
    "name",
    ["coco", "facet", "miap", "phase", "wider_face", "celeba", "celebamask_hq", "casual_conversations", "imdb_wiki"],
)
def test_a_folder_without_labels_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(Fp2Error, match=r"(was not found|there are no).*data\.root") as caught:
        _load(name, tmp_path)
    assert "\n" not in str(caught.value)


def test_labels_without_their_images_are_refused(tmp_path: Path) -> None:
    _coco(tmp_path)
    (tmp_path / "val2017" / "000001.jpg").rename(tmp_path / "val2017" / "other.jpg")
    with pytest.raises(Fp2Error, match=r"none of their images, such as 000001\.jpg"):
        _load("coco", tmp_path)


def test_the_surveyed_data_sets_are_27_and_name_readers_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("datasets", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert len({row["name"] for row in rows}) == 27
    assert {row["name"] for row in rows if not row["read_by"]} == {
        row["name"] for row in rows if row["terms"] == "revoked"
    }
    assert {row["read_by"].removeprefix("data=") for row in rows if row["read_by"]} <= set(choices("data"))
    (fairface,) = [row for row in rows if row["name"] == "FairFace"]
    assert (fairface["images"], fairface["terms"], fairface["read_by"]) == ("108000", "CC BY 4.0", "data=fairface")
    assert fp2("datasets") == 0
    assert "Dollar Street" in capsys.readouterr().out
