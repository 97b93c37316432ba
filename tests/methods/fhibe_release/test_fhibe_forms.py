"""Full resolution and face crops: the same people as in the downsampled table, read from other files."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fhibe_copy import VERSION, WRAPPED, Copy, write_annotation, write_copy, write_csv, write_fullres

from fp2.data.sampling import limit_images, single_person
from fp2.errors import Fp2Error
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.geometry import annotation_path, read_geometry
from fp2.methods.fhibe_release.load import find_release, load_fhibe, read_release


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Copy:
    return write_copy(tmp_path_factory.mktemp("downsampled"))


@pytest.fixture
def full(tmp_path) -> Copy:
    return write_fullres(tmp_path / "full", n_subjects=9, n_pairs=2)


def annotations(copy: Copy) -> list[Path]:
    return sorted(copy.root.rglob("main_annos_*.json"))


def change(path: Path, change_entry) -> None:
    annotation = json.loads(path.read_text())
    for entry in annotation["subject_annotation"]:
        change_entry(entry)
    path.write_text(json.dumps(annotation))


def test_full_resolution_says_the_same_of_everybody_as_the_processed_table(tmp_path, whole):
    """The same seed makes the same people; only the files that say so differ."""
    full = write_fullres(tmp_path)
    assert not (full.root / "data/processed").exists()
    left, right = load_fhibe(whole.root), load_fhibe(tmp_path)
    assert right.release == VERSION
    assert right.settings["form"] == "fullres"
    assert right.notes == ()
    order = ["image_id", "subject_id"]
    one = left.people.sort_values(order, ignore_index=True)
    other = right.people.sort_values(order, ignore_index=True)
    assert set(one.columns) == set(other.columns)
    pd.testing.assert_frame_equal(one.drop(columns="image_path"), other[one.columns].drop(columns="image_path"))
    assert all(Path(path).is_file() for path in other["image_path"])
    assert {Path(path).relative_to(full.root).parts[:3] for path in other["image_path"]} == {
        ("data", "raw", "fhibe_fullres")
    }


@pytest.mark.parametrize("place", [".", WRAPPED, f"{WRAPPED}/data/raw/fhibe_fullres"])
def test_full_resolution_is_found_from_near_by(full, tmp_path, place):
    release = find_release(tmp_path / "full" / place)
    assert (release.root, release.form, release.version) == (full.root, "fullres", VERSION)


def test_the_downsampled_release_is_preferred_and_the_other_can_be_asked_for(tmp_path):
    one, other = write_copy(tmp_path), write_fullres(tmp_path)
    assert find_release(tmp_path).root == one.root
    assert find_release(tmp_path, "fullres").root == other.root


def test_what_the_annotations_lack_comes_from_the_processed_table(full, tmp_path):
    expected = load_fhibe(full.root).people
    for path in annotations(full):
        change(path, lambda entry: [entry.pop(name) for name in ("age", "ancestry", "hairstyle")])
    with pytest.raises(Fp2Error, match=r"lack the fields age, ancestry .*data\.path=FILE"):
        load_fhibe(full.root)
    table = tmp_path / "processed.csv"
    write_csv(table, full.rows[::-1], list(vocab.DOWNSAMPLED_HEADER))
    got = read_release(find_release(full.root), fallback=table).people
    pd.testing.assert_frame_equal(got[expected.columns], expected)
    full.save()  # the same table inside the release is found without being named
    pd.testing.assert_frame_equal(load_fhibe(full.root, "fullres").people[expected.columns], expected)


def test_one_incomplete_and_one_broken_annotation_are_counted(full):
    n_images = len({row["image_id"] for row in full.rows})
    incomplete, broken = (full.annotation(full.rows[number]["image_id"]) for number in (0, 1))
    change(incomplete, lambda entry: entry.pop("age"))
    broken.write_text("{")
    loaded = load_fhibe(full.root)
    assert loaded.people["image_id"].nunique() == n_images - 1
    assert loaded.people["attr_age"].iloc[0] == []
    assert any(note.startswith("1 annotation file could not be read") for note in loaded.notes)
    assert any(note.startswith("1 annotation lacks some of the required fields") for note in loaded.notes)


def test_full_resolution_that_cannot_be_read_is_one_line(full):
    listed = list(csv.DictReader(full.files_path.open()))
    write_csv(full.files_path, listed, ["uid", "img"])
    with pytest.raises(Fp2Error, match=r"lacks the column json"):
        load_fhibe(full.root)
    write_csv(full.files_path, [{**listed[0], "img": "../../../secret.png"}], ["uid", "img", "json"])
    with pytest.raises(Fp2Error, match="leads out of the release"):
        load_fhibe(full.root)
    write_csv(full.files_path, listed, ["uid", "img", "json"])
    for path in annotations(full):
        path.write_text("not json")
    with pytest.raises(Fp2Error, match="none of the annotations can be read"):
        load_fhibe(full.root)


def test_unknown_fields_and_labels_of_annotations_are_reported(full):
    rows = [dict(full.rows[0], hairstyle="19. Mullet", brand_new="x")]
    write_annotation(full, rows)
    notes = "\n".join(load_fhibe(full.root).notes)
    assert "were ignored: brand_new" in notes
    assert "'19. Mullet'" in notes


def test_aligned_faces_are_images_of_their_own(whole):
    loaded = load_fhibe(whole.root, "face_aligned")
    people = loaded.people
    assert loaded.notes == ()
    assert list(people["image_id"]) == [face["image_id"] for face in whole.faces]
    assert all(Path(path).name.startswith("faces_crop_and_align_") for path in people["image_path"])
    assert all(Path(path).is_file() for path in people["image_path"])
    crops = sorted(whole.root.rglob("faces_crop_and_align_*.png"))
    places = np.random.default_rng(42).choice(len(crops), size=5, replace=False)
    drawn = {crops[place].name for place in places}
    assert {Path(path).name for path in limit_images(people, 5, seed=42)[0]["image_path"]} == drawn
    assert people["box_x"].isna().all()
    by_pair = {f"{row['image_id']}_{row['subject_id']}": row for row in whole.rows}
    whole_people = load_fhibe(whole.root).people
    tones = dict(
        zip(whole_people["image_id"] + "_" + whole_people["subject_id"], whole_people["attr_skin_tone"], strict=True)
    )
    assert [tones[image] for image in people["image_id"]] == list(people["attr_skin_tone"])
    assert all(by_pair[image]["subject_id"] == subject for image, subject in people[["image_id", "subject_id"]].values)


def test_unaligned_faces_exist_for_more_people_and_lie_beside_the_images(whole):
    loaded = load_fhibe(whole.root, "face_unaligned")
    assert len(loaded.people) == len(whole.rows) - 1
    assert loaded.notes == ("1 row has no face crop",)
    assert all(Path(path).name.startswith("faces_crop_only_") for path in loaded.people["image_path"])
    assert all(Path(path).is_file() for path in loaded.people["image_path"])


def test_faces_of_two_person_images_are_flagged_and_left_out_of_single_person_probes(whole):
    pairs = {row["image_id"] for row in whole.rows if row["is_primary"] == "False"}
    for form in ("face_aligned", "face_unaligned"):
        people = load_fhibe(whole.root, form).people
        of_pairs = people["image_id"].str.split("_").str[0].isin(pairs)
        assert of_pairs.sum() == 6
        assert (people["n_people"] == of_pairs.map({True: 2, False: 1})).all()
        kept, _ = single_person(people)
        assert len(kept) == len(people) - 6


def test_a_crops_annotation_is_found_and_read(whole):
    for form in ("face_aligned", "face_unaligned"):
        row = load_fhibe(whole.root, form).people.iloc[0]
        path = annotation_path(Path(row["image_path"]))
        assert path.is_file()
        assert read_geometry(path, row["subject_id"]).polygons == {}


def test_a_second_person_without_consent_still_counts_as_being_in_the_image(tmp_path):
    copy = write_copy(tmp_path, n_subjects=8, n_pairs=1)
    copy.rows[-1]["consent"] = "False"
    copy.save()
    people = load_fhibe(copy.root).people
    left = people[people["image_id"] == copy.rows[-1]["image_id"]]
    assert list(left["n_people"]) == [2]


def test_a_bare_region_counts_for_all_its_subregions_where_that_is_asked_for(whole):
    listed, papers = load_fhibe(whole.root), load_fhibe(whole.root, expand_regions=True)
    assert listed.people["attr_subregion"].iloc[0] == []
    assert papers.people["attr_subregion"].iloc[0] == [
        "Northern Africa",
        "Eastern Africa",
        "Middle Africa",
        "Southern Africa",
        "Western Africa",
    ]
    both = papers.people["attr_subregion"].iloc[1]  # Asia with Southern Asia, and Europe alone
    assert both == ["Southern Asia", "Eastern Europe", "Northern Europe", "Southern Europe", "Western Europe"]
    assert list(papers.people["attr_region"]) == list(listed.people["attr_region"])
    assert (listed.settings["bare_region"], papers.settings["bare_region"]) == ("listed only", "all its subregions")
