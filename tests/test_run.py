"""The pipeline from people to report: what a run writes, stored answers used again, and no id or path let out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest
from bench import (
    GROUPS,
    Bench,
    check_counts,
    execute,
    files_in,
    notes_of,
    results_of,
    write_pictures,
)

from fp2.methods.peeps.planted.engine import PlantedEngine

KEYS = {
    "schema_version", "config_hash", "response_set", "model", "n_images", "n_subjects", "answers", "composite",
    "composites", "severity", "disparities", "dataset_digest", "complete", "run_id", "created", "fp2_version",
}  # fmt: skip
FILES = {
    "config.yaml", "overrides.yaml", "people.parquet", "responses.parquet", "scores.parquet", "disparities.parquet",
    "disparities.json", "answers_sample.json", "results.json", "dashboard.html", "passport.json",
    "figures/fingerprint.png", "figures/intervals.png", "figures/heatmap_gender.png",
}  # fmt: skip
STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.2}}}"


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Path]:
    """A run with everything on (all scorers, two cuts, report), one image of it corrupt."""
    pictures = write_pictures(tmp_path_factory.mktemp("own") / "pictures")
    sorted(pictures.glob("*.png"))[5].write_bytes(b"not a picture")
    bench = Bench(tmp_path_factory.mktemp("full"), pictures)
    outcome = bench.run(
        "scorer=default", "cut.each=[gender,region]", "report=default", "analysis.permutations=1999", STRONG
    )
    return bench, outcome.folder


def test_the_results_have_every_promised_key_and_add_up(full: tuple[Bench, Path]) -> None:
    results = results_of(full[1])
    assert set(results) >= KEYS
    assert set(results["answers"]) == {"planned", "answered", "refused", "failed", "cached", "model_calls"}
    check_counts(results)
    assert results["answers"]["planned"] == 72 * 6
    assert results["answers"]["failed"] == 6
    assert results["answers"]["model_calls"] == 1
    assert results["n_images"] == 72
    assert results["n_subjects"] == 36
    assert results["complete"] is True
    assert all(math.isfinite(number) for number in numbers(results))
    assert results["composite"] == results["composites"]["gender"]["value"]
    assert len(results["disparities"]) == 2 * (6 * 6 + 1)


def test_a_strong_effect_comes_out_with_its_worst_group(full: tuple[Bench, Path]) -> None:
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in results_of(full[1])["disparities"]}
    for scorer in ("valence_context", "trust_rating"):
        row = rows["trust", scorer, "gender"]
        assert row["verdict"] == "biased"
        assert (row["worst_group"], row["best_group"]) == ("f", "m")
    biased = [key for key, row in rows.items() if key[1] == "valence_context" and row["significant"]]
    assert biased == [("trust", "valence_context", "gender")]


def test_a_corrupt_image_is_rows_with_a_reason(full: tuple[Bench, Path]) -> None:
    answers = pd.read_parquet(full[1] / "responses.parquet")
    bad = answers[answers["status"] == "error"]
    assert len(bad) == 6
    assert bad["image_id"].nunique() == 1
    assert bad["error"].str.contains("cannot be read").all()


def test_every_artifact_is_written_and_every_one_is_signed(full: tuple[Bench, Path]) -> None:
    from fp2.report.verify import verify_passport

    bench, folder = full
    assert files_in(folder) == FILES | {"figures/heatmap_region.png"}
    outcome = verify_passport(folder / "passport.json", list((bench.root / "state" / "keys").glob("*.pub*")))
    assert outcome.ok, outcome.failures
    assert outcome.statement is not None
    assert {subject["name"] for subject in outcome.statement["subject"]} >= FILES - {"passport.json"}


def test_no_id_of_a_person_or_image_and_no_path_leaves_the_run(full: tuple[Bench, Path]) -> None:
    bench, folder = full
    names = [path.stem for path in bench.pictures.glob("*.png")]
    people = pd.read_csv(bench.table)["person"].unique().tolist()
    secrets = [secret.encode() for secret in (*names, *people, str(bench.root), str(bench.pictures), "/tmp/")]
    for name in files_in(folder):
        data = (folder / name).read_bytes()
        if name.endswith(".parquet"):  # compressed: look at the values
            data = pd.read_parquet(folder / name).to_csv().encode() + str(pd.read_parquet(folder / name).attrs).encode()
        assert [secret for secret in secrets if secret in data] == [], name


def test_tables_share_salted_keys(full: tuple[Bench, Path]) -> None:
    people, answers, scores = (pd.read_parquet(full[1] / f"{n}.parquet") for n in ("people", "responses", "scores"))
    assert set(answers["image_id"]) == set(people["image_id"])
    assert set(scores["subject_id"]) <= set(people["subject_id"])
    assert answers["image_id"].str.fullmatch(r"[0-9a-f]{32}").all()
    assert len(answers) == 72 * 6


def test_the_drawn_people_go_through(own_root: Path) -> None:
    """The default data set, drawn small and read as FHIBE; ids of the drawn people stay inside too."""
    bench = Bench(own_root, own_root)
    small = ["data=peeps", "data.n_subjects=30", "data.images_per_subject=1", "data.n_pairs=2"]
    words = [w for w in bench.words("cut=pronoun") if not w.startswith("data")]
    from fp2.compose import load_config
    from fp2.data.base import load_configured
    from fp2.progress import Progress

    folder = own_root / "outputs" / "whole"
    results = execute([*words, *small], folder).results
    assert results["n_images"] == results["n_subjects"] == 30  # the images of pairs stay out
    assert set(results["dataset"]["groups"]["pronoun"]) <= {"She/her/hers", "He/him/his", "They/them/their"}
    published = b"".join((folder / name).read_bytes() for name in files_in(folder) if not name.endswith(".parquet"))
    tables = "".join(pd.read_parquet(path).to_csv() for path in folder.glob("*.parquet"))
    uuids = {
        path.name for path in (own_root / "state" / "data").rglob("*") if re.fullmatch(r"[0-9a-f-]{36}", path.name)
    }
    assert len(uuids) >= 30
    assert not [name for name in uuids if name in tables or name.encode() in published]
    people = load_configured(load_config([*words, *small]), Progress(quiet=True)).people
    broken = Path(people.loc[people["n_people"] == 1, "image_path"].iloc[3])
    broken.write_bytes(broken.read_bytes()[:200])  # a release of which one file was not copied to its end
    partly = execute([*words, *small, "answers.error_budget=0.1"], own_root / "outputs" / "partly")
    assert partly.exit_status == 0
    assert partly.results["answers"]["planned"] == 180
    assert partly.results["answers"]["failed"] == 6


def test_too_few_permutations_to_find_anything_are_a_limitation(bench: Bench) -> None:
    few = bench.run("analysis.permutations=99").results  # 6 rows: the smallest adjusted p is 6/100
    assert notes_of(few)["too_few_permutations"][0]["n"] == 99
    assert "too_few_permutations" not in notes_of(bench.run("analysis.permutations=199").results)


# --- stored answers are used again ---


def test_a_second_run_another_cut_and_another_scorer_ask_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.run(STRONG).results
    monkeypatch.setattr(PlantedEngine, "answer", lambda self, tasks: pytest.fail("the model was asked"))
    again = bench.run(STRONG).results
    assert again["disparities"] == first["disparities"]
    assert again["config_hash"] == first["config_hash"]
    for change in ("cut=gender_x_region", "cut.each=[gender,region]", "scorer=economic", "analysis.alpha=0.01"):
        results = bench.run(STRONG, change).results
        assert results["answers"]["model_calls"] == 0
        assert results["answers"]["cached"] == 72 * 6
        assert results["response_set"] == first["response_set"]
        assert results["config_hash"] != first["config_hash"]


def test_a_copy_of_the_project_elsewhere_says_the_same(bench: Bench, tmp_path: Path) -> None:
    one = bench.run().results
    other = Bench(tmp_path / "other", copytree(bench.pictures, tmp_path / "moved"))
    two = other.run("engine.batch_size=7").results
    for key in ("config_hash", "response_set", "dataset_digest", "disparities", "composites"):
        assert one[key] == two[key], key


# --- a real model's path ---

CACHED = """
import json, sys
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
def opened(*args, **kwargs):
    raise AssertionError("an image was decoded")
