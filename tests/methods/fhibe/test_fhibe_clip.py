"""The CLIP analysis: shares counted by hand, a planted difference found and a planted zero not; a whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.config import Config, CutConfig
from fp2.cuts import Cut
from fp2.errors import Fp2Error
from fp2.methods.fhibe.clip.options import ClipOptions
from fp2.methods.fhibe.clip.protocol import WRONG, FhibeClip, clip_block
from fp2.plugins import read_options
from fp2.probes.battery import load_battery
from fp2.protocols.fingerprint.settings import ComparedRun, ComparisonSettings

ROOT = Path(__file__).resolve().parents[3]

COMPARISON = ComparisonSettings(
    correction="holm", family="scorer", primary="valence", n_permutations=999, n_bootstrap=100, seed=1
)
LABELS = {
    "woman": ["a woman", "a picture of a woman"],
    "man": ["a man", "a picture of a man"],
    "unspecified": ["a person", "somebody"],
}
SPEC: dict[str, Any] = {
    "name": "mine",
    "version": "1",
    "protocol": "fhibe_clip",
    "variants": [{"kind": "original"}, {"kind": "masked"}],
    "probes": {
        "gender": {"questions": [{"id": "gender", "kind": "choice", "text": "Which?", "choices": LABELS}]},
    },
    "options": {
        "truths": {"gender": {"attribute": "pronoun", "labels": {"She/her/hers": "woman", "He/him/his": "man"}}},
        "neutral": {"gender": "unspecified"},
        "merge": {"hairstyle": {"short": ["None", "Short*"], "long": ["Long"]}},
        "tables": [{"question": "gender", "by": ["pronoun"]}, {"question": "gender", "by": ["hairstyle"]}],
    },
}


def world(n: int = 120, neutral: tuple[float, float] = (0.2, 0.7)) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People with two images each; he/him is labelled neutrally more often, whatever the hair; masked: at random."""
    rng = np.random.default_rng(3)
    subjects = np.repeat([f"s{k}" for k in range(n)], 2)
    pronoun = np.repeat(rng.permutation(["She/her/hers", "He/him/his"] * (n // 2)), 2)
    hair = np.repeat(rng.choice(["None", "Short, up", "Long", "Free-text"], n), 2)
    people = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(2 * n)],
            "subject_id": subjects,
            "attr_pronoun": [[p] for p in pronoun],
            "attr_hairstyle": [[h] for h in hair],
        }
    )
    parts = []
    for variant in ("original", "masked"):
        chance = np.where(pronoun == "He/him/his", neutral[1], neutral[0]) if variant == "original" else 0.5
        own = np.where(pronoun == "He/him/his", "a man", "a picture of a woman")
        said = np.where(rng.random(2 * n) < chance, "somebody", own)
        parts.append(people[["image_id", "subject_id"]].assign(variant=variant, text=said))
    answers = pd.concat(parts, ignore_index=True).assign(question_id="gender", probe="gender", status="answered")
    return people, answers


def block(people: pd.DataFrame, answers: pd.DataFrame, **options: Any) -> dict[str, Any]:
    battery = load_battery({**SPEC, "options": {**SPEC["options"], **options}})
    cuts = [Cut("pronoun", ("pronoun",))]
    config = Config(cut=CutConfig(by=["pronoun"]))
    run = ComparedRun(config, battery, answers, answers.iloc[:0], people, cuts, {}, COMPARISON)
    return clip_block(run, protocol(battery).options)


def protocol(battery: Any) -> FhibeClip:
    clip = FhibeClip(read_options(ClipOptions, battery.options, "probe.options"))
    clip.check_battery(battery, Config())
    return clip


@pytest.fixture(scope="module")
def made() -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    people, answers = world()
    return people, answers, block(people, answers)


def table(found: dict[str, Any], by: str, variant: str) -> dict[str, Any]:
    return next(t for t in found["tables"] if t["by"] == [by] and t["variant"] == variant)


def test_shares_are_those_counted_by_hand(made: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]) -> None:
    people, answers, found = made
    row = next(r for r in table(found, "pronoun", "original")["rows"] if r["group"] == "He/him/his")
    own = answers[answers["variant"] == "original"].merge(people, on=["image_id", "subject_id"])
    own = own[own["attr_pronoun"].str[0] == "He/him/his"]
    neutral = own["text"].isin(LABELS["unspecified"])
    entry = next(e for e in row["labels"] if e["label"] == "unspecified")
    assert row["n_images"] == len(own) == 120
    assert entry["share_images"] == pytest.approx(neutral.mean())
    assert entry["rate"] == pytest.approx(neutral.groupby(own["subject_id"]).mean().mean())
    assert entry["ci_low"] < entry["rate"] < entry["ci_high"]
    wrong = next(e for e in row["labels"] if e["label"] == WRONG)
    assert wrong["share_images"] == pytest.approx((~own["text"].isin(LABELS["man"])).mean())
    shares = [e["rate"] for e in row["labels"] if e["label"] != WRONG]
    assert sum(shares) == pytest.approx(1.0)


