"""The distance of two fingerprints."""

from __future__ import annotations

import numpy as np
import pytest
from stats_data import clustered, tangled

from fp2.methods.several_runs.distance import fingerprint_distance

SIZES = (50, 35, 20, 12)
FAST = {"n_permutations": 199, "n_bootstrap": 200, "seed": 1}


def two_models(rng, profile=0.0, columns=3):
    """Two models' answers about the same people; the second describes group D `profile` lower."""
    shared, groups, subjects, images = clustered(rng, SIZES, columns=columns)
    own = [0.1 * rng.normal(size=shared.shape) for _ in range(2)]
    second = shared + own[1] + 0.3 - profile * (groups == "group D")[:, None]
    return shared + own[0], second, groups, subjects, images


def test_distance_is_the_rms_of_centred_group_means():
    first, second, groups, subjects, images = two_models(np.random.default_rng(1), 0.2)
    found = fingerprint_distance(first, second, groups, subjects, images=images, **FAST)
    profiles = []
    for y in (first, second):
        people = np.array([y[subjects == s].mean(axis=0) for s in range(sum(SIZES))])
        means = np.array([part.mean(axis=0) for part in np.split(people, np.cumsum(SIZES)[:-1])])
        profiles.append(means - means.mean(axis=0))
    assert found.distance == pytest.approx(np.sqrt(((profiles[0] - profiles[1]) ** 2).mean()))
    assert found.correlation == pytest.approx(np.corrcoef(profiles[0].ravel(), profiles[1].ravel())[0, 1])
    assert (found.n_subjects, found.n_outcomes, found.groups) == (117, 3, tuple(np.unique(groups).tolist()))
    assert found.p_value == pytest.approx(1 / 200)
    assert found.ci_low <= found.distance <= found.ci_high
    assert found.null_mean < found.null_p95 < found.distance


def test_a_different_level_is_no_distance_and_the_same_model_none():
    first, second, groups, subjects, images = two_models(np.random.default_rng(2))
    assert fingerprint_distance(first, second, groups, subjects, images=images, **FAST).p_value > 0.05
    same = fingerprint_distance(first, first + 0.5, groups, subjects, images=images, **FAST)
    assert (same.distance, same.ci_low, same.p_value) == (pytest.approx(0.0, abs=1e-12), 0.0, 1.0)
    assert same.correlation == pytest.approx(1.0)


def test_distance_of_people_in_several_groups_and_of_too_few():
    values, groups, subjects, images = tangled(np.random.default_rng(3), 40, 2)
    other = values + 0.1 * np.sin(100 * values)
    found = fingerprint_distance(values, other, groups, subjects, images=images, **FAST)
    assert 0 <= found.ci_low <= found.distance <= found.ci_high
    assert 0 < found.p_value <= 1
    none = fingerprint_distance(values[:6], other[:6], groups[:6], subjects[:6], **FAST)
    assert none.distance is none.p_value is None
    with pytest.raises(ValueError, match="shape"):
        fingerprint_distance(values, other[:, :1], groups, subjects, **FAST)


@pytest.mark.parametrize("profile", [0.0, 0.15])
def test_distance_interval_covers_and_its_p_holds_the_level(profile):
    rng = np.random.default_rng(4)
    centred = np.array([0, 0, 0, profile]) - profile / 4
    truth, covered, rejected = np.sqrt((centred**2).mean()), 0, 0
    for k in range(60):
        found = fingerprint_distance(*two_models(rng, profile, 2)[:4], n_permutations=59, n_bootstrap=100, seed=k)
        covered += found.ci_low - 1e-12 <= truth <= found.ci_high
        rejected += found.p_value <= 0.05
    assert covered >= 53
    assert rejected <= 8 if profile == 0 else rejected >= 53
