"""Stimuli: the right image, changed in the right region, or a reason and no image at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw

from fp2.config import VariantConfig
from fp2.data.pixels import PixelDigest, digest_image, open_rgb
from fp2.data.readers.table import load_table
from fp2.data.sampling import single_person
from fp2.data.stimuli import Stimulus, make_stimuli
from fp2.errors import Fp2Error
from fp2.methods.peeps.data.source import load_peeps
from fp2.methods.peeps.data.spec import PeepsSpec
from fp2.tables import BY_REGION, HIDES_PERSON, VARIANT_PARAMETERS

VALUES: dict[str, Any] = {"size": 16, "seed": 3, "radius": 20.0, "margin": 0.25}


def variant(kind: str, **values: Any) -> VariantConfig:
    return VariantConfig(kind, kind, **({name: VALUES[name] for name in VARIANT_PARAMETERS[kind]} | values))


def digests(people: pd.DataFrame) -> dict[Path, PixelDigest]:
    return {Path(path): digest_image(Path(path)) for path in people["image_path"]}


@pytest.fixture(scope="module")
def peeps(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    spec = PeepsSpec(n_subjects=5, images_per_subject=2, n_pairs=0)
    return single_person(load_peeps(tmp_path_factory.mktemp("peeps"), spec).people)[0]


def show(people: pd.DataFrame, kind: str, folder: Path = Path("unused"), **values: Any) -> list[Stimulus]:
    return make_stimuli(people, variant(kind, **values), digests(people), folder)


def look(shown: Stimulus) -> np.ndarray:
    assert shown.error is None, shown.error
    image = open_rgb(shown.path)
    return np.asarray(shown.change(image) if shown.change else image).astype(int)


def drawn_region(row: Any) -> np.ndarray:
    """The union of a drawn person's segments, painted by Pillow from the annotation as it lies on the disk."""
    path = Path(row.image_path)
    (entry,) = json.loads(path.with_name(path.stem.replace("main_", "main_annos_") + ".json").read_text())[
        "subject_annotation"
    ]
    mask = Image.new("L", Image.open(path).size)
    for segment in entry["segments"]:
        ImageDraw.Draw(mask).polygon([(point["x"], point["y"]) for point in segment["polygon"]], fill=255)
    return np.asarray(mask) > 0


# --- drawn people ---


def test_the_person_and_only_the_person_is_changed(peeps: pd.DataFrame) -> None:
    kinds = {kind: show(peeps, kind) for kind in ("original", "masked", "blurred", "background_removed")}
    for place, row in list(enumerate(peeps.itertuples()))[::3]:
        before, black, soft, alone = (look(shown[place]) for shown in kinds.values())
        inside = drawn_region(row)
        blank = (black == 0).all(axis=2) & (before != 0).any(axis=2)
        assert 0.15 < inside.mean() < 0.85
        assert (blank & ~inside).mean() < 0.01  # Pillow draws outlines half a pixel wider than the centre rule
        assert (black[inside] != 0).mean() < 0.01
        assert (np.abs(soft - before).max(axis=2)[~inside] > 0).mean() < 0.02
        gradient = np.abs(np.diff(soft, axis=1)).max(axis=2)[inside[:, 1:] & inside[:, :-1]]
        assert np.percentile(gradient, 95) < 8  # the drawing's own lines are steps of a hundred and more
        assert np.array_equal(black + alone, before)


