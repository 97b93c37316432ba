"""A run that asks every question several times: what is asked, averaged, compared between samples, and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, fp2, predicate_of, write_pictures

from fp2.errors import Fp2Error
from fp2.methods.prompt_variation.variance import NOTHING_SAMPLED, VarianceSection
from fp2.report.reading import sentence
from fp2.report.values import Sentence, Weight
from fp2.tables import question_of, sample_of

WORDS = (
    "probe.select=[trust,occupation]", "probe.decoding.temperature=0.7", "report=default", "report.figures=false",
    "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}}",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """One answer to each question, then three, in one store; 40 people with two images."""
    root = tmp_path_factory.mktemp("samples")
    bench = Bench(root, write_pictures(root / "pictures", n_subjects=40))
    return {n: bench.run(f"probe.decoding.samples={n}", *WORDS) for n in (1, 3)}


def test_the_first_sample_is_the_single_answer_and_is_not_asked_again(runs: dict[int, Any]) -> None:
    answers = runs[3].results["answers"]
    assert (answers["answered"], answers["cached"]) == (480, 160)
    tables = {n: pd.read_parquet(run.folder / "responses.parquet") for n, run in runs.items()}
    first = tables[3][tables[3]["question_id"].map(sample_of) == 0].reset_index(drop=True)
    keys = ["response_key", "image_id", "question_id", "text"]
    assert first[keys].equals(tables[1][keys])
    assert tables[3]["response_key"].nunique() == 480
    assert runs[1].results["config_hash"] != runs[3].results["config_hash"]


def test_a_disparity_is_of_the_means_over_samples(runs: dict[int, Any]) -> None:
    scores = pd.read_parquet(runs[3].folder / "scores.parquet")
    own = scores[(scores["scorer"] == "valence") & (scores["question_id"].map(question_of) == "trust")]
    people = pd.read_parquet(runs[3].folder / "people.parquet")
    group = people.drop_duplicates("subject_id").set_index("subject_id")["attr_gender"].map(lambda values: values[0])
    by_sample = own.groupby([own["question_id"].map(sample_of), "subject_id"])["value"].mean().unstack(0)
    means = by_sample.groupby(group).mean()
    (row,) = [row for row in runs[3].results["disparities"] if row["probe"] == "trust"]
    assert row["raw"] == pytest.approx(np.ptp(means.mean(axis=1)))
    (variance,) = [row for row in runs[3].results["variance"]["rows"] if row["probe"] == "trust"]
    found = variance["samples"]
    assert found["differences"] == pytest.approx((means.loc["m"] - means.loc["f"]).tolist())
    assert found["sd"] == pytest.approx((means.loc["m"] - means.loc["f"]).std())
    assert found["others"]["holds"]  # planted
    assert row["samples_low"] == found["others"]["gap_low"] > 0
    assert sum(part["share"] for part in variance["components"]) == pytest.approx(1)
    assert "cannot be estimated" in variance["other_wordings"]
    assert "variance" not in runs[1].results
    assert 0 < runs[3].results["variance"]["share_identical"] < 1


def test_an_engine_that_samples_nothing_is_reported(runs: dict[int, Any]) -> None:
    block = {**runs[3].results["variance"], "share_identical": 1.0}
    values = VarianceSection().values(block, runs[3].results)
    assert [v for v in values if isinstance(v, Sentence) and v.weight is Weight.WARNING] == [
        Sentence(f"{sentence(NOTHING_SAMPLED)}.", Weight.WARNING)
    ]


def test_the_page_shows_both_intervals_and_the_passport_how_often_was_asked(runs: dict[int, Any]) -> None:
    page = (runs[3].folder / "dashboard.html").read_text(encoding="utf-8")
    assert "other samples:" in page
    assert "Sources of variation" in page
    decoding = {n: predicate_of(run.folder)["protocol"]["decoding"] for n, run in runs.items()}
    assert (decoding[1].get("samples"), decoding[3]["samples"]) == (None, 3)
    assert "Sources of variation" not in (runs[1].folder / "dashboard.html").read_text(encoding="utf-8")


@pytest.mark.package(name="planning")
def test_the_plan_says_how_often_each_question_is_asked(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("plan", *bench.words("probe.decoding.samples=3", *WORDS)) == 0
    assert "6: each of 2 sampled 3 times" in capsys.readouterr().out


@pytest.mark.package(name="recorded")
def test_supplied_answers_name_their_sample_in_the_id_of_the_question(bench: Bench) -> None:
    """Every second sample is positive throughout, every first one negative."""
    files = pd.read_csv(bench.table)["file"]
    words = {"trust": "A terrible, dangerous person.", "trust#sample2": "A wonderful, kind person."}
    rows = [
        {"image": file, "question": name, "text": f"{text} {k % 3}"}
        for k, file in enumerate(files)
        for name, text in words.items()
    ]
    pd.DataFrame(rows).to_csv(bench.root / "answers.csv", index=False)
    found = bench.run(
        "model=recorded",
        f"engine.answers={bench.root / 'answers.csv'}",
        "probe.select=[trust]",
        "probe.decoding.temperature=1",
        "probe.decoding.samples=2",
    )
    assert found.results["answers"]["answered"] == len(rows)
    scores = pd.read_parquet(found.folder / "scores.parquet")
    means = scores.groupby("question_id")["value"].mean()
    assert means["trust#sample2"] > 0.5 > -0.3 > means["trust"]
    assert found.results["disparities"][0]["raw"] == pytest.approx(0, abs=0.05)


def test_a_protocol_of_single_answers_refuses_samples(bench: Bench) -> None:
    words = ("probe=fhibe_vqa", "scorer=fhibe_vqa", "+probe.decoding.samples=2", "probe.decoding.temperature=1")
    with pytest.raises(Fp2Error, match="analyses one answer to each question"):
        bench.run(*words)


def test_the_folder_holds_no_further_column(runs: dict[int, Any]) -> None:
    def columns(run: Any, name: str) -> list[str]:
        return list(pd.read_parquet(Path(run.folder) / name).columns)

    assert columns(runs[1], "responses.parquet") == columns(runs[3], "responses.parquet")
    assert columns(runs[1], "scores.parquet") == columns(runs[3], "scores.parquet")
