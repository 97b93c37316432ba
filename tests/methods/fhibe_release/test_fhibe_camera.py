"""Attributes of the camera: classes of numbers, one spelling of a manufacturer, and what may not leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from fhibe_copy import write_copy, write_fullres

from fp2.cuts import Cut, check_publishable
from fp2.data.pixels import dataset_digest
from fp2.errors import Fp2Error
from fp2.methods.fhibe_release.attributes import camera_attributes
from fp2.methods.fhibe_release.load import load_fhibe
from fp2.store.salted_keys import shareable


@pytest.mark.parametrize(
    ("column", "cell", "name", "value"),
    [
        ("manufacturer", "samsung", "camera_manufacturer", ["Samsung"]),
        ("manufacturer", "SAMSUNG\x00\x00", "camera_manufacturer", ["Samsung"]),
        ("manufacturer", "htc", "camera_manufacturer", ["HTC"]),
        ("model", "  Phone  7 ", "camera_model", ["Phone 7"]),
        ("iso_speed_ratings", "160.0", "iso", ["100 to 200"]),
        ("iso_speed_ratings", "50", "iso", ["up to 100"]),
        ("iso_speed_ratings", "6400", "iso", ["over 1600"]),
        ("focal_length", "4.25", "focal_length", ["up to 5 mm"]),
        ("focal_length", "85.0", "focal_length", ["over 70 mm"]),
        ("aperture_value", "1.69", "aperture", ["1 to 2"]),
        ("shutter_speed_value", "6.9", "shutter", ["6 to 8"]),
        ("shutter_speed_value", "1/60", "shutter", ["0 to 2"]),
        ("shutter_speed_value", "-1.5", "shutter", ["-2 to 0"]),
        ("shutter_speed_value", "1/0", "shutter", []),
        ("iso_speed_ratings", "", "iso", []),
        ("manufacturer", "", "camera_manufacturer", []),
    ],
)
def test_a_cell_becomes_a_class(column: str, cell: str, name: str, value: list[str]) -> None:
    assert camera_attributes({column: cell}) == {name: value}


def test_a_release_in_both_forms_has_them_and_its_digest_does_not(tmp_path: Path) -> None:
    copy = write_copy(tmp_path)
    people = load_fhibe(copy.root).people
    assert people["attr_camera_manufacturer"].iloc[0] == ["Maker"]
    assert people["attr_camera_manufacturer"].iloc[7] == people["attr_aperture"].iloc[7] == []
    assert people["attr_user_date_captured"].iloc[0] == ["May-2023"]
    assert "attr_iso" not in people  # no row has one
    pixels = dict.fromkeys(people["image_id"], "0")
    changed = people.assign(attr_aperture=[["2 to 3"]] * len(people))
    assert dataset_digest(changed, pixels) == dataset_digest(people, pixels)
    full = load_fhibe(write_fullres(tmp_path / "full").root).people
    assert full["attr_camera_manufacturer"].iloc[0] == ["Maker"]


@pytest.mark.package(name="fhibe")
def test_the_model_and_the_month_do_not_leave_and_no_camera_predicts_unasked(tmp_path: Path) -> None:
    from fp2.methods.fhibe.scores.features import chosen_attributes, predictors

    copy = write_copy(tmp_path)
    for row in copy.rows:
        row["model"] = "Phone 7"
    copy.save()
    people = load_fhibe(copy.root).people
    every = chosen_attributes(people, ("all",))
    assert {"aperture", "camera_manufacturer", "hairstyle", "location_un_region", "user_hour_captured"} <= set(every)
    hidden = {"camera_model", "user_date_captured", "location_country"}
    assert not hidden & set(every)
    assert not {"aperture", "camera_manufacturer", "user_hour_captured", *hidden} & set(predictors(people, ()))
    with pytest.raises(Fp2Error, match="'camera_model' must not leave the data folder"):
        check_publishable([Cut("camera_model", ("camera_model",))])
    check_publishable([Cut("aperture", ("aperture",)), Cut("hour", ("user_hour_captured",))])
    leaving = set(shareable(people, b"salt" * 8))
    assert "attr_aperture" in leaving
    assert not {f"attr_{name}" for name in hidden} & leaving
