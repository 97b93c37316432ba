"""Runs of `task=fhibe_narrow`: predictions whose error depends on skin tone, and predictions without a difference."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import fp2
from PIL import Image

from fp2.app import main
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow.tasks import NarrowOptions, given_files
from fp2.plugins import read_options

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
    fair = [{**entry, "bbox": [BOX[0] + 1.8, *BOX[1:]]} for entry in said if entry["score"] == 0.9]
    (folder / "fair.json").write_text(json.dumps(fair))
    blind = [entry for entry in said if entry["score"] == 0.95]
    (folder / "blind.json").write_text(json.dumps(blind))
    return folder


def _words(world: Path, root: Path, *more: str) -> list[str]:
    columns = "image: image, subject: person, skin_tone: tone, pronoun: pronoun, box_x: x, box_y: y, box_w: w, box_h: h"
    return [
        "task=fhibe_narrow",
        "data=table",
        f"data.path={world / 'people.csv'}",
        f"data.columns={{{columns}}}",
        "cut.each=[skin_tone,pronoun]",
        "analysis.permutations=999",
        "analysis.bootstrap=50",
        "tracking=none",
        f"paths.root={root}",
        f"paths.state={root / 'state'}",
        "report.figures=false",
        *more,
    ]


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
    page = next(own_root.glob("outputs/**/dashboard.html")).read_text()
    assert "Person detection" in page
    assert "skin tone" in page
    _made_again(own_root, results)


def _made_again(root: Path, results: Any) -> None:
    """The block can be computed from the run's own tables, as a purge does."""
    from bench import load_config

    from fp2.ask.answers import read_tables
    from fp2.notes import read_notes
    from fp2.runs.logged import logged_protocol
    from fp2.runs.stages import Evaluation, results_from

    tables = read_tables(next(root.glob("outputs/**/scores.parquet")).parent)
    config = load_config(["task=fhibe_narrow", "cut.each=[skin_tone,pronoun]", "analysis.permutations=999"])
    protocol, job = logged_protocol(config, tables.people)
    job = replace(job, facts=protocol.recall(results))
    evaluation = Evaluation(protocol, job, tables, results, read_notes(results))
    found = results_from(evaluation, protocol.analyse(tables, job))
    (outcome,) = found["fhibe_narrow"]["outcomes"]
    before = results["fhibe_narrow"]["outcomes"][0]
    assert outcome["means"] == pytest.approx(before["means"])
    assert outcome["n_found"] == before["n_found"]
    assert [row["cut"] for row in found["disparities"]] == ["skin_tone", "pronoun"]


@pytest.mark.thorough
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
        world,
        own_root,
        f"task.files={{person_detection: {world / 'more.json'}, lpips_network: '', model: ''}}",
        "task.options.within=[\"pronoun == 'She/her/hers'\"]",
    )
    assert main(words) == 0
    results = _results(own_root)
    (outcome,) = results["fhibe_narrow"]["outcomes"]
    assert outcome["ignored"] == {"of images outside this run": 1}
    assert any("1 prediction ignored, of images outside" in line for line in results["limitations"])
    (within,) = outcome["within"]
    assert within["n_subjects"] == 72
    assert {row["cut"]: row["change"] for row in within["rows"]}["skin_tone"] == "remains"
    page = next(own_root.glob("outputs/**/dashboard.html")).read_text()
    assert "within <bdi>pronoun == &#39;She/her/hers&#39;</bdi>" in page
    groups = [row for row in outcome["groups"] if row["cut"] == "pronoun"]
    assert [(row["n_judged"], row["found_share"]) for row in groups] == [(144, 1.0), (144, 1.0)]


