"""The authors' inference files: read as they are written, and analysed like answers that were asked here."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from bench import execute, fp2, load_config, results_of
from gras_checkout import draw_answers, write_inference_files, write_lists

from fp2.compose import config_hash
from fp2.errors import Fp2Error
from fp2.methods.gras.inference_files import find_inference_files, read_probabilities

MODEL = "llava-1.5-7b-hf"
TRAITS = ("kind", "calm", "cruel", "lazy")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    write_lists(root, cells=2, tones=60)
    write_inference_files(root, MODEL, draw_answers(root))
    (root / "evaluation_results").mkdir()
    (root / "evaluation_results" / f"{MODEL}_age_bias_analysis.csv").write_text("trait,attribute\nkind,age\n")
    return root


def words(root: Path, *more: str) -> list[str]:
    return [
        "experiment=gras_published",
        f"data.root={root}",
        "task.options.permutations=50",
        "task.options.bootstrap=20",
        "analysis.min_subjects=3",
        "tracking=none",
        *more,
    ]


@pytest.fixture(scope="module")
def analysed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("project")
    folder = root / "outputs" / "one"
    found = execute(
        [*words(checkout, "report.figures=false"), f"paths.root={root}", f"paths.state={root / 'state'}"], folder
    )
    return root, found.results


def verified(root: Path) -> bool:
    (key,) = (root / "state" / "keys").glob("*.pub.pem")
    return fp2("verify", str(root / "outputs" / "one" / "passport.json"), "--key", str(key)) == 0


def test_the_tests_are_those_of_the_authors_on_the_files(checkout: Path, analysed: tuple[Path, dict[str, Any]]) -> None:
    """Welch's tests by SciPy on the files joined with the lists, for each attribute, trait and template."""
    tests = analysed[1]["gras"]["units"]["images"]["tests"]
    columns = {"gender": "gender", "race": "race", "age": "age", "skin_tone": "Skin Tone"}
    cells = 0
    for attribute, column in columns.items():
        name = "aiface" if attribute == "skin_tone" else "fairface"
        listed = pd.read_csv(checkout / f"selected_images_{name}.csv")
        for row, trait in enumerate(TRAITS):
            file = pd.read_csv(checkout / f"{MODEL}_results" / f"{MODEL}_{trait}_{name}.csv")
            joined = listed.merge(file, left_on="file", right_on="img")
            p = []
            for k in range(5):
                groups = [part[f"yes_prob_{k}"].to_numpy() for _, part in joined.groupby(column)]
                p.append(float(scipy.stats.f_oneway(*groups, equal_var=False).pvalue))
            np.testing.assert_allclose(tests[attribute]["p_value"][row], p, rtol=1e-3, atol=1e-12)
            cells += min(p) <= 0.05
    scores = analysed[1]["gras"]["units"]["images"]["scores"]
    assert scores["published_orientation"]["value"] == pytest.approx(100 * cells / 16)
    assert tests["gender"]["significant"][0]


def test_the_report_says_that_the_answers_were_supplied(analysed: tuple[Path, dict[str, Any]]) -> None:
    root, results = analysed
    assert (results["model"]["name"], results["model"]["embedded"]) == (MODEL, False)
    assert any("supplied, not asked here" in line for line in results["limitations"])
    folder = root / "outputs" / "one"
    assert "supplied, not asked here" in (folder / "dashboard.html").read_text()
    assert verified(root)
    assert results["answers"] == {
        "planned": 200 * 20,
        "answered": 200 * 20,
        "refused": 0,
        "failed": 0,
        "cached": 0,
        "model_calls": 0,
    }
    shards = pd.read_parquet(folder / "responses")
    assert len(shards) == 4000
    assert not shards["image_id"].astype(str).str.contains("jpg").any()
    assert str(root) not in (folder / "config.yaml").read_text()


