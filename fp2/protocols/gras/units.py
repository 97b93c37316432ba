"""Sums within groups, for all questions and many relabellings at once, by matrix products.

Two units. *images*: every picture counts, as published. *subjects*: a subject's mean over its pictures in a group
counts once, which is what inference about people needs. The tables hold y and y^2 of centred columns (otherwise the
squares lose their digits), and the mask where answers are missing, so that counts follow the labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.gras.groups import FloatArray, ImageSet, IntArray

IMAGES, SUBJECTS = "images", "subjects"
_CHUNK_BYTES = 64_000_000
_PEOPLE = 64


class Sums(NamedTuple):
    """Count, sum and sum of squares of the centred values: (b, W, Q), `n` (b, W, 1) where no answer is missing."""

    n: FloatArray
    s: FloatArray
    q: FloatArray

    def columns(self, span: slice) -> Sums:
        """Return the sums of some columns."""
        return Sums(self.n[:, span], self.s[:, span], self.q[:, span])

    @property
    def mean(self) -> FloatArray:
        """Mean of the centred values, NaN where there is none."""
        return self.s / np.where(self.n > 0, self.n, np.nan)


class Units:
    """The values of one image set in one unit.

    Parameters: part, y (n, Q) of its pictures (NaN = missing), kind. `offset` (Q,) was taken off every column; `scale`
    (Q,) is the mean square of what is left; `constant` (Q,) marks columns with answers and without any spread;
    `subjects` (W, Q) is how many people answered in each column of the labels as they are, (W, 1) where all did.
    """

    def __init__(self, part: ImageSet, y: NDArray[np.floating], kind: str) -> None:
        self.part, self.kind = part, kind
        values = np.asarray(y, dtype=np.float64)
        known = np.isfinite(values)
        self.complete = bool(known.all())
        size = np.maximum(known.sum(axis=0), 1)
        self.offset = np.where(known, values, 0.0).sum(axis=0) / size
        centred = np.where(known, values - self.offset, 0.0)
        self.scale = (centred**2).sum(axis=0) / size
        reach = np.abs(centred).max(axis=0)
        self.constant = known.any(axis=0) & (reach <= 1e-9 * np.maximum(np.abs(self.offset), 1e-30))
        centred[:, self.constant] = 0.0
        self._mask = known.astype(np.float64)
        self._y = centred
        self._member = np.ascontiguousarray(part.member.T)
        self.subjects = _subjects(part, known[:, :1] if self.complete else known)
        if kind == SUBJECTS:
            self._by_slot()
            self._single = part.classes[0][:, 0] if part.classes[0].shape[1] == 1 else np.empty(0, dtype=np.intp)
            self._many = [c for c in part.classes if c.shape[1] > 1]
            self._table = _table(self._total[self._single], self._count[self._single], self.complete)
        else:
            self._table = _table(self._y, self._mask, self.complete)

    def _by_slot(self) -> None:
        """Count and sum the answers of each slot."""
        slots, n = len(self.part.label_row), len(self.part.slot)
        from scipy.sparse import csr_array

        to_slot = csr_array((np.ones(n), (self.part.slot, np.arange(n))), shape=(slots, n))
        self._total = np.asarray(to_slot @ self._y)
        count = to_slot @ (np.ones((n, 1)) if self.complete else self._mask)
        self._count = np.asarray(count)

    @property
    def n_questions(self) -> int:
        """Number of columns Q."""
        return int(self._y.shape[1])

    def batch(self, n: int) -> int:
        """How many relabellings fit in memory at once, at most `n`."""
        each = len(self._member) * (len(self._table) + self._table.shape[1]) * 8
        return max(1, min(n, int(_CHUNK_BYTES // max(each, 1))))

    def observed(self) -> Sums:
        """Return the sums under the labels as they are, (1, W, Q)."""
        return self.relabelled(self.part.label_row[None])

    def relabelled(self, labels: IntArray) -> Sums:
        """Return the sums under label rows (b, C)."""
        if self.kind == IMAGES:
            return self._product(self._member[:, labels[:, self.part.slot]], self._table)
        found = self._product(self._member[:, labels[:, self._single]], self._table)
        for slots in self._many:
            extra = [self._cells(slots, row[slots]) for row in labels]
            found = Sums(*(a + np.stack(b) for a, b in zip(found, zip(*extra, strict=True), strict=True)))
        return found

    def _product(self, weights: FloatArray, table: FloatArray) -> Sums:
        """Weights (W, b, U) times a table (U, 2 Q or 3 Q)."""
        w, b, _ = weights.shape
        q = self.n_questions
        out = (weights.reshape(w * b, -1) @ table).reshape(w, b, -1).swapaxes(0, 1)
        n = weights.sum(axis=2).T[:, :, None] if self.complete else out[:, :, 2 * q :]
        return Sums(n, out[:, :, :q], out[:, :, q : 2 * q])

    def _cells(self, slots: IntArray, rows: IntArray, weights: FloatArray | None = None) -> Sums:
        """Sums over subjects with several slots (S, k) of the means over their pictures in each column: (W, Q)."""
        width, q = len(self._member), self.n_questions
        n, s, sq = np.zeros((width, 1 if self.complete else q)), np.zeros((width, q)), np.zeros((width, q))
        for start in range(0, len(slots), _PEOPLE):
            here = slice(start, start + _PEOPLE)
            member = self.part.member[rows[here]].swapaxes(1, 2)  # (S, W, k)
            count, total = member @ self._count[slots[here]], member @ self._total[slots[here]]
            mean = total / np.where(count > 0, count, 1.0)
            weight = np.ones(len(mean)) if weights is None else weights[here]
            n += np.tensordot(weight, (count > 0).astype(np.float64), axes=1)
            s += np.tensordot(weight, mean, axes=1)
            sq += np.tensordot(weight, mean**2, axes=1)
        return Sums(n, s, sq)

    def by_subject(self, values: NDArray[np.floating]) -> FloatArray:
        """Average values (n, ...) over each subject's pictures, all labels together; NaN where it has none."""
        known = np.isfinite(values)
        count = np.zeros((self.part.n_subjects, *values.shape[1:]))
        total = np.zeros_like(count)
        np.add.at(count, self.part.subject, known)
        np.add.at(total, self.part.subject, np.where(known, values, 0.0))
        return np.asarray(total / np.where(count > 0, count, np.nan))

    def resampled(self, weights: FloatArray) -> Sums:
        """Return the sums with each subject counted `weights` (b, subjects) times, under the labels as they are."""
        part = self.part
        if self.kind == IMAGES:
            own = self._member[:, part.label_row[part.slot]]
            return self._product(own[:, None, :] * weights[:, part.subject], self._table)
        person = np.empty(len(part.label_row), dtype=np.intp)
        person[part.slot] = part.subject
        own = self._member[:, part.label_row[self._single]]
        found = self._product(own[:, None, :] * weights[:, person[self._single]], self._table)
        for slots in self._many:
            extra = [self._cells(slots, part.label_row[slots], w[person[slots[:, 0]]]) for w in weights]
            found = Sums(*(a + np.stack(b) for a, b in zip(found, zip(*extra, strict=True), strict=True)))
        return found


