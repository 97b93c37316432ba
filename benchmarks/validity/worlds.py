"""Made-up data of which the truth is known: people in unequal groups, several images each, many data sets as columns.

An answer comes from a latent z = sqrt(ICC) person + sqrt(1 - ICC) image, standard normal, turned into a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

ALPHA = 0.05
SIZES = (60, 40, 25, 14, 10)
IMAGES = 3
BY_GROUP = {"images": (6, 5, 3, 2, 1), "many images": (12, 9, 6, 3, 1)}
ICC = 0.3
AGREEMENT = {"agreement": (0.05, 0.95), "milder agreement": (0.2, 0.8)}
"""Intraclass correlation of the answers in all groups but the smallest, and in the smallest."""
SPREAD = {"spread": 2.0, "triple spread": 3.0}
"""SD of the smallest group in units of that of the others."""
NORMAL_SD, ZEROS, STEEPNESS = 0.2, 0.6, 0.45
RATES = {"yes/no": 0.3, "uncommon": 0.05, "rare": 0.02, "very rare": 0.005, "mostly zero": 0.03}
SIZE_OF_VALUES = (0.3, 1.0)
"""Least and largest score other than 0 of an outcome that is mostly zero; uniform between them."""
SKEW = 0.8
"""SD of the logarithm of a skewed score."""
WIDE = (-50.0, 50.0)
WIDE_GAP = 1e-9
"""A gap that only widens the scale."""


@dataclass(frozen=True)
class World:
    """What one data set is like.

    outcome: normal, skewed (log-normal), zero-heavy (60 % zeros, within [-1, 1]), mostly zero (3 % between .3 and 1),
    yes/no (30 %), uncommon (5 %), rare (2 %) or very rare (.5 %). condition: exchangeable, spread (the smallest group
    has twice the SD), triple spread, images (6, 5, 3, 2, 1 images a subject by group), many images (12, 9, 6, 3, 1),
    agreement (intraclass correlation .95 in the smallest group, .05 elsewhere), milder agreement (.8, .2), straddling
    (a quarter of the subjects change group between images), multi-valued (a fifth count in two groups), missing (half
    of the answers about the largest group, 5 % elsewhere). gap, in SD of one answer: `smallest` group apart from all
    others (or the `largest`, below them), even `steps`, or the `two smallest` (`two largest`) apart from each other
    with all others in the middle. A gap of an outcome with a rate is a difference of rates.
    """

    outcome: str
    condition: str = "exchangeable"
    sizes: tuple[int, ...] = SIZES
    gap: float = 0.0
    where: str = "smallest"

    @property
    def name(self) -> str:
        """A file name of its own."""
        parts = [self.outcome, self.condition, "-".join(map(str, self.sizes)), f"{self.gap:.4g}", self.where]
        return "_".join(parts).replace("/", "").replace(" ", "-")

    @property
    def yes_no(self) -> bool:
        """Whether the outcome is 0 or 1."""
        return self.outcome in RATES and self.outcome != "mostly zero"

    @property
    def scale(self) -> tuple[float, float]:
        """Ends of the scale; wide where a gap shifts the scores."""
        if self.outcome in RATES:
            return (0.0, 1.0)
        return (-1.0, 1.0) if self.outcome == "zero-heavy" and not self.gap else WIDE

    @property
    def true_gap(self) -> float:
        """Max - min of the true group means, in the outcome's units."""
        return self.gap * answer_sd(self.outcome)


@dataclass(frozen=True)
class Data:
    """values (n, m): one column per data set; groups, subjects, images (n,)."""

    values: np.ndarray
    groups: np.ndarray
    subjects: np.ndarray
    images: np.ndarray


@cache
def answer_sd(outcome: str) -> float:
    """Return the SD of one answer at no gap."""
    if outcome == "normal":
        return NORMAL_SD
    if outcome == "mostly zero":
        size = np.linspace(*SIZE_OF_VALUES, 1001)
        return float(np.sqrt(RATES[outcome] * (size**2).mean() - (RATES[outcome] * size.mean()) ** 2))
    if outcome in RATES:
        return float(np.sqrt(RATES[outcome] * (1 - RATES[outcome])))
    z = ndtri((np.arange(200_000) + 0.5) / 200_000)
    return float((_skewed(z) if outcome == "skewed" else _zero_heavy(z)).std())


