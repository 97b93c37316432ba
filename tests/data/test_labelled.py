"""Published face data sets on synthetic copies of their formats (GRAS, FairFace, UTKFace), and folders of groups."""

from dataclasses import asdict
from pathlib import Path

import pytest
from PIL import Image

from fp2.compose import load_config
from fp2.cuts import resolve_cuts
from fp2.data.base import load_configured, without_minors
from fp2.data.readers.labelled import load_fairface, load_folders, load_gras, load_utkface
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.protocols.balance import balance_block, balance_warnings


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


@pytest.fixture
def gras(tmp_path) -> Path:
    root = tmp_path / "release"
    for name in ("FairFace/train/1.jpg", "FairFace/val/2.jpg", "AI-Face/imdb/3.jpg", "AI-Face/ffhq/4.png"):
        picture(root / "lists" / "selected_images" / name)
    (root / "lists/selected_images_fairface.csv").write_text(
        "file,age,gender,race,service_test\n"
        "FairFace/train/1.jpg,20-29,Female,Latino_Hispanic,True\nFairFace/val/2.jpg,60-69,Male,White,False\n"
    )
    (root / "lists/selected_images_aiface.csv").write_text(
        "file,Skin Tone\nAI-Face/imdb/3.jpg,10\nAI-Face/ffhq/4.png,2\n"
    )
    return root


def test_gras_is_two_sets_in_one(gras):
    dataset = load_gras(gras)
    people = dataset.people.set_index("image_id")
    assert dataset.name == "gras"
    assert people["subject_id"].tolist() == people.index.tolist()
    assert people["attr_subset"].tolist() == [["fairface"]] * 2 + [["aiface"]] * 2
    assert people["attr_gender"].tolist() == [["Female"], ["Male"], [], []]
    assert people["attr_race"].tolist() == [["Latino_Hispanic"], ["White"], [], []]
    assert people["attr_age"].tolist() == [["20-29"], ["60-69"], [], []]
    assert people["attr_skin_tone"].tolist() == [[], [], ["MST 10"], ["MST 02"]]
    assert all(Path(path).is_file() for path in people["image_path"])
    assert any("a subject of its own" in note for note in dataset.notes)
    assert any("cannot be checked" in note for note in dataset.notes)


def test_gras_from_the_config_with_the_cuts_of_the_paper(gras):
    config = load_config(["data=gras", f"data.root={gras}"])
    assert config.cut.each == ["gender", "race", "age", "skin_tone"]
    assert len(load_configured(config, Progress(quiet=True)).people) == 4
    assert load_config(["data=gras", f"data.root={gras}", "cut.by=[gender]"]).cut.by == ["gender"]


def full_gras(root: Path, per_cell: int = 1, drop: int = 0) -> Path:
    """The official lists' form in full: 70 cells of FairFace, ten tones of AI-Face."""
    races = ["Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White"]
    ages = ["20-29", "30-39", "40-49", "50-59", "60-69"]
    cells = [(a, g, r) for r in races for a in ages for g in ("Female", "Male") for _ in range(per_cell)]
    faces = [f"FairFace/train/{n}.jpg,{a},{g},{r},True" for n, (a, g, r) in enumerate(cells)][drop:]
    tones = [f"AI-Face/imdb/{n}.jpg,{1 + n % 10}" for n in range(10 * per_cell)]
    for line in faces[:1]:
        picture(root / line.split(",")[0])
    (root / "selected_images_fairface.csv").write_text("\n".join(["file,age,gender,race,service_test", *faces]))
    (root / "selected_images_aiface.csv").write_text("\n".join(["file,Skin Tone", *tones]))
    return root


def test_the_two_sets_of_gras_are_compared_apart_and_said_to_be_confounded(tmp_path):
    """Balanced within FairFace, nothing known of AI-Face beyond the tone: the notes and the balance table say so."""
    dataset = load_gras(full_gras(tmp_path, per_cell=2))
    cuts = resolve_cuts(asdict(load_config(["data=gras", f"data.root={tmp_path}"]).cut))
    groups = {cut.name: len(set(dataset.people[f"attr_{cut.name}"].explode().dropna())) for cut in cuts}
    assert groups == {"gender": 2, "race": 7, "age": 5, "skin_tone": 10}
    known = {name: dataset.people[f"attr_{name}"].map(bool) for name in groups}
    assert [int(known[name].sum()) for name in groups] == [140, 140, 140, 20]
    assert not (known["skin_tone"] & known["gender"]).any()
    assert any("not balanced for gender, age or race" in note for note in dataset.notes)
    assert not any("evenly" in note for note in dataset.notes)
    block = balance_block(dataset.people, cuts)
    assert {(e["attribute"], e["other"]): e["n_subjects"] for e in block}["skin_tone", "race"] == 0
    assert not any(entry["confounded"] for entry in block)
    told = balance_warnings(block)
    assert any(line.startswith("No subject's skin tone is known together with gender, race, age") for line in told)


def test_lists_that_are_not_balanced_are_reported(tmp_path):
    notes = load_gras(full_gras(tmp_path, drop=3)).notes
    assert "the images are not distributed evenly over gender x race x age: 0 to 1 in each of 70 cells" in notes


def test_an_image_folder_elsewhere(gras, tmp_path):
    (gras / "lists/selected_images").rename(tmp_path / "pictures")
    with pytest.raises(Fp2Error, match="none of their images"):
        load_gras(gras)
    assert len(load_gras(gras, tmp_path / "pictures").people) == 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("selected_images_aiface.csv", "file,tone\na.jpg,1\n", "lacks a column: Skin Tone"),
        ("selected_images_aiface.csv", "file,Skin Tone\na.jpg,11\n", "row 1 has the skin tone '11'"),
        ("selected_images_aiface.csv", "file,Skin Tone\n../a.jpg,1\n", "leads out of the image folder"),
        ("selected_images_aiface.csv", "file,Skin Tone\nFairFace/train/1.jpg,1\n", "listed twice"),
    ],
)
def test_broken_lists_are_one_line(gras, name, content, said):
    (gras / "lists" / name).write_text(content)
    with pytest.raises(Fp2Error, match=said) as caught:
        load_gras(gras)
    assert "\n" not in str(caught.value)


def test_a_list_that_is_not_there(gras):
    (gras / "lists/selected_images_aiface.csv").unlink()
    with pytest.raises(Fp2Error, match=r"selected_images_aiface\.csv was not found"):
        load_gras(gras)
    with pytest.raises(Fp2Error, match="does not exist"):
        load_gras(gras / "nowhere")


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
    for kind in ("gras", "fairface", "utkface", "folder", "hf", "fhibe"):
        with pytest.raises(Fp2Error, match=rf"data={kind} needs .*data\.root"):
            load_config([f"data={kind}"])
