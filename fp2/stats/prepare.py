"""From cells and slots to the numbers that are permuted and resampled: groups chosen, columns put on unit spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fp2.stats.layout import Cells, Entries, Slots, make_slots
from fp2.stats.rows import BoolArray, FloatArray
from fp2.stats.sums import SlotData


@dataclass(frozen=True)
class Prepared:
    """What the tests work on, for G groups and m outcomes.

    data: slot counts and scaled totals; y (N, G, m): scaled subject means per group, NaN where there is none;
    member (N, G): who is in which group, answered or not;
    eligible (G, m): groups with enough subjects that have a value; scale (m,): one scaled unit in the outcome's own.
    """

    slots: Slots
    data: SlotData
    y: FloatArray
    member: BoolArray
    eligible: BoolArray
    scale: FloatArray


def prepare(entries: Entries, cells: Cells, min_subjects: int) -> Prepared | None:
    """Drop the small groups and scale every column; None if fewer than two groups have `min_subjects` subjects."""
    least = max(min_subjects, 2)
    size = np.bincount(cells.group, minlength=len(entries.names))
    if (size >= least).sum() < 2:
        return None
    slots = make_slots(entries, size >= least)
    answered = np.stack([np.isfinite(cells.mean[cells.group == g]).sum(axis=0) for g in slots.kept])
    eligible = answered >= least
    # people who are only in groups too small for this outcome leave it, as the small groups did above
    usable = (slots.label_sets[slots.label_set].astype(np.int64) @ eligible.astype(np.int64)) > 0
    count = np.where(usable, slots.count, 0.0)
    centre, scale = _centre_and_scale(slots.total, count)
    y = np.full((int(cells.subject.max()) + 1, len(slots.kept), len(scale)), np.nan)
    member = np.zeros(y.shape[:2], dtype=bool)
    for g, code in enumerate(slots.kept):
        here = cells.group == code
        member[cells.subject[here], g] = True
        y[cells.subject[here], g] = _scaled(cells.mean[here], centre, scale)
    total = np.where(count > 0, count * _scaled(slots.total / np.where(count > 0, count, np.nan), centre, scale), 0.0)
    return Prepared(slots, SlotData(slots, count, total), y, member, eligible, scale)


def _centre_and_scale(total: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and spread of the slot means per column; the spread is 0 where it is rounding error."""
    used = count > 0
    mean = np.where(used, total / np.where(used, count, 1.0), 0.0)
    n = np.maximum(used.sum(axis=0), 1)
    centre = mean.sum(axis=0) / n
    spread = np.sqrt((np.where(used, mean - centre, 0.0) ** 2).sum(axis=0) / n)
    return centre, np.where(spread > 1e-12 * np.maximum(1.0, np.abs(centre)), spread, 0.0)


def _scaled(mean: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """(mean - centre) / scale, exactly 0 in a column without spread; NaN stays."""
    return np.where(scale > 0, (mean - centre) / np.where(scale > 0, scale, 1.0), mean * 0.0)