def test_two_models_are_compared_by_person_with_the_published_numbers_and_curves(world: Path, own_root: Path) -> None:
    """One detector fails with darker skin, the other moves every box alike: their difference depends on skin tone."""
    outputs = own_root / "results" / "fair_detector" / "model_outputs.json"
    outputs.parent.mkdir(parents=True)
    x, y, w, h = BOX[0] + 1.8, *BOX[1:]
    names = [entry["image_id"] for entry in json.loads((world / "fair.json").read_text())]
    outputs.write_text(json.dumps({f"/elsewhere/{n}": {"detections": [[x, y, x + w, y + h]]} for n in names}))
    words = _words(
        world,
        own_root,
        f"task.files.person_detection=[{world / 'detector.json'},{outputs}]",
        "task.options.metric=published",
        "task.options.curves=true",
        "task.options.attributes=all",
    )
    assert main(words) == 0
    results = _results(own_root)
    uneven, fair = results["fhibe_narrow"]["outcomes"]
    assert [one["model"] for one in (uneven, fair)] == ["detector", "fair_detector"]
    (pair,) = results["model_comparisons"]["pairs"]
    assert (pair["n_subjects"], pair["n_images"]) == (144, 288)
    assert pair["difference"] == pytest.approx(uneven["means"]["recall"] - fair["means"]["recall"], abs=1e-12)
    assert pair["ci_low"] < pair["difference"] < pair["ci_high"]
    by_cut = {row["cut"]: row for row in pair["cuts"]}
    assert by_cut["skin_tone"]["significant"]
    assert (by_cut["skin_tone"]["worst_group"], by_cut["skin_tone"]["best_group"]) == ("VI", "I")
    assert not by_cut["pronoun"]["significant"]
    (published,) = fair["published"]
    assert published["metric"] == "published_ar_iou"
    assert published["overall"] == pytest.approx(np.mean(np.arange(0.5, 1, 0.05) <= (20 - 1.8) / (20 + 1.8)))
    assert {row["group"]: row["n"] for row in published["groups"] if row["cut"] == "skin_tone"} == dict.fromkeys(
        TONES, 48
    )
    assert published["disparities"] == []
    assert [line["worst"] for line in uneven["published"][0]["disparities"] if line["cut"] == "skin_tone"] == ["VI"]
    assert fair["curves"]["overall"] == [1.0] * 7 + [0.0] * 3
    darkest = next(row for row in uneven["curves"]["groups"] if row["group"] == "VI")
    assert darkest["values"] == sorted(darkest["values"], reverse=True)
    assert not [name for name in fair["means"] if name.startswith(("at_", "published"))]
    summary = results["disparity_summary"]
    assert [row["n_parts"] for row in summary["by_number"]] == [1]
    worst = {row["value"]: row["n_worst"] for row in summary["values"] if row["attribute"] == "skin_tone"}
    assert worst == {**dict.fromkeys(TONES, 0), "VI": 1}
    folder = next(own_root.glob("outputs/**/dashboard.html")).parent
    page = (folder / "dashboard.html").read_text()
    for words_shown in (
        "mean score at each threshold",
        "Models compared on the same people",
        "evaluation code computes it",
        "Expected by chance",
    ):
        assert words_shown in page


def test_two_files_of_one_name_are_refused(world: Path, own_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = f"task.files.person_detection=[{world / 'fair.json'},{world / 'fair.json'}]"
    assert main(_words(world, own_root, files)) != 0
    assert "two files of predictions are named 'fair'" in capsys.readouterr().err
    assert main(_words(world, own_root, "task.files.model=[a,b]")) != 0
    assert "it takes one file" in capsys.readouterr().err


def test_new_options_at_their_default_leave_the_config_hash_as_it_was(world: Path, own_root: Path) -> None:
    from bench import load_config

    from fp2.compose import config_hash

    words = ["task=fhibe_narrow", f"task.files.person_detection={world / 'fair.json'}", "data=peeps"]
    usual = config_hash(load_config(words))
    given = ["metric=own", "keypoints=[]", "curves=false", "attributes=[]"]
    assert config_hash(load_config([*words, *(f"++task.options.{one}" for one in given)])) == usual
    assert config_hash(load_config([*words, "++task.options.curves=true"])) != usual
    two = [*words, f"task.files.person_detection=[{world / 'fair.json'},{world / 'blind.json'}]"]
    assert config_hash(load_config(two)) != usual


def _read(given: dict[str, Any]) -> NarrowOptions:
    return read_options(NarrowOptions, given, "task.options")


def test_mistakes_are_refused_in_one_line() -> None:
    with pytest.raises(Fp2Error, match=r"unknown key 'measureable'.*Did you mean 'measurable'"):
        _read({"measureable": 0.2})
    with pytest.raises(Fp2Error, match=r"unknown narrow task 'person_detecton'.*Did you mean 'person_detection'"):
        _read({"tasks": ["person_detecton"]})
    with pytest.raises(Fp2Error, match=r"'drop' is not match or leave_out \(task\.options\.two_person\)"):
        _read({"two_person": "drop"})
    with pytest.raises(Fp2Error, match="invalid syntax"):
        _read({"within": ["age = "]})
    wrong: dict[str, Any]
    for wrong in (
        {"measurable": "half"},
        {"measurable": 1.5},
        {"measurable": float("nan")},
        {"depth": 1.5},
        {"depth": -1},
        {"top_k": "all"},
        {"smallest_effect": None},
        {"mirrored": "yes"},
        {"models": 3},
        {"within": [1]},
    ):
        (name,) = wrong
        with pytest.raises(Fp2Error, match=rf" is not .*task\.options\.{name}"):
            _read(wrong)
    assert _read({"tasks": None, "models": None, "within": "age == '60+'"}) == NarrowOptions(within=("age == '60+'",))
    with pytest.raises(Fp2Error, match=r"unknown file 'face_detecton'"):
        given_files({"face_detecton": "x"})
    with pytest.raises(Fp2Error, match="LPIPS needs both"):
        given_files({"lpips_network": "x"})
    assert given_files({"person_detection": ""}) == {}


@pytest.mark.parametrize("command", ["run", "plan"])
def test_the_demonstration_asks_for_dlib_before_it_draws_or_detects_anything(
    own_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setattr("fp2.methods.fhibe.narrow.dlib_faces.installed", lambda: False)
    words = ["experiment=narrow_demo", "tracking=none", f"paths.root={own_root}", f"paths.state={own_root / 'state'}"]
    assert fp2(command, *words) == 2
    assert "pip install 'fp2[narrow]'" in capsys.readouterr().err
    assert list(own_root.rglob("*.png")) == list(own_root.rglob("READY")) == []
