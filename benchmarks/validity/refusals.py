"""Refusals that differ by group: of a single question, and of all answers.

Three questions of one probe of which one group refuses a single one more often, without a gap within any question: the
questions' means differ; each image has an answer to every question that was not refused. And the bounds of the gap that
refused answers leave, where the truth lies at the lower or the upper end of what is possible, or within.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.worlds import NORMAL_SD, RATES, WIDE_GAP, Data, World, answer_sd, draw, shifts
from fp2.scorers.outcomes import question_adjusted_means
from fp2.stats.bounds import bounds_between, refusal_ends

LEVELS = (-0.75, 0.0, 0.75)
"""Means of the questions, in SD of one answer."""
REFUSED, OFTEN = 0.1, 0.5
"""Share of refused answers, and that of the largest group to the first question."""
REFUSAL_WORLDS = (World("normal"), World("zero-heavy"), World("normal", sizes=(40, 40)), World("normal", gap=0.8))


def refusals(world: World, n: int, seed: int) -> Arrays:
    """p with adjustment for the questions, and of the mean of what was answered."""
    rng = np.random.default_rng(seed)
    parts = [draw(world, rng, len(LEVELS), shared=0.5) for _ in range(n)]
    groups = parts[0].groups
    share = np.full((len(groups), len(LEVELS)), REFUSED)
    share[groups == groups[0], 0] = OFTEN
    adjusted, plain = [], []
    for part in parts:
        values = part.values + np.array(LEVELS) * answer_sd(world.outcome)
        values = np.where(rng.random(values.shape) < share, np.nan, values)
        known = np.isfinite(values).sum(axis=1)
        adjusted.append(question_adjusted_means(values))
        plain.append(np.where(known > 0, np.nansum(values, axis=1) / np.maximum(known, 1), np.nan))
    wide, found = World(world.outcome, sizes=world.sizes, gap=world.gap or WIDE_GAP), {}
    for name, columns in (("p_adjusted", adjusted), ("p_plain", plain)):
        data = Data(np.stack(columns, axis=1), groups, parts[0].subjects, parts[0].images)
        found[name] = measure(wide, data, n_permutations=399, seed=seed, inverted=())["p"]
    return found


REFUSED_BY_GROUP = {
    "few refusals": (0.02, 0.04, 0.06, 0.08, 0.1),
    "many refusals": (0.1, 0.2, 0.3, 0.4, 0.5),
    "refusals about the largest": (0.5, 0.1, 0.05, 0.02, 0.0),
}
"""Share of refused answers by group, the largest first; the refusals of a subject correlate like its answers."""
BOUNDS_WORLDS = (
    *(World(outcome, condition, gap=gap) for outcome, gap in (("yes/no", 0.0), ("yes/no", 1.2), ("zero-heavy", 1.5))
      for condition in REFUSED_BY_GROUP),
    World("normal", "few refusals", gap=1.5),
    World("normal", "few refusals", gap=1.5, where="steps"),
    World("rare", "few refusals", gap=1.0),
    World("rare", "refusals about the largest"),
    *(World(outcome, "few refusals", sizes=(60, 10), gap=0.8) for outcome in ("yes/no", "normal")),
    World("yes/no", "few refusals", sizes=(200, 150, 100, 60, 40), gap=1.2),
)  # fmt: skip
TRUTHS = ("lowest", "within", "highest")


def bounds(world: World, n: int, seed: int) -> Arrays:
    """Of each of `TRUTHS`, whether the interval and the bounds without an interval hold it; the interval's width.

    `lowest` and `highest`: refused answers have the values that make the gap the smallest, or the largest; `within`:
    they are like those that were answered.
    """
    rng = np.random.default_rng(seed)
    share = np.array(REFUSED_BY_GROUP[world.condition][: len(world.sizes)])
    data = draw(World(world.outcome, sizes=world.sizes, gap=world.gap, where=world.where), rng, n)
    refusing = draw(World("normal", sizes=world.sizes), rng, n).values / NORMAL_SD
    hidden = ndtr(refusing) < share[np.unique(data.groups, return_inverse=True)[1]][:, None]
    ends = (0.0, 1.0) if world.yes_no else (-1.0, 1.0)
    mean = RATES.get(world.outcome, 0.0) + shifts(world)
    low, high = ((1 - share) * mean + share * end for end in ends)
    pairs = ~np.eye(len(mean), dtype=bool)
    truths = (
        max(0.0, float((low[:, None] - high)[pairs].max())),
        float(np.ptp(mean)),
        float((high[:, None] - low)[pairs].max()),
    )
    rows = []
    for j in range(n):
        possible = refusal_ends(data.values[:, j], hidden[:, j], ends)
        found = np.array(bounds_between(possible, data.groups, data.subjects), dtype=float)
        rows.append(
            [
                *(found[2] - 1e-9 <= truth <= found[3] + 1e-9 for truth in truths),
                *(found[0] - 1e-9 <= truth <= found[1] + 1e-9 for truth in truths),
                found[3] - found[2],
            ]
        )
    names = (*TRUTHS, *(f"{truth}, no interval" for truth in TRUTHS), "width")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))
