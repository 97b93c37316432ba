"""The data set on disk: same seed same bytes, in FHIBE's format, built once, and gone when it is not complete."""

import ast
import csv
import json
from collections import Counter

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from PIL import Image

from fp2.data.readers.table import AGE_GROUPS
from fp2.data.sampling import two_person
from fp2.errors import Fp2Error
from fp2.hashing import sha256_file
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.geometry import parse_keypoints
from fp2.methods.fhibe_release.load import load_fhibe
from fp2.methods.peeps.data.build import build_peeps
from fp2.methods.peeps.data.cast import plan_images
from fp2.methods.peeps.data.source import ensure_peeps, load_peeps, planned_peeps
from fp2.methods.peeps.data.spec import MANIFEST, TWIN_ATTRIBUTES, PeepsSpec

SMALL = PeepsSpec(seed=5, n_subjects=12, images_per_subject=1, n_pairs=3, size=96)
TWINS = PeepsSpec(seed=5, kind="twins", n_sets=2, size=96)
csv.field_size_limit(10**7)


def files(root):
    return {path.relative_to(root).as_posix(): sha256_file(path) for path in root.rglob("*") if path.is_file()}


def table(root, name="fhibe_downsampled"):
    text = (root / "data" / "processed" / name / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines())), text


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return build_peeps(tmp_path_factory.mktemp("peeps"), SMALL, workers=1)


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    cache = tmp_path_factory.mktemp("twins")
    return load_peeps(cache, TWINS), ensure_peeps(cache, TWINS)


def test_the_same_seed_gives_the_same_bytes_whatever_draws_them(root, tmp_path):
    assert files(build_peeps(tmp_path, SMALL, workers=2)) == files(root)


def test_another_seed_gives_other_people_and_another_folder():
    other = PeepsSpec(seed=6, n_subjects=12, images_per_subject=1, n_pairs=3, size=96)
    assert other.folder() != SMALL.folder()
    assert {picture.image_id for picture in plan_images(other)}.isdisjoint(p.image_id for p in plan_images(SMALL))
    assert PeepsSpec(seed=6, n_sets=3).folder() == PeepsSpec(seed=6).folder()


def test_cells_are_written_as_the_release_writes_them(root):
    rows, _ = table(root)
    for row in rows:
        assert ast.literal_eval(row["ancestry"])[0] in {
            "0. Africa",
            "6. Americas",
            "11. Asia",
            "17. Europe",
            "22. Oceania",
        }
        index, colour = row["natural_skin_color"].split(". ", 1)
        assert tuple(ast.literal_eval(colour)) == vocab.SKIN_RGB[int(index)]
        assert row["apparent_skin_color"] == row["natural_skin_color"]
        assert 18 <= int(row["age"]) <= 75
        for column in (name for name, own in vocab.VOCABULARIES.items() if own.multi):
            values = ast.literal_eval(row[column]) if row[column] else []
            assert values == sorted(set(values))
        points = ast.literal_eval(row["keypoints"])
        assert list(points) == sorted(points)
        assert all(key.split(". ")[1] in vocab.KEYPOINTS[:11] and value[2] == 1 for key, value in points.items())
        shapes = ast.literal_eval(row["segments"])
        order = [(shape["class_name"], shape["num"]) for shape in shapes]
        assert order == sorted(order)
        assert all(set(shape) == {"class_name", "num", "polygon"} for shape in shapes)
        assert all(0 <= vertex["x"] <= 96 and 0 <= vertex["y"] <= 96 for s in shapes for vertex in s["polygon"])
        for empty in ("location_country", "manufacturer", "weather", "lighting", "nationality", "user_date_captured"):
            assert row[empty] == ""


def test_pairs_have_two_rows_one_region_and_the_primary_s_folder(root):
    rows, _ = table(root)
    pairs = [row for row in rows if sum(other["image_id"] == row["image_id"] for other in rows) == 2]
    assert len(pairs) == 6
    for image_id in {row["image_id"] for row in pairs}:
        both = [row for row in pairs if row["image_id"] == image_id]
        assert sorted(row["is_primary"] for row in both) == ["False", "True"]
        assert len({row["ancestry"] for row in both}) == 1
        assert len({row["subject_id"] for row in both}) == 2
        primary = next(row["subject_id"] for row in both if row["is_primary"] == "True")
        assert all(f"/{primary}/" in row["filepath"] for row in both)
        folder = (root / both[0]["filepath"]).parent
        assert all((folder / f"faces_crop_only_{image_id}_{row['subject_id']}.png").is_file() for row in both)
    singles = {row["subject_id"] for row in rows if row not in pairs}
    assert {row["subject_id"] for row in pairs} <= singles