def _subjects(part: ImageSet, known: NDArray[np.bool_]) -> FloatArray:
    """Count the distinct subjects with an answer in each column: known (n, Q) -> (W, Q)."""
    from scipy.sparse import csr_array

    inside = part.member[part.label_row[part.slot]].T > 0
    out = np.zeros((len(inside), known.shape[1]))
    for column, own in enumerate(inside):
        rows = np.flatnonzero(own)
        where = part.subject[rows], np.arange(len(rows))
        by_person = csr_array((np.ones(len(rows)), where), shape=(part.n_subjects, len(rows)))
        out[column] = (np.asarray(by_person @ known[rows].astype(np.float64)) > 0).sum(axis=0)
    return out


def _table(total: FloatArray, count: FloatArray, complete: bool) -> FloatArray:
    """Return y, y^2 and, where answers are missing, whether there is one: (U, 2 Q or 3 Q)."""
    mean = total / np.where(count > 0, count, 1.0)
    parts = [mean, mean**2] if complete else [mean, mean**2, (count > 0).astype(np.float64)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def subject_weights(n_subjects: int, b: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each subject is drawn in `b` samples of all subjects with replacement: (b, n_subjects)."""
    drawn = rng.integers(0, n_subjects, (b, n_subjects)) + n_subjects * np.arange(b)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=b * n_subjects).reshape(b, n_subjects).astype(np.float64)
