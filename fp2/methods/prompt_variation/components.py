"""Variance components: how much of the variation of answers is due to groups, questions, subjects, images and samples.

Groups are fixed and compared; subjects within them, images of a subject, questions and repeated answers are random.
The components follow from mean squares by the method of moments: every mean square is set equal to its expectation
(Cornfield and Tukey 1956), with unweighted means over images and over subjects, as everywhere in this package (Searle,
Casella and McCulloch 1992, section 4.6). Without repeated answers, the last component is the interaction of image and
question together with what is left; without several images of a subject, those of the subject include the images'.

Intervals are generalised confidence intervals: each mean square over a chi-square draw on its degrees of freedom stands
for its expectation, the components are computed from these, and quantiles are taken (Weerahandi 1993; Hannig, Iyer and
Patterson 2006). Degrees of freedom below the groups are 2 MS^2 / Var(MS), with the variance between subjects of their
contributions, since answers are not normal. For the component of the groups, which are fixed, the non-centrality of F
is inverted (Steiger 2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import BoolArray, Cells, FloatArray, IntArray, cell_means, count_and_sum, read_entries, stream

DRAWS = 4_000
GROUP, QUESTION, GROUP_QUESTION = "group", "question", "group x question"
SUBJECT, SUBJECT_QUESTION = "subject", "subject x question"
IMAGE, IMAGE_QUESTION, SAMPLE, RESIDUAL = "image", "image x question", "sample", "residual"


@dataclass(frozen=True)
class Component:
    """A variance component.

    Attributes
    ----------
    name : str
    variance, low, high : float
        In squared units of the score, at least 0, with an interval.
    share, share_low, share_high : float
        Of the sum of all components.
    negative : bool
        Whether the estimate is negative, and 0 is given for it.
    """

    name: str
    variance: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    negative: bool


@dataclass(frozen=True)
class Components:
    """The components for the groups that are large enough, in the order of the strata."""

    groups: tuple[str, ...]
    n_subjects: int
    components: tuple[Component, ...]
    n_left_out: int


@dataclass(frozen=True)
class _Strata:
    """The mean squares of a design, with their degrees of freedom, and its coefficients.

    Attributes
    ----------
    square, df : mapping
        By stratum, those that the design has. e: samples of an answer; a: image x question; b: images; c: subject x
        question; d: subjects; r: group x question; v: questions; w: groups.
    per_answer, per_image : float
        Means of 1 / samples of an answer, and of 1 / images of a subject.
    noise_c, noise_d : float
        The variance of a group mean over `square["c"]`, and over `square["d"]`, mean over groups.
    """

    square: Mapping[str, float]
    df: Mapping[str, float]
    n_groups: int
    n_questions: int
    per_answer: float
    per_image: float
    noise_c: float
    noise_d: float


def variance_components(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike,
    min_subjects: int = 10,
    alpha: float = 0.05,
    seed: int = 0,
) -> Components | None:
    """Estimate the variance components of one outcome.

    Parameters
    ----------
    values : (n, Q, S)
        Per (image, group) the S answers to each of Q questions, NaN = missing. Images without any answer to some
        question are left out.
    groups, subjects, images : (n,)
    min_subjects : int
        Of a group that counts.
    alpha : float
        One minus the level of the intervals.
    seed : int
        Of the draws behind the intervals.

    Returns
    -------
    Components or None
        None where there are no two groups, or the answers do not vary.

    Raises
    ------
    ValueError
        If shapes do not fit, or a label is missing.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 3:
        raise ValueError(f"values must be (entries, questions, samples), got shape {y.shape}")
    answered = np.isfinite(y).sum(axis=2) > 0
    complete = answered.sum(axis=1) == y.shape[1]
    left_out = int(((answered.sum(axis=1) > 0) & ~complete).sum())
    if not complete.any():
        return None
    labels = (np.asarray(one)[complete] for one in (groups, subjects, images))
    strata_of = _strata(y[complete], min_subjects, *labels)
    if strata_of is None:
        return None
    strata, names, n_subjects = strata_of
    if max(strata.square.values()) <= 1e-24 * max(1.0, float(np.nanmax(np.abs(y)))) ** 2:
        return None
    rng = stream(seed, 7)
    estimates = _components(strata, {name: np.asarray(square) for name, square in strata.square.items()})
    drawn = _components(
        strata,
        {name: one * strata.df[name] / rng.chisquare(strata.df[name], DRAWS) for name, one in strata.square.items()},
    )
    drawn[GROUP] = _group_draws(strata, float(estimates.get(GROUP_QUESTION, 0.0)), rng)
    variances = {name: max(float(estimates[name]), 0.0) for name in estimates}
    draws = {name: np.maximum(drawn[name], 0.0) for name in estimates}
    total, totals = sum(variances.values()), np.sum(list(draws.values()), axis=0)
    ends = (alpha / 2, 1 - alpha / 2)
    rows = []
    for name, value in estimates.items():
        low, high = np.quantile(draws[name], ends)
        share_low, share_high = np.quantile(draws[name] / np.where(totals > 0, totals, 1.0), ends)
        share = variances[name] / total if total else 0.0
        ranges = (float(low), float(high), share, float(share_low), float(share_high))
        rows.append(Component(name, variances[name], *ranges, negative=bool(value < 0)))
    return Components(names, n_subjects, tuple(rows), left_out)