Image.open = opened
from fp2.app import main
code = main(sys.argv[1:])
heavy = [name for name in ("torch", "transformers", "mlflow", "matplotlib") if name in sys.modules]
print(json.dumps({"code": code, "heavy": heavy}))
"""


def test_the_users_own_table_and_a_real_model_that_is_not_loaded_twice(bench: Bench) -> None:
    """A genuine LLaVA with random weights answers; the second time neither it nor an image is touched."""
    from tiny import save_tiny_llava

    net = save_tiny_llava(bench.root / "net")
    words = [
        "model=peeps_vlm",
        f"model.id={net}",
        "model.name=tiny",
        "data.limit=24",
        "probe.decoding.max_new_tokens=4",
        "probe.select=[trust,lifestyle]",
        "engine.device=cpu",
        "engine.threads=1",
    ]
    outcome = bench.run(*words)
    assert outcome.results["answers"]["answered"] == 48
    assert outcome.results["answers"]["model_calls"] > 0
    assert outcome.results["model"]["embedded"] is False
    assert outcome.results["dataset"]["groups"]["gender"].keys() == set(GROUPS["gender"])
    assert str(bench.root) not in (outcome.folder / "results.json").read_text(encoding="utf-8")
    script = bench.root / "cached.py"
    script.write_text(CACHED, encoding="utf-8")
    with bench.process(*words, script=script) as child:
        out, err = child.communicate(timeout=120)
    assert json.loads(out.splitlines()[-1]) == {"code": 0, "heavy": []}, err
    again = next(results_of(f) for f in bench.run_folders() if f != outcome.folder)
    assert again["answers"]["cached"] == 48
    assert again["answers"]["model_calls"] == 0
    assert again["disparities"] == outcome.results["disparities"]


def test_the_primary_scorer_follows_the_scorers_chosen(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Any scorer gives a headline; `analysis.primary` counts where the run has that scorer."""
    refusals = "model.truth={seed: 4, refusals: {trust: {base: 0.05, by: {gender: {f: 0.9}}}}}"
    assert bench.launch("scorer=refusal", refusals) == 0
    results = results_of(bench.run_folders()[-1])
    assert results["analysis"]["primary"] == "refusal"
    assert results["composite"] is not None
    assert results["severity"] is not None
    assert "no probe could be compared" not in capsys.readouterr().out
    both = bench.run("scorer=[refusal,valence]", refusals).results
    assert both["analysis"]["primary"] == "valence"
    assert bench.run("scorer=[refusal,valence,valence_context]", refusals).results["analysis"]["primary"] == (
        "valence_context"
    )


def test_what_a_run_writes_is_readable_by_its_owner_only(bench: Bench) -> None:
    assert bench.launch("tracking=mlflow") == 0
    (folder,) = bench.run_folders()
    places = [folder, bench.store, bench.store.parent, bench.root / "mlruns", bench.root / "mlruns" / "mlflow.db"]
    assert [oct(place.stat().st_mode & 0o077) for place in places] == ["0o0"] * len(places)
