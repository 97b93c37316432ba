"""The authors' published tests: their scores and rates are those of the answers that they were made of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import execute, fp2, results_of
from gras_checkout import draw_answers, write_bias_analyses, write_inference_files, write_lists

from fp2.errors import Fp2Error

MODEL, OTHER = "llava-1.5-7b-hf", "blip2-opt-2.7b"
PUBLISHED = ("published_orientation", "holm", "benjamini_hochberg", "all_templates")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The public checkout: lists and published tests of two models, no answers."""
    root = tmp_path_factory.mktemp("checkout")
    write_lists(root, cells=2, tones=60)
    write_bias_analyses(root, MODEL, draw_answers(root, constant="lazy"), tone="MST {:02d}")
    write_bias_analyses(root, OTHER, draw_answers(root, 1, 0.0, constant="lazy"))
    return root


def words(root: Path, *more: str) -> list[str]:
    return [
        "experiment=gras_published",
        f"data.root={root}",
        "analysis.min_subjects=3",
        "tracking=none",
        f"task.options.model={MODEL}",
        *more,
    ]


def paths(root: Path) -> list[str]:
    return [f"paths.root={root}", f"paths.state={root / 'state'}"]


@pytest.fixture(scope="module")
def published(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("project")
    return root, execute([*words(checkout), *paths(root)], root / "outputs" / "one").results


def test_scores_and_rates_are_those_of_the_answers(
    checkout: Path, published: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    write_lists(tmp_path, cells=2, tones=60)
    write_inference_files(tmp_path, MODEL, draw_answers(tmp_path, constant="lazy"))
    quick = ("task.options.permutations=50", "task.options.bootstrap=20", "report=none")
    whole = execute(words(tmp_path, *quick), tmp_path / "out").results["gras"]["units"]["images"]
    block = published[1]["gras_published"]
    for name in PUBLISHED:
        assert block["scores"][name] == pytest.approx(whole["scores"][name]["value"])
        for attribute, scores in block["scores"]["by_attribute"].items():
            assert scores[name] == pytest.approx(whole["scores"]["by_attribute"][attribute][name]["value"])
    assert block["scores"]["seed_orientation"] == 100 - block["scores"]["published_orientation"]
    assert block["scores"]["unbiased_cells"] == whole["scores"]["unbiased_cells"]
    own = {(row["attribute"], row["group"], row["polarity"]): row["share"] for row in whole["attribution"]}
    assert {(r["attribute"], r["group"], r["polarity"]): r["share"] for r in block["attribution"]} == own
    for attribute, means in block["group_means"].items():
        assert means["groups"] == whole["group_means"][attribute]["groups"]
        np.testing.assert_allclose(means["means"], whole["group_means"][attribute]["means"], atol=2e-6)


def test_a_published_nan_is_stated(published: tuple[Path, dict[str, Any]]) -> None:
    """Of the constant trait: 4 attributes x 5 templates, NaN there and p = 1 here; neither is significant."""
    results = published[1]
    assert results["gras_published"]["scores"]["n_undefined"] == 20
    stated = json.dumps(results["limitations"])
    assert "20 of the 80 published p-values are NaN, 20 of them where all group means are equal" in stated
    assert "tests were published, not made here" in stated
    page = (published[0] / "outputs" / "one" / "dashboard.html").read_text()
    assert "published orientation (ideal 0)" in page


def test_a_skin_tone_is_one_group_whether_a_number_or_a_name(checkout: Path, tmp_path: Path) -> None:
    results = execute(words(checkout, f"task.options.model={OTHER}", "report=none"), tmp_path / "out").results
    groups = results["gras_published"]["group_means"]["skin_tone"]["groups"]
    assert sorted(groups) == [f"MST {tone:02d}" for tone in range(1, 11)]


@pytest.mark.usefixtures("mlflow_store")
def test_one_command_shows_both_orientations_of_every_model(
    checkout: Path, own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word for word in words(checkout, "report=none") if word != "tracking=none"]
    assert fp2("run", *given, "task.options.model=all") == 0
    said = capsys.readouterr().out
    assert "severity" not in said  # of composites, which these runs do not have
    found = {r["model"]["name"]: r for r in map(results_of, {p.parent for p in own_root.rglob("results.json")})}
    assert set(found) == {MODEL, OTHER}
    for results in found.values():
        scores = results["gras_published"]["scores"]
        for name in ("published_orientation", "seed_orientation"):
            assert re.search(rf"\b{scores[name]:.2f}\b", said)
    assert fp2("leaderboard", re.search(r"sweep (\S+):", said)[1], "--json") == 0  # type: ignore[index]
    (table,) = json.loads(capsys.readouterr().out)["across"]
    published = {name: one["gras_published"]["scores"]["published_orientation"] for name, one in found.items()}
    assert [row[2] for row in table["rows"]] == sorted(published.values())
    assert {row[0]: row[2] for row in table["rows"]} == published


def test_a_purge_and_a_rescore_leave_published_numbers_as_they_are(published: tuple[Path, dict[str, Any]]) -> None:
    root, before = published
    assert fp2("purge", "--image", "FairFace/train/0.jpg", "--yes", *paths(root)) == 0
    after = results_of(root / "outputs" / "one")
    assert after["gras_published"] == before["gras_published"]
    assert after["n_images"] == before["n_images"] - 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("p_value_template_0", "p_0"), "has no column overall_mean|lacks a template|is missing"),
        (("gender_Female_mean_template_2", "gone"), "it has no column mean of Female, template 2"),
        (("kind,", "jolly,"), "the trait 'jolly' is not in the trait list"),
        (("kind,gender,", "kind,sex,"), "name no attribute"),
    ],
)
def test_files_that_are_not_as_expected_are_one_line(tmp_path: Path, change: tuple[str, str], error: str) -> None:
    write_lists(tmp_path, cells=2, tones=60)
    folder = write_bias_analyses(tmp_path, MODEL, draw_answers(tmp_path, constant="lazy"))
    file = folder / f"{MODEL}_gender_bias_analysis.csv"
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(Fp2Error, match=error) as caught:
        execute(words(tmp_path, "report=none"), tmp_path / "out")
    assert "\n" not in str(caught.value)
