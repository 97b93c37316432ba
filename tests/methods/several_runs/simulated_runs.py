"""Finished runs of the simulator, without the pipeline around them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from fp2.cuts import Cut
from fp2.methods.peeps.planted import truth as planted_truth
from fp2.methods.peeps.planted.engine import simulate
from fp2.methods.peeps.planted.truth import PlantedTruth, load_truth
from fp2.runs.reader import LoggedRun
from fp2.tables import Question

TEXTS = {
    probe: body["texts"][0]
    for probe, body in yaml.safe_load(
        Path(planted_truth.__file__).with_name("default.yaml").read_text(encoding="utf-8")
    )["probes"].items()
}
REGIONS, PRONOUNS = ("North", "South", "West"), ("She", "He")


@cache
def valence_of(text: str) -> float:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return float(SentimentIntensityAnalyzer().polarity_scores(text)["compound"])


def crowd(n: int = 60, start: int = 0) -> pd.DataFrame:
    """Two images each of `n` people in three regions."""
    who = np.repeat(np.arange(start, start + n), 2)
    return pd.DataFrame(
        {
            "image_id": [f"i{2 * s + k % 2}" for k, s in enumerate(who)],
            "subject_id": [f"s{s}" for s in who],
            "attr_region": [[REGIONS[s % 3]] for s in who],
            "attr_pronoun": [[PRONOUNS[(s // 3) % 2]] for s in who],
        }
    )


def run_of(
    name: str,
    people: pd.DataFrame,
    truth: dict[str, Any] | PlantedTruth,
    probes: tuple[str, ...] = ("occupation", "trust"),
    cuts: tuple[str, ...] = ("region",),
    **results: Any,
) -> LoggedRun:
    """A finished run of the simulator, without the pipeline around it."""
    planted = truth if isinstance(truth, PlantedTruth) else load_truth(truth)
    answers = simulate(people, [Question(p, p, TEXTS[p]) for p in probes], planted)
    refused = answers["text"].isin(["refused"])
    scores = answers[["image_id", "subject_id", "probe"]].assign(
        question_id=answers["probe"],
        scorer="valence",
        value=[valence_of(text) for text in answers["text"]],
        refused=refused,
    )
    found: dict[str, Any] = {
        "run_id": f"{name}-id",
        "created": "2026-01-01",
        "model": {"name": name, "engine": "planted"},
        "dataset": {"name": "crowd"},
        "probes": [{"id": p, "label": p.title(), "text": TEXTS[p]} for p in probes],
        "scorers": [{"name": "valence", "version": "1", "lexicon": None}],
        "analysis": {"primary": "valence", "min_subjects": 10, "n_bootstrap": 300, "seed": 1, "alpha": 0.05},
        "cuts": list(cuts),
        "disparities": [],
        "composites": {cut: {"value": 0.2, "null_mean": 0.1, "excess": 0.1, "probes": list(probes)} for cut in cuts},
        "answers": {"answered": len(answers), "refused": 0},
        "n_subjects": people["subject_id"].nunique(),
        "complete": True,
        "config_hash": "c",
        "response_set": "r",
    }
    return LoggedRun(found | results, people, scores, {cut: Cut(cut, (cut,)) for cut in cuts})


def biased(points: float, seed: int = 1) -> dict[str, Any]:
    return {"seed": seed, "effects": {"all": {"region": {"West": points}}}}
