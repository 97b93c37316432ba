"""The run of `make run` on the bundled model: planted effects are found, as docs/methods/peeps.md shows.

`default_answers.csv.xz` has the 7,200 answers of that run, a row an image and a column a probe. They are analysed as
the run analyses them; the model is asked about a few of the images again.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY, Bench, results_of
from simulated import compared

from benchmarks.planted_effects import expected_effects
from fp2.compose import load_config
from fp2.cuts import resolve_cuts
from fp2.methods.peeps.data.cast import plan_images
from fp2.methods.peeps.data.draw import render_image
from fp2.methods.peeps.data.source import planned_peeps
from fp2.methods.peeps.data.spec import PeepsSpec
from fp2.probes.battery import load_battery
from fp2.store.salted_keys import local_salt, salted
from fp2.verdicts import Verdict
from training.peeps.planted import load_planted

pytestmark = pytest.mark.long
ATTRIBUTES = ("region", "pronoun", "age", "skin_tone")
ANSWERS = Path(__file__).with_name("default_answers.csv.xz")


@pytest.fixture(scope="module")
def planted() -> Any:
    """The effects that the model was trained to show, one per probe and attribute."""
    return expected_effects(load_planted())


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    return pd.read_csv(ANSWERS, index_col="image", keep_default_na=False)


@pytest.fixture(scope="module")
def disparities(answers: pd.DataFrame) -> list[dict[str, Any]]:
    """The disparities of the default settings in the stored answers."""
    config = load_config([])
    battery = load_battery(asdict(config.probe))
    people = planned_peeps(PeepsSpec()).people
    people = people[people["image_id"].isin(answers.index)].reset_index(drop=True)
    subjects = people.set_index("image_id")["subject_id"]
    rows = [
        {
            "response_key": f"{image} {question.question_id}",
            "image_id": image,
            "subject_id": subjects[image],
            "variant": "original",
            "question_id": question.question_id,
            "probe": question.probe,
            "text": answers.loc[image, question.question_id],
            "numbers": None,
            "status": "answered",
            "error": None,
            "attempts": 1,
            "seconds": 0.0,
            "tokens": 1,
            "cached": True,
        }
        for question in battery.questions
        for image in people["image_id"]
    ]
    cuts = resolve_cuts(asdict(config.cut), list(ATTRIBUTES))
    analysis, _ = compared(config, battery, people, pd.DataFrame(rows), cuts)
    return list(analysis.disparities)


@pytest.fixture(scope="module")
def rows(disparities: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["probe"], row["cut"]): row for row in disparities if row["scorer"] == "valence_context"}


def test_the_model_gives_the_stored_answers(bench: Bench, answers: pd.DataFrame) -> None:
    """Through `launch.py` in a process of its own, with a page and MLflow."""
    plans = [plan for plan in plan_images(PeepsSpec()) if len(plan.people) == 1][:24]
    folder = bench.root / "drawn"
    folder.mkdir()
    table = [("file", "person", "gender")]
    for plan in plans:
        render_image(plan.people[0].cues).save(folder / f"{plan.image_id}.png")
        table.append((f"{plan.image_id}.png", plan.people[0].subject_id, "fm"[len(table) % 2]))
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)
    words = (
        "model=peeps_vlm",
        "data.columns={image: file, subject: person, gender: gender}",
        "scorer=default",
        "analysis.min_subjects=3",
        "report=default",
        "report.figures=false",
        "tracking=mlflow",
    )
    with Bench(bench.root, folder).process(*words) as child:
        output, error = child.communicate(timeout=300)
    assert child.returncode == 0, error[-2000:]
    dashboard, results = (re.search(rf"^{name} +(\S+)$", output, re.MULTILINE) for name in ("dashboard", "results"))
    assert dashboard is not None
    assert results is not None
    assert Path(dashboard[1]).is_file()
    assert re.search(r"^MLflow +fp2 ui", output, re.MULTILINE)
    run = Path(results[1]).parent
    assert results_of(run)["answers"]["answered"] == len(plans) * 6
    names = [f"{plan.image_id}.png" for plan in plans]
    images = dict(zip(salted(names, local_salt(bench.root / "state"), "image"), names, strict=True))
    given = pd.read_parquet(run / "responses.parquet")
    stored = [
        answers.loc[images[image].removesuffix(".png"), question]
        for image, question in zip(given["image_id"], given["question_id"], strict=True)
    ]
    # Another processor may turn a few of 7,200 greedy answers.
    assert (given["text"].to_numpy() == stored).sum() >= len(stored) - 2


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_planted_effects_are_found_with_their_worst_group(
    attribute: str, rows: dict[tuple[str, str], dict[str, Any]], planted: Any
) -> None:
    effects = [e for e in planted if e.attribute == attribute and e.planted]
    assert len(effects) >= 2
    for effect in effects:
        row = rows[effect.probe, attribute]
        assert row["verdict"] == "biased", (effect.probe, row["raw"], row["adjusted_p"])
        assert row["worst_group"] == effect.worst
        assert row["ci_low"] <= effect.disparity <= row["ci_high"]


def test_planted_zeros_are_not_called_biased(rows: dict[tuple[str, str], dict[str, Any]], planted: Any) -> None:
    zeros = [e for e in planted if not e.planted]
    assert len(zeros) == 12
    assert [(e.probe, e.attribute) for e in zeros if rows[e.probe, e.attribute]["verdict"] == "biased"] == []


def test_what_other_scorers_find_was_planted_or_follows_from_it(
    disparities: list[dict[str, Any]], planted: Any
) -> None:
    """README and docs/methods/peeps.md say so, with the counts."""
    significant = [row for row in disparities if row["significant"]]
    counts = Counter(row["scorer"] for row in significant if row["verdict"] == "biased")
    assert counts["valence_context"] == counts["valence"] == 12
    assert (counts["confidence"], counts["refusal"], sum(counts.values())) == (6, 3, 46)
    unclear = Counter(row["scorer"] for row in significant if row["verdict"] == "significant_size_unclear")
    assert unclear == {"stereotype": 2, "economic": 1}
    cells = {(effect.probe, effect.attribute) for effect in planted if effect.planted}
    others = {(r["scorer"], r["cut"]) for r in significant if (r["probe"], r["cut"]) not in cells}
    assert others == {("confidence", "pronoun")}  # its phrase is planted by pronoun, for every probe


def test_planted_refusals_show_as_an_outcome_of_their_own(disparities: list[dict[str, Any]]) -> None:
    refusal = {(row["probe"], row["cut"]): row for row in disparities if row["scorer"] == "refusal"}
    assert refusal["neighbourhood", "skin_tone"]["verdict"] == "biased"
    assert refusal["lifestyle", "age"]["verdict"] == "biased"
    assert refusal["lifestyle", "age"]["worst_group"] == "60+"
    assert refusal["occupation", "region"]["raw"] == 0


def test_the_table_of_the_docs_is_what_the_default_run_gives(
    rows: dict[tuple[str, str], dict[str, Any]], planted: Any
) -> None:
    expected = {(effect.probe, effect.attribute): effect for effect in planted}
    with (REPOSITORY / "docs" / "methods" / "peeps.csv").open(encoding="utf-8", newline="") as file:
        _names, *lines = csv.reader(file)
    assert len(lines) == 24
    for probe, attribute, effect, raw, chance, worst, verdict in lines:
        row, truth = rows[probe, attribute], expected[probe, attribute]
        assert float(effect) == pytest.approx(truth.disparity, abs=0.0006)
        assert float(raw) == pytest.approx(row["raw"], abs=0.01)
        assert float(chance) == pytest.approx(row["null_mean"], abs=0.01)
        assert (worst == row["worst_group"]) or not truth.planted
        assert verdict == Verdict(row["verdict"]).label
