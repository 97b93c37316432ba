"""Two narrow models on the same people: when their difference is only approximate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.cuts import Cut
from fp2.methods.fhibe.narrow.model_comparison import compare_models, too_skewed
from fp2.protocols.task_tables import ScoreComparison


def pair_of(difference: np.ndarray, images: np.ndarray | None = None) -> dict[str, Any]:
    """Return the comparison of two models whose scores differ by `difference` about each subject."""
    images = np.ones(len(difference), dtype=int) if images is None else images
    subject = np.repeat(np.arange(len(difference)), images)
    keys = {"image_id": [f"i{k}" for k in range(len(subject))], "subject_id": [f"s{one:03d}" for one in subject]}
    people = pd.DataFrame({**keys, "attr_half": [[str(int(one >= len(difference) / 2))] for one in subject]})
    scores = pd.concat(
        [
            pd.DataFrame({**keys, "probe": name, "scorer": "iou", "value": 0.5 + shift})
            for name, shift in (("a", difference[subject] / 2), ("b", -difference[subject] / 2))
        ]
    )
    outcomes = [
        {"probe": name, "task": "t", "title": "T", "model": name, "metric": "iou", "scale": "s", "measurable": True}
        for name in ("a", "b")
    ]
    how = ScoreComparison(n_permutations=199, n_bootstrap=0)
    (found,) = compare_models(scores, outcomes, people, [Cut("half", ("half",))], how, 0.05)
    return found


def test_few_people_and_rare_failures_are_marked() -> None:
    rng = np.random.default_rng(3)
    even = 0.02 + 0.1 * rng.normal(size=60)
    found = pair_of(even)
    assert found["difference"] == pytest.approx(even.mean())
    assert not found["approximate"]
    assert pair_of(even[:29])["approximate"]
    failing = np.where(np.arange(60) % 30 == 7, -0.9, 0.03)  # one model fails on two of sixty people
    assert pair_of(failing)["approximate"]


def test_skewed_differences_are_marked_by_group_where_images_are_unequal() -> None:
    failing = np.where(np.arange(60) % 30 == 7, -0.9, 0.03)
    unequal = np.where(np.arange(60) < 30, 6, 1)
    assert not pair_of(failing)["cuts"][0]["approximate"]
    assert pair_of(failing, unequal)["cuts"][0]["approximate"]
    even = 0.1 * np.random.default_rng(4).normal(size=60)
    assert not pair_of(even, unequal)["cuts"][0]["approximate"]


def test_cochrans_rule() -> None:
    values = np.array([0.0] * 9 + [1.0])  # skewness 8 / 3
    assert too_skewed(values, 177)
    assert not too_skewed(values, 178)
    assert not too_skewed(np.ones(10), 10)