def _components(strata: _Strata, square: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the components: the expectations of the mean squares, solved for the components.

    With h and s for `per_image` and `per_answer`: E = sample, A = image x question + s E, B = image + A / Q,
    C = subject x question + h A, D = subject + (subject x question) / Q + h B, R = group x question + noise_c C,
    V = question + R / G, W = group + (group x question) / Q + noise_d D.
    """
    n_questions, h = strata.n_questions, strata.per_image
    out: dict[str, FloatArray] = {}
    sampled = strata.per_answer * square["e"] if "e" in square else np.zeros(())
    answer = square.get("a", sampled)
    if "r" in square:
        crossed = square["r"] - strata.noise_c * square["c"]
        subject_question = square["c"] - h * answer
        out[GROUP] = square["w"] - strata.noise_d * square["d"] - crossed / n_questions
        out[QUESTION] = square["v"] - square["r"] / strata.n_groups
        out[GROUP_QUESTION] = crossed
        within = h * square["b"] + subject_question / n_questions if "b" in square else square["c"] / n_questions
        out[SUBJECT], out[SUBJECT_QUESTION] = square["d"] - within, subject_question
    else:
        out[GROUP] = square["w"] - strata.noise_d * square["d"]
        out[SUBJECT] = square["d"] - h * square.get("b", sampled)
    if "b" in square:
        out[IMAGE] = square["b"] - (square["a"] / n_questions if "a" in square else sampled)
    if "a" in square:
        out[IMAGE_QUESTION] = square["a"] - sampled
    if "e" in square:
        out[SAMPLE] = square["e"]
    else:
        out[RESIDUAL] = out.pop(list(out)[-1])
    return out


def _group_draws(strata: _Strata, crossed: float, rng: np.random.Generator) -> FloatArray:
    """Return draws of the component of the groups: W over its mean square without differences is a non-central F."""
    from scipy.special import ncfdtr

    parts = [(strata.noise_d * strata.square["d"], strata.df["d"])]
    if crossed > 0:
        parts.append((crossed / strata.n_questions, strata.df["r"]))
    noise, df = sum(size for size, _ in parts), strata.n_groups - 1
    if noise <= 0:
        return np.full(DRAWS, strata.square["w"])
    df_noise = noise**2 / sum(size**2 / own for size, own in parts)
    f = strata.square["w"] / noise
    centrality = np.concatenate([[0.0], np.geomspace(1e-3, 100 * (df * f + 10), 300)])
    below = np.nan_to_num(ncfdtr(df, df_noise, centrality, f))
    drawn_centrality = np.interp(rng.uniform(size=DRAWS), below[::-1], centrality[::-1])
    drawn: FloatArray = noise * drawn_centrality / df
    return drawn


def _strata(
    y: FloatArray, min_subjects: int, groups: ArrayLike, subjects: ArrayLike, images: ArrayLike
) -> tuple[_Strata, tuple[str, ...], int] | None:
    """Return the mean squares, the groups that count and the number of their subjects; None without two groups."""
    n_questions = y.shape[1]
    count = np.isfinite(y).sum(axis=2)
    mean = np.nansum(y, axis=2) / count
    answers = [np.nansum((y - mean[:, :, None]) ** 2, axis=(1, 2)), (count - 1).sum(axis=1), (1 / count).mean(axis=1)]
    entries = read_entries(np.column_stack([mean, *answers]), groups, subjects, images)
    cells = cell_means(entries)
    size = np.bincount(cells.group, minlength=len(entries.names))
    large = size >= max(min_subjects, 2)
    if large.sum() < 2:
        return None
    squares = _Squares(n_questions)
    first = np.unique(entries.subject_image[large[entries.group]], return_index=True)[1]
    seen = entries.values[large[entries.group]][first]
    per_answer = squares.within_subjects(seen, entries.subject[large[entries.group]][first])
    coefficients = squares.between_subjects(cells, np.bincount(cells.of_entry), large)
    names = tuple(name for name, ok in zip(entries.names, large, strict=True) if ok)
    n_subjects = len(np.unique(cells.subject[large[cells.group]]))
    return _Strata(squares.square, squares.df, len(names), n_questions, per_answer, *coefficients), names, n_subjects


class _Squares:
    """Collects mean squares and their degrees of freedom."""

    def __init__(self, n_questions: int) -> None:
        self.n_questions = n_questions
        self.square: dict[str, float] = {}
        self.df: dict[str, float] = {}

    def add(self, name: str, squares: ArrayLike, df: ArrayLike) -> None:
        """Add the mean square of sums of squares and degrees of freedom by unit, if there are any of the latter."""
        squares, df = np.asarray(squares, dtype=np.float64), np.asarray(df, dtype=np.float64)
        if df.sum() < 1:
            return
        self.square[name] = square = float(squares.sum() / df.sum())
        spread = float(((squares - square * df) ** 2).sum()) * len(squares) / max(len(squares) - 1, 1)
        robust = 2 * float(squares.sum()) ** 2 / spread if spread > 0 else np.inf
        self.df[name] = max(min(robust, float(df.sum())), 1.0)

    def within_subjects(self, seen: FloatArray, subject: IntArray) -> float:
        """Add the strata within a subject from one line per image; return the mean of 1 / samples of an answer."""
        code = np.unique(subject, return_inverse=True)[1].reshape(-1)
        n_subjects = int(code.max()) + 1
        n_images = np.bincount(code).astype(float)
        answers, (squares, df, per_answer) = seen[:, : self.n_questions], seen[:, self.n_questions :].T
        self.add("e", np.bincount(code, squares), np.bincount(code, df))
        level = answers.mean(axis=1, keepdims=True)
        for name, part, each in (("a", answers - level, self.n_questions - 1), ("b", level, 1)):
            own = part - (count_and_sum(code, n_subjects, part)[1] / n_images[:, None])[code]
            self.add(name, np.bincount(code, (own**2).sum(axis=1)), each * (n_images - 1))
        return float(per_answer.mean())

    def between_subjects(self, cells: Cells, n_images: IntArray, large: BoolArray) -> tuple[float, float, float]:
        """Add the strata of subjects, questions and groups; return `per_image`, `noise_c` and `noise_d`."""
        in_large_group = large[cells.group]
        group = np.unique(cells.group[in_large_group], return_inverse=True)[1].reshape(-1)
        means, n_groups = cells.mean[in_large_group][:, : self.n_questions], int(group.max()) + 1
        size = np.bincount(group).astype(float)
        table = count_and_sum(group, n_groups, means)[1] / size[:, None]
        own, df = means - table[group], (1 - 1 / size)[group]
        level = own.mean(axis=1, keepdims=True)
        noise = []
        for name, part, each in (("c", own - level, self.n_questions - 1), ("d", level, 1)):
            squares = (part**2).sum(axis=1)
            self.add(name, squares, each * df)
            by_group = np.bincount(group, squares) / max(each, 1) / (size - 1) / size
            noise.append(float(by_group.mean()) / self.square[name] if self.square.get(name) else 0.0)
        by_group, by_question = table.mean(axis=1), table.mean(axis=0)
        self.square["w"], self.df["w"] = float(by_group.var(ddof=1)), n_groups - 1
        if self.n_questions > 1:
            rest = table - by_group[:, None] - by_question + table.mean()
            self.df["r"], self.df["v"] = (n_groups - 1) * (self.n_questions - 1), self.n_questions - 1
            self.square["r"], self.square["v"] = float((rest**2).sum() / self.df["r"]), float(by_question.var(ddof=1))
        return float((df / n_images[in_large_group]).sum() / df.sum()), noise[0], noise[1]
