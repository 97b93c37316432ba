"""Whole runs in image variants: the controls tell a model that looks at the person from one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, fp2, predicate_of, results_of, write_pictures

PLANTED = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}, authority: {gender: {f: -3}}}}"
WORDS = ("report=default", "report.figures=false", PLANTED)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same planted model in four image variants, in one store; 60 people."""
    root = tmp_path_factory.mktemp("controls")
    bench = Bench(root, write_pictures(root / "pictures", n_subjects=60))
    return {name: bench.run(f"variant={name}", *WORDS) for name in ("original", "swapped", "blind", "grey")}


def rows_of(outcome: Any) -> dict[str, dict[str, Any]]:
    return {row["probe"]: row for row in outcome.results["disparities"]}


def test_the_original_images_show_what_was_planted(runs: dict[str, Any]) -> None:
    rows = rows_of(runs["original"])
    assert sorted(probe for probe, row in rows.items() if row["verdict"] == "biased") == ["authority", "trust"]
    assert rows["trust"]["worst_group"] == "f"


def test_swapped_images_show_nothing_of_it_and_cost_nothing(runs: dict[str, Any]) -> None:
    rows = rows_of(runs["swapped"])
    assert not any(row["significant"] for row in rows.values())
    assert rows["trust"]["raw"] < 0.4 * rows_of(runs["original"])["trust"]["raw"]
    answers = runs["swapped"].results["answers"]
    assert (answers["model_calls"], answers["cached"]) == (0, 720)
    table = pd.read_parquet(runs["swapped"].folder / "responses.parquet")
    original = pd.read_parquet(runs["original"].folder / "responses.parquet")
    assert set(table["variant"]) == {"swapped"}
    assert table[["image_id", "subject_id"]].equals(original[["image_id", "subject_id"]])
    assert set(table["response_key"]) == set(original["response_key"])


@pytest.mark.parametrize("kind", ["blind", "grey"])
def test_without_an_image_everybody_gets_one_answer_that_says_nothing(runs: dict[str, Any], kind: str) -> None:
    results = runs[kind].results
    assert {row["verdict"] for row in results["disparities"]} == {"uninformative"}
    assert (results["answers"]["answered"], results["answers"]["model_calls"]) == (720, 1)
    table = pd.read_parquet(runs[kind].folder / "responses.parquet")
    assert set(table["variant"]) == {kind}
    assert set(table.groupby("question_id")["text"].nunique()) == {1}
    assert table["image_id"].nunique() == 120


def test_the_variant_is_in_the_hash_the_results_the_passport_and_on_the_page(runs: dict[str, Any]) -> None:
    assert len({outcome.results["config_hash"] for outcome in runs.values()}) == 4
    assert len({outcome.results["dataset_digest"] for outcome in runs.values()}) == 1
    assert runs["original"].results["variant"] == {"name": "original", "kind": "original"}
    assert runs["swapped"].results["variant"] == {"name": "swapped", "kind": "swapped", "seed": 20260101}
    for name, outcome in runs.items():
        page = (outcome.folder / "dashboard.html").read_text(encoding="utf-8")
        assert ("<strong>Image variant.</strong>" in page) == (name != "original")
        assert predicate_of(outcome.folder)["protocol"]["variant"] == outcome.results["variant"]


@pytest.mark.package(name="image_variants")
@pytest.mark.usefixtures("mlflow_store")
def test_a_sweep_over_variants_is_tagged_and_a_crop_without_boxes_says_why(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlflow

    from fp2.errors import EXIT_BAD_INPUT

    assert bench.launch("-m", "variant=original,swapped", "tracking=mlflow", "data.limit=24", PLANTED) == 0
    client = mlflow.MlflowClient(f"sqlite:///{bench.root / 'mlruns' / 'mlflow.db'}")
    found = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert sorted(run.data.params["variant"] for run in found) == ["original", "swapped"]
    assert sorted(run.data.tags["fp2.variant"] for run in found) == ["original", "swapped"]
    assert len({run.data.tags["fp2.config_hash"] for run in found}) == 2
    capsys.readouterr()
    assert bench.launch("variant=face_crop", "data.limit=24", PLANTED) == EXIT_BAD_INPUT
    told = " ".join(capsys.readouterr().err.split())
    assert "no image can be shown as face_crop: the data do not locate the face" in told
    assert "Traceback" not in told


@pytest.mark.package(name="reruns")
def test_a_config_logged_with_a_variant_runs_again(bench: Bench) -> None:
    folder: Path = bench.run("variant=swapped", "variant.seed=5", "data.limit=24", PLANTED).folder
    assert fp2("rerun", str(folder), "tracking.enabled=false", *bench.paths) == 0


@pytest.mark.thorough
@pytest.mark.package(name="image_variants")
def test_the_bundled_model_in_every_variant(own_root: Path) -> None:
    """Drawn people whose segments, boxes and backdrop are known: every variant is shown and answered."""
    bench = Bench(own_root, own_root)
    base = [word for word in bench.words("model=peeps_vlm", "cut=pronoun", "report=none") if "data" not in word]
    small = [
        "data=peeps",
        "data.n_subjects=12",
        "data.images_per_subject=1",
        "data.n_pairs=0",
        "probe.select=[trust]",
        "engine.device=cpu",
        "engine.threads=1",
        "probe.decoding.max_new_tokens=16",
    ]
    from fp2.app import main

    assert main(["-m", "variant=original,swapped,blind,grey,masked,face_crop", *base, *small]) == 0
    found = {}
    for folder in bench.run_folders():
        results = results_of(folder)
        found[results["variant"]["name"]] = (results, pd.read_parquet(folder / "responses.parquet"))
    assert len(found) == 6
    for results, table in found.values():
        assert results["answers"]["failed"] == 0
        assert len(table) == 12
    assert found["swapped"][0]["answers"]["model_calls"] == 0
    assert sorted(found["swapped"][1]["text"]) == sorted(found["original"][1]["text"])
    for kind in ("blind", "grey"):
        assert found[kind][1]["text"].nunique() == 1
    for kind in ("masked", "face_crop"):
        assert not set(found[kind][1]["response_key"]) & set(found["original"][1]["response_key"])
    assert found["masked"][1]["text"].tolist() != found["original"][1]["text"].tolist()
