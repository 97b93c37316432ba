"""Runs of `task=fhibe_narrow`: predictions whose error depends on skin tone, and predictions without a difference."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fp2.app import main
from fp2.errors import Fp2Error
from fp2.plugins import read_options
from fp2.protocols.narrow.tasks import NarrowOptions, given_files

TONES = ("I", "II", "III", "IV", "V", "VI")
SIDE, BOX = 40, (8.0, 6.0, 20.0, 30.0)
PROBE = "person_detection / detector"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """144 subjects with two images each; the boxes of the detector are less exact the darker the skin is."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)).save(folder / "image.png")
    said, lines = [], []
    for number in range(144):
        tone = number % 6
        for shot in range(2):
            name = f"p{number}_{shot}.png"
            (folder / name).write_bytes((folder / "image.png").read_bytes())
            pronoun = ("She/her/hers", "He/him/his")[number // 6 % 2]
            lines.append([name, f"s{number}", TONES[tone], pronoun, *BOX])
            moved = BOX[0] + 0.7 * tone + abs(rng.normal(0, 0.4))
            said.append({"image_id": name, "bbox": [moved, *BOX[1:]], "score": 0.9})
            said.append({"image_id": name, "bbox": [30.0, 30.0, 5.0, 5.0], "score": 0.95})  # something else
    with (folder / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "person", "tone", "pronoun", "x", "y", "w", "h"], *lines])
    (folder / "detector.json").write_text(json.dumps({"task": "person_detection", "predictions": said}))
    blind = [entry for entry in said if entry["score"] == 0.95]
    (folder / "blind.json").write_text(json.dumps(blind))
    return folder


def _words(world: Path, root: Path, *more: str) -> list[str]:
    columns = "image: image, subject: person, skin_tone: tone, pronoun: pronoun, box_x: x, box_y: y, box_w: w, box_h: h"
    return [
        "task=fhibe_narrow", "data=table", f"data.path={world / 'people.csv'}", f"data.columns={{{columns}}}",
        "cut.each=[skin_tone,pronoun]", "analysis.permutations=999", "analysis.bootstrap=50", "tracking=none",
        f"paths.root={root}", f"paths.state={root / 'state'}", *more,
    ]  # fmt: skip


def _results(root: Path) -> Any:
    (path,) = root.glob("outputs/**/results.json")
    return json.loads(path.read_text())


def test_a_detector_that_fails_with_darker_skin_is_found(world: Path, own_root: Path) -> None:
    assert main(_words(world, own_root, f"task.files.person_detection={world / 'detector.json'}")) == 0
    results = _results(own_root)
    (outcome,) = results["fhibe_narrow"]["outcomes"]
    assert outcome["probe"] == PROBE
    assert (outcome["n_judged"], outcome["n_found"], outcome["measurable"]) == (288, 288, True)
    rows = {row["cut"]: row for row in outcome["benchmark"]["rows"]}
    assert rows["skin_tone"]["published"]["worst"] == "VI"
    assert rows["skin_tone"]["published"]["best"] == "I"
    assert rows["skin_tone"]["ours"]["verdict"] == "biased"
    assert rows["pronoun"]["published"] is None  # drawn without it
    assert rows["pronoun"]["ours"]["verdict"] != "biased"
    means = {row["group"]: row["mean"] for row in outcome["groups"] if row["cut"] == "skin_tone"}
    assert sorted(means, key=lambda tone: -means[tone]) == list(TONES)
    assert [row["cut"] for row in results["disparities"]] == ["skin_tone", "pronoun"]
    assert results["fhibe_narrow"]["metrics"]["person_detection.detector.recall"] == pytest.approx(
        np.mean(list(means.values())), abs=1e-9
    )
    drawn = {path.name for path in own_root.glob("outputs/**/fhibe_narrow_*.png")}
    assert {"fhibe_narrow_tasks.png", "fhibe_narrow_top.png", "fhibe_narrow_groups_0.png"} <= drawn
    page = next(own_root.glob("outputs/**/dashboard.html")).read_text()
    assert "Person detection" in page
    assert "skin tone" in page
    _made_again(own_root, results)