def _zero_heavy(z: np.ndarray) -> np.ndarray:
    edge = ndtri(0.5 + ZEROS / 2)
    return np.clip(np.sign(z) * np.maximum(np.abs(z) - edge, 0.0) * STEEPNESS, -1.0, 1.0)


def _skewed(z: np.ndarray) -> np.ndarray:
    return NORMAL_SD * (np.exp(SKEW * z) - np.exp(SKEW**2 / 2))


def shifts(world: World) -> np.ndarray:
    """Return the true mean of every group less the first, in the outcome's units."""
    k, shift = len(world.sizes), np.zeros(len(world.sizes))
    if world.where == "steps":
        shift = np.linspace(0.0, 1.0, k)
    elif world.where == "two smallest":
        shift[-2], shift[-1] = -0.5, 0.5
    elif world.where == "two largest":
        shift[0], shift[1] = -0.5, 0.5
    elif world.where == "largest":
        shift[0] = -1.0
    else:
        shift[-1] = 1.0
    return shift * world.true_gap


def draw(world: World, rng: np.random.Generator, columns: int, shared: float = 0.0) -> Data:
    """Draw `columns` data sets; `shared` is the correlation of the columns' people (0: independent data sets)."""
    group = np.repeat(np.arange(len(world.sizes)), world.sizes)
    images = np.array(BY_GROUP.get(world.condition, (IMAGES,) * len(world.sizes)))[group]
    subject = np.repeat(np.arange(len(group)), images)
    person = rng.normal(size=(len(group), columns))
    if shared:
        person = np.sqrt(shared) * rng.normal(size=(len(group), 1)) + np.sqrt(1 - shared) * person
    elsewhere, smallest = AGREEMENT.get(world.condition, (ICC, ICC))
    icc = np.where(group == len(world.sizes) - 1, smallest, elsewhere)[subject][:, None]
    z = np.sqrt(icc) * person[subject] + np.sqrt(1 - icc) * rng.normal(size=(len(subject), columns))
    values = scores(world, z, group[subject])
    labels = np.array([f"group {chr(65 + g)}" for g in range(len(world.sizes))])[group][subject]
    return _conditioned(world, rng, Data(values, labels, subject, np.arange(len(subject))))


def scores(world: World, z: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Turn latent z (lines, columns) into scores of the world; group (lines,): the number of each line's group."""
    shift = shifts(world)[group][:, None]
    if world.outcome in RATES:
        rate, u = RATES[world.outcome], ndtr(z)
        if world.yes_no:
            return (u < rate + shift).astype(float)
        least, most = SIZE_OF_VALUES
        limit = rate + shift / (least + most) * 2
        # given u < limit, u / limit is uniform
        return np.where(u < limit, least + (most - least) * u / limit, 0.0)
    score = {"normal": lambda z: NORMAL_SD * z, "skewed": _skewed, "zero-heavy": _zero_heavy}[world.outcome](z)
    if world.condition in SPREAD:
        score = np.where((group == len(world.sizes) - 1)[:, None], SPREAD[world.condition] * score, score)
    score = np.clip(score, -1.0, 1.0) if world.outcome == "zero-heavy" else score
    return score + shift


def _conditioned(world: World, rng: np.random.Generator, data: Data) -> Data:
    names = np.unique(data.groups)
    following = dict(zip(names, np.roll(names, -1), strict=True))
    if world.condition == "straddling":
        moved = (data.subjects % 4 == 0) & (data.images % IMAGES == IMAGES - 1)
        groups = np.where(moved, [following[g] for g in data.groups], data.groups)
        return Data(data.values, groups, data.subjects, data.images)
    if world.condition == "multi-valued":
        also = data.subjects % 5 == 0
        second = np.array([following[g] for g in data.groups[also]])
        return Data(
            np.r_[data.values, data.values[also]],
            np.r_[data.groups, second],
            np.r_[data.subjects, data.subjects[also]],
            np.r_[data.images, data.images[also]],
        )
    if world.condition == "missing":
        share = np.where(data.groups == names[0], 0.5, 0.05)[:, None]
        values = np.where(rng.random(data.values.shape) < share, np.nan, data.values)
        return Data(values, data.groups, data.subjects, data.images)
    return data
