"""GRAS's image lists, on a synthetic copy of their format."""

from dataclasses import asdict
from pathlib import Path

import pytest
from bench import load_config
from PIL import Image

from fp2.cuts import resolve_cuts
from fp2.data.base import load_configured
from fp2.errors import Fp2Error
from fp2.methods.gras.data import load_gras
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
        ("selected_images_aiface.csv", "file,tone\na.jpg,1\n", "lacks the column Skin Tone"),
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