def test_a_planted_difference_is_found_and_planted_zeros_are_not(
    made: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]],
) -> None:
    rows = {(r["by"][0], r["variant"], r["label"]): r for r in made[2]["disparities"]}
    assert rows["pronoun", "original", "unspecified"]["verdict"] == "biased"
    assert rows["pronoun", "original", "unspecified"]["raw"] == pytest.approx(0.5, abs=0.12)
    for label in ("woman", "man", "unspecified", WRONG):
        assert rows["hairstyle", "original", label]["verdict"] != "biased"
    assert rows["pronoun", "masked", "unspecified"]["verdict"] != "biased"
    assert made[2]["headline"]["differences"]
    assert made[2]["metrics"]["original.gender.pronoun.unspecified.raw"] > 0.3


def test_values_are_put_together_and_others_left_out(made: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]) -> None:
    people, _, found = made
    rows = {r["group"]: r["n_images"] for r in table(found, "hairstyle", "original")["rows"]}
    hair = people["attr_hairstyle"].str[0]
    assert rows == {"short": int(hair.isin(["None", "Short, up"]).sum()), "long": int((hair == "Long").sum())}


def test_accuracy_is_reported_by_variant(made: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]) -> None:
    rates = {(row["variant"], row["label"]): row["rate"] for row in made[2]["accuracy"]}
    assert rates["original", "woman"] == pytest.approx(0.8, abs=0.12)
    assert rates["original", "man"] == pytest.approx(0.3, abs=0.12)
    assert rates["masked", "man"] == pytest.approx(0.5, abs=0.12)


def test_an_attribute_that_the_data_lack_is_reported() -> None:
    people, answers = world(40)
    found = block(people, answers, tables=[{"question": "gender", "by": ["scene"]}])
    assert found["tables"][0]["reason"] == "the data set has no scene"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tables": [{"question": "genders", "by": ["pronoun"]}]}, "no question 'genders'"),
        ({"neutral": {"gender": "nobody"}}, "no label 'nobody'"),
        ({"table": []}, "unknown key 'table'.*Did you mean 'tables'"),
        ({"tables": ["gender"]}, r"list of tables .*\(probe\.options\.tables\)"),
        ({"tables": [{"question": "gender", "by": []}]}, "list of tables"),
        ({"smallest_effect": 0}, r"0 is not a number between 0 and 1 \(probe\.options\.smallest_effect\)"),
        ({"truths": {"gender": {"attribute": "pronoun"}}}, "labels is missing"),
        ({"tables": [{"question": "gender", "by": ["location_region"]}]}, "must not leave the data folder"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says):
        protocol(load_battery({**SPEC, "options": {**SPEC["options"], **options}}))


def test_a_whole_run_with_a_dual_encoder(tmp_path: Path) -> None:
    from bench import load_config
    from family_checkpoints.duals import DUALS

    from fp2.progress import Progress
    from fp2.run import run

    checkpoint = DUALS["clip"](tmp_path / "clip", 0)
    words = [
        "experiment=fhibe_clip",
        "data=peeps",
        f"model.id={checkpoint}",
        "data.n_subjects=30",
        "data.n_pairs=0",
        "data.images_per_subject=1",
        f"paths.root={tmp_path}",
        "analysis=quick",
        "analysis.permutations=199",
        "engine.device=cpu",
        "tracking=none",
        "report.figures=false",
    ]
    config = load_config(words)
    outcome = run(config, tmp_path / "run", words, Progress(quiet=True))
    assert outcome.exit_status == 0
    results = outcome.results
    assert results["answers"]["planned"] == 30 * 3 * 4
    assert results["answers"]["failed"] == 0
    assert results["composites"] == {}
    assert results["fhibe_clip"]["variants"] == ["original", "masked", "blurred", "background_removed"]
    page = (tmp_path / "run" / "dashboard.html").read_text(encoding="utf-8")
    assert "Zero-shot labels" in page
    assert "Share of images with the right label" in page
    kept = pd.read_parquet(tmp_path / "run" / "people.parquet").columns
    assert {"attr_hairstyle", "attr_scene", "attr_pronoun"} <= set(kept)
    again = run(config, tmp_path / "again", words, Progress(quiet=True))
    assert again.results["answers"]["model_calls"] == 0
    assert again.results["fhibe_clip"] == results["fhibe_clip"]
