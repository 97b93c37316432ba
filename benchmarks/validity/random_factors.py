"""Worlds in which questions, or repeated samples, are drawn from many: intervals beyond those asked, and components.

The condition of a world says how many there are, and how far group means vary between them: `3 questions` by 0.2 SD of
one answer in every group, `one group` only in the last (by as much in the mean over groups), `none` in no group.
"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import ICC, IMAGES, World, answer_sd, draw, shifts
from fp2.methods.prompt_variation.components import variance_components
from fp2.methods.prompt_variation.random_factors import between_samples, beyond, group_table
from fp2.stats.disparities import disparity

SD = 0.2
SHARED = 0.5
"""Correlation of the subjects' means between questions, or between samples."""
THREE, FIVE = (200,) * 3, (100,) * 5
WORDING_WORLDS = (
    *(World("normal", f"{n} questions", THREE) for n in (2, 3, 5, 10)),
    *(World("normal", f"{n} questions, one group", FIVE) for n in (2, 3, 5, 10)),
    World("normal", "2 questions", (200, 200)),
    World("normal", "3 questions", (200, 200)),
    World("normal", "4 questions", (200, 200)),
    World("normal", "3 questions"),
    World("normal", "3 questions, one group"),
    World("zero-heavy", "3 questions", THREE),
    World("normal", "3 questions, none", THREE),
    *(World("normal", f"{n} questions", THREE, gap) for n in (2, 3, 5, 10) for gap in (0.4, 0.8)),
    *(World("normal", f"{n} questions, one group", FIVE, 0.8) for n in (2, 3, 5, 10)),
    *(World("normal", f"{n} questions, none", THREE, 0.25) for n in (2, 3, 5, 10)),
)
COMPARED = ("3 questions", "3 questions, none")
"""Where the p-value of the questions asked is measured beside the interval, with three groups of 200."""
SAMPLE_WORLDS = (
    *(World("normal", f"{n} samples, none", THREE, gap) for n in (2, 3, 5) for gap in (0.0, 0.25)),
    *(World("normal", f"{n} samples", THREE, gap) for n in (2, 3, 5) for gap in (0.0, 0.8)),
)
COMPONENT_WORLDS = (
    World("normal", "3 questions", (60, 40, 25)),
    World("normal", "3 questions, 3 samples", (60, 40, 25)),
    World("normal", "3 questions, none", (60, 40, 25)),
    World("skewed", "3 questions", (60, 40, 25)),
    World("normal", "8 questions", (40, 40)),
)
COMPONENTS = {
    "group": 0.3, "question": 0.2, "group x question": 0.2, "subject": 0.5, "subject x question": 0.3, "image": 0.3,
    "image x question": 0.2, "sample": 0.4,
}  # fmt: skip
"""SD of each component; with one sample the last two are the residual."""


def _levels(world: World) -> int:
    return int(world.condition.split()[0])


