"""All tests of one outcome: under the observed labels, under permuted labels and in bootstrap resamples.

A run has A attributes x K traits x T templates. Arrays of tests are (b, A, K * T), traits outer, templates inner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fp2.extension import BoolArray, FloatArray, resample_counts, stream
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.group_sums import IMAGES, SUBJECTS, CentredSums, UnitValues
from fp2.methods.gras.grouping import Grouping, LabelPermuter
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.score import MEASURES, cell_scores
from fp2.methods.gras.welch import Welch, welch

_NULL, _BOOTSTRAP = 0, 1


class Null(NamedTuple):
    """The permutation distribution of a run: B permutations of the label rows.

    Attributes
    ----------
    scores : dict
        Each of `MEASURES`, (B,) in percent, over all attributes.
    by_attribute : dict
        The same with each attribute scored (and corrected) as a family of its own, (B, A).
    omega_squared, gap, square : arrays, shape (B, A)
        Means over tests of omega^2, max - min and its square.
    square_gap : array, shape (A, Q)
        The square per test, averaged over the permutations in which it is defined.
    evidence : array, shape (B, A * K)
        The step-down statistic of every cell (`TraitTests.evidence`).
    """

    scores: dict[str, FloatArray]
    by_attribute: dict[str, FloatArray]
    omega_squared: FloatArray
    gap: FloatArray
    square: FloatArray
    square_gap: FloatArray
    evidence: FloatArray


@dataclass(frozen=True)
class _Batch:
    """What is kept of one batch of permutations."""

    scores: dict[str, FloatArray]
    by_attribute: dict[str, FloatArray]
    means: tuple[FloatArray, FloatArray, FloatArray]
    evidence: FloatArray


class TraitTests:
    """The tests of one outcome, with images or subjects as units.

    Parameters
    ----------
    answers : GrasAnswers
    grouping : Grouping
        Of these answers (`fp2.methods.gras.grouping.group_answers`).
    options : GrasOptions
        Level, seed, and the outcome.
    units : {"images", "subjects"}
    outcome : str, optional
        In place of the outcome of the options.
    part : float
        The part of alpha that this look at the answers has: adjusted p-values are divided by it.
    """

    def __init__(
        self,
        answers: GrasAnswers,
        grouping: Grouping,
        options: GrasOptions,
        units: str,
        outcome: str | None = None,
        part: float = 1.0,
    ) -> None:
        if units not in (IMAGES, SUBJECTS):
            raise ValueError(f"units are {IMAGES} or {SUBJECTS}, not {units!r}")
        y = answers.columns[outcome or options.outcome]
        n, traits, templates = y.shape
        self.grouping, self.units, self.alpha, self.seed = grouping, units, options.alpha, options.seed
        self.part = part
        self.shape = (traits, templates)
        flat = y.reshape(n, traits * templates)
        self.values = [UnitValues(part, flat[part.images], units) for part in grouping.sets]

    @property
    def constant(self) -> BoolArray:
        """Tests (A, Q) of columns without any spread."""
        out = np.empty((len(self.grouping.attributes), self.shape[0] * self.shape[1]), dtype=bool)
        for part, values in zip(self.grouping.sets, self.values, strict=True):
            out[list(part.attributes)] = values.constant
        return out

    def tests(self, sums: list[CentredSums]) -> Welch:
        """Return the tests of every attribute, each (b, A, Q); `sums` has an entry per image set."""
        found: dict[int, Welch] = {}
        for part, values, own in zip(self.grouping.sets, self.values, sums, strict=True):
            for number, span in zip(part.attributes, part.spans, strict=True):
                large = values.subjects[span] >= self.grouping.attributes[number].min_subjects
                found[number] = welch(own.columns(span), values.scale, values.constant, large)
        order = [found[number] for number in range(len(found))]
        return Welch(*(np.stack(parts, axis=1) for parts in zip(*order, strict=True)))

    def observed(self) -> tuple[Welch, list[CentredSums]]:
        """Return the tests under the observed labels, b = 1, and the sums behind them."""
        sums = [values.observed() for values in self.values]
        return self.tests(sums), sums

    def scores(self, p: FloatArray) -> dict[str, FloatArray]:
        """Return `MEASURES` (b,) of p-values (b, A, Q)."""
        return cell_scores(p.reshape(len(p), -1, self.shape[1]), self.alpha)

    def attribute_scores(self, p: FloatArray) -> dict[str, FloatArray]:
        """Return `MEASURES` (b, A), each attribute a family of its own."""
        return cell_scores(p.reshape(*p.shape[:2], *self.shape), self.alpha)

    def evidence(self, found: Welch) -> FloatArray:
        """Return -log of the smallest regularised p-value of each cell over its templates, (b, A * K).

        -log p orders the tests of one attribute as F does, and makes attributes with few and many groups comparable.
        NaN where no template has a test.
        """
        p = found.p_regular.reshape(len(found.p), -1, self.shape[1])
        with np.errstate(divide="ignore"):
            statistic = -np.log(np.where(np.isnan(p), np.inf, p).min(axis=2))
        return np.where(np.isneginf(statistic), np.nan, statistic)

    def adjusted_p(self, observed: Welch, null: Null) -> FloatArray:
        """Return the step-down max-F p-value of each cell (A, K): NaN where no template has a test.

        A cell's hypothesis is that groups do not differ in any template; the family is all cells of all attributes
        (Westfall and Young 1993).
        """
        from fp2.extension import step_down_max_t

        adjusted = np.minimum(step_down_max_t(self.evidence(observed)[0], null.evidence) / self.part, 1.0)
        return adjusted.reshape(len(self.grouping.attributes), self.shape[0])

    def group_means(self, sums: list[CentredSums]) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return per attribute the group means (G, K, T) and the overall mean (K, T), in the outcome's units."""
        found = {}
        for part, values, own in zip(self.grouping.sets, self.values, sums, strict=True):
            mean = own.mean[0] + values.offset
            for index, (number, span) in enumerate(zip(part.attributes, part.spans, strict=True)):
                groups = mean[span].reshape(-1, *self.shape)
                found[number] = groups, mean[part.overall(index)].reshape(self.shape)
        return {name: found[a] for a, name in enumerate(self.grouping.names)}

    def null(self, permutations: int, visit: Callable[[list[CentredSums]], None] = lambda sums: None) -> Null:
        """Permute label rows across subjects within each image set, the same for all questions.

        `visit` is called with the sums of each batch.
        """
        batches: list[_Batch] = []
        per_test, times = np.zeros(self.constant.shape), np.zeros(self.constant.shape)
        for sums in self.permuted(permutations):
            found = self.tests(sums)
            per_test += np.nan_to_num(found.gap**2).sum(axis=0)
            times += np.isfinite(found.gap).sum(axis=0)
            averages = means(found.omega_squared), means(found.gap), means(found.gap**2)
            kept = self.scores(found.p), self.attribute_scores(found.p), averages, self.evidence(found)
            batches.append(_Batch(*kept))
            visit(sums)
        omega, gap, square = (np.concatenate([batch.means[i] for batch in batches]) for i in range(3))
        return Null(
            {name: np.concatenate([batch.scores[name] for batch in batches]) for name in MEASURES},
            {name: np.concatenate([batch.by_attribute[name] for batch in batches]) for name in MEASURES},
            omega,
            gap,
            square,
            per_test / np.where(times > 0, times, np.nan),
            np.concatenate([batch.evidence for batch in batches]),
        )

    def permuted(self, n: int) -> Iterator[list[CentredSums]]:
        """Yield the sums under the first `n` permutations of the null, in batches."""
        permuters = [LabelPermuter(part, self.seed, _NULL + 2 * k) for k, part in enumerate(self.grouping.sets)]
        for b in self._batches(n):
            yield [values.permuted(p.draw(b)) for values, p in zip(self.values, permuters, strict=True)]

    def resamples(self, n: int) -> Iterator[list[CentredSums]]:
        """Yield the sums of `n` bootstrap resamples of the subjects of each image set, in batches."""
        streams = [stream(self.seed, _BOOTSTRAP + 2 * k) for k in range(len(self.values))]
        for b in self._batches(n):
            yield [
                values.resampled(resample_counts(rng, b, values.part.n_subjects))
                for values, rng in zip(self.values, streams, strict=True)
            ]

    def _batches(self, n: int) -> list[int]:
        """Return the sizes of batches that fit in memory."""
        size = min(values.batch(n) for values in self.values)
        return [min(size, n - start) for start in range(0, n, size)]


def means(x: FloatArray) -> FloatArray:
    """Return the mean over the defined tests, (b, A, Q) -> (b, A); NaN without one."""
    known = np.isfinite(x)
    count = known.sum(axis=2)
    return np.asarray(np.where(known, x, 0.0).sum(axis=2) / np.where(count > 0, count, np.nan))