def test_crops_hold_the_face_and_the_person(peeps: pd.DataFrame) -> None:
    face, person, tight = show(peeps, "face_crop"), show(peeps, "person_crop"), show(peeps, "person_crop", margin=0.0)
    for place, row in enumerate(peeps.itertuples()):
        assert look(face[place]).size < look(person[place]).size
        left, top, right, bottom = tight[place].params["corners"]
        assert (left, top) == (int(row.box_x), int(row.box_y))
        assert right - left == pytest.approx(row.box_w, abs=2)
        assert look(tight[place]).shape == (bottom - top, right - left, 3)
        inside = drawn_region(row)
        inside[max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = False
        assert not inside.any()


def test_an_annotation_that_changes_after_planning_is_refused(peeps: pd.DataFrame, tmp_path: Path) -> None:
    from shutil import copytree

    row = peeps.iloc[[0]]
    moved = copytree(Path(row["image_path"].iloc[0]).parent, tmp_path / "copy")
    row = row.assign(image_path=str(moved / Path(row["image_path"].iloc[0]).name))
    (shown,) = show(row, "masked")
    look(shown)
    path = next(moved.glob("main_annos_*.json"))
    annotation = json.loads(path.read_text())
    annotation["subject_annotation"][0]["segments"][0]["polygon"][0]["x"] += 1
    path.write_text(json.dumps(annotation))
    with pytest.raises(Fp2Error, match="has changed"):
        look(shown)
    assert show(row, "masked")[0].params != shown.params
    path.unlink()
    with pytest.raises(Fp2Error, match="has changed") as told:
        look(shown)
    assert str(tmp_path) not in str(told.value)


def edit(path: Path, change: Any) -> None:
    annotation = json.loads(path.read_text())
    change(annotation)
    path.write_text(json.dumps(annotation))


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("masked", lambda a: a["subject_annotation"][0].update(segments=[], person_bbox=None), "do not locate"),
        ("masked", lambda a: a["image_annotation"].update(image_width=99), "of an image of 99 x 384"),
        ("masked", lambda a: a["subject_annotation"].clear(), "lacks this subject"),
        ("masked", lambda a: a.clear(), "cannot be read"),
        ("face_crop", lambda a: a["subject_annotation"][0].update(face_bbox=None), "do not locate the face"),
        ("face_crop", lambda a: a["subject_annotation"][0].update(face_bbox=[900, 0, 5, 5]), "outside the image"),
    ],
)
def test_without_a_region_there_is_a_reason_and_no_image(
    peeps: pd.DataFrame, tmp_path: Path, kind: str, change: Any, reason: str
) -> None:
    from shutil import copytree

    row = peeps.iloc[[0]].assign(box_x=np.nan)
    moved = copytree(Path(row["image_path"].iloc[0]).parent, tmp_path / "copy")
    row = row.assign(image_path=str(moved / Path(row["image_path"].iloc[0]).name))
    edit(next(moved.glob("main_annos_*.json")), change)
    (shown,) = show(row, kind)
    assert reason in (shown.error or "")
    assert shown.change is None
    assert str(tmp_path) not in (shown.error or "")
    assert row["image_id"].iloc[0] not in (shown.error or "")


@pytest.mark.parametrize("kind", VARIANT_PARAMETERS)
def test_the_simulator_is_reported_what_is_shown(peeps: pd.DataFrame, kind: str, tmp_path: Path) -> None:
    shown = show(peeps, kind, tmp_path)
    originals = {one.image_id: one.attributes for one in show(peeps, "original")}
    for one in shown:
        assert dict(one.attributes) == ({} if kind in HIDES_PERSON else originals[one.image_id])
    assert all(one.variant == ("original" if kind == "swapped" else kind) for one in shown)
    assert (kind in BY_REGION) == all(one.change is not None for one in shown)
    own = list(zip(peeps["image_id"], peeps["subject_id"], strict=True))
    if kind in ("blind", "grey", "swapped"):
        assert not [pair for pair, one in zip(own, shown, strict=True) if one.subject_id == pair[1]]
    else:
        assert own == [(one.image_id, one.subject_id) for one in shown]


# --- the user's own table ---

