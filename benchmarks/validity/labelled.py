"""Worlds of scorers that err: what is claimed of a gap from a sample of labels, and from the scores alone.

Labels come from the latent variable of `worlds`: negative, neutral and positive, or yes and no. The score is the label,
misread at random in some answers, and moved one step down in some of one group's. Answers are drawn within strata of
group and score, as `fp2 label` draws them, or the rare classes more often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import World
from fp2.methods.labels.correction import Gap, Labelled, corrected_gap, error_gap
from fp2.methods.labels.sample import stratified

DRAWS = 1_999
"""Fewer than in a run, which adds to the error of a p-value and does not shift it."""
_CUTS = (-0.5, 0.7)
"""Ends of what is neutral, in SD of the latent variable."""


@dataclass(frozen=True)
class LabelWorld(World):
    """A scorer, a sample of labels and the groups; `outcome` says in words what is special.

    sizes: subjects by group; images: of each subject; labels: drawn per group; misread: share of answers with a score
    drawn at random; down: share of the last group's scores that are one step too low; gap: shift of the last group, in
    SD of the latent variable, or of its rate; rate: of a yes (None: three labels); icc of the latent variable;
    useless: a score that has nothing to do with the label; rare: draw the rare classes more often; noise: share of the
    labels of each of two labellers that are drawn at random.
    """

    sizes: tuple[int, ...] = (120, 60, 40)
    images: int = 3
    labels: int = 40
    misread: float = 0.2
    down: float = 0.0
    rate: float | None = None
    icc: float = 0.3
    useless: bool = False
    rare: bool = False
    noise: float = 0.0

    @property
    def name(self) -> str:
        """A file name of its own."""
        return self.outcome.replace(" ", "-").replace("%", "pc").replace(",", "").replace(".", "")

    @property
    def equal_error(self) -> bool:
        """Whether the distribution of the scorer's error is the same in every group."""
        return not self.down and not self.gap

    @property
    def true_gap(self) -> float:
        """Largest less smallest mean label."""
        if self.rate is not None:
            return self.gap
        low, high = _CUTS
        means = [ndtr(shift - high) - ndtr(low - shift) for shift in (0.0, self.gap)]
        return float(abs(means[1] - means[0])) * (1 - self.noise)


LABEL_WORLDS = (
    LabelWorld("a scorer that is right in 87 %, 40 labels a group"),
    LabelWorld("a scorer biased against one group, 40 labels a group", down=0.3),
    LabelWorld("a scorer biased against one of five groups", sizes=(120, 80, 60, 40, 40), down=0.3),
    LabelWorld("a scorer biased against one of two groups", sizes=(120, 60), labels=60, down=0.3),
    LabelWorld("a scorer biased against one group, and a gap that it hides", down=0.3, gap=0.5),
    LabelWorld("12 labels a group, two groups", sizes=(120, 40), labels=12, down=0.3),
    LabelWorld("20 labels a group", labels=20, down=0.3),
    LabelWorld("20 labels a group, a gap", labels=20, down=0.3, gap=0.8),
    LabelWorld("answers of a subject alike, 6 images", sizes=(40, 25, 20), images=6, labels=60, icc=0.9),
    LabelWorld("rare classes drawn more often", rare=True, down=0.2),
    LabelWorld("rare classes drawn more often, a gap", rare=True, down=0.2, gap=0.5),
    LabelWorld("a useless scorer", useless=True),
    LabelWorld("a useless scorer, a gap", useless=True, gap=0.5),
    LabelWorld("5 % yes", rate=0.05, misread=0.1, labels=50),
    LabelWorld("5 % yes, a gap of .1", rate=0.05, misread=0.1, labels=50, gap=0.1),
    LabelWorld("2 % yes, 20 labels a group, a gap of .05", rate=0.02, misread=0.05, labels=20, gap=0.05),
    LabelWorld("two labellers who misread 10 % at random", noise=0.1, down=0.3),
    LabelWorld("two labellers who misread 10 % at random, a gap", noise=0.1, down=0.3, gap=0.5),
)


