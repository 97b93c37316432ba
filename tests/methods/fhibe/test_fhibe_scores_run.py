"""`task=fhibe_scores` as a whole: the user's file, both ids, features, conditions, report, purge, rerun, mistakes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, every_byte, execute, fp2, load_config, predicate_of, results_of

from fp2.compose import config_hash
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted

SMALL = (
    "task=fhibe_scores",
    "task.options.metrics={recall: {higher_is_better: true, range: [0, 1]}, miss: {higher_is_better: false, yes_no: true}}",  # noqa: E501
    "task.options.error_model={trees: 5, folds: 2, repeats: 1, resamples: 100}",
    "task.options.patterns={permutations: 100}",
)  # fmt: skip


def words(bench: Bench, *overrides: str) -> list[str]:
    own = [word for word in bench.words(*overrides) if not word.startswith(("cut.by", "cut=", "scorer"))]
    return [*own, "cut.each=[gender,region]"]


def run(bench: Bench, *overrides: str, folder: str = "one") -> Any:
    return execute(words(bench, *SMALL, *overrides), bench.outputs / folder)


def write_scores(bench: Bench, name: str = "scores.csv", **more: Any) -> Path:
    """Scores with a planted gap by gender (f 0.2 lower), one empty cell and one row of nobody."""
    people = pd.read_csv(bench.table)
    rng = np.random.default_rng(0)
    recall = (0.8 - 0.2 * (people["gender"] == "f") + rng.normal(0, 0.05, len(people))).clip(0, 1).round(4)
    table = pd.DataFrame({"image_id": people["file"], "subject_id": people["person"], "recall": recall})
    table["miss"] = (table["recall"] < 0.65).astype(int)
    table.loc[3, "recall"] = None
    table.loc[len(table)] = {"image_id": "nobody.png", "subject_id": "nobody", "recall": 0.1, "miss": 1}
    path = bench.root / name
    table.assign(**more).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Path]:
    bench = Bench(tmp_path_factory.mktemp("scores"), squares)
    within = ("task.options.within=['brightness > 0.3']", "task.options.within_all=true")
    outcome = run(bench, f"task.files.scores={write_scores(bench)}", *within, "report=default", "report.figures=false")
    return bench, outcome.folder


def test_the_planted_gap_is_found_by_both_and_reported(whole: tuple[Bench, Path]) -> None:
    results = results_of(whole[1])
    recall, miss = results["fhibe_scores"]["outcomes"]
    rows = {row["cut"]: row for row in recall["benchmark"]["rows"]}
    assert set(rows) == {"gender", "region", "region_x_gender"}
    assert rows["gender"]["agreement"] == "both"
    assert rows["gender"]["published"]["worst"] == "f"
    assert rows["gender"]["ours"]["raw"] == pytest.approx(0.2, abs=0.03)
    assert rows["region"]["agreement"] == "neither"
    assert recall["benchmark"]["n_without"] == 1
    assert miss["yes_no"]
    assert {row["cut"] for row in results["disparities"]} == {"gender", "region"}
    assert {row["scorer"] for row in results["disparities"]} == {"recall", "miss"}
    assert any("of no subject in the data set" in line for line in results["limitations"])
    within = recall["within"][0]
    assert 0 < within["n_images"] < 71


def test_dashboard_passport_and_metrics_have_it(whole: tuple[Bench, Path]) -> None:
    folder = whole[1]
    page = (folder / "dashboard.html").read_text(encoding="utf-8")
    assert "Both analyses by cut" in page
    assert "<strong>scores · recall</strong> within <bdi>brightness &gt; 0.3</bdi>" in page
    assert "Highest significant disparities of the published analysis" in page
    assert "fhibe_scores" in json.dumps(predicate_of(folder))
    metrics = results_of(folder)["fhibe_scores"]["metrics"]
    assert metrics["scores.recall.found_both"] == 1
    assert all(np.isfinite(value) for value in metrics.values())
    key = next((whole[0].root / "state" / "keys").glob("*pub*"))
    assert fp2("verify", str(folder / "passport.json"), "--key", str(key)) == 0


def test_no_id_and_no_path_leaves(whole: tuple[Bench, Path]) -> None:
    bench, folder = whole
    people = pd.read_csv(bench.table)
    text = every_byte(folder)
    for secret in (str(bench.root), people["person"].iloc[0], people["file"].iloc[0]):
        assert secret.encode() not in text


def test_the_same_file_elsewhere_has_the_same_hash(bench: Bench) -> None:
    first = load_config(words(bench, "task=fhibe_scores", f"task.files.scores={write_scores(bench)}"))
    second = load_config(words(bench, "task=fhibe_scores", f"task.files.scores={write_scores(bench, 'other.csv')}"))
    assert config_hash(first) == config_hash(second)


def test_purging_a_person_makes_the_analysis_again_without_them(bench: Bench) -> None:
    small = ("task.options.error_model=null", "task.options.patterns=null", "report=default", "report.figures=false")
    path = write_scores(bench)
    one = run(bench, f"task.files.scores={path}", *small)
    subject = pd.read_csv(bench.table)["person"].iloc[0]
    key = salted([subject], local_salt(bench.root / "state"))[0]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    purged = results_of(one.folder)
    assert purged["n_subjects"] == 35
    assert purged["purged"][0]["people_removed"] == 1
    assert list(one.folder.glob("passport.superseded-*.json"))
    for name in ("people", "scores"):
        assert key not in set(pd.read_parquet(one.folder / f"{name}.parquet")["subject_id"])
    with closing(sqlite3.connect(bench.store)) as store:
        assert store.execute("SELECT count(*) FROM picture_numbers").fetchone() == (70,)
    people = pd.read_csv(bench.table)
    left = people[people["person"] != subject]
    scores = pd.read_csv(path).merge(left, left_on=["image_id", "subject_id"], right_on=["file", "person"])
    by_gender = scores.groupby(["gender", "subject_id"])["recall"].mean().groupby("gender").mean()
    row = next(r for r in purged["disparities"] if r["cut"] == "gender" and r["scorer"] == "recall")
    assert row["raw"] == pytest.approx(by_gender.max() - by_gender.min())


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_other_formats_long_tables_and_files_without_subjects(bench: Bench, kind: str) -> None:
    table = pd.read_csv(write_scores(bench)).dropna()
    long = pd.concat([table.assign(who="A"), table.assign(who="B", recall=1 - table["recall"])])
    long = long.drop(columns="subject_id").rename(columns={"image_id": "picture"})
    path = bench.root / f"scores.{kind}"
    if kind == "parquet":
        long.to_parquet(path)
    else:
        long.to_json(path, orient="records", lines=True)
    found = run(
        bench,
        f"task.files.scores={path}",
        "task.options.columns={image: picture, model: who}",
        "task.options.error_model=null",
        "task.options.patterns=null",
        "task.options.pixels=false",
    ).results
    assert [one["label"] for one in found["fhibe_scores"]["outcomes"]][:2] == ["A · recall", "B · recall"]
    assert {row["probe"] for row in found["disparities"]} == {"A", "B"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.files.scores=", "there are no scores"),
        ("task.files.scores=/nowhere.csv", "cannot be read"),
        ("task.options.mettrics={}", "metrics"),
        ("task.options.metrics={}", "no metric is given with its direction"),
        ("task.options.metrics={recal: true}", "recall"),
        ("task.options.error_model.tree=3", "trees"),
        ("task.options.within=['brightnes > 1']", "brightness"),
        ("task.options.columns={picture: x}", "image"),
        ("task.options.features=[brightnes]", "brightness"),
        ("task.options.attributes=[gendr]", "gender"),
        ("task.options.metrics={recall: {higher_is_better: no, range: [0, 1]}}", "true or false"),
        ("task.options.columns={image: nothing}", "no column 'nothing'"),
    ],
)
def test_mistakes_end_in_one_line(bench: Bench, override: str, message: str) -> None:
    given = [f"task.files.scores={write_scores(bench)}", "task.options.pixels=true", override]
    keys = {override.partition("=")[0].lstrip("+")}
    given = [word for word in given[:-1] if word.partition("=")[0] not in keys] + [override]
    own = [word for word in SMALL if word.partition("=")[0] not in keys]
    with pytest.raises(Fp2Error) as error:
        execute(words(bench, *own, *given), bench.outputs / "bad")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_simulated_scores_are_marked_as_calibration(bench: Bench) -> None:
    simulate = (
        "task.options.simulate={recall: {base: 0.9, effects: [{where: 'gender == f', add: -0.3}]}, miss: {base: 0.1}}"
    )
    results = run(bench, simulate, "task.options.error_model=null", "task.options.patterns=null").results
    assert results["model"]["embedded"]
    row = next(r for r in results["disparities"] if r["cut"] == "gender" and r["scorer"] == "recall")
    assert row["worst_group"] == "f"
    assert row["verdict"] == "biased"
    assert any("simulated" in line for line in results["limitations"])


@pytest.mark.parametrize(
    ("own", "kept", "gone"),
    [
        (["within=['region == north', 'brightness > 0.2']", "error_model=null", "patterns=null"], ["region"], []),
        (["attributes=[gender,region]", "error_model=null", "patterns=null"], ["region", "gender"], []),
        (
            [
                "features=[region,brightness]",
                "patterns=null",
                "error_model={trees: 3, folds: 2, repeats: 1, resamples: 20}",
            ],
            ["region", "brightness"],
            ["contrast"],
        ),
        (["error_model=null", "patterns=null"], ["gender"], ["region", "brightness"]),
    ],
)
def test_a_run_keeps_what_a_purge_needs_and_no_more(
    bench: Bench, own: list[str], kept: list[str], gone: list[str]
) -> None:
    given = ["task.options.sensitive=[gender]", *(f"task.options.{word}" for word in own)]
    path = write_scores(bench)
    metrics = "task.options.metrics={recall: {higher_is_better: true, range: [0, 1]}}"
    light = ("report=default", "report.figures=false", "report.dashboard=false", "analysis.permutations=99")
    base = [word for word in bench.words() if not word.startswith(("cut.by", "cut=", "scorer"))]
    words = [*base, "cut.each=[gender]", "task=fhibe_scores", metrics, f"task.files.scores={path}", *light, *given]
    one = execute(words, bench.outputs / "purged")
    columns = {name.removeprefix("attr_") for name in pd.read_parquet(one.folder / "people.parquet").columns}
    assert columns >= set(kept)
    assert not columns & set(gone)
    before = results_of(one.folder)["fhibe_scores"]
    subject = pd.read_csv(bench.table)["person"].iloc[0]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    after = results_of(one.folder)["fhibe_scores"]
    for name in ("predictors", "sensitive", "features"):
        assert after[name] == before[name]
    assert results_of(one.folder)["n_subjects"] == 35
    cuts = [[row["cut"] for row in one["benchmark"]["rows"]] for one in (before["outcomes"][0], after["outcomes"][0])]
    assert cuts[0] == cuts[1]
    assert len(after["outcomes"][0]["within"]) == len(before["outcomes"][0]["within"])


def test_the_scores_of_a_run_are_read_by_its_salted_keys(bench: Bench) -> None:
    """A VLM's `scores.parquet`: several wordings and a changed image per person, keys in place of ids."""
    people = pd.read_csv(bench.table)
    salt = local_salt(bench.root / "state")
    keys = pd.DataFrame(
        {"image_id": salted(people["file"], salt, "image"), "subject_id": salted(people["person"], salt)}
    )
    score = 0.8 - 0.2 * (people["gender"] == "f") + np.linspace(0, 0.05, len(people))
    wordings = [
        keys.assign(variant="original", question_id=f"q{k}", probe="job", scorer="warmth", value=score + off)
        for k, off in enumerate((-0.05, 0.05))
    ]
    changed = keys.assign(variant="grey", question_id="q0", probe="job", scorer="warmth", value=0.0)
    other = keys.assign(variant="original", question_id="q0", probe="job", scorer="length", value=12.0)
    path = bench.root / "scores.parquet"
    pd.concat([*wordings, changed, other]).to_parquet(path)
    metrics = "task.options.metrics={warmth: {higher_is_better: true, range: [0, 1]}}"
    base = words(bench, "task=fhibe_scores", metrics, f"task.files.scores={path}", "task.options.pixels=false")
    light = ("task.options.error_model=null", "task.options.patterns=null")
    found = execute([*base, *light], bench.outputs / "again").results
    row = next(r for r in found["disparities"] if r["cut"] == "gender")
    assert (row["probe"], row["scorer"], row["worst_group"]) == ("job", "warmth", "f")
    by_person = pd.DataFrame({"g": people["gender"], "s": people["person"], "v": score}).groupby(["g", "s"])["v"].mean()
    means = by_person.groupby("g").mean()
    assert row["raw"] == pytest.approx(means.max() - means.min())
    assert any("image variants" in line for line in found["limitations"])
    wrong = [word.replace("{warmth:", "{warm:") for word in base]
    with pytest.raises(Fp2Error, match="no scorer 'warm'"):
        execute(wrong, bench.outputs / "bad")


@pytest.mark.parametrize(
    "truth",
    ["{add: -0.3}", "{where: 'gender == f'}", "{where: 'gender == f', add: much}", "down", "{where: 5, add: 1}"],
)
def test_an_effect_that_says_too_little_ends_in_one_line(bench: Bench, truth: str) -> None:
    given = f"task.options.simulate={{recall: {{effects: [{truth}]}}, miss: {{base: 0.1}}}}"
    with pytest.raises(Fp2Error) as error:
        run(bench, given, "task.options.error_model=null", "task.options.patterns=null", "task.options.pixels=false")
    assert "effects" in str(error.value)
    assert "\n" not in str(error.value)