def _drawn(world: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return values (lines, levels), groups, subjects and images of one data set."""
    data = draw(World(world.outcome, sizes=world.sizes), rng, _levels(world), shared=SHARED)
    group = np.unique(data.groups, return_inverse=True)[1]
    sd = np.full(len(world.sizes), SD * answer_sd(world.outcome))
    if "one group" in world.condition:
        sd = np.where(np.arange(len(sd)) == len(sd) - 1, sd * np.sqrt(len(sd)), 0.0)
    elif "none" in world.condition:
        sd = 0 * sd
    own = sd[:, None] * rng.normal(size=(len(sd), _levels(world))) + shifts(world)[:, None]
    return data.values + own[group], data.groups, data.subjects, data.images


def wordings(world: World, n: int, seed: int) -> Arrays:
    """Whether a gap is claimed for other questions and whether its interval holds the true one; the p of these."""
    rng, out = np.random.default_rng(seed), []
    for k in range(n):
        values, groups, subjects, images = _drawn(world, rng)
        found = beyond(group_table(values, groups, subjects, images, 10), 0.05)
        assert found is not None
        p = np.nan
        if world.condition in COMPARED and world.sizes == THREE and world.gap <= 0.25:
            p = (
                disparity(
                    values.mean(axis=1),
                    groups,
                    subjects,
                    images=images,
                    n_permutations=199,
                    n_bootstrap=0,
                    seed=seed + k,
                    value_range=(-9.0, 9.0),
                ).p_value
                or np.nan
            )
        out.append((found.holds, found.gap_low <= world.true_gap <= found.gap_high, found.gap_high - found.gap_low, p))
    holds, covered, width, p = np.array(out, dtype=float).T
    return {"holds": holds, "covered": covered, "width": width / answer_sd(world.outcome), "p": p}


def samples(world: World, n: int, seed: int) -> Arrays:
    """The same for samples, and whether the interval of the SD between them holds the true one."""
    rng, out = np.random.default_rng(seed), []
    within = (1 - SHARED) * ICC + (1 - ICC) / IMAGES
    interaction = 0.0 if "none" in world.condition else SD
    true_sd = answer_sd(world.outcome) * np.sqrt(2 * (within / world.sizes[0] + interaction**2))
    for _ in range(n):
        values, groups, subjects, images = _drawn(world, rng)
        found = between_samples(values[:, None, :], groups, subjects, images=images)
        assert found is not None
        low, high = found.others.gap_low, found.others.gap_high
        out.append((found.others.holds, low <= world.true_gap <= high, found.sd_low <= true_sd <= found.sd_high))
    holds, covered, sd = np.array(out, dtype=float).T
    return {"holds": holds, "covered": covered, "sd": sd}


def components(world: World, n: int, seed: int) -> Arrays:
    """Each variance component, in units of the variance of one normal answer, and whether its interval holds it."""
    rng, found = np.random.default_rng(seed), {}
    n_samples = 3 if "samples" in world.condition else 1
    truth = {name: sd**2 for name, sd in COMPONENTS.items()}
    if "none" in world.condition:
        truth |= {"question": 0.0, "group x question": 0.0}
    expected = dict(truth)
    if n_samples == 1:
        expected["residual"] = expected.pop("image x question") + expected.pop("sample")
    for k in range(n):
        values, groups, subjects, images = crossed_data(world, truth, n_samples, rng)
        made = variance_components(values, groups, subjects, images=images, seed=seed + k)
        assert made is not None
        for one in made.components:
            right = one.low <= expected[one.name] + 1e-12 and expected[one.name] <= one.high
            found.setdefault(f"{one.name}, variance", []).append(one.variance - expected[one.name])
            found.setdefault(f"{one.name}, covered", []).append(right)
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def crossed_data(
    world: World, variance: dict[str, float], n_samples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return values (lines, questions, samples), groups, subjects and images; a subject has one to five images."""
    questions, group = _levels(world), np.repeat(np.arange(len(world.sizes)), world.sizes)
    subject = np.repeat(np.arange(len(group)), rng.integers(1, 6, size=len(group)))
    lines, sd = len(subject), {name: np.sqrt(one) for name, one in variance.items()}

    def noise(*shape: int) -> np.ndarray:
        return rng.exponential(size=shape) - 1 if world.outcome == "skewed" else rng.normal(size=shape)

    means = np.linspace(-1, 1, len(world.sizes))
    crossed = sd["group x question"] * rng.normal(size=(len(world.sizes), questions))
    by_group = (
        crossed + (sd["group"] * means / means.std(ddof=1))[:, None] + sd["question"] * rng.normal(size=questions)
    )
    people = sd["subject"] * noise(len(group), 1) + sd["subject x question"] * noise(len(group), questions)
    shown = sd["image"] * noise(lines, 1) + sd["image x question"] * noise(lines, questions)
    values = (by_group[group] + people)[subject] + shown
    return (
        values[:, :, None] + sd["sample"] * noise(lines, questions, n_samples),
        group[subject],
        subject,
        np.arange(lines),
    )
