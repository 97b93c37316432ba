"""Sums within groups, for all questions and many permutations at once, by matrix products.

Two units. *images*: every image counts once, as published. *subjects*: a subject's mean over its images in a group
counts once, which inference about people needs. The tables hold y and y^2 of centred columns (squares of uncentred
ones would lose digits), and a mask where answers are missing, so that counts follow the labels.

Labels, permutations and resamples are those of `fp2.stats.core`; the sums are not, for speed. There, units are added up
by label set, and sums over the subjects that two groups share are kept for the studentised maximum. GRAS has 70 label
sets of three groups each, in 17 columns, and Welch's test needs no shared sums: adding up by column takes 2.9 ms a
permutation of 3,570 images and 500 questions, `fp2.stats.core.sums` 43 ms (processor time of one core).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp2.extension import FloatArray, IntArray, count_and_sum
from fp2.methods.gras.grouping import ImageSet

IMAGES, SUBJECTS = "images", "subjects"
_CHUNK_BYTES = 64_000_000
_CHUNK_SUBJECTS = 64


class CentredSums(NamedTuple):
    """Count, sum and sum of squares of the centred values: (b, W, Q); `n` is (b, W, 1) where no answer is missing."""

    n: FloatArray
    total: FloatArray
    squares: FloatArray

    def columns(self, span: slice) -> CentredSums:
        """Return the sums of some columns."""
        return CentredSums(self.n[:, span], self.total[:, span], self.squares[:, span])

    @property
    def mean(self) -> FloatArray:
        """Mean of the centred values, NaN where there is none."""
        return self.total / np.where(self.n > 0, self.n, np.nan)


class UnitValues:
    """The answers of one image set, with images or subjects as units.

    Parameters
    ----------
    part : ImageSet
    y : array, shape (n, Q)
        Answers of its n images to Q questions, NaN = missing.
    units : {"images", "subjects"}

    Attributes
    ----------
    offset : array, shape (Q,)
        Mean that was subtracted from every column.
    scale : array, shape (Q,)
        Mean square of the centred column.
    constant : array of bool, shape (Q,)
        Columns with answers and without any spread.
    subjects : array, shape (W, Q) or (W, 1)
        Number of subjects with an answer in each column of the observed labels; (W, 1) where no answer is missing.
    """

    def __init__(self, part: ImageSet, y: NDArray[np.floating], units: str) -> None:
        self.part, self.units = part, units
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
        self._rows = part.units.label_sets.astype(np.float64)
        self._member = np.ascontiguousarray(self._rows.T)
        self.subjects = _count_subjects(part, known[:, :1] if self.complete else known)
        if units == SUBJECTS:
            self._sum_records()
            classes = part.units.classes
            self._single = classes[0][:, 0] if classes[0].shape[1] == 1 else np.empty(0, dtype=np.intp)
            self._many = [c for c in classes if c.shape[1] > 1]
            self._table = _table(self._total[self._single], self._count[self._single], self.complete)
        else:
            self._table = _table(self._y, self._mask, self.complete)

    def _sum_records(self) -> None:
        """Count and sum the answers of each record."""
        from scipy.sparse import csr_array

        records, n = len(self.part.units.label_set), len(self.part.record)
        to_record = csr_array((np.ones(n), (self.part.record, np.arange(n))), shape=(records, n))
        self._total = np.asarray(to_record @ self._y)
        count = to_record @ (np.ones((n, 1)) if self.complete else self._mask)
        self._count = np.asarray(count)

    @property
    def n_questions(self) -> int:
        """Number of columns Q."""
        return int(self._y.shape[1])

    def batch(self, n: int) -> int:
        """Return how many permutations fit in memory at once, at most `n`."""
        each = len(self._member) * (len(self._table) + self._table.shape[1]) * 8
        return max(1, min(n, int(_CHUNK_BYTES // max(each, 1))))

    def observed(self) -> CentredSums:
        """Return the sums under the observed labels, (1, W, Q)."""
        return self.permuted(self.part.units.label_set[None])

    def permuted(self, labels: IntArray) -> CentredSums:
        """Return the sums under the label rows (b, C) of the records."""
        if self.units == IMAGES:
            return self._product(self._member[:, labels[:, self.part.record]], self._table)
        found = self._product(self._member[:, labels[:, self._single]], self._table)
        for records in self._many:
            extra = [self._subject_means(records, row[records]) for row in labels]
            found = CentredSums(*(a + np.stack(b) for a, b in zip(found, zip(*extra, strict=True), strict=True)))
        return found

    def _product(self, weights: FloatArray, table: FloatArray) -> CentredSums:
        """Return the weights (W, b, U) times a table (U, 2 Q or 3 Q)."""
        w, b, _ = weights.shape
        q = self.n_questions
        out = (weights.reshape(w * b, -1) @ table).reshape(w, b, -1).swapaxes(0, 1)
        n = weights.sum(axis=2).T[:, :, None] if self.complete else out[:, :, 2 * q :]
        return CentredSums(n, out[:, :, :q], out[:, :, q : 2 * q])

    def _subject_means(self, records: IntArray, rows: IntArray, weights: FloatArray | None = None) -> CentredSums:
        """Return sums over subjects with several records (S, k) of their means in each column: (W, Q)."""
        width, q = len(self._member), self.n_questions
        n, s, sq = np.zeros((width, 1 if self.complete else q)), np.zeros((width, q)), np.zeros((width, q))
        for start in range(0, len(records), _CHUNK_SUBJECTS):
            here = slice(start, start + _CHUNK_SUBJECTS)
            member = self._rows[rows[here]].swapaxes(1, 2)  # (S, W, k)
            count, total = member @ self._count[records[here]], member @ self._total[records[here]]
            mean = total / np.where(count > 0, count, 1.0)
            weight = np.ones(len(mean)) if weights is None else weights[here]
            n += np.tensordot(weight, (count > 0).astype(np.float64), axes=1)
            s += np.tensordot(weight, mean, axes=1)
            sq += np.tensordot(weight, mean**2, axes=1)
        return CentredSums(n, s, sq)

    def by_subject(self, values: NDArray[np.floating]) -> FloatArray:
        """Return the mean of values (n, ...) over each subject's images, all labels together; NaN where it has none."""
        flat = values.reshape(len(values), -1).astype(np.float64)
        count, total = count_and_sum(self.part.subject, self.part.n_subjects, flat)
        return (total / np.where(count > 0, count, np.nan)).reshape(self.part.n_subjects, *values.shape[1:])

    def resampled(self, weights: FloatArray) -> CentredSums:
        """Return the sums with each subject counted `weights` (b, subjects) times, under the observed labels."""
        part, labels = self.part, self.part.units.label_set
        if self.units == IMAGES:
            own = self._member[:, labels[part.record]]
            return self._product(own[:, None, :] * weights[:, part.subject], self._table)
        subject = np.empty(len(labels), dtype=np.intp)
        subject[part.record] = part.subject
        own = self._member[:, labels[self._single]]
        found = self._product(own[:, None, :] * weights[:, subject[self._single]], self._table)
        for records in self._many:
            extra = [self._subject_means(records, labels[records], w[subject[records[:, 0]]]) for w in weights]
            found = CentredSums(*(a + np.stack(b) for a, b in zip(found, zip(*extra, strict=True), strict=True)))
        return found


def _count_subjects(part: ImageSet, known: NDArray[np.bool_]) -> FloatArray:
    """Return the number of subjects with an answer in each column: known (n, Q) -> (W, Q)."""
    from scipy.sparse import csr_array

    inside = part.units.label_sets[part.units.label_set[part.record]].T
    out = np.zeros((len(inside), known.shape[1]))
    for column, own in enumerate(inside):
        rows = np.flatnonzero(own)
        where = part.subject[rows], np.arange(len(rows))
        by_subject = csr_array((np.ones(len(rows)), where), shape=(part.n_subjects, len(rows)))
        out[column] = (np.asarray(by_subject @ known[rows].astype(np.float64)) > 0).sum(axis=0)
    return out


def _table(total: FloatArray, count: FloatArray, complete: bool) -> FloatArray:
    """Return y, y^2 and, where answers are missing, whether there is one: (U, 2 Q or 3 Q)."""
    mean = total / np.where(count > 0, count, 1.0)
    parts = [mean, mean**2] if complete else [mean, mean**2, (count > 0).astype(np.float64)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