def test_face_rows_are_512_pixels_with_eyes_and_mouth_inside(root):
    rows, _ = table(root, "fhibe_face_crop_align")
    assert rows
    for row in rows:
        assert row["image_id"].endswith(f"_{row['subject_id']}")
        assert Image.open(root / row["filepath"]).size == (512, 512)
        points = parse_keypoints(row["keypoints"])
        assert {"Right eye", "Left eye", "Mouth right", "Mouth left"} <= set(points)
        assert all(0 <= point.x < 512 and 0 <= point.y < 512 for point in points.values())
        pixels = np.asarray(Image.open(root / row["filepath"]).convert("L")).astype(int)
        eye = points["Right eye"]
        around = pixels[int(eye.y) - 14 : int(eye.y) + 15, int(eye.x) - 14 : int(eye.x) + 15]
        assert around.min() < 60
        assert (root / row["json_path"]).is_file()


def test_the_loader_reads_the_attributes_that_were_drawn(tmp_path):
    spec = PeepsSpec(seed=11, n_subjects=27, images_per_subject=2, n_pairs=2, size=64)
    data = load_peeps(tmp_path, spec)
    drawn = {
        (picture.image_id, person.subject_id): person for picture in plan_images(spec) for person in picture.people
    }
    people = data.people
    assert data.name == "peeps"
    assert data.release == "fhibe.20260101.t.PEEPS001"
    assert "drawings" in data.notes[0]
    assert len(people) == len(drawn) == 58
    assert Counter(people["n_people"]) == {1: 54, 2: 4}
    tones, regions = ("I", "II", "III", "IV", "V", "VI"), ("Africa", "Americas", "Asia", "Europe", "Oceania")
    pronouns, ages = ("She/her/hers", "He/him/his", "They/them/their"), AGE_GROUPS
    for row in people.itertuples():
        cues = drawn[row.image_id, row.subject_id].cues
        assert row.attr_skin_tone == [tones[cues.skin]]
        assert row.attr_region == [regions[cues.region]]
        assert row.attr_pronoun == [pronouns[cues.pronoun]]
        assert row.attr_age == [ages[cues.age]]
    assert people["box_w"].notna().all()
    assert people["set_id"].isna().all()


def test_twins_change_one_attribute_and_nothing_else(twins):
    data, root = twins
    attributes = [name for name in data.people.columns if name.startswith("attr_")]
    sizes = {"skin_tone": 6, "age": 5, "pronoun": 3, "region": 5}
    assert data.people["set_id"].nunique() == 2 * len(TWIN_ATTRIBUTES)
    changed_with = {"skin_tone": {"apparent_skin_tone"}, "region": set()}
    changed_with["age"] = {"natural_hair_color", "apparent_hair_color", "natural_facial_haircolor"}
    changed_with["age"] |= {"apparent_facial_haircolor"}
    hair = {"hairstyle", "natural_hair_type", "apparent_hair_type", "natural_hair_color", "apparent_hair_color"}
    changed_with["pronoun"] = hair
    for set_id, group in data.people.groupby("set_id"):
        attribute = set_id.rsplit("-", 1)[0]
        assert len(group) == sizes[attribute]
        assert group["subject_id"].nunique() == 1
        varying = {name.removeprefix("attr_") for name in attributes if group[name].map(tuple).nunique() > 1}
        assert attribute in varying
        assert varying - {attribute} <= changed_with[attribute]
        assert group[f"attr_{attribute}"].map(tuple).nunique() == sizes[attribute]
    rows, _ = table(root)
    assert all(row["set_id"].startswith(row["set_attribute"]) for row in rows)


def test_it_is_drawn_once_and_read_afterwards(twins, tmp_path):
    calls = []
    spec = PeepsSpec(seed=1, kind="twins", n_sets=1, size=64)
    root = ensure_peeps(tmp_path, spec, lambda done, total: calls.append((done, total)))
    assert calls[-1] == (19, 19)
    before = files(root)
    assert ensure_peeps(tmp_path, spec, lambda *_: pytest.fail("drawn again")) == root
    assert files(root) == before
    assert json.loads((root / MANIFEST).read_text())["n_pictures"] == 19


def test_an_interrupted_build_leaves_nothing_and_the_next_one_is_complete(tmp_path):
    spec = PeepsSpec(seed=2, kind="twins", n_sets=1, size=64)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_peeps(tmp_path, spec, interrupt)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    (tmp_path / f".{spec.folder()}.building" / "half").mkdir(parents=True)  # as a killed process leaves it
    assert len(load_peeps(tmp_path, spec).people) == 19


def test_mistakes_are_said_in_one_line(root, tmp_path):
    with pytest.raises(Fp2Error, match="exists already"):
        build_peeps(root.parent, SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(Fp2Error, match="cannot be written"):
        build_peeps(tmp_path / "file", SMALL)
    for wrong in ({"n_subjects": 0}, {"size": 10}, {"kind": "animals"}, {"n_subjects": 3, "n_pairs": 2}):
        with pytest.raises(Fp2Error):
            PeepsSpec(**wrong)


def test_the_people_are_known_before_they_are_drawn(root, twins):
    files = ["image_path", "box_x", "box_y", "box_w", "box_h"]
    for spec, drawn in ((SMALL, load_fhibe(root).people), (TWINS, twins[0].people)):
        planned = planned_peeps(spec).people
        assert_frame_equal(planned.drop(columns=files), drawn.drop(columns=files))
        assert two_person(planned)[0]["side"].tolist() == two_person(drawn)[0]["side"].tolist()
