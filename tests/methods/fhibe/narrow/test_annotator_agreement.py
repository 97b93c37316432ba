"""Agreement of annotators: the measures by hand, alpha against Krippendorff's example, and a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotations import agreement_words, write_annotations

from fp2.app import main
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow.agreement import agreement, jaccard, krippendorff, read_labels, similarity
from fp2.methods.fhibe.narrow.predictions import Prediction, encode_mask
from fp2.methods.fhibe.narrow.truth import Person

# Krippendorff 2011, section C: four observers, twelve units, "." is missing; nominal alpha is 0.743.
_EXAMPLE = ("1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 .")


def test_alpha_is_krippendorffs_in_his_example() -> None:
    columns = zip(*(row.split() for row in _EXAMPLE), strict=True)
    units = [[frozenset({value}) for value in column if value != "."] for column in columns]
    assert krippendorff(units) == pytest.approx(0.743, abs=0.0005)
    assert krippendorff([[frozenset("a"), frozenset("a")]]) is None  # nothing varies
    assert krippendorff([[frozenset("a")], [frozenset("b")]]) is None  # no pair
    assert krippendorff([[frozenset("a")] * 2, [frozenset("b")] * 2]) == 1.0


def test_alpha_is_0_on_average_if_annotators_answer_at_random() -> None:
    rng = np.random.default_rng(0)
    found = [
        krippendorff([[frozenset({str(v)}) for v in rng.integers(0, 3, 3)] for _ in range(80)]) for _ in range(200)
    ]
    assert abs(np.mean(found)) < 0.01  # type: ignore[arg-type]


def test_sets_shapes_and_pairs_by_hand() -> None:
    assert jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert jaccard((), ()) == 1.0
    assert agreement([{"a"}, {"a"}, {"b"}], jaccard) == pytest.approx(1 / 3)
    assert agreement([{"a"}], jaccard) is None
    box = similarity("face_box", {}, ("i", "s"))
    assert box(Prediction("i", box=(0, 0, 4, 4)), Prediction("i", box=(2, 0, 4, 4))) == pytest.approx(8 / 24)
    mask = np.zeros((2, 3, 4), dtype=bool)
    mask[0, 0], mask[1, 0, :2] = True, True
    dice = similarity("person_mask", {}, ("i", "s"))
    first, second = (Prediction("i", mask=encode_mask(one)) for one in mask)
    assert dice(first, second) == pytest.approx(2 * 2 / (4 + 2))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_annotations(tmp_path_factory.mktemp("annotated"))


def test_a_group_on_which_annotators_disagree_is_found(world: Path, own_root: Path) -> None:
    files = [f"task.files.labels={world / 'labels.csv'}", f"task.files.person_box={world / 'boxes.json'}"]
    assert main(agreement_words(world, own_root, *files, "report.figures=false")) == 0
    results: Any = json.loads(next(own_root.glob("outputs/**/results.json")).read_text())
    box, hair = results["annotator_agreement"]["outcomes"]
    assert (box["n_annotators"], hair["n_annotators"], hair["n_compared"]) == (2, 3, 60)
    assert box["mean"] == pytest.approx((1 + 200 / 600) / 2)
    assert hair["alpha"] is not None
    assert hair["alpha"] < hair["mean"] < 1.0
    rows = {(row["probe"], row["cut"]): row for row in results["disparities"]}
    for probe in ("person_box", "hair"):
        assert (rows[probe, "group"]["worst_group"], rows[probe, "group"]["verdict"]) == ("b", "biased")
    page = next(own_root.glob("outputs/**/dashboard.html")).read_text()
    assert "Krippendorff" in page
    assert "does the agreement depend on the group?" in page


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["image_id", "hair"], ["p0.png", "x"]], "no column 'annotator'"),
        ([["image_id", "annotator"], ["p0.png", "a"]], "no column of an attribute"),
        ([["image_id", "annotator", "hair"], ["p0.png", "", "x"]], "annotator is missing"),
        ([["image_id", "annotator", "hair"], *[["p0.png", "a", "x"]] * 2], "has annotated 'p0.png' twice"),
        ([["image_id", "annotator", "subject_id", "hair"], ["p0.png", "a", "z", "x"]], "'z' is not in image 'p0.png'"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, rows: list[list[str]], said: str) -> None:
    with (tmp_path / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
    with pytest.raises(Fp2Error, match=said) as caught:
        read_labels(tmp_path / "labels.csv", [Person("p0.png", "s0", Path("p0.png"), 1)], {})
    assert "\n" not in str(caught.value)


def test_annotations_of_others_only_are_no_result(
    world: Path, own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_root / "labels.csv").write_text("image_id,annotator,hair\nelsewhere,a,x\n")
    assert main(agreement_words(world, own_root, f"task.files.labels={own_root / 'labels.csv'}")) != 0
    assert "no person has two annotations" in capsys.readouterr().err
