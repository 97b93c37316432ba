"""Geometry is read when asked for, from the JSON beside an image or from a CSV cell, and both say the same."""

import json
from pathlib import Path

import numpy as np
import pytest
from fhibe_copy import EDGES, write_copy
from hypothesis import given
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.geometry import (
    Box,
    Keypoint,
    annotation_path,
    parse_keypoints,
    parse_segments,
    read_geometry,
)
from fp2.methods.fhibe_release.load import load_fhibe


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_copy(tmp_path_factory.mktemp("fhibe"))


def test_json_and_csv_say_the_same_of_each_person_of_a_pair(written):
    people = load_fhibe(written.root).people
    by_pair = {(cells["image_id"], cells["subject_id"]): cells for cells in written.rows}
    pairs = people[people["n_people"] == 2]
    assert len(pairs) == 6
    for row in pairs.itertuples():
        geometry = read_geometry(annotation_path(Path(row.image_path)), row.subject_id)
        cells = by_pair[row.image_id, row.subject_id]
        assert geometry.size == (24, 24)
        assert geometry.person_box == Box(row.box_x, row.box_y, row.box_w, row.box_h)
        assert geometry.face_box == Box(4, 4, 6, 6)
        assert geometry.keypoints == parse_keypoints(cells["keypoints"])
        assert set(geometry.keypoints) == set(vocab.KEYPOINTS)
        from_cell = parse_segments(cells["segments"])
        assert {name: len(parts) for name, parts in geometry.polygons.items()} == {"Face skin": 1, "Head hair": 2}
        for name, parts in geometry.polygons.items():
            for one, other in zip(parts, from_cell[name], strict=True):
                np.testing.assert_array_equal(one, other)


def test_keypoints_in_any_order_with_visibility():
    points = parse_keypoints(EDGES[5, "keypoints"])
    assert points == {"Mouth left": Keypoint(3.5, 2.0, True), "Nose": Keypoint(4.0, 1.5, False)}


def test_a_cell_beyond_the_csv_modules_limit(written):
    cell = written.rows[2]["segments"]
    assert len(cell) > 131_072
    (polygon,) = parse_segments(cell)["Face skin"]
    assert polygon.shape == (4000, 2)
    assert polygon.dtype == np.float64


@given(
    st.lists(
        st.tuples(
            st.sampled_from(vocab.SEGMENT_CLASSES),
            st.lists(st.tuples(*[st.floats(0, 4096)] * 2), min_size=3, max_size=6),
        ),
        max_size=5,
    )
)
def test_segments_survive_the_way_through_a_cell(parts):
    numbers: dict[str, int] = {}
    segments, expected = [], {}
    for name, vertices in parts:
        numbers[name] = numbers.get(name, 0) + 1
        polygon = [{"x": x, "y": y} for x, y in vertices]
        code = f"{vocab.SEGMENT_CLASSES.index(name)}. {name}"
        segments.append({"class_name": code, "num": numbers[name], "polygon": polygon})
        expected.setdefault(name, []).append(vertices)
    got = parse_segments(repr(segments[::-1]))
    assert {name: [polygon.tolist() for polygon in polygons] for name, polygons in got.items()} == {
        name: [[list(vertex) for vertex in vertices] for vertices in polygons] for name, polygons in expected.items()
    }


def test_empty_cells_are_nothing():
    assert parse_keypoints("") == {}
    assert parse_segments(" ") == {}


@pytest.mark.parametrize(
    ("parse", "cells"),
    [
        (parse_keypoints, ("{'0. Nose': [1, 2]}", "[1", "[1, 2]", "{'0. Nose': 'abc'}")),
        (
            parse_segments,
            ("[{'class_name': '0. Face skin'}]", "['a']", "[{", "7", "[{'class_name': 3, 'polygon': []}]"),
        ),
    ],
)
def test_broken_cells_are_named(parse, cells):
    for cell in cells:
        with pytest.raises(Fp2Error, match=parse.__name__.removeprefix("parse_")):
            parse(cell)


def test_missing_malformed_and_strangers_annotations_are_named(written, tmp_path):
    with pytest.raises(Fp2Error, match="cannot be read"):
        read_geometry(tmp_path / "none.json", "x")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(Fp2Error, match="cannot be read"):
        read_geometry(tmp_path / "bad.json", "x")
    with pytest.raises(Fp2Error, match="lacks this subject"):
        read_geometry(next(written.root.rglob("main_annos_*.json")), "x")
    broken = {"image_annotation": {}, "subject_annotation": [{"subject_id": "x", "face_bbox": [1, 2]}]}
    (tmp_path / "box.json").write_text(json.dumps(broken))
    with pytest.raises(Fp2Error, match="malformed"):
        read_geometry(tmp_path / "box.json", "x")
