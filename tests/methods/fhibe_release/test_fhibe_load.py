"""Reading a release: every edge that the real format has, and every way a copy of it can be broken."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from fhibe_copy import FOLDER, VERSION, Copy, csv_bytes, write_copy

from fp2.errors import Fp2Error
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.load import REQUIRED, find_release, load_fhibe
from fp2.tables import PEOPLE


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Copy:
    return write_copy(tmp_path_factory.mktemp("fhibe"))


@pytest.fixture(scope="module")
def loaded(written):
    return load_fhibe(written.root)


@pytest.fixture
def copy(tmp_path) -> Copy:
    """A small copy that a test may break."""
    return write_copy(tmp_path, n_subjects=8, n_pairs=1)


def row(people: pd.DataFrame, number: int) -> pd.Series:
    return people.iloc[number]


def test_one_row_per_person_in_an_image_with_the_schemas_types(written, loaded):
    people = loaded.people
    assert len(people) == len(written.rows)
    assert list(people.columns[: len(PEOPLE.names)]) == PEOPLE.names
    assert people["is_primary"].dtype == bool
    assert people["n_people"].dtype == "int64"
    assert people["box_w"].dtype == "float64"
    assert people["set_id"].isna().all()
    assert list(people["subject_id"]) == [cells["subject_id"] for cells in written.rows]
    assert loaded.release == VERSION
    assert loaded.notes == ()


def test_every_attribute_is_what_the_csv_says(written, loaded):
    """Oracle: cells taken apart by hand, without the reader."""
    for column in ("weather", "facial_marks", "action_subject_object_interaction", "lighting"):
        for cells, got in zip(written.rows, loaded.people[f"attr_{column}"], strict=True):
            assert got == [part.split(". ", 1)[1] for part in cells[column][2:-2].split("', '")]
    for column in ("camera_position", "action_body_pose", "scene"):
        for cells, got in zip(written.rows, loaded.people[f"attr_{column}"], strict=True):
            assert got == [cells[column].split(". ", 1)[1]]


def test_edges_of_pronoun_ancestry_age_and_skin(loaded):
    people = loaded.people
    assert row(people, 0)["attr_pronoun"] == ["She/her/hers", "They/them/their"]
    assert (row(people, 0)["attr_region"], row(people, 0)["attr_subregion"]) == (["Africa"], [])
    assert row(people, 1)["attr_region"] == ["Asia", "Europe"]
    assert row(people, 1)["attr_subregion"] == ["Southern Asia"]
    assert [row(people, n)["attr_age"] for n in range(5)] == [["18-29"], ["18-29"], ["30-39"], ["60+"], ["60+"]]
    assert [row(people, n)["attr_skin_tone"] for n in range(6)] == [["VI"], ["V"], ["IV"], ["III"], ["II"], ["I"]]
    assert row(people, 0)["attr_apparent_skin_tone"] == ["I"]
    assert [row(people, n)["attr_pronoun"] for n in (2, 3, 4)] == [
        ["Ze/zir/zirs"],
        ["None of the above"],
        ["Prefer not to say"],
    ]
    assert row(people, 4)["attr_apparent_hair_color"] == ["White", "Gray"]
    assert row(people, 3)["attr_hairstyle"] == ["Free-text"]
    assert row(people, 3)["attr_natural_hair_type"] == ["Free-text"]
    assert row(people, 5)["attr_scene"] == ["Outdoor: Houses, cabins, gardens, and farms"]


def test_free_text_places_survive(loaded):
    people = loaded.people
    assert row(people, 1)["attr_location_region"] == ["NA"]
    assert row(people, 2)["attr_location_region"] == ["Ñuñoa, Región Metropolitana"]
    assert row(people, 1)["attr_location_country"] == ["Pakistan"]
    assert row(people, 1)["attr_location_un_region"] == ["Asia"]
    assert row(people, 1)["attr_location_un_subregion"] == ["Southern Asia"]
    assert row(people, 2)["attr_location_country"] == ["Vietnam"]
    assert row(people, 6)["attr_location_country"] == row(people, 6)["attr_location_un_region"] == []


def test_two_person_images_are_two_rows_of_one_image(written, loaded):
    pairs = loaded.people[loaded.people["n_people"] == 2]
    assert len(pairs) == 6
    assert (pairs.groupby("image_id")["is_primary"].sum() == 1).all()
    assert (pairs.groupby("image_id")["image_path"].nunique() == 1).all()
    second = pairs[~pairs["is_primary"]].iloc[0]
    assert Path(second["image_path"]).parent.parent.name != second["subject_id"]
    assert (loaded.people["subject_id"] == second["subject_id"]).sum() > 1


def test_images_are_the_main_ones_never_overlays_or_crops(written, loaded):
    names = {Path(path).name for path in loaded.people["image_path"]}
    assert names == {f"main_{cells['image_id']}.png" for cells in written.rows}
    assert len(list(written.root.rglob("*.png"))) > 4 * len(names)
    assert all(Path(path).is_file() for path in loaded.people["image_path"])


def test_boxes_are_x_y_width_height(loaded):
    assert loaded.people[["box_x", "box_y", "box_w", "box_h"]].drop_duplicates().to_numpy().tolist() == [[2, 3, 18, 20]]


@pytest.mark.parametrize("place", [".", "data", "data/processed", ".."])
def test_the_release_is_found_from_near_by(written, place):
    found = find_release(written.root / place)
    assert (found.root.resolve(), found.version) == (written.root.resolve(), VERSION)


def test_the_release_is_found_inside_a_wrapping_folder(written, tmp_path):
    (tmp_path / "download" / "wrapped").mkdir(parents=True)
    (tmp_path / "download" / "wrapped" / FOLDER).symlink_to(written.root, target_is_directory=True)
    assert find_release(tmp_path).version == VERSION


def test_a_renamed_folder_has_no_version_and_says_so(copy, tmp_path):
    renamed = copy.root.rename(tmp_path / "mine")
    loaded = load_fhibe(renamed)
    assert loaded.release is None
    assert any("no FHIBE version" in note for note in loaded.notes)


def test_missing_folder_file_and_empty_folder(tmp_path):
    with pytest.raises(Fp2Error, match="does not exist"):
        load_fhibe(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(Fp2Error, match="is not a folder"):
        load_fhibe(tmp_path / "file")
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    with pytest.raises(Fp2Error, match=r"looked for data/processed/fhibe_downsampled/fhibe_downsampled\.csv") as caught:
        load_fhibe(tmp_path / "a" / "b" / "c" / "d")
    assert "\n" not in str(caught.value)


def test_the_required_columns_are_enough(copy):
    copy.save(list(REQUIRED))
    loaded = load_fhibe(copy.root)
    assert loaded.people["box_x"].isna().all()
    assert any("absent: " in note and "hairstyle" in note for note in loaded.notes)


def test_columns_in_another_order_and_unknown_ones_do_no_harm(copy):
    before = load_fhibe(copy.root).people
    for cells in copy.rows:
        cells["brand_new"] = "x"
    copy.save([*reversed(vocab.DOWNSAMPLED_HEADER), "brand_new"])
    loaded = load_fhibe(copy.root)
    pd.testing.assert_frame_equal(loaded.people[before.columns], before)
    assert any("were ignored: brand_new" in note for note in loaded.notes)


def test_set_id_is_kept(copy):
    copy.rows[0]["set_id"] = "set-1"
    copy.save([*vocab.DOWNSAMPLED_HEADER, "set_id"])
    people = load_fhibe(copy.root).people
    assert people["set_id"].iloc[0] == "set-1"
    assert people["set_id"].iloc[1:].isna().all()


def test_unknown_labels_are_kept_and_noted(copy):
    copy.rows[0]["hairstyle"] = "19. Mullet"
    copy.rows[1]["weather"] = "['6. Clear', '9. Sandstorm']"
    copy.rows[2]["natural_skin_color"] = "9. [1, 2, 3]"
    copy.rows[3]["nationality"] = "['171. Saint Lucian']"
    copy.save()
    loaded = load_fhibe(copy.root)
    assert loaded.people["attr_hairstyle"].iloc[0] == ["Mullet"]
    assert loaded.people["attr_weather"].iloc[1] == ["Clear", "Sandstorm"]
    assert loaded.people["attr_skin_tone"].iloc[2] == []
    assert loaded.people["attr_nationality"].iloc[3] == ["Saint Lucian"]
    notes = "\n".join(loaded.notes)
    assert "'19. Mullet'" in notes
    assert "'9. Sandstorm'" in notes
    assert "'9. [1, 2, 3]'" in notes
    assert "Saint Lucian" not in notes


@pytest.mark.parametrize("age", ["", "unknown", "nan", "inf"])
def test_an_age_without_a_group_is_no_value_and_noted(copy, age):
    copy.rows[0]["age"] = age
    copy.save()
    loaded = load_fhibe(copy.root)
    assert loaded.people["attr_age"].iloc[0] == []
    assert any(note.startswith("column age: 1 value") for note in loaded.notes)


def test_withdrawn_consent_repeats_and_bad_boxes_are_counted(copy):
    n_rows = len(copy.rows)
    copy.rows[0]["consent"] = "False"
    copy.rows[1]["person_bbox"] = "[1, 2, 3]"
    copy.rows[2]["person_bbox"] = ""
    copy.rows.append(dict(copy.rows[3]))
    copy.save()
    loaded = load_fhibe(copy.root)
    assert len(loaded.people) == n_rows - 1
    assert copy.rows[0]["image_id"] not in set(loaded.people["image_id"])
    assert loaded.people["box_x"].isna().sum() == 2
    notes = "\n".join(loaded.notes)
    assert "1 row without consent" in notes
    assert "1 repeated" in notes
    assert "1 person box" in notes


def with_cell(column, cell):
    """Return what puts a cell into the first row of a copy."""

    def damage(copy):
        copy.rows[1][column] = cell
        copy.save()

    return damage


def cut_off(copy):
    text = copy.csv_path.read_bytes()
    copy.csv_path.write_bytes(text[: text.rindex(b"main_annos_")])


LACKING = [name for name in vocab.DOWNSAMPLED_HEADER if name not in {"age", "pronoun"}]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (with_cell("image_id", ""), "row 2"),
        (with_cell("is_primary", "perhaps"), "neither True nor False"),
        (with_cell("filepath", "../../secret.png"), "leads out"),
        (with_cell("filepath", "/etc/passwd"), "leads out"),
        (cut_off, "cells, the header has 74"),
        (lambda copy: copy.save(LACKING), r"lacks the columns age, pronoun"),
        (lambda copy: copy.csv_path.write_bytes(b""), "lacks the column"),
        (lambda copy: copy.csv_path.write_bytes(b"\xff\xfe\x00bad"), "cannot be read"),
        (lambda copy: copy.csv_path.write_bytes(csv_bytes([list(REQUIRED)])), "has no rows"),
        (
            lambda copy: copy.csv_path.unlink(),
            r"found FHIBE as face_aligned.*data\.form=face_aligned",
        ),
        (lambda copy: shutil.rmtree(copy.root / "data/raw"), "found, but not its images"),
        (
            lambda copy: shutil.copytree(copy.root, copy.root.parent / FOLDER.replace("2099", "2098")),
            "found 2 FHIBE releases",
        ),
    ],
)
def test_a_damaged_copy_is_refused_in_one_line(copy, tmp_path, damage, said):
    damage(copy)
    with pytest.raises(Fp2Error, match=said) as caught:
        load_fhibe(tmp_path)
    assert "\n" not in str(caught.value)


def test_one_missing_image_is_no_reason_to_stop(copy):
    next((copy.root / "data/raw").rglob("main_[0-9a-f]*.png")).unlink()
    assert len(load_fhibe(copy.root).people) == len(copy.rows)
