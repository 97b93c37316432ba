"""Run the joint permutations over a prepared panel: raw, max|T|, the worst group, and the divergence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fp2.stats.divergence import divergence_of_sums, histogram_shares
from fp2.stats.options import Options
from fp2.stats.permutation import Labels, Permuter, stream
from fp2.stats.prepare import Prepared
from fp2.stats.rows import BoolArray, FloatArray
from fp2.stats.studentised import GroupMoments, max_t_squared, moments, spread, worst_again, worst_shares
from fp2.stats.sums import SlotData, group_histograms, group_totals

V0 = 1.0
JS_PERMUTATIONS = 2_000


@dataclass(frozen=True)
class Joint:
    """What was seen and what the permutations made of it; means and gaps are scaled.

    seen: the observed moments; max_t (m,); raw_permuted, max_t_permuted (B, m); worst_again (G, m): how often a
    resample names the same worst group again, given that a permutation made it the worst (NaN if none did); js (m,);
    js_permuted (min(B, 2000), m).
    """

    seen: GroupMoments
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray
    worst_again: FloatArray
    js: FloatArray
    js_permuted: FloatArray


def permute(p: Prepared, options: Options) -> Joint:
    """Draw the permutations once and compute every permuted statistic from them."""
    b_all, m = options.n_permutations, len(p.scale)
    raw, largest = np.empty((b_all, m)), np.empty((b_all, m))
    worst, again = np.zeros(p.eligible.shape), np.zeros(p.eligible.shape)
    normal = stream(options.seed, 0, 2)
    seen, chunks = permuted_moments(p, options.yes_no, b_all, options.seed)
    start = 0
    for found in chunks:
        b = found.mean.shape[1]
        raw[start : start + b] = spread(found)
        largest[start : start + b] = np.sqrt(max_t_squared(found))
        shares = worst_shares(found, options.sign)
        worst += shares.sum(axis=1)
        noise = normal.standard_normal((b, len(p.eligible))).T[:, :, None]
        again += worst_again(found, shares, options.sign, noise).sum(axis=1)
        start += b
    js, js_permuted = _divergences(p, options)
    repeat = np.where(worst > 0, again / np.where(worst > 0, worst, 1.0), np.nan)
    return Joint(seen, np.sqrt(max_t_squared(seen)[0]), raw, largest, repeat, js, js_permuted)


def permuted_moments(p: Prepared, pooled: BoolArray, n: int, seed: int) -> tuple[GroupMoments, Iterator[GroupMoments]]:
    """Return the observed moments (A1's), and those of `n` relabellings in chunks that fit the memory budget."""
    data = replace(p.data, agreement=agreement(p.data, p.slots.total, pooled))
    permuter = Permuter(p.slots, seed)
    step = data.chunk(n)
    return moments(group_totals(data, permuter.observed()), p.eligible, pooled, V0), (
        moments(group_totals(data, permuter.draw(min(step, n - start))), p.eligible, pooled, V0)
        for start in range(0, n, step)
    )


def agreement(data: SlotData, total: FloatArray, pooled: BoolArray) -> FloatArray | None:
    """How alike one subject's yes/no answers are: ANOVA's ICC over slots, in [0, 1], (m,), from the unscaled totals.

    It says how much more the rate of somebody with one image scatters than that of somebody with six: without it the
    pooled variance would find a gap in a group with few images a subject. Labels play no part, so that it is the same
    in every permutation. None where no pooled outcome has slots of different size.
    """
    count = data.count
    known = count > 0
    largest = count.max(axis=0)
    uneven = pooled & (np.where(known, count, largest) < largest).any(axis=0)
    if not uneven.any():
        return None
    rate = np.where(known, total / np.where(known, count, 1.0), 0.0)
    images, people = count.sum(axis=0), known.sum(axis=0)
    centre = (count * rate).sum(axis=0) / np.maximum(images, 1)
    between = (count * (rate - centre) ** 2).sum(axis=0) / np.maximum(people - 1, 1)
    within = (count * rate * (1 - rate)).sum(axis=0) / np.maximum(images - people, 1)
    k0 = (images - (count**2).sum(axis=0) / np.maximum(images, 1)) / np.maximum(people - 1, 1)
    below = between + (k0 - 1) * within
    icc = np.clip((between - within) / np.where(below > 0, below, 1.0), 0.0, 1.0)
    # 1: every mean counts alike
    return np.where(uneven, icc, 1.0)


def _divergences(p: Prepared, options: Options) -> tuple[FloatArray, FloatArray]:
    """The divergence and its null from the first permutations: the same stream, drawn again from its beginning."""
    table = _slot_histograms(p, options)
    # a bin that nobody's answer falls in adds nothing
    usable = table[:, :, table.any(axis=(0, 1))]
    permuter, total = Permuter(p.slots, options.seed), min(options.n_permutations, JS_PERMUTATIONS)
    step = p.data.chunk(max(1, total // max(1, usable.shape[2])))
    seen = _one_batch(p, permuter.observed(), usable)[0]
    parts = [_one_batch(p, permuter.draw(min(step, total - start)), usable) for start in range(0, total, step)]
    bounded = np.array([bins is not None for bins in options.bins])
    return np.where(bounded, seen, np.nan), np.where(bounded, np.concatenate(parts), np.nan)


def _one_batch(p: Prepared, labels: Labels, table: FloatArray) -> FloatArray:
    sums = group_histograms(p.data, labels, table)
    valid = (sums.sum(axis=-1) >= 2 - 1e-6) & p.eligible[:, None, :]
    return divergence_of_sums(sums, valid)


def _slot_histograms(p: Prepared, options: Options) -> FloatArray:
    """Each slot's shares of its answered images per bin, (C, m, most bins); zeros where a slot does not count."""
    data: SlotData = p.data
    most = max((bins for bins in options.bins if bins is not None), default=1)
    table = np.zeros((*data.count.shape, most))
    for j, bins in enumerate(options.bins):
        if bins is not None:
            values = p.slots.picture_values[:, j]
            ends = float(options.low[j]), float(options.high[j])
            table[:, j, :bins] = histogram_shares(values, p.slots.picture_slot, len(data.count), *ends, bins)
    table[data.count == 0] = 0.0
    return table
