"""Three estimators of the gap between groups, under one permutation of the subjects.

- `subjects`: every subject counts alike, with its mean over images; the test of a disparity row.
- `images`: every image counts alike, so that subjects with more images count more. The standard error is that of a
  ratio of sums over subjects, since images of one subject are not independent.
- `adjusted`: every subject counts alike, with covariates held constant in a linear model (`adjusted.model`).
  Residuals of the model without groups are permuted (Freedman and Lane 1983).

A permutation gives each subject the group labels of another. Missing values stay with the subject that lacks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

from fp2.extension import (
    OK,
    TOO_FEW,
    BoolArray,
    Entries,
    FloatArray,
    GapTest,
    GroupMoments,
    IntArray,
    Labels,
    Permuter,
    Prepared,
    contrast_weight,
    gap_tests,
    group_sums,
    max_t_squared,
    pair_table,
    range_of_means,
    studentised_moments,
    with_agreement,
)
from fp2.methods.adjusted.model import NOT_SEPARABLE, Design, Fit, difference, fit_model

SUBJECTS, IMAGES, ADJUSTED = "subjects", "images", "adjusted"
_STEP = 64
"""Permutations of a linear model at once: what fits the processor's cache."""


class Draw(NamedTuple):
    """A batch of b relabellings: labels of the units, and (b, S) the subject whose values each of S subjects gets."""

    labels: Labels
    given: IntArray


class Found(NamedTuple):
    """One test as observed: gap, |T|, group means and their squared errors (k,), what each subject adds (S,)."""

    status: str
    n_subjects: int
    raw: float
    max_t: float
    means: dict[str, float]
    errors: FloatArray
    influence: FloatArray


