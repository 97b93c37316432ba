"""What is decided at a look of a run that stops when certain, for every row: attribute, trait and template.

Each look has a part of alpha, by the declared spending function; the parts add up to alpha (Bonferroni over the looks:
nothing is assumed about how they are correlated). At a look, all rows of one attribute have simultaneous intervals of
the largest difference of two group means, from the permutation distribution of the largest studentised difference of
any row and pair. A row is decided by its interval, so that both kinds of false decision, and intervals that miss, are
bounded over all rows and looks together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fp2.extension import BoolArray, FloatArray, IntArray
from fp2.methods.gras.pairs import PairTests
from fp2.methods.stopping.decisions import FUTILITY
from fp2.methods.stopping.estimates import predictive_power, two_sided_z
from fp2.methods.stopping.looks import SPENDING
from fp2.methods.stopping.sequential import spent

NAMES = ("open", "different", "equivalent", "futile")
OPEN, DIFFERENT, EQUIVALENT, FUTILE = range(len(NAMES))
Question = tuple[str, str]
"""Trait and template."""
ROWS, COMPOSITE = 0.8, 0.2
"""Shares of alpha: of the rows, divided evenly between the attributes, and of the composite."""


def part_of_alpha(at: Sequence[float], look: int) -> float:
    """Return which part of alpha a look (from 1) has, where `at` are the shares of the images up to each."""
    up_to = [0.0, *(spent(0.5, t, SPENDING) / 0.5 for t in at)]
    return up_to[look] - up_to[look - 1]


def critical_value(largest: FloatArray, level: float) -> FloatArray:
    """Return what a statistic has to exceed for p = (1 + #{T* >= T}) / (B + 1) <= level: (B, ...) -> (...)."""
    n = len(largest) + 1
    rank = math.floor(level * n * (1 + 1e-12))
    if rank < 1:
        return np.full(largest.shape[1:], np.inf)
    return np.asarray(np.partition(largest, len(largest) - rank, axis=0)[len(largest) - rank])


def critical_values(tests: PairTests, at: Sequence[float], look: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the critical values of each attribute at a look, and those to be expected at the last one, each (A, 1).

    The latter are not above those of normal statistics: groups are larger then, and extreme statistics rarer.
    """
    from scipy.special import ndtri

    top, level = tests.permuted.max(axis=2), ROWS * alpha / len(tests.gap)
    at_end = level * part_of_alpha(at, len(at))
    normal = np.array([-float(ndtri(at_end / (2 * gap.size))) for gap in tests.gap])
    now = critical_value(top, level * part_of_alpha(at, look))
    return now[:, None], np.minimum(critical_value(top, at_end), normal)[:, None]


@dataclass(frozen=True)
class Intervals:
    """The largest difference of each row with its interval, (A, Q).

    Attributes
    ----------
    gap, low, high : arrays
    clearest, error : arrays
        The difference of the pair that differs most clearly, and its standard error.
    power_different, power_equivalent : arrays
        Conditional powers at the last look (`fp2.methods.stopping.estimates.predictive_power`).
    """

    gap: FloatArray
    low: FloatArray
    high: FloatArray
    clearest: FloatArray
    error: FloatArray
    power_different: FloatArray
    power_equivalent: FloatArray


def intervals(
    tests: PairTests, critical: FloatArray, at_end: FloatArray, smallest_effect: float, fraction: float
) -> Intervals:
    """Return the intervals, and the conditional powers of the last look.

    Parameters
    ----------
    tests : PairTests
    critical, at_end : arrays, broadcast to (A, Q)
        The critical values of this look, and of the last one.
    smallest_effect, fraction : float
        The smallest difference of interest, and the share of the images so far.
    """
    shape = tests.groups.shape
    critical, at_end = np.broadcast_to(critical, shape), np.broadcast_to(at_end, shape)
    rows = [
        _of_attribute(gap, error, critical[a], at_end[a], smallest_effect, fraction)
        for a, (gap, error) in enumerate(zip(tests.gap, tests.error, strict=True))
    ]
    return Intervals(*(np.stack(column) for column in zip(*rows, strict=True)))


def _of_attribute(
    gap: FloatArray, error: FloatArray, critical: FloatArray, at_end: FloatArray, bound: float, fraction: float
) -> tuple[FloatArray, ...]:
    """Return the columns of `Intervals`, each (Q,), from pairs (P, Q)."""
    known = np.isfinite(error)
    reach = np.where(known, np.where(np.isfinite(critical), critical, np.inf) * error, np.inf)
    low = np.maximum(np.where(known, gap - reach, 0.0).max(axis=0), 0.0)
    high = np.where(known.any(axis=0), np.where(known, gap + reach, 0.0).max(axis=0), np.inf)
    pair = np.where(known, gap / error, -1.0).argmax(axis=0)[None]
    clearest, own = (np.take_along_axis(x, pair, axis=0)[0] for x in (gap, error))

    beyond = np.where(known, (gap - bound) / error, -np.inf).max(axis=0)
    return (
        np.where(known, gap, 0.0).max(axis=0),
        low,
        high,
        clearest,
        own,
        predictive_power(beyond, at_end, fraction),
        predictive_power(-beyond, at_end, fraction),
    )


def decide(
    rows: Intervals,
    smallest_effect: float,
    before: IntArray,
    *,
    waits: BoolArray,
    enough: BoolArray,
    in_the_end: BoolArray,
    last: bool,
) -> IntArray:
    """Return the decisions, (A, Q), after those `before`: what was found different or equivalent stays so.

    Parameters
    ----------
    waits : array, (A, Q)
        Where a group that is too small yet may be compared at a later look: nothing is equivalent or futile.
    enough, in_the_end : arrays, (A, Q)
        Where the groups are large enough for `equivalent` now, and once everything is asked.
    last : bool
        Whether this is the last look, at which nothing becomes futile.
    """
    power = np.maximum(rows.power_different, np.where(in_the_end, rows.power_equivalent, 0.0))
    futile = (before == FUTILE) | ((power < FUTILITY) & ~waits & (not last))
    equivalent = (rows.high < smallest_effect) & enough & ~waits
    found = np.select([rows.low > smallest_effect, equivalent, futile], [DIFFERENT, EQUIVALENT, FUTILE], OPEN)
    return np.where((before == DIFFERENT) | (before == EQUIVALENT), before, found)


def decide_composite(p: float, at: Sequence[float], look: int, alpha: float) -> tuple[int, float]:
    """Return whether groups differ in anything, by the p-value of a look, or more answers are futile; and repeated p.

    The repeated p-value is p over the look's part of alpha: valid at whichever look asking ends.
    """
    repeated = min(1.0, p / part_of_alpha(at, look))
    if repeated <= COMPOSITE * alpha:
        return DIFFERENT, repeated
    needed = two_sided_z(COMPOSITE * alpha * part_of_alpha(at, len(at)))
    futile = look < len(at) and predictive_power(two_sided_z(p), needed, at[look - 1]) < FUTILITY
    return (FUTILE if futile else OPEN), repeated


def fewest_for_equivalence(n_rows: int, alpha: float, share: float) -> float:
    """Return the subjects of every group from which on a row may be equivalent.

    If a `share` of a group's subjects had an answer that no other has, so many would have shown one, with probability
    1 - alpha in all rows together: means of answers that are close to 0 or 1 may differ by rare answers alone.
    """
    return math.log(n_rows / alpha) / share if share > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class TraitLooks:
    """The looks so far at K traits in T templates (questions Q = K * T, traits outer), for A attributes.

    Attributes
    ----------
    at : tuple of float
        Share of the images up to each look; the last is 1.
    now : int
        The look whose answers are asked for, or the last one, from 1.
    alpha : float
    smallest_effect : float
        The smallest difference of interest, in the outcome's units.
    width : float
        The largest possible difference, or a unit of the outcome that stands for it.
    groups, subjects : tuple of int
        For each attribute, the groups that are compared in the end, and the subjects of the smallest of them.
    questions : tuple of (trait, template)
    last : mapping
        Question -> the last look at it, for those that are asked no further.
    decided, look : arrays, (A, Q), or None before the first look
        Index in `NAMES`, and the look at which that was decided, or else the last.
    composite, composite_look : int
    composite_p : float
        The smallest repeated p-value.
    """

    at: tuple[float, ...]
    now: int = 1
    alpha: float
    smallest_effect: float
    width: float
    groups: tuple[int, ...]
    subjects: tuple[int, ...]
    questions: tuple[Question, ...]
    last: Mapping[Question, int] = field(default_factory=dict)
    decided: IntArray | None = None
    look: IntArray | None = None
    composite: int = OPEN
    composite_look: int = 0
    composite_p: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows, A * Q."""
        return len(self.groups) * len(self.questions)

    @property
    def fewest(self) -> float:
        """The subjects of every group from which on a row may be equivalent."""
        return fewest_for_equivalence(self.n_rows, self.alpha, self.smallest_effect / self.width)

    @property
    def permutations(self) -> int:
        """How many permutations make two of them the most extreme ones at every level."""
        smallest = self.alpha * min(part_of_alpha(self.at, look) for look in range(1, len(self.at) + 1))
        return math.ceil(2 / (smallest * min(ROWS / len(self.groups), COMPOSITE)))

    @property
    def limits(self) -> IntArray:
        """The last look at each question so far, (Q,)."""
        return np.array([min(self.now, self.last.get(question, self.now)) for question in self.questions])

    @property
    def shared(self) -> int:
        """The look up to which every question was asked."""
        return int(self.limits.min())

    def after(self, tests: PairTests) -> TraitLooks:
        """Return the looks after the decisions of the look `now`, whose answers are those of `tests`."""
        shape, end = tests.groups.shape, self.now == len(self.at)
        before = np.full(shape, OPEN) if self.decided is None else self.decided
        looked = np.zeros(shape, dtype=int) if self.look is None else self.look
        rows = intervals(
            tests, *critical_values(tests, self.at, self.now, self.alpha), self.smallest_effect, self.at[self.now - 1]
        )
        planned, subjects = np.array(self.groups)[:, None], np.array(self.subjects)[:, None]
        found = decide(
            rows,
            self.smallest_effect,
            before,
            last=end,
            waits=(tests.groups < planned) & (not end),
            enough=tests.fewest >= self.fewest,
            in_the_end=np.broadcast_to(subjects >= self.fewest, shape),
        )
        asked = np.array([question not in self.last for question in self.questions])
        decided = np.where(asked, found, before)
        look = np.where(asked & ((decided != before) | (decided == OPEN)), self.now, looked)
        state, p = self.composite, self.composite_p
        if state != DIFFERENT:
            now, repeated = decide_composite(tests.composite_p, self.at, self.now, self.alpha)
            state, p = (now if now != OPEN else state), min(p, repeated)
        of_composite = self.composite_look if self.composite == state != OPEN else self.now
        done = asked & (end | ((decided != OPEN).all(axis=0) & (state != OPEN)))
        ended = {question: self.now for question, is_done in zip(self.questions, done, strict=True) if is_done}
        return replace(
            self,
            decided=decided,
            look=look,
            composite=state,
            composite_look=of_composite,
            composite_p=p,
            last={**self.last, **ended},
        )

    def intervals(self, tests: PairTests) -> Intervals:
        """Return the intervals of all rows, each at the level of the last look at it."""
        limits, columns = self.limits, np.arange(len(self.questions))
        critical = np.empty(tests.groups.shape)
        for look in np.unique(limits):
            here = columns[limits == look]
            critical[:, here], at_end = critical_values(tests, self.at, int(look), self.alpha)
        return intervals(tests, critical, at_end, self.smallest_effect, self.at[self.now - 1])
