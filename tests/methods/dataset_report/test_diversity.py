"""The data set report: Vendi scores of known sets, shapes counted by hand, counts of groups, a whole run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.methods.dataset_report import describe
from fp2.methods.dataset_report.describe import income_shares, shape_numbers
from fp2.methods.dataset_report.protocol import DiversityOptions
from fp2.methods.dataset_report.vendi import vendi, vendi_score
from fp2.methods.fhibe_release.attributes import find_country
from fp2.methods.fhibe_release.geometry import Geometry, Keypoint
from fp2.plugins import read_options


def plainly(x: np.ndarray, q: float = 1.0) -> float:
    """The definition, word for word: the entropy of the eigenvalues of K / n."""
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    weights = np.linalg.eigvalsh(x @ x.T / len(x))
    p = weights[weights > 1e-12]
    return float(np.exp(-(p * np.log(p)).sum())) if q == 1 else float((p**q).sum() ** (1 / (1 - q)))


def test_the_score_is_the_number_of_different_items() -> None:
    assert vendi_score(np.eye(7)) == pytest.approx(7)
    assert vendi_score(np.ones((5, 3))) == pytest.approx(1)
    assert vendi_score(np.repeat(np.eye(4), 9, axis=0)) == pytest.approx(4)
    unequal = np.concatenate([np.repeat([[1.0, 0]], 9, axis=0), [[0, 1.0]]])
    assert vendi_score(unequal) == pytest.approx(np.exp(-(0.9 * np.log(0.9) + 0.1 * np.log(0.1))))
    assert vendi_score(unequal, 2) == pytest.approx(1 / (0.81 + 0.01))
    assert vendi_score(unequal, np.inf) == pytest.approx(1 / 0.9)


@settings(max_examples=25)
@given(n=st.integers(2, 30), d=st.integers(2, 30), seed=st.integers(0, 99), q=st.sampled_from([0.5, 1.0, 2.0]))
def test_the_score_is_its_definition_whichever_matrix_is_smaller(n: int, d: int, seed: int, q: float) -> None:
    x = np.random.default_rng(seed).normal(size=(n, d))
    assert vendi_score(x, q) == pytest.approx(plainly(x, q), rel=1e-8)
    assert 1 - 1e-9 <= vendi_score(x, q) <= min(n, d) + 1e-9


def test_equal_samples_compare_sets_of_different_size() -> None:
    rng = np.random.default_rng(1)
    small, large = rng.normal(size=(60, 40)), rng.normal(size=(600, 40))
    a = vendi(small, [f"s{k}" for k in range(60)], sample=40, repeats=30, seed=2)
    b = vendi(large, [f"s{k // 2}" for k in range(600)], sample=40, repeats=30, seed=2)
    assert b.score > a.score + 3
    assert a.equal_n is not None
    assert b.equal_n is not None
    assert a.equal_n == pytest.approx(b.equal_n, abs=1.0)
    assert vendi(small, [f"s{k}" for k in range(60)], sample=61).equal_n is None


@pytest.mark.parametrize("bad", [np.empty((0, 3)), np.zeros((2, 3)), np.array([[1.0, np.nan]]), np.ones(3)])
def test_zero_and_infinite_embeddings_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError):
        vendi_score(bad)


def test_shapes_are_those_counted_by_hand() -> None:
    square = np.array([[20, 20], [60, 20], [60, 60], [20, 60]], dtype=float)
    corner = np.array([[60, 60], [80, 60], [80, 80], [60, 80]], dtype=float)
    points = {"a": Keypoint(0, 0, True), "b": Keypoint(60, 80, True), "c": Keypoint(9, 9, False)}
    shape = Geometry(size=(100, 100), keypoints=points, polygons={"Face skin": [square], "Headwear": [corner]})
    found, seen = shape_numbers(shape, (20, 20, 60, 60), (20, 20, 10, 10), (100, 100))
    assert found["box_area"] == pytest.approx(0.36)
    assert found["face_area"] == pytest.approx(0.01)
    assert found["box_ratio"] == 1
    assert found["off_centre"] == pytest.approx(0)
    assert found["mask_area"] == pytest.approx(0.20, abs=0.01)
    # hull of the two squares: the bounding square less two triangles of 40 x 20 / 2 each
    assert found["mask_concavity"] == pytest.approx(1 - 2000 / 2800, abs=0.02)
    assert found["keypoint_spread"] == pytest.approx(1.0)
    assert len(seen) == 2
    assert shape_numbers(Geometry(), None, None, None)[0] == {}


def test_a_mask_file_stands_in_for_polygons(tmp_path: Path) -> None:
    from PIL import Image

    from fp2.methods.dataset_report.describe import measure_shapes

    mask = np.zeros((80, 100), np.uint8)
    mask[20:60, 30:80] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    Image.new("RGB", (100, 80)).save(tmp_path / "a.png")
    row = {
        "image_id": "a",
        "subject_id": "1",
        "image_path": str(tmp_path / "a.png"),
        "mask_path": str(tmp_path / "mask.png"),
    }
    found, _ = measure_shapes(pd.DataFrame([row]))
    assert found["mask_area"].iloc[0] == pytest.approx(0.25)
    assert found["mask_concavity"].iloc[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "held", [{"image_id": ["a"], "embedding": [1.0]}, {"image_id": ["a"], "embedding": [[1.0], [2.0]]}]
)
def test_embeddings_that_do_not_fit_are_one_line(held: dict[str, Any], tmp_path: Path) -> None:
    from fp2.methods.dataset_report.vendi import from_file

    np.savez(tmp_path / "x.npz", **{name: np.array(values) for name, values in held.items()})
    with pytest.raises(Fp2Error, match="cannot be read"):
        from_file(tmp_path / "x.npz", people())
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(Fp2Error, match="cannot be read"):
        from_file(tmp_path / "broken.npz", people())


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "image_id": ["a", "b", "c", "d"],
            "subject_id": ["1", "1", "2", "3"],
            "attr_pronoun": [["she"], ["she"], ["he", "they"], []],
            "attr_age": [["18-29"], ["18-29"], ["18-29"], ["60+"]],
        }
    )


def test_counts_are_those_of_the_tables() -> None:
    assert describe.totals(people()) == {"images": 4, "subjects": 3, "attributes": 2, "attribute_values": 5}
    rows = {tuple(row["by"]): row for row in describe.intersections(people(), ["pronoun", "age"], 2)}
    assert rows["pronoun",]["groups"] == 3
    assert rows["pronoun",]["largest"] == 2
    assert rows["pronoun",]["median_images"] == 1
    assert rows["age",]["comparable"] == 1
    assert rows["pronoun", "age"]["groups"] == 3
    shares = describe.shares(people(), "age", 2)
    assert [(row["group"], row["n_images"], row["share"]) for row in shares] == [
        ("18-29", 3, 0.75),
        ("(1 smaller groups)", 1, 0.25),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"embedd": True}, "unknown key 'embedd'.*Did you mean 'embed'"),
        ({"sample": 1}, r"1 is not a whole number of at least 2 \(task\.options\.sample\)"),
        ({"variants": ["grey"]}, "cannot be embedded"),
        ({"variants": [{"kind": "masked", "rim": 3}]}, r"unknown key 'rim' .*task\.options\.variants"),
        ({"order": -1}, r"-1 is not a number of at least 0 \(task\.options\.order\)"),
        ({"embed": "no"}, "true or false"),
        ({"crop": 0}, "true or false"),
        ({"attributes": ["location_country"]}, "must not leave the data folder"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says):
        read_options(DiversityOptions, options, "task.options")


def test_income_levels_are_shares_by_the_groups_of_a_table(tmp_path: Path) -> None:
    places = ["Kenya", "Kenya", "Viet Nam", "Brazil", "Brazil", "Atlantis", ""]
    people = pd.DataFrame(
        {
            "image_id": [f"i{n}" for n in range(7)],
            "subject_id": [f"s{n}" for n in range(7)],
            "attr_location_country": [[name] if name else [] for name in places],
        }
    )
    people["attr_location_country"] = people["attr_location_country"].map(
        lambda cell: [found.name if (found := find_country(name)) else name for name in cell]
    )
    table = tmp_path / "income.csv"
    table.write_text("country,group\nKENYA,lower middle\nVietnam,lower middle\nBR,upper middle\n", encoding="utf-8")
    rows, notes = income_shares(people, table, 2)
    assert [(row["group"], row["n_images"], row["share"]) for row in rows] == [
        ("lower middle", 3, 0.6),
        ("upper middle", 2, 0.4),
    ]
    assert notes == ["1 image of countries without an income group was left out of its shares"]
    for text, said in (
        ("country,level\nKenya,low\n", "no column 'group'"),
        ("country,group\nKenya,low\nkenya,high\n", "two groups"),
        ("country,group\nPeru,high\n", "no country of the images"),
    ):
        table.write_text(text, encoding="utf-8")
        with pytest.raises(Fp2Error, match=said):
            income_shares(people, table, 2)
    with pytest.raises(Fp2Error, match="no attribute 'location_country'"):
        income_shares(people[["image_id", "subject_id"]], table, 2)


def _annotators(folder: Path) -> Path:
    she, they = "['0. She/her/hers']", "['0. She/her/hers', '2. They/them/their']"
    rows = [("a", 31, she), ("b", 39, they), ("c", 30, they), ("d", 35, they), ("e", 52, ""), ("f", 52, "1. He/him")]
    table = pd.DataFrame(rows, columns=["annotator_id", "annotator_age", "annotator_pronoun"])
    table.to_csv(folder / "annotators.csv", index=False)
    return folder / "annotators.csv"


def test_annotators_are_counted_by_attribute_and_small_groups_are_pooled(tmp_path: Path) -> None:
    rows = describe.annotator_counts([_annotators(tmp_path)], 3)
    assert [(row["attribute"], row["group"], row["n"]) for row in rows] == [
        ("annotator_age", "30-39", 4),
        ("annotator_age", "(1 smaller groups)", None),
        ("annotator_pronoun", "She/her/hers", 4),
        ("annotator_pronoun", "They/them/their", 3),
        ("annotator_pronoun", "(1 smaller groups)", None),
    ]
    (tmp_path / "ids.csv").write_text("annotator_id\na\n")
    with pytest.raises(Fp2Error, match="no attribute of annotators"):
        describe.annotator_counts([tmp_path / "ids.csv"], 3)


@pytest.mark.thorough
def test_a_whole_run_on_drawn_people_with_embeddings(tmp_path: Path) -> None:
    from bench import load_config

    from fp2.progress import Progress
    from fp2.run import run

    words = [
        "task=diversity",
        "data.n_subjects=30",
        "data.n_pairs=0",
        "data.images_per_subject=1",
        f"paths.root={tmp_path}",
        "tracking=none",
        "cut=pronoun",
        "task.options.sample=20",
        "report.figures=false",
        f"task.files.annotators=[{_annotators(tmp_path)}]",
    ]
    first = run(load_config(words), tmp_path / "first", words, Progress(quiet=True))
    block = first.results["diversity_report"]
    assert block["vendi"] == []
    assert any("no Vendi score" in line for line in first.results["limitations"])
    assert block["annotators"][0] == {"attribute": "annotator_age", "group": "(2 smaller groups)", "n": None}
    names = {one["name"] for one in block["shapes"]}
    assert {"box_area", "face_area", "mask_area", "mask_concavity", "keypoint_spread"} <= names
    ids = [row for row in _image_ids(tmp_path)]
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "vectors.npz", image_id=np.array(ids), embedding=rng.normal(size=(len(ids), 8)))
    words.append(f"task.files.embeddings={tmp_path / 'vectors.npz'}")
    second = run(load_config(words), tmp_path / "second", words, Progress(quiet=True))
    scores = second.results["diversity_report"]["vendi"]
    assert scores[0]["by"] is None
    assert scores[0]["n_images"] == 30
    assert 1 < scores[0]["equal_n"] <= 8
    from fp2.ask.answers import read_tables
    from fp2.notes import read_notes
    from fp2.runs.logged import logged_protocol
    from fp2.runs.stages import Evaluation, results_from

    tables = read_tables(tmp_path / "second")
    left = tables.people[tables.people["subject_id"] != tables.people["subject_id"].iloc[0]]
    protocol, job = logged_protocol(load_config(words), left)
    job, before = replace(job, facts=protocol.recall(second.results)), second.results
    less = tables.without(left, [], [])
    found = results_from(Evaluation(protocol, job, less, before, read_notes(before)), protocol.analyse(less, job))
    made = found["diversity_report"]
    assert made["totals"]["subjects"] == 29
    assert made["totals"]["attributes"] == second.results["diversity_report"]["totals"]["attributes"]
    assert made["vendi"] == []
    assert made["annotators"] == block["annotators"]
    page = (tmp_path / "second" / "dashboard.html").read_text(encoding="utf-8")
    assert "Score, equal samples" in page
    assert "data-chart=" in page
    _side_by_side(tmp_path, words, second.results)


def test_the_images_are_embedded_by_a_network_that_reads_no_text(tmp_path: Path) -> None:
    """Its whole run is a command of `docs/methods/dataset_report.md`, which `test_docs_run.py` runs."""
    import torch
    from bench import load_config
    from family_checkpoints.duals import IMAGE, save_clip, save_image_encoder
    from PIL import Image
    from transformers import AutoModel

    from fp2.config import VariantConfig
    from fp2.methods.dataset_report.vendi import encoder_of, from_model
    from fp2.progress import Progress
    from fp2.store.rows import ResponseStore

    folder = save_image_encoder(tmp_path / "seer", "regnet")
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (50, 40 + 9 * n, 3), dtype=np.uint8)) for n in range(5)]
    for n, picture in enumerate(pictures):
        picture.save(tmp_path / f"{n}.png")
    table = pd.DataFrame(
        {
            "image_id": list("abcde"),
            "subject_id": list("vwxyz"),
            "image_path": [str(tmp_path / f"{n}.png") for n in range(5)],
        }
    )
    config = load_config(["model=seer_regnet_y_320", f"model.id={folder}", f"paths.root={tmp_path}"])
    store = ResponseStore(tmp_path / "s.sqlite").connection
    encoder = encoder_of(config, store, crop=False)
    vectors, found, missing = from_model(encoder, config, table, VariantConfig(), store, Progress(quiet=True))
    squares = [np.asarray(one.resize((IMAGE, IMAGE), Image.Resampling.BICUBIC)) / 255 for one in pictures]
    scaled = (np.stack(squares) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.inference_mode():
        inputs = torch.tensor(scaled.transpose(0, 3, 1, 2), dtype=torch.float32)
        plain = AutoModel.from_pretrained(folder).eval()(inputs).pooler_output.flatten(1).numpy()
    np.testing.assert_allclose(vectors, plain, rtol=1e-4, atol=1e-5)
    assert (found["image_id"].tolist(), missing) == (list("abcde"), {})
    clip = load_config(["model=clip_vit_large_patch14", f"model.id={save_clip(tmp_path / 'clip')}"])
    with pytest.raises(Fp2Error, match=r"sees images as its image processor prepares them.*task\.options\.crop"):
        encoder_of(clip, store, crop=False)
    with pytest.raises(Fp2Error, match="is not a dual encoder"):
        encoder_of(load_config(["model=peeps_vlm"]), store, crop=True)


def _side_by_side(root: Path, words: list[str], before: Any) -> None:
    """A second data set report, with embeddings per variant, beside the first."""
    from bench import load_config

    from fp2.methods.several_runs.compare_command import compare_runs
    from fp2.progress import Progress
    from fp2.run import run

    file = words[-1].partition("=")[2]
    more = [*words[:-1], f"task.files.embeddings={{original: {file}, masked: {file}}}", "data.limit=25", "cut=age"]
    third = run(load_config(more), root / "third", more, Progress(quiet=True))
    variants = [row["variant"] for row in third.results["diversity_report"]["vendi"] if row["by"] is None]
    assert variants == ["original", "masked"]
    own = [f"paths.root={root}"]
    compare_runs([str(root / "second"), str(root / "third")], own, root / "beside.json")
    block = json.loads((root / "beside.json").read_text())
    tables = {table["title"]: table["rows"] for table in block["tables"]}
    assert tables["Totals, Number"]["images"] == [30, 25]
    assert tables["Totals, Number"]["subjects"] == [30, 25]
    vendi = tables["Vendi scores (1: all images equal), Score, equal samples"]
    first = next(row for row in before["diversity_report"]["vendi"] if row["by"] is None)
    assert vendi["all subjects, file, 20 subjects"] == [[first["equal_n"], first["low"], first["high"]], None]
    assert vendi["all subjects, masked, 20 subjects"][0] is None
    assert tables["Images by region, Share of the images"]
    with pytest.raises(Fp2Error, match="compared in tables"):
        compare_runs([str(root / "second"), str(root / "third")], own, None, root / "x.png")


def _image_ids(root: Path) -> list[str]:
    from bench import load_config

    from fp2.data.base import load_configured
    from fp2.progress import Progress

    words = ["data.n_subjects=30", "data.n_pairs=0", "data.images_per_subject=1", f"paths.root={root}"]
    return load_configured(load_config(words), Progress(quiet=True)).people["image_id"].tolist()
