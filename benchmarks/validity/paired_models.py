"""Two models of one narrow task on the same people: where neither is better, and where no difference depends on groups.

Scores have what people and images have in common, and what a model adds. `first` and `second` have the same mean: by
the same law, or by laws so different that the difference of a person is skewed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import BY_GROUP, SIZES, World
from fp2.cuts import Cut
from fp2.methods.fhibe.narrow.model_comparison import compare_models
from fp2.protocols.task_tables import ScoreComparison

FEW = (15,)
SCORES = {
    "IoU, many ones": "same law",
    "yes/no scores": "same law",
    "skewed scores": "same law",
    "skewed scores against nearly constant ones": "the scores of one model are skewed, those of the other hardly vary",
    "yes/no against a constant": "one model fails in 10 % of the people, the other loses a tenth everywhere",
    "IoU, rare failures": "one model fails in 3 % of the images, the other loses a little everywhere",
}
"""Scores by name, and how the two models differ."""
PAIRED_WORLDS = tuple(
    World(scores, condition, sizes)
    for scores in SCORES
    for condition, sizes in (("exchangeable", FEW), ("images", SIZES), ("exchangeable", (60, 60)))
)
HOW = ScoreComparison(n_permutations=399, n_bootstrap=0)
IMAGES = 3
MEAN = 0.169
"""Of the skewed scores."""


def paired_models(world: World, n: int, seed: int) -> Arrays:
    """p and coverage of the difference of two models, and p that it depends on the group."""
    import pandas as pd

    rng, found = np.random.default_rng(seed), []
    group = np.repeat(np.arange(len(world.sizes)), world.sizes)
    images = np.array(BY_GROUP.get(world.condition, (IMAGES,) * len(world.sizes)))[group]
    if len(world.sizes) == 1:
        images = 1 + 2 * (np.arange(len(group)) % 4)  # 1, 3, 5 or 7 images
    subject = np.repeat(np.arange(len(group)), images)
    keys = {"image_id": [f"i{k}" for k in range(len(subject))], "subject_id": [f"s{s:03d}" for s in subject]}
    people = pd.DataFrame({**keys, "attr_group": [[f"g{g}"] for g in group[subject]]})
    outcomes = [
        {"probe": name, "task": "t", "title": "t", "model": name, "metric": "m", "scale": "m", "measurable": True}
        for name in ("first", "second")
    ]
    cuts = [Cut("group", ("group",))]
    for _ in range(n):
        pair = dict(zip(("first", "second"), _scores(world.outcome, subject, rng), strict=True))
        scores = pd.concat([pd.DataFrame({**keys, "probe": name, "scorer": "m", "value": pair[name]}) for name in pair])
        (entry,) = compare_models(scores, outcomes, people, cuts, HOW, 0.05)
        truth = _truth(world.outcome)
        covered = entry["ci_low"] is not None and entry["ci_low"] <= truth <= entry["ci_high"]
        cut = entry["cuts"][0]
        by_group = np.nan if cut["p_value"] is None else cut["p_value"]
        found.append((entry["p_value"], covered, entry["approximate"], by_group, cut["approximate"]))
    names = ("p", "covered", "approximate", "by_group", "by_group_approximate")
    return dict(zip(names, np.array(found, dtype=float).T, strict=True))


@cache
def _truth(name: str) -> float:
    """Return the mean difference: 0 but for the error of the constants, from a very large sample."""
    first, second = _scores(name, np.arange(2_000_000), np.random.default_rng(5))
    return float((first - second).mean()) if SCORES[name] != "same law" else 0.0


def _skewed(z: np.ndarray) -> np.ndarray:
    return np.minimum(np.exp(0.8 * z) / 8, 1.0)


def _scores(name: str, subject: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of both models for people in images; subject (lines,): whose line it is."""
    person = rng.normal(size=(3, int(subject.max()) + 1))[:, subject]
    shared, *own = np.sqrt(0.4) * person + np.sqrt(0.6) * rng.normal(size=(3, len(subject)))
    first, second = (np.sqrt(0.5) * (shared + one) for one in own)
    if name == "yes/no scores":
        return (first < 0.5).astype(float), (second < 0.5).astype(float)
    if name == "skewed scores":
        return _skewed(first), _skewed(second)
    if name == "skewed scores against nearly constant ones":
        return _skewed(first), np.clip(MEAN + 0.02 * second, 0.0, 1.0)
    if name == "yes/no against a constant":
        return (ndtr(person[1]) > 0.1).astype(float), np.full(len(subject), 0.9)
    iou = np.clip(0.85 + 0.2 * first, 0.0, 1.0), np.clip(0.85 + 0.2 * second, 0.0, 1.0)
    if name == "IoU, rare failures":
        failed = rng.random(len(subject)) < 0.03
        return np.where(failed, 0.0, iou[0]), 0.97 * iou[0]
    return iou