def test_a_purge_removes_an_image_and_recomputes(analysed: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    root, before = shutil.copytree(analysed[0], tmp_path / "copy"), analysed[1]
    paths = [f"paths.root={root}", f"paths.state={root / 'state'}"]
    assert fp2("purge", "--image", "FairFace/train/0.jpg", "--yes", *paths) == 0
    after = results_of(root / "outputs" / "one")
    assert (after["n_images"], after["answers"]["planned"]) == (before["n_images"] - 1, 3980)
    assert after["response_set"] != before["response_set"]
    assert after["gras"]["battery"] == before["gras"]["battery"]
    assert verified(root)


def read(root: Path) -> tuple[np.ndarray[Any, Any], list[str]]:
    files = find_inference_files(root, TRAITS, "task.files.answers")
    images = [
        name for part in ("fairface", "aiface") for name in pd.read_csv(root / f"selected_images_{part}.csv")["file"]
    ]
    return read_probabilities(files, images, TRAITS, lambda: None)


def test_percentages_older_columns_and_one_file_for_all_traits_are_the_same_numbers(
    checkout: Path, tmp_path: Path
) -> None:
    expected, notes = read(checkout)
    assert notes == []
    assert not np.isnan(expected[:140]).any()
    older, long = tmp_path / "older", tmp_path / "long"
    for root in (older, long):
        write_lists(root, cells=2, tones=60)
    write_inference_files(older, MODEL, draw_answers(older), scale=100.0, more=True)
    found, notes = read(older)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert "percentages" in notes[0]
    parts = {name: table.assign(trait=name.split("_")[0]) for name, table in draw_answers(long).items()}
    write_inference_files(
        long, MODEL, {s: pd.concat(parts[f"{t}_{s}"] for t in TRAITS) for s in ("fairface", "aiface")}
    )
    np.testing.assert_array_equal(read(long)[0], expected)


def test_what_is_missing_is_counted_as_missing(checkout: Path, tmp_path: Path) -> None:
    """Without a trait's file for one set, a few rows and the files of one trait: no number is made up."""
    write_lists(tmp_path, cells=2, tones=60)
    tables = draw_answers(tmp_path)
    for name in ("lazy_fairface", "lazy_aiface", "calm_aiface"):
        del tables[name]
    tables["kind_fairface"] = tables["kind_fairface"].iloc[5:]
    tables["cruel_fairface"].loc[0, "T3"] = np.nan
    folder = write_inference_files(tmp_path, MODEL, tables)
    extra = folder / f"{MODEL}_kind_fairface.csv"
    extra.write_text(extra.read_text() + "FairFace/elsewhere.jpg,.1,.1,.1,.1,.1\n")
    results = execute(words(tmp_path, "report=none"), tmp_path / "out").results
    assert results["answers"]["planned"] == 200 * 15
    assert results["answers"]["answered"] == 200 * 15 - 60 * 5 - 5 * 5 - 1
    told = json.dumps(results["limitations"])
    assert "1 of the 4 listed traits have no inference file" in told
    assert "1 image of the inference files is not among the images of this run" in told
    groups = {(row["cut"], row["group"]): row for row in results["answers_by_group"]}
    assert groups["skin_tone", "MST 01"]["failed"] == 6 * 5


def broken(root: Path, change: str, value: str) -> None:
    """Put one thing wrong into a folder of files."""
    file = root / f"{MODEL}_results" / f"{MODEL}_kind_fairface.csv"
    lines = file.read_text().splitlines()
    if change == "cell":
        first, *rest = lines[1].split(",")
        lines[1] = ",".join([first, value, *rest[1:]])
    elif change == "repeat":
        lines.append(lines[1].split(",")[0] + ",.9,.9,.9,.9,.9")
    elif change == "templates":
        lines = [line.rsplit(",", 1)[0] for line in lines]
    if change == "name":
        file.rename(file.with_name(f"{MODEL}_{value}_fairface.csv"))
    elif change == "images":
        for path in file.parent.glob("*.csv"):
            path.write_text(path.read_text().replace("/", "-"))
    elif change == "second":
        write_inference_files(root, value, draw_answers(root))
    elif change == "none":
        for path in file.parent.glob("*.csv"):
            path.unlink()
    else:
        file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("change", "value", "error"),
    [
        ("cell", "often", "row 1: yes_prob_0 is often, not a number"),
        ("cell", "-0.2", "row 1: yes_prob_0 is -0.2, no probability"),
        ("repeat", "", "1 image is listed twice with different numbers"),
        ("templates", "", "templates"),
        ("name", "jolly", "its name ends with no word of the trait list"),
        ("images", "", "no file is about the images of the data set"),
        (
            "second",
            "blip2-opt-2.7b",
            "the files are of 2 models.*one of blip2-opt-2.7b, llava-1.5-7b-hf;.*=all",
        ),
        ("none", "", "there is no inference file in this folder"),
    ],
)
def test_files_that_are_not_as_expected_are_one_clear_line(tmp_path: Path, change: str, value: str, error: str) -> None:
    write_lists(tmp_path, tones=30)
    write_inference_files(tmp_path, MODEL, draw_answers(tmp_path))
    broken(tmp_path, change, value)
    with pytest.raises(Fp2Error, match=error) as caught:
        execute(words(tmp_path, "report=none"), tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_a_model_can_be_chosen_and_its_name_is_checked(tmp_path: Path) -> None:
    write_lists(tmp_path, tones=30)
    for name in (MODEL, "blip2-opt-2.7b"):
        write_inference_files(tmp_path, name, draw_answers(tmp_path))
    chosen = words(tmp_path, "task.options.model=blip2-opt-2.7b", "report=none")
    assert execute(chosen, tmp_path / "out").results["model"]["name"] == "blip2-opt-2.7b"
    with pytest.raises(Fp2Error, match="no files of the model 'blip'"):
        execute(words(tmp_path, "task.options.model=blip", "report=none"), tmp_path / "other")


@pytest.mark.thorough
@pytest.mark.usefixtures("mlflow_store")
def test_one_command_makes_a_run_of_each_model(
    own_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lists(tmp_path / "lists", tones=30)
    for name in (MODEL, "o'blip, 2"):
        write_inference_files(tmp_path / "lists", name, draw_answers(tmp_path / "lists"))
    given = [word for word in words(tmp_path / "lists", "report=none", "cut.by=[gender]") if word != "tracking=none"]
    assert fp2("run", *given, "task.options.model=all") == 0
    said = capsys.readouterr().out
    listed = said.partition("2 of 2 runs finished")[2]
    assert all(name in listed for name in (MODEL, "o'blip, 2"))
    assert "fp2 leaderboard" not in said, "no run has a composite"
    found = [results_of(path.parent) for path in (own_root / "outputs").rglob("results.json")]
    assert {one["model"]["name"] for one in found} == {MODEL, "o'blip, 2"}
    sweep = re.search(r"sweep (\S+):", said)[1]  # type: ignore[index]
    assert fp2("leaderboard", sweep, "--json") == 0  # of another MLflow experiment than the default one
    board = json.loads(capsys.readouterr().out)
    assert board["rows"] == []  # no run has a composite
    (table,) = board["across"]
    assert table["title"] == "Models by GRAS Bias Score: cells with p ≤ α in %"
    scores = {one["model"]["name"]: one["gras"]["units"]["images"]["scores"]["published_orientation"] for one in found}
    assert [row[2] for row in table["rows"]] == sorted(score["value"] for score in scores.values())
    assert fp2("leaderboard", sweep) == 0
    assert "Models by GRAS Bias Score" in capsys.readouterr().out


def test_the_config_hash_is_of_the_files_and_not_of_where_they_lie(checkout: Path, tmp_path: Path) -> None:
    write_lists(tmp_path, cells=2, tones=60)
    write_inference_files(tmp_path, MODEL, draw_answers(tmp_path))
    (tmp_path / "evaluation_results").mkdir()
    kept = f"{MODEL}_age_bias_analysis.csv"
    (tmp_path / "evaluation_results" / kept).write_text((checkout / "evaluation_results" / kept).read_text())
    assert config_hash(load_config(words(tmp_path))) == config_hash(load_config(words(checkout)))
    broken(tmp_path, "cell", "0.5")
    assert config_hash(load_config(words(tmp_path))) != config_hash(load_config(words(checkout)))


def test_other_outcomes_and_files_are_refused(checkout: Path) -> None:
    with pytest.raises(Fp2Error, match="hold no p_yes_norm"):
        load_config(words(checkout, "task.options.outcome=p_yes_norm"))
    with pytest.raises(Fp2Error, match="unknown file 'answer'"):
        execute(words(checkout, "task.files.answer=x"), checkout / "out")
