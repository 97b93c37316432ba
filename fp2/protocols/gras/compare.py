"""All tests of a run, under the labels as they are, under permuted labels and in resamples.

A run has A attributes x K traits x T templates; arrays are (..., A, K * T), traits outer, templates inner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.gras.groups import BoolArray, Design, FloatArray, Relabeller
from fp2.protocols.gras.score import MEASURES, cell_scores
from fp2.protocols.gras.units import Sums, Units, subject_weights
from fp2.protocols.gras.welch import Welch, welch

_NULL, _BOOTSTRAP = 0, 1


class Tests(NamedTuple):
    """p-values, F, omega^2 and max - min of the group means, each (b, A, Q)."""

    p: FloatArray
    f: FloatArray
    omega_squared: FloatArray
    gap: FloatArray


@dataclass(frozen=True)
class Null:
    """What the run would give with labels that mean nothing, B permutations.

    scores: each of `MEASURES` (B,) in percent, over all attributes; by_attribute: the same, each attribute scored (and
    corrected) for itself, (B, A). omega_squared, gap, square: means over tests (B, A) of omega^2, max - min and its
    square. square_gap (A, Q): the square per test, averaged over the permutations in which it is defined.
    """

    scores: dict[str, FloatArray]
    by_attribute: dict[str, FloatArray]
    omega_squared: FloatArray
    gap: FloatArray
    square: FloatArray
    square_gap: FloatArray


class Comparison:
    """One outcome of one run in one unit (`fp2.protocols.gras.units`)."""

    def __init__(self, design: Design, y: NDArray[np.floating], kind: str, alpha: float, seed: int) -> None:
        n, traits, templates = y.shape
        self.design, self.kind, self.alpha, self.seed = design, kind, alpha, seed
        self.shape = (traits, templates)
        flat = y.reshape(n, traits * templates)
        self.units = [Units(part, flat[part.images], kind) for part in design.sets]

    @property
    def constant(self) -> BoolArray:
        """Tests (A, Q) of columns without any spread."""
        out = np.empty((len(self.design.attributes), self.shape[0] * self.shape[1]), dtype=bool)
        for part, units in zip(self.design.sets, self.units, strict=True):
            out[list(part.attributes)] = units.constant
        return out

    def tests(self, sums: list[Sums]) -> Tests:
        """Test every attribute; `sums` has an entry per image set."""
        found: dict[int, tuple[Welch, FloatArray]] = {}
        for part, units, own in zip(self.design.sets, self.units, sums, strict=True):
            for number, span in zip(part.attributes, part.spans, strict=True):
                large = units.subjects[span] >= self.design.attributes[number].least
                result = welch(own.columns(span), units.scale, units.constant, large)
                found[number] = result, result.p_values(units.constant)
        order = [found[number] for number in range(len(found))]
        return Tests(
            np.stack([p for _, p in order], axis=1),
            np.stack([w.f for w, _ in order], axis=1),
            np.stack([w.omega_squared for w, _ in order], axis=1),
            np.stack([w.gap for w, _ in order], axis=1),
        )

    def observed(self) -> tuple[Tests, list[Sums]]:
        """Return the tests under the labels as they are, b = 1, and the sums behind them."""
        sums = [units.observed() for units in self.units]
        return self.tests(sums), sums

    def scores(self, p: FloatArray) -> dict[str, FloatArray]:
        """Return `MEASURES` (b,) of p-values (b, A, Q)."""
        return cell_scores(p.reshape(len(p), -1, self.shape[1]), self.alpha)

    def attribute_scores(self, p: FloatArray) -> dict[str, FloatArray]:
        """Return `MEASURES` (b, A), each attribute a family of its own."""
        return cell_scores(p.reshape(*p.shape[:2], *self.shape), self.alpha)

    def null(self, permutations: int, visit: Callable[[list[Sums]], None] = lambda sums: None) -> Null:
        """Permute whole label rows among subjects, within each image set, the same for all questions.

        visit: told the sums of each batch.
        """
        parts: list[tuple[dict[str, FloatArray], dict[str, FloatArray], list[FloatArray]]] = []
        per_test, times = np.zeros(self.constant.shape), np.zeros(self.constant.shape)
        for sums in self.relabelled(permutations):
            found = self.tests(sums)
            per_test += np.nan_to_num(found.gap**2).sum(axis=0)
            times += np.isfinite(found.gap).sum(axis=0)
            averages = [means(x) for x in (found.omega_squared, found.gap, found.gap**2)]
            parts.append((self.scores(found.p), self.attribute_scores(found.p), averages))
            visit(sums)
        omega, gap, square = (np.concatenate([part[2][i] for part in parts]) for i in range(3))
        return Null(
            {name: np.concatenate([part[0][name] for part in parts]) for name in MEASURES},
            {name: np.concatenate([part[1][name] for part in parts]) for name in MEASURES},
            omega,
            gap,
            square,
            per_test / np.where(times > 0, times, np.nan),
        )

    def relabelled(self, n: int) -> Iterator[list[Sums]]:
        """Give the sums under `n` permutations (the null's first ones) in batches."""
        relabel = [Relabeller(part, self.seed, _NULL + 2 * k) for k, part in enumerate(self.design.sets)]
        for b in _batches(n, min(units.batch(n) for units in self.units)):
            yield [units.relabelled(r.draw(b)) for units, r in zip(self.units, relabel, strict=True)]

    def resamples(self, n: int) -> Iterator[list[Sums]]:
        """Draw whole subjects with replacement within each image set, `n` times, and give the sums in batches."""
        from fp2.stats.core.numeric import stream

        draws = [stream(self.seed, _BOOTSTRAP + 2 * k) for k in range(len(self.units))]
        for b in _batches(n, min(units.batch(n) for units in self.units)):
            yield [
                units.resampled(subject_weights(units.part.n_subjects, b, rng))
                for units, rng in zip(self.units, draws, strict=True)
            ]


def means(x: FloatArray) -> FloatArray:
    """Return the mean over the tests that there are, (b, A, Q) -> (b, A); NaN without one."""
    known = np.isfinite(x)
    count = known.sum(axis=2)
    return np.asarray(np.where(known, x, 0.0).sum(axis=2) / np.where(count > 0, count, np.nan))


def _batches(n: int, size: int) -> list[int]:
    return [min(size, n - start) for start in range(0, n, size)]
