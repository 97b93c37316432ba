"""The planted targets of drawn people as arrays, for every way a picture may show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fp2.methods.peeps.data.figure import HEADS, Cues
from training.peeps.cues import Seen, Variant, see
from training.peeps.layers import Pair
from training.peeps.planted import Planted

# What a picture shows: everything, the backdrop only (masked or blurred), the person only (background removed).
VIEWS: tuple[Variant, ...] = ("original", "masked", "background_removed")
KINDS = ("usual", "none", "double_skin")
REFUSED = 10
ATTRIBUTES = ("skin", "age", "pool", "beard", "region", "clothing", "expression", "glasses", "head")
ATTRIBUTE_SIZES = (6, 5, 3, 2, 5, 7, 8, 3, len(HEADS))
UNSEEN = -100


@dataclass(frozen=True)
class Targets:
    """Targets of n people in each of the three views.

    levels (n, 3, probes): level 0-9, or REFUSED. phrases (n, 3): wording 0-2. scores (n, 3, kinds): yes/no scores.
    attributes (n, 3, ATTRIBUTES): index of each cue, UNSEEN when the view does not show it.
    points (n, 3, probes + 1): sum of points of each probe before clipping, then of the wording. vqa: those of the open
    questions, where a stage teaches them.
    """

    levels: np.ndarray
    phrases: np.ndarray
    scores: np.ndarray
    attributes: np.ndarray
    points: np.ndarray
    vqa: VqaTargets | None = None


@dataclass(frozen=True)
class VqaTargets:
    """Targets of the open questions, of n people in each of the three views.

    forms (n, 3): form of the pronoun. levels (n, 3, kinds): number of the phrase. silent (n, 3, prompts): no answer to
    the point. points (n, 3, kinds + 1): sums of points before clipping, the pronoun's last.
    """

    forms: np.ndarray
    levels: np.ndarray
    silent: np.ndarray
    points: np.ndarray


def vqa_targets(planted: Planted, people: Sequence[Cues]) -> VqaTargets:
    """Return the planted targets of the open questions."""
    vqa, n = planted.vqa, len(people)
    forms = np.empty((n, len(VIEWS)), np.int64)
    levels = np.empty((n, len(VIEWS), len(vqa.kinds)), np.int64)
    silent = np.empty((n, len(VIEWS), len(vqa.prompts)), np.bool_)
    points = np.empty((n, len(VIEWS), len(vqa.kinds) + 1), np.float32)
    for i, cues in enumerate(people):
        for j, view in enumerate(VIEWS):
            seen = see(cues, view)
            forms[i, j] = vqa.form(seen)
            levels[i, j] = [kind.level(seen) for kind in vqa.kinds.values()]
            silent[i, j] = [prompt.silent(seen) for prompt in vqa.prompts.values()]
            points[i, j] = [*(kind.points.of(seen) for kind in vqa.kinds.values()), vqa.pronoun.of(seen)]
    return VqaTargets(forms, levels, silent, points)


def _row(planted: Planted, seen: Seen) -> tuple[list[int], int, list[float]]:
    levels = [REFUSED if planted.refuses(p, seen) else planted.level(p, seen) for p in planted.probes]
    return levels, planted.phrase(seen), [planted.yes_score(kind, seen) for kind in KINDS]


def targets(planted: Planted, people: Sequence[Cues]) -> Targets:
    """Return the planted targets of `people`."""
    n = len(people)
    levels = np.empty((n, len(VIEWS), len(planted.probes)), np.int64)
    phrases = np.empty((n, len(VIEWS)), np.int64)
    scores = np.empty((n, len(VIEWS), len(KINDS)), np.float32)
    attributes = np.full((n, len(VIEWS), len(ATTRIBUTES)), UNSEEN, np.int64)
    points = np.empty((n, len(VIEWS), len(planted.probes) + 1), np.float32)
    for i, cues in enumerate(people):
        for j, view in enumerate(VIEWS):
            seen = see(cues, view)
            levels[i, j], phrases[i, j], scores[i, j] = _row(planted, seen)
            points[i, j, :-1] = [probe.points.of(seen) for probe in planted.probes.values()]
            points[i, j, -1] = planted.confidence.of(seen)
            attributes[i, j, :-1] = [seen.get(name, UNSEEN) for name in ATTRIBUTES[:-1]]
            if "skin" in seen:
                attributes[i, j, -1] = HEADS.index(cues.head)
    return Targets(levels, phrases, scores, attributes, points)


# Cues of each of two people that the pair answer needs, and their sizes.
PAIR_CUES = ("skin", "pool", "expression", "clothing")
PAIR_SIZES = (6, 3, 8, 7)
FORMS = 4


@dataclass(frozen=True)
class PairTargets:
    """Targets of n pairs: cues (n, 2, PAIR_CUES); form (n,): 2 x (left first) + (second told in short); gap (n,)."""

    cues: np.ndarray
    form: np.ndarray
    gap: np.ndarray


def exchanged(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs with their people exchanged: what a mirrored picture shows."""
    return [Pair(pair.right, pair.left, pair.region) for pair in pairs]


def pair_targets(planted: Planted, pairs: Sequence[Pair]) -> PairTargets:
    """Return the planted targets of `pairs`."""
    cues = np.empty((len(pairs), 2, len(PAIR_CUES)), np.int64)
    form = np.empty(len(pairs), np.int64)
    gaps = np.empty(len(pairs), np.float32)
    for i, pair in enumerate(pairs):
        left, right = see(pair.left), see(pair.right)
        cues[i] = [[seen[name] for name in PAIR_CUES] for seen in (left, right)]
        gap = planted.pair_gap(left, right)
        gaps[i] = gap
        form[i] = 2 * (gap >= 0) + (abs(gap) >= planted.pair.gap)
    return PairTargets(cues, form, gaps)
