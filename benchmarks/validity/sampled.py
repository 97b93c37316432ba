"""P(Yes) estimated from sampled answers: the sampling error of each share, and samples that fail more in one group.

With a stated precision, the number of samples follows from the first ones.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.worlds import ICC, IMAGES, SIZES, Data, World, shifts
from fp2.methods.server_scoring.sampled import SampledAnswers, n_following
from fp2.tables import Decoding

SAMPLES = 5
RATE = 0.3
FAILED = {
    "even": (0.0,) * 5,
    "many in the largest": (0.6, 0.0, 0.0, 0.0, 0.0),
    "many in the smallest": (0, 0, 0, 0, 0.6),
}
"""Share of samples that are neither Yes nor No, by group; an image all of whose samples failed has no value."""
PRECISE = "none, as many as give a standard error of 0.1"
_MOST = SampledAnswers(SAMPLES, Decoding(), 0.1).most
SAMPLED_WORLDS = tuple(
    World("mostly zero", failures, SIZES, gap) for failures in (*FAILED, PRECISE) for gap in (0.0, 0.8)
)  # an outcome with a rate whose values are not 0 or 1
_SPREAD = 1.0
"""SD of the latent probability, on the scale of the normal quantile."""


def sampled_shares(world: World, n: int, seed: int) -> Arrays:
    """p-value and interval where every value is the share of Yes among at most `SAMPLES` sampled answers.

    The probability of an image is ndtr(a + z), with z as in the other worlds and a such that the mean over all z is
    the group's rate. `truth` is the gap of the rates.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(world.sizes)), world.sizes)
    subject = np.repeat(np.arange(len(group)), IMAGES)
    person = rng.normal(size=(len(group), n))
    z = np.sqrt(ICC) * person[subject] + np.sqrt(1 - ICC) * rng.normal(size=(len(subject), n))
    rates = RATE + shifts(world)[group][subject][:, None]
    p = ndtr(ndtri(rates) * np.sqrt(1 + _SPREAD**2) + _SPREAD * z)
    if world.condition == PRECISE:
        yes = rng.binomial(SAMPLES, p)
        following = np.ceil(np.maximum(n_following(yes, SAMPLES, _MOST, 0.1), 2)).astype(int)
        weight = SAMPLES / _MOST
        values = weight * yes / SAMPLES + (1 - weight) * rng.binomial(following, p) / following
    else:
        failing = np.array(FAILED[world.condition])[group][subject][:, None]
        valid = rng.binomial(SAMPLES, 1 - failing, size=p.shape)
        values = np.where(valid > 0, rng.binomial(valid, p) / np.maximum(valid, 1), np.nan)
    labels = np.array([f"group {chr(65 + place)}" for place in range(len(world.sizes))])[group][subject]
    data = Data(values, labels, subject, np.arange(len(subject)))
    inverted = ("low", "high") if world.gap else ()
    found = measure(world, data, n_permutations=599, seed=seed, inverted=inverted)
    return {name: found[name] for name in ("p", *inverted)}