def _made_again(root: Path, results: Any) -> None:
    """The block can be computed from the run's own tables, as a purge does."""
    from fp2.ask.answers import read_tables
    from fp2.compose import load_config
    from fp2.runs.recompute import logged_protocol, recompute

    tables = read_tables(next(root.glob("outputs/**/scores.parquet")).parent)
    config = load_config(["task=fhibe_narrow", "cut.each=[skin_tone,pronoun]", "analysis.permutations=999"])
    protocol, job = logged_protocol(config, tables.people)
    _, found, _ = recompute(protocol, tables, job, results, 0)
    (outcome,) = found.blocks["fhibe_narrow"]["outcomes"]
    before = results["fhibe_narrow"]["outcomes"][0]
    assert outcome["means"] == pytest.approx(before["means"])
    assert outcome["n_found"] == before["n_found"]
    assert [row["cut"] for row in found.disparities] == ["skin_tone", "pronoun"]


def test_a_task_in_which_most_are_not_found_is_no_result(world: Path, own_root: Path) -> None:
    words = _words(world, own_root, f"task.files.person_detection={world / 'blind.json'}", "report=none")
    assert main(words) == 0
    results = _results(own_root)
    (outcome,) = results["fhibe_narrow"]["outcomes"]
    assert outcome["found_share"] == 0.0
    assert not outcome["measurable"]
    assert (outcome["benchmark"], outcome["means"], results["disparities"]) == (None, {}, [])
    assert results["fhibe_narrow"]["headline"] == {"person_detection / blind": "not measurable here"}
    assert any("not measurable here, 0 of 288 people were found" in line for line in results["limitations"])


def test_what_is_missing_ignored_or_of_another_scale_is_in_the_report(world: Path, own_root: Path) -> None:
    """Files given as one table, predictions for images without a person, a condition, and the share found by group."""
    said = json.loads((world / "detector.json").read_text())["predictions"]
    said.append({"image_id": "elsewhere", "category_id": 1, "bbox": [1, 2, 3, 4]})
    (world / "more.json").write_text(json.dumps(said))
    words = _words(
        world, own_root, f"task.files={{person_detection: {world / 'more.json'}, lpips_network: '', model: ''}}",
        'task.options.within=["pronoun == \'She/her/hers\'"]',
    )  # fmt: skip
    assert main(words) == 0
    results = _results(own_root)
    (outcome,) = results["fhibe_narrow"]["outcomes"]
    assert outcome["ignored"] == {"of images outside this run": 1}
    assert any("1 prediction(s) ignored, of images outside" in line for line in results["limitations"])
    (within,) = outcome["within"]
    assert within["n_subjects"] == 72
    assert {row["cut"]: row["change"] for row in within["rows"]}["skin_tone"] == "remains"
    page = next(own_root.glob("outputs/**/dashboard.html")).read_text()
    assert "Disparity within" in page
    groups = [row for row in outcome["groups"] if row["cut"] == "pronoun"]
    assert [(row["n_judged"], row["found_share"]) for row in groups] == [(144, 1.0), (144, 1.0)]


def _read(given: dict[str, Any]) -> NarrowOptions:
    return read_options(NarrowOptions, given, "task.options")


def test_mistakes_are_refused_in_one_line() -> None:
    with pytest.raises(Fp2Error, match=r"unknown key 'measureable'.*Did you mean 'measurable'"):
        _read({"measureable": 0.2})
    with pytest.raises(Fp2Error, match=r"unknown narrow task 'person_detecton'.*Did you mean 'person_detection'"):
        _read({"tasks": ["person_detecton"]})
    with pytest.raises(Fp2Error, match=r"'match' or 'leave_out', not 'drop' \(task\.options\.two_person\)"):
        _read({"two_person": "drop"})
    with pytest.raises(Fp2Error, match="cannot parse"):
        _read({"within": ["age = "]})
    wrong: dict[str, Any]
    for wrong in (
        {"measurable": "half"}, {"measurable": 1.5}, {"measurable": float("nan")}, {"depth": 1.5}, {"depth": -1},
        {"top_k": "all"}, {"smallest_effect": None}, {"mirrored": "yes"}, {"models": 3}, {"within": [1]},
    ):  # fmt: skip
        (name,) = wrong
        with pytest.raises(Fp2Error, match=rf"Input should be .*, not .*task\.options\.{name}"):
            _read(wrong)
    assert _read({"tasks": None, "models": None, "within": "age == '60+'"}) == NarrowOptions(within=("age == '60+'",))
    with pytest.raises(Fp2Error, match=r"unknown file 'face_detecton'"):
        given_files({"face_detecton": "x"})
    with pytest.raises(Fp2Error, match="LPIPS needs both"):
        given_files({"lpips_network": "x"})
    assert given_files({"person_detection": ""}) == {}
