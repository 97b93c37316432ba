"""Features of an image: computed by hand for a drawn annotation, cached, missing where there is no annotation."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fp2.data.base import people_table
from fp2.methods.fhibe.scores import features
from fp2.methods.fhibe.scores.features import NUMBERS, measure, predictors

PIXELS = ["brightness", "contrast", "figure_ground", "face_brightness", "sharpness"]


def people(folder: Path) -> pd.DataFrame:
    """One annotated image of 100 x 50: the left half black, a person box over the left 40, a face box inside."""
    pixels = np.zeros((50, 100, 3), dtype=np.uint8)
    pixels[:, 50:] = 255
    Image.fromarray(pixels).save(folder / "main_a.png")
    square = [{"x": 0, "y": 0}, {"x": 10, "y": 0}, {"x": 10, "y": 10}, {"x": 0, "y": 10}]
    subject = {
        "subject_id": "s",
        "person_bbox": [0, 0, 40, 50],
        "face_bbox": [10, 0, 20, 25],
        "keypoints": {"0. Nose": [20, 10, 1], "1. Right eye inner": [18, 8, 0], "5. Left eye": [22, 8, 1]},
        "segments": [
            {"class_name": "0. Face skin", "num": 1, "polygon": square},
            {"class_name": "17. Headwear", "num": 1, "polygon": square},
        ],
    }
    note = {"image_annotation": {"image_width": 100, "image_height": 50}, "subject_annotation": [subject]}
    (folder / "main_annos_a.json").write_text(json.dumps(note), encoding="utf-8")
    return people_table(
        {
            "image_id": ["a", "b"],
            "subject_id": ["s", "t"],
            "image_path": [str(folder / "main_a.png"), str(folder / "main_b.png")],
            "is_primary": [True, True],
            "n_people": [1, 2],
            "attr_natural_hair_color": [["Black"], []],
            "attr_apparent_hair_color": [["Black"], []],
            "attr_location_country": [["X"], []],
            "attr_pronoun": [["She/her/hers"], []],
        }
    )


def test_numbers_by_hand(tmp_path: Path) -> None:
    row = measure(people(tmp_path)).iloc[0]
    expected = {
        "visible_keypoints": 2,
        "bald": 1,
        "visible_hair": 0,
        "headwear": 1,
        "eyewear": 0,
        "facial_skin": 0.2,
        "box_share": 0.4,
        "box_aspect": 0.8,
        "face_share": 0.5,
        "image_aspect": 2,
        "people_in_picture": 1,
        "brightness": 0,
        "contrast": 0,
        "sharpness": 0,
        "face_brightness": 0,
        "figure_ground": 50 / 60,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    table = measure(people(tmp_path))
    assert list(table) == list(NUMBERS)
    assert table.iloc[1].drop("people_in_picture").isna().all()
    assert measure(people(tmp_path), pixels=False)[PIXELS].isna().all(axis=None)


def test_pixels_are_measured_once_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = features.pixel_numbers
    monkeypatch.setattr(features, "pixel_numbers", lambda *given: opened.append(given[0]) or real(*given))
    table, memory = people(tmp_path).iloc[:1], sqlite3.connect(":memory:")
    first = measure(table, memory)
    pd.testing.assert_frame_equal(measure(table, memory), first)
    assert len(opened) == 1
    Image.new("RGB", (100, 50), "white").save(tmp_path / "main_a.png")
    os.utime(tmp_path / "main_a.png", ns=(1, 1))
    assert measure(table, memory)["brightness"].iloc[0] == 1
    assert len(opened) == 2


def test_predictors_leave_out_place_copies_and_the_sensitive(tmp_path: Path) -> None:
    assert predictors(people(tmp_path), ["pronoun"]) == ["apparent_hair_color"]
