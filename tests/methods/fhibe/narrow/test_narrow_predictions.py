"""The user's prediction files: every form, JSON and Parquet, and one clear line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pycocotools.mask import decode

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import model_outputs
from fp2.methods.fhibe.narrow.tasks import narrow_task

GOOD: dict[str, dict[str, Any]] = {
    "person_detection": {"image_id": "i", "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5},
    "face_detection": {"image_id": "i", "bbox": [1, 2, 3, 4]},
    "person_segmentation": {"image_id": "i", "segmentation": {"size": [2, 2], "counts": [1, 3]}},
    "pose_estimation": {"image_id": "i", "keypoints": [1.0, 2.0, 0.9] * 17},
    "face_verification": {"image_id": "i", "subject_id": "s", "embedding": [0.1, 0.2]},
    "face_parsing": {"image_id": "i", "parsing": "map.png"},
    "face_reconstruction": {"image_id": "i", "image": "map.png", "lpips": 0.2},
    "face_super_resolution": {"image_id": "i", "psnr": 30},
    "body_part_detection": {"image_id": "i", "subject_id": "s", "parts": {"Face": 0.9, "Left arm skin": 0.0}},
}


def read_predictions(path: Path, task: Any) -> Any:
    """Of a file in our own form: no image has to be recognised by its path."""
    return model_outputs.read_predictions(path, task, [])


def _write(folder: Path, entries: Any, name: str = "predictions.json") -> Path:
    Image.new("L", (4, 4)).save(folder / "map.png")
    path = folder / name
    path.write_text(json.dumps(entries))
    return path


@pytest.mark.parametrize("name", GOOD)
def test_every_form_is_read_from_json_and_parquet(tmp_path: Path, name: str) -> None:
    entry, task = GOOD[name], narrow_task(name)
    path = _write(tmp_path, {"task": name, "predictions": [entry]})
    table = {key: [json.dumps(value) if isinstance(value, dict) else value] for key, value in entry.items()}
    pq.write_table(pa.table(table), tmp_path / "predictions.parquet")
    for one in (*read_predictions(path, task), *read_predictions(tmp_path / "predictions.parquet", task)):
        assert (one.image_id, one.score) == ("i", entry.get("score", 1.0))
        assert one.subject_id == entry.get("subject_id")
        assert one.box == (tuple(entry["bbox"]) if "bbox" in entry else None)
        if "keypoints" in entry:
            assert one.keypoints is not None
            assert one.keypoints.tolist() == [[1.0, 2.0]] * 17
        if "segmentation" in entry:
            assert one.mask is not None
            assert decode(one.mask).tolist() == [[0, 1], [1, 1]]
        assert dict(one.parts) == entry.get("parts", {})
        assert (one.file is not None) == ("map.png" in entry.values())
        assert dict(one.numbers) == {key: float(entry[key]) for key in ("lpips", "psnr") if key in entry}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("person_detection", {"image_id": None}, "image_id is missing"),
        ("person_detection", {"bbox": [1, 2, 3]}, "bbox has 3 numbers, not 4"),
        ("person_detection", {"bbox": [9, 9, -3, 4]}, "not two corners"),
        ("person_detection", {"bbox": [1, 2, float("nan"), 4]}, "not finite"),
        ("person_detection", {"bbox": "left"}, "bbox cannot be read as JSON"),
        ("person_detection", {"score": "high"}, "score is 'high', not a number"),
        ("person_detection", {"category_id": 3}, "category_id is 3, not 1 (person)"),
        ("pose_estimation", {"category_id": 0}, "category_id is 0, not 1 (person)"),
        ("person_segmentation", {"segmentation": {"size": [2, 2], "counts": [9]}}, "do not fill 2 x 2 pixels"),
        ("person_segmentation", {"segmentation": "nothing.png"}, "names a missing file: 'nothing.png'"),
        ("person_segmentation", {"segmentation": None}, "segmentation is missing"),
        ("pose_estimation", {"keypoints": [1, 2, 3]}, "keypoints has 3 numbers, not 51"),
        ("face_verification", {"embedding": [1]}, "embedding has 1 number"),
        ("face_parsing", {"parsing": None}, "parsing is missing"),
        ("face_reconstruction", {"image": None, "lpips": None}, "image is missing"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_and_where(
    tmp_path: Path, name: str, change: dict[str, Any], said: str
) -> None:
    path = _write(tmp_path, [GOOD[name], {**GOOD[name], **change}])
    with pytest.raises(Fp2Error) as caught:
        read_predictions(path, narrow_task(name))
    line = str(caught.value)
    assert said in line
    assert "predictions.json, entry 2" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "face_detection", "predictions": []}, "predictions of 'face_detection', not of 'person_detection'"),
        ({"entries": []}, "no list of predictions"),
        ([], "has no predictions"),
        (["x"], "an entry is not an object"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(Fp2Error, match=said):
        read_predictions(_write(tmp_path, given), narrow_task("person_detection"))
    with pytest.raises(Fp2Error, match="cannot be read"):
        read_predictions(tmp_path / "nothing.parquet", narrow_task("person_detection"))


def test_a_keypoint_that_was_not_found_may_be_null(tmp_path: Path) -> None:
    entry = {"image_id": "i", "keypoints": [None, None, 0] + [1, 2, 1] * 16}
    (one,) = read_predictions(_write(tmp_path, [entry]), narrow_task("pose_estimation"))
    assert one.keypoints is not None
    assert np.isnan(one.keypoints[0]).all()
    assert np.isfinite(one.keypoints[1:]).all()