COLUMNS = {"image": "file", "subject": "who", "gender": "sex"}
BOX = {f"{what}_{side}": f"{what}{side}" for what in ("box", "face") for side in "xywh"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(2).integers(1, 255, (30, 40, 3), dtype=np.uint8)
    rows = []
    for name in ("a", "b", "c"):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        rows.append({"file": f"{name}.png", "who": name, "sex": "f", "m": f"{name}_mask.png"})
        rows[-1] |= dict(zip(BOX.values(), (5, 6, 10, 12, 7, 8, 4, 4), strict=True))
    mask = np.zeros((30, 40), dtype=np.uint8)
    mask[10:20, 10:30] = 1
    Image.fromarray(mask).save(tmp_path / "a_mask.png")
    Image.new("L", (40, 30)).save(tmp_path / "b_mask.png")
    rows[1]["facew"] = ""
    rows[2]["boxx"] = rows[2]["m"] = ""
    pd.DataFrame(rows).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def test_a_tables_boxes_and_masks_say_where_the_person_is(folder: Path) -> None:
    people = load_table(folder / "people.csv", {**COLUMNS, **BOX, "mask": "sex", "person_mask": "m"}).people
    assert people["attr_mask"].tolist() == [["f"]] * 3  # the attribute of that name is free for use
    assert [name for name in people if name.startswith("attr_")] == ["attr_gender", "attr_mask"]
    masked = show(people, "masked")
    black = (look(masked[0]) == 0).all(axis=2)
    assert black.sum() == 200
    assert black[10:20, 10:30].all()
    assert [one.error for one in masked[1:]] == [
        "the mask is empty",
        "the data do not locate the person: no polygons, mask or box",
    ]
    faces = show(people, "face_crop", margin=0.0)
    assert look(faces[0]).shape == (4, 4, 3)
    assert [bool(one.error) for one in faces] == [False, True, False]
    by_box = show(load_table(folder / "people.csv", {**COLUMNS, **BOX}).people, "background_removed")
    assert (look(by_box[0]) != 0).all(axis=2).sum() == 120
    assert by_box[0].params["region"] == "box"
    from_mask = load_table(folder / "people.csv", {**COLUMNS, "person_mask": "m"}).people
    assert show(from_mask, "person_crop", margin=0.0)[0].params["corners"] == [10, 10, 30, 20]


def test_the_box_can_be_painted_where_the_data_have_polygons(peeps: pd.DataFrame) -> None:
    people = peeps.iloc[:3]
    by_polygon, by_box = show(people, "masked"), show(people, "masked", region="box")
    alone, soft = show(people, "background_removed", region="box"), show(people, "blurred", region="box")
    for place, row in enumerate(people.itertuples()):
        before = look(show(people, "original")[place])
        inside = np.zeros(before.shape[:2], dtype=bool)
        top, left = int(np.floor(row.box_y)), int(np.floor(row.box_x))
        inside[top : int(np.ceil(row.box_y + row.box_h)), left : int(np.ceil(row.box_x + row.box_w))] = True
        black = look(by_box[place])
        assert (black[inside] == 0).all()
        assert (black[~inside] == before[~inside]).all()
        assert (look(alone[place])[~inside] == 0).all()
        assert (look(alone[place])[inside] == before[inside]).all()
        assert (look(soft[place])[~inside] == before[~inside]).all()
        assert inside.sum() > (look(by_polygon[place]) != before).any(axis=2).sum()
        assert by_box[place].params == {
            "version": 1,
            "region": "box",
            "box": [row.box_x, row.box_y, row.box_w, row.box_h],
        }
        assert by_polygon[place].params["region"] == "polygons"


def test_a_mask_that_cannot_be_used_is_a_reason(folder: Path) -> None:
    columns = {**COLUMNS, "person_mask": "m"}
    Image.new("L", (4, 3), 255).save(folder / "a_mask.png")
    (folder / "b_mask.png").write_bytes(b"no picture")
    first, second, _ = show(load_table(folder / "people.csv", columns).people, "masked")
    assert first.error == "the mask has 4 x 3 pixels, the image 40 x 30"
    assert (second.error or "").startswith("the mask cannot be read")
    assert str(folder) not in (second.error or "")


def test_a_mask_that_changes_after_planning_is_refused(folder: Path) -> None:
    shown = show(load_table(folder / "people.csv", {**COLUMNS, "person_mask": "m"}).people, "masked")[0]
    for spoil in (
        lambda path: Image.new("L", (40, 30), 255).save(path),
        lambda path: path.unlink(),
    ):
        spoil(folder / "a_mask.png")
        with pytest.raises(Fp2Error, match="has changed") as told:
            look(shown)
        assert str(folder) not in str(told.value)


def test_masks_stay_on_this_machine(folder: Path) -> None:
    from fp2.store.salted_keys import shareable

    people = load_table(folder / "people.csv", {**COLUMNS, "person_mask": "m"}).people
    assert str(folder) in people["mask_path"].iloc[0]
    assert str(folder) not in shareable(people, b"salt").to_csv()


def test_slips_in_the_boxes_of_a_table(folder: Path) -> None:
    with pytest.raises(Fp2Error, match="box_h is not given"):
        load_table(folder / "people.csv", {**COLUMNS, **{k: v for k, v in BOX.items() if k != "box_h"}})
    with pytest.raises(Fp2Error, match="not a number of pixels"):
        load_table(folder / "people.csv", {**COLUMNS, **BOX, "box_h": "sex"})


def test_an_image_that_cannot_be_read_stays_a_reason_in_every_variant(folder: Path, tmp_path: Path) -> None:
    people = load_table(folder / "people.csv", {**COLUMNS, **BOX}).people
    (folder / "b.png").write_bytes(b"no picture")
    for kind in ("original", "masked", "face_crop"):
        assert "cannot be read" in (show(people, kind)[1].error or "")
    swapped = show(people, "swapped")
    assert [bool(one.error) for one in swapped] == [one.image_id == "b.png" for one in swapped]
    assert not any(one.error for kind in ("blind", "grey") for one in show(people, kind, tmp_path))