class Estimator(Protocol):
    """One estimator of outcomes in columns; `least` is the smallest number of subjects of a group that counts."""

    def observed(self, outcome: int, least: int) -> Found:
        """Return a test as observed."""
        ...

    def permuted(self, draw: Draw, wanted: list[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
        """Return gap and |T| of (outcome, least) under a batch of relabellings, (b, len(wanted)) each."""
        ...

    def test(self, outcome: int, least: int, permuted: FloatArray) -> GapTest | None:
        """Return the test of a gap, to be inverted; permuted (B,)."""
        ...


def draws(p: Prepared, n_subjects: int, n: int, seed: int) -> Iterator[Draw]:
    """Yield batches of `n` relabellings that all estimators share."""
    sources = Permuter(replace(p.units, label_set=np.arange(len(p.units.label_set))), seed)
    step = min(p.data.chunk(n), 256)
    for start in range(0, n, step):
        order = sources.draw(min(step, n - start))
        given = np.tile(np.arange(n_subjects), (len(order[0]), 1))
        for members, chosen in zip(p.units.classes, order, strict=True):
            own, source = p.units.subject[members[:, 0]], p.units.subject[chosen[:, :, 0]]
            np.put_along_axis(given, source, np.broadcast_to(own, source.shape), axis=1)
        yield Draw([p.units.label_set[chosen] for chosen in order], given)


class GroupMeans:
    """The estimators `subjects` and `images`: means of groups, from sums under many relabellings at once."""

    def __init__(self, p: Prepared, entries: Entries, yes_no: BoolArray, *, by_image: bool) -> None:
        self._p, self._names, self._by_image = p, [entries.names[code] for code in p.units.kept], by_image
        self._yes_no = np.zeros_like(yes_no) if by_image else yes_no
        self._data = with_agreement(p, self._yes_no)
        self._answered = np.isfinite(p.y).sum(axis=0)
        self._seen: dict[int, GroupMoments] = {}

    def _moments(self, labels: Labels, leasts: list[int]) -> dict[int, GroupMoments]:
        """Return the moments by the least number of subjects, from sums that they share."""
        if self._by_image:
            # per group the sums of n, t, n^2, n t, t^2 over units, and the units with a value: (6, G, b, m);
            # n: images with a value of a unit; t: the sum of these values
            units = np.concatenate([c.reshape(-1) for c in self._p.units.classes])
            label = np.concatenate([lab.reshape(len(lab), -1) for lab in labels], axis=1)
            n, t = self._data.count[units], self._data.total[units]
            table = np.concatenate([n, t, n * n, n * t, t * t, (n > 0).astype(np.float64)], axis=1)
            sets = self._p.units.label_sets
            hot = (label[None] == np.arange(len(sets))[:, None, None]).astype(np.float64)
            by_set = (hot.reshape(-1, len(units)) @ table).reshape(len(sets), len(label), 6, -1)
            by_group = np.tensordot(sets.T.astype(np.float64), by_set, axes=1)
            sums = np.ascontiguousarray(np.moveaxis(by_group, 2, 0))
            return {least: _of_images(sums, self._answered >= least) for least in leasts}
        shared = group_sums(self._data, labels)
        return {least: studentised_moments(self._p, self._yes_no, self._answered >= least, shared) for least in leasts}

    def _observed(self, least: int) -> GroupMoments:
        if least not in self._seen:
            labels = [self._p.units.label_set[c][None] for c in self._p.units.classes]
            self._seen |= self._moments(labels, [least])
        return self._seen[least]

    def observed(self, outcome: int, least: int) -> Found:
        """Return a test as observed."""
        j, scale, observed = outcome, float(self._p.scale[outcome]), self._observed(least)
        valid = np.flatnonzero(observed.valid[:, 0, j])
        everyone = int(observed.n[valid, 0, j].sum())
        subjects = len(self._p.y)
        if len(valid) < 2:
            return Found(TOO_FEW, everyone, np.nan, np.nan, {}, np.zeros(0), np.zeros(subjects))
        mean = observed.mean[:, 0, j]
        raw, t = float(range_of_means(observed)[0, j]), float(np.sqrt(max_t_squared(observed)[0, j]))
        errors = observed.pool[0, j] / observed.n[valid, 0, j] if not self._by_image else observed.error[valid, 0, j]
        means = {self._names[g]: float(mean[g] * scale + self._p.centre[j]) for g in valid}
        influence = self._influence(j, mean, subjects) * scale
        return Found(OK, everyone, raw * scale, t, means, errors * scale**2, influence)

    def _influence(self, j: int, mean: FloatArray, subjects: int) -> FloatArray:
        """Return what each subject adds to the difference of the extreme means (G,), (S,)."""
        out = np.zeros(subjects)
        for g, sign in ((int(np.nanargmax(mean)), 1.0), (int(np.nanargmin(mean)), -1.0)):
            if self._by_image:
                here = self._p.units.label_sets[self._p.units.label_set, g]
                n, t = self._data.count[here, j], self._data.total[here, j]
                off = (t - mean[g] * n) / n.sum()
                np.add.at(out, self._p.units.subject[here], sign * off * np.sqrt((n > 0).sum() / ((n > 0).sum() - 1)))
            else:
                y = self._p.y[:, g, j]
                k = int(np.isfinite(y).sum())
                out += sign * np.nan_to_num(y - mean[g]) / k * np.sqrt(k / (k - 1))
        return out

    def permuted(self, draw: Draw, wanted: list[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
        """Return gap and |T| of (outcome, least) under a batch of relabellings, (b, len(wanted)) each."""
        moments = self._moments(draw.labels, sorted({least for _, least in wanted}))
        raw = {least: range_of_means(one) * self._p.scale for least, one in moments.items()}
        t = {least: np.sqrt(max_t_squared(one)) for least, one in moments.items()}
        gaps, largest = ([table[least][:, j] for j, least in wanted] for table in (raw, t))
        return np.stack(gaps, axis=1), np.stack(largest, axis=1)

    def test(self, outcome: int, least: int, permuted: FloatArray) -> GapTest | None:
        """Return the test of a gap, to be inverted; permuted (B,)."""
        j, observed = outcome, self._observed(least)
        if not self._by_image:
            return _row_test(self._p, observed, j, self._answered >= least, permuted, bool(self._yes_no[j]))
        table, scale = pair_table(observed), float(self._p.scale[j])
        valid, seen = np.flatnonzero(observed.valid[:, 0, j]), np.isfinite(table.gap[:, j])
        error, nothing = table.error[seen, j] * scale, np.zeros(len(valid))
        square = observed.error[valid, 0, j] * scale**2
        return GapTest(
            mean=observed.mean[valid, 0, j] * scale,
            size=observed.n[valid, 0, j],
            error=error,
            own_error=error,
            null=square,
            own=square,
            permuted=permuted,
            overall=contrast_weight(observed, len(valid)),
            yes_no=False,
            shared=np.ones(len(error)),
            t_error=error,
            df=table.df[seen, j],
            group_error=np.sqrt(observed.error[valid, 0, j]) * scale,
            skewness=nothing,
            share=nothing,
            reach=nothing,
        )


def _row_test(
    p: Prepared, group_moments: GroupMoments, j: int, eligible: BoolArray, permuted: FloatArray, yes_no: bool
) -> GapTest | None:
    """Return the test of one outcome as a disparity row has it."""
    one = slice(j, j + 1)
    cut = replace(
        p,
        data=replace(p.data, count=p.data.count[:, one], total=p.data.total[:, one]),
        y=p.y[:, :, one],
        eligible=eligible[:, one],
        centre=p.centre[one],
        scale=p.scale[one],
    )
    parts = {
        name: getattr(group_moments, name)[:, :, one] for name in ("mean", "variance", "error", "n", "valid", "design")
    }
    correlation = None if group_moments.correlation is None else group_moments.correlation[..., one]
    own = GroupMoments(**parts, pool=group_moments.pool[:, one], correlation=correlation)
    return gap_tests(cut, own, permuted[:, None], np.array([yes_no]))[0]


def _of_images(sums: FloatArray, eligible: BoolArray) -> GroupMoments:
    """Return the means over images, with the squared errors of ratios of sums over subjects."""
    n, t, nn, nt, tt, units = sums
    valid = (units >= 2) & eligible[:, None, :]
    total, k = np.where(valid, n, 1.0), np.where(valid, units, 2.0)
    mean = np.where(valid, t / total, np.nan)
    centre = np.nan_to_num(mean)
    error = np.maximum(tt - 2 * centre * nt + centre**2 * nn, 0.0) / total**2 * k / (k - 1)
    error = np.where(valid, np.where(error * k < 1e-12, 0.0, error), np.inf)
    variance = np.where(valid, error * k, 0.0)
    pool = np.where(valid, variance, np.inf).min(axis=0)  # 0 where some group has no spread: a gap over 0 is infinite
    return GroupMoments(mean, variance, error, k, valid, pool, np.ones_like(variance), None)


class AdjustedMeans:
    """The estimator `adjusted`: group means with covariates held constant.

    Parameters
    ----------
    values : (S, m)
        Subject means, NaN where there is none.
    design : Design
        Of all S subjects; those who lack a covariate are not `complete`, (S,).
    """

    def __init__(self, values: FloatArray, design: Design, complete: BoolArray) -> None:
        self._values, self._design = np.where(complete[:, None], values, np.nan), design
        self._fits: dict[tuple[int, int], Fit | tuple[str, int]] = {}
        self._null: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}

    def _fit(self, outcome: int, least: int) -> Fit | tuple[str, int]:
        key = (outcome, least)
        if key not in self._fits:
            found = fit_model(self._values[:, outcome], self._design, max(least, 2))
            if isinstance(found, Fit) and not found.model.estimable(_pairs(found)):
                found = (NOT_SEPARABLE, found.n)
            self._fits[key] = found
        return self._fits[key]

    def observed(self, outcome: int, least: int) -> Found:
        """Return a test as observed."""
        fit, subjects = self._fit(outcome, least), len(self._values)
        if not isinstance(fit, Fit):
            return Found(*fit, np.nan, np.nan, {}, np.zeros(0), np.zeros(subjects))
        model, names = fit.model, [n for n, here in zip(self._design.groups, fit.kept, strict=True) if here]
        extreme = difference(int(np.argmax(model.mean)), int(np.argmin(model.mean)), len(names))
        influence = np.zeros(subjects)
        influence[fit.used] = model.influence(extreme) * fit.scale
        errors = (model.errors(np.eye(len(names))) * fit.scale) ** 2
        means = {name: float(mean) * fit.scale + fit.centre for name, mean in zip(names, model.mean, strict=True)}
        t = float(model.contrast_t(_pairs(fit)).max())
        return Found(OK, fit.n, float(np.ptp(model.mean)) * fit.scale, t, means, errors, influence)

    def permuted(self, draw: Draw, wanted: list[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
        """Return gap and |T| of (outcome, least) under a batch of relabellings, (b, len(wanted)) each."""
        raw, t = np.full((2, len(draw.given), len(wanted)), np.nan)
        orders: dict[bytes, IntArray] = {}
        for index, (outcome, least) in enumerate(wanted):
            fit = self._fit(outcome, least)
            if not isinstance(fit, Fit):
                continue
            key = fit.used.tobytes()
            if key not in orders:
                orders[key] = first_return(draw.given, fit.used)
            model = fit.model
            if (outcome, least) not in self._null:
                self._null[outcome, least] = model.left_over(fit.reduced), _pairs(fit) @ model.weights
            rest, weights = self._null[outcome, least]
            for start in range(0, len(draw.given), _STEP):
                part = slice(start, start + _STEP)
                y = rest[orders[key][part]].T
                raw[part, index] = np.ptp(model.weights @ y, axis=0) * fit.scale
                t[part, index] = model.t(weights, y).max(axis=0)
        return raw, t

    def test(self, outcome: int, least: int, permuted: FloatArray) -> GapTest | None:
        """Return the test of a gap, to be inverted; permuted (B,)."""
        fit = self._fit(outcome, least)
        if not isinstance(fit, Fit):
            return None
        error = fit.model.errors(_pairs(fit)) * fit.scale
        nothing, size = np.zeros(len(fit.model.mean)), (fit.shares > 0).sum(axis=0).astype(np.float64)
        return GapTest(
            mean=fit.model.mean * fit.scale,
            size=size,
            error=error,
            own_error=error,
            null=nothing,
            own=nothing,
            permuted=permuted,
            overall=0.0,
            yes_no=False,
            shared=np.ones(len(error)),
            t_error=error,
            df=np.full(len(error), np.inf),
            group_error=nothing,
            skewness=nothing,
            share=nothing,
            reach=nothing,
        )


def _pairs(fit: Fit) -> FloatArray:
    k = len(fit.model.mean)
    return np.array([difference(g, h, k) for g, h in combinations(range(k), 2)])


def first_return(given: IntArray, used: BoolArray) -> IntArray:
    """Return the permutations of the `used` subjects that agree with `given` as far as they can, (b, n used).

    Where a permutation (b, S) gives a used subject the values of one that is not, it gets those that the latter would
    have got, and so on. That is a random permutation of the used ones if the permutation is one of all, and nearly
    the same relabelling where few are missing, so that outcomes with other missing values stay as correlated as they
    are. Entries are places among the used subjects.
    """
    n = int(used.sum())
    found = np.ascontiguousarray(given[:, used]).reshape(-1)
    left = np.flatnonzero(~used[found])
    while len(left):
        found[left] = given[left // n, found[left]]
        left = left[~used[found[left]]]
    places = np.cumsum(used) - 1
    out: IntArray = places[found].reshape(len(given), n)
    return out
