"""FairFace and UTKFace on synthetic copies of their formats."""

from pathlib import Path

import pytest
from PIL import Image

from fp2.compose import load_config
from fp2.data.base import without_minors
from fp2.errors import Fp2Error
from fp2.methods.public_sets.faces import load_causalface, load_fairface, load_utkface


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


def test_fairface_both_splits_without_children(tmp_path):
    for name in ("train/1.jpg", "train/2.jpg", "val/1.jpg"):
        picture(tmp_path / "fairface-img-margin025-trainval" / name)
    header = "file,age,gender,race,service_test\n"
    (tmp_path / "fairface_label_train.csv").write_text(
        f"{header}train/1.jpg,more than 70,Male,East Asian,True\ntrain/2.jpg,3-9,Female,Black,False\n"
    )
    (tmp_path / "fairface_label_val.csv").write_text(f"{header}val/1.jpg,30-39,Female,Middle Eastern,False\n")
    dataset = without_minors(load_fairface(tmp_path))
    people = dataset.people.set_index("image_id")
    assert people.index.tolist() == ["train/1.jpg", "val/1.jpg"]
    assert people["attr_age"].tolist() == [["70+"], ["30-39"]]
    assert people["attr_race"].tolist() == [["East Asian"], ["Middle Eastern"]]
    assert people["attr_split"].tolist() == [["train"], ["val"]]
    assert dataset.notes[-1].startswith("1 image of people who are, or may be, below 18")


def test_utkface_reads_names_and_counts_what_it_cannot_read(tmp_path):
    for name in (
        "part1/26_1_2_20170116182225123.jpg.chip.jpg",
        "part1/110_0_4_20170110182225123.jpg",
        "part2/17_0_0_20170110182225123.jpg",
        "part2/39_1_20170116174525125.jpg",
        "part2/61_3_20170109150557335.jpg",
    ):
        picture(tmp_path / name)
    (tmp_path / "part1" / "notes.txt").write_text("x")
    dataset = without_minors(load_utkface(tmp_path))
    people = dataset.people.set_index("image_id")
    assert people["attr_gender"].tolist() == [["Male"], ["Female"]]
    assert people["attr_race"].tolist() == [["Others"], ["Asian"]]
    assert people["attr_age"].tolist() == [["60+"], ["18-29"]]
    assert any("2 images without a label in the name" in note for note in dataset.notes)
    assert dataset.notes[-1].startswith("1 image of people who are, or may be, below 18")
    with pytest.raises(Fp2Error, match="named like UTKFace"):
        load_utkface(tmp_path / "part1" / "..").people.empty or load_utkface(_empty(tmp_path))


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def test_the_folder_has_to_be_given():
    for kind in ("fairface", "utkface", "hf"):
        with pytest.raises(Fp2Error, match=rf"data={kind} needs .*data\.root"):
            load_config([f"data={kind}"])


def test_causalface_sets_differ_in_race_and_gender(tmp_path):
    smiling, age = tmp_path / "final_picked_smiling" / "seed_7", tmp_path / "final_picked_age" / "seed_7"
    for name in ("_o2", "_o2_corrected", "_o2_rm_bg"):
        picture(smiling / f"asian_female_smiling_-0.5{name}.png")
    picture(smiling / "black_male_smiling_-0.5_o2.png")
    picture(age / "white_male_age_0.8_o2.png")
    people = load_causalface(tmp_path).people.set_index("image_id")
    assert people["set_id"].to_dict() == {
        "final_picked_smiling/seed_7/asian_female_smiling_-0.5_o2_corrected.png": "smiling/seed_7/-0.5",
        "final_picked_smiling/seed_7/black_male_smiling_-0.5_o2.png": "smiling/seed_7/-0.5",
        "final_picked_age/seed_7/white_male_age_0.8_o2.png": "age/seed_7/0.8",
    }
    assert people["subject_id"].unique().tolist() == ["seed_7"]
    assert people.iloc[-1][["attr_race", "attr_gender", "attr_changed", "attr_level"]].tolist() in (
        [["white"], ["male"], ["age"], ["0.8"]],
        [["black"], ["male"], ["smiling"], ["-0.5"]],
    )
    assert len(without_minors(load_causalface(tmp_path)).people) == 3  # a level is no age
    with pytest.raises(Fp2Error, match="no image is named like CausalFace's"):
        load_causalface(tmp_path / "gone")