def labelled(world: World, n: int, seed: int) -> Arrays:
    """Tests and intervals of the corrected gap, of the labels alone and of the scores alone, and of equal error."""
    assert isinstance(world, LabelWorld)
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        data = draw(world, rng)
        gap, error = corrected_gap(data, draws=DRAWS), error_gap(data, draws=DRAWS)
        row = [_p(gap), _covers(gap, world.true_gap), _p(error), np.nan, np.nan]
        if world.useless:
            row[3] = _width(gap) / _width(corrected_gap(data, power=0.0, draws=DRAWS))
        if world.down and not world.gap:
            row[4] = _p(corrected_gap(_trusted(data), draws=DRAWS))
        found.append(row)
    names = ("p", "covered", "error_p", "width", "scores_p")
    return dict(zip(names, np.array(found, dtype=float).T, strict=True))


def draw(world: LabelWorld, rng: np.random.Generator) -> Labelled:
    """Draw one data set with its sample of labels."""
    subject = np.repeat(np.arange(sum(world.sizes)), world.images)
    group = np.repeat(np.arange(len(world.sizes)), world.sizes)[subject]
    last = group == len(world.sizes) - 1
    person = rng.standard_normal(sum(world.sizes))[subject]
    z = np.sqrt(world.icc) * person + np.sqrt(1 - world.icc) * rng.standard_normal(len(subject))
    if world.rate is None:
        values, z = np.array([-1.0, 0.0, 1.0]), z + world.gap * last
        label = (z > _CUTS[1]).astype(float) - (z < _CUTS[0])
    else:
        values = np.array([0.0, 1.0])
        label = (z < ndtri(world.rate + world.gap * last)).astype(float)

    def misread(right: np.ndarray, share: float) -> np.ndarray:
        return np.where(rng.random(len(right)) < share, rng.choice(values, len(right)), right)

    score = misread(label, 1.0 if world.useless else world.misread)
    score = np.where(last & (rng.random(len(score)) < world.down), np.maximum(score - 1, values[0]), score)
    strata = np.unique(group * 3 + score.astype(int) + 1, return_inverse=True)[1]
    if world.rare:
        chosen, probability = _rare(strata, group, world.labels, rng)
    else:
        n, every = world.labels * len(world.sizes), np.ones(len(group), dtype=bool)
        chosen, probability = stratified(strata, group, every, n, int(rng.integers(2**31)))
    if world.noise:
        label = (misread(label, world.noise) + misread(label, world.noise)) / 2
    seen = np.full(len(label), np.nan)
    seen[chosen] = label[chosen]
    return Labelled(score, seen, probability, group, subject, np.arange(len(label)))


def _rare(
    strata: np.ndarray, group: np.ndarray, labels: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many answers of every class of a group: probabilities differ up to the ratio of the classes."""
    size = np.bincount(strata)
    classes = np.bincount([int(group[strata == k][0]) for k in range(len(size))])
    take = np.minimum(size, [labels // classes[int(group[strata == k][0])] for k in range(len(size))])
    chosen = [rng.choice(np.flatnonzero(strata == k), m, replace=False) for k, m in enumerate(take)]
    return np.concatenate(chosen), (take / size)[strata]


def _trusted(data: Labelled) -> Labelled:
    """Return the data with every score taken for a label."""
    n = len(np.asarray(data.score))
    return Labelled(data.score, data.score, np.ones(n), data.groups, data.subjects, data.images)


def _p(gap: Gap) -> float:
    return np.nan if gap.p_value is None else gap.p_value


def _covers(gap: Gap, truth: float) -> float:
    if gap.ci_low is None or gap.ci_high is None:
        return np.nan
    return float(gap.ci_low - 1e-9 <= truth <= gap.ci_high + 1e-9)


def _width(gap: Gap) -> float:
    return np.nan if gap.ci_low is None or gap.ci_high is None else gap.ci_high - gap.ci_low
