"""The validation rate (VAL) of FHIBE's evaluation code: the true acceptance rate of a group's own pairs of faces.

Up to 3,000 genuine and 3,000 impostor pairs of a group are drawn and put in a random order, in ten folds. On nine
folds the threshold is found that accepts 0.1 % of the impostor pairs, by linear interpolation between steps of 0.001;
the rate is that of the genuine pairs of the tenth, its mean over folds. Where no threshold accepts so few, it is 0.

Random numbers are drawn as there (Python's `random`, seeds 7789 and 11), from pairs in the order of the faces' paths,
so that the same pairs are compared. After the first fold only those thresholds are kept at which a rate first occurs,
as there; this changes the interpolation of the other folds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fp2.extension import FloatArray
from fp2.methods.fhibe.narrow.pairs import FAR, MAX_PAIRS, Ints, Pairs

_DRAW_SEED, _ORDER_SEED = 7789, 11
_FOLDS = 10
_THRESHOLDS: FloatArray = np.arange(-1, 1, 0.001)


@dataclass(frozen=True)
class Validation:
    """VAL, its standard deviation over folds, and the number of pairs, faces and subjects it is from."""

    val: float
    val_error: float
    n_same: int
    n_different: int
    n_faces: int
    n_subjects: int


def validation_rate(embeddings: FloatArray, subjects: Sequence[str], paths: Sequence[str]) -> Validation | None:
    """Return the validation rate of a group of faces; None without genuine or impostor pairs.

    Parameters
    ----------
    embeddings : array of shape (n, d)
        Of length 1.
    subjects, paths : sequence of str
        Of each face. Subjects with one face are left out; faces are ordered by path.
    """
    counts: dict[str, int] = {}
    for subject in subjects:
        counts[subject] = counts.get(subject, 0) + 1
    used = np.array([n for n, name in enumerate(subjects) if counts[name] > 1], dtype=np.int64)
    names = {name: number for number, name in enumerate(dict.fromkeys(subjects[n] for n in used))}
    if len(names) < 2:
        return None
    faces = np.array(sorted(used.tolist(), key=lambda n: paths[n]), dtype=np.int64)
    code = np.array([names[subjects[n]] for n in faces], dtype=np.int64)
    rng = random.Random(_DRAW_SEED)
    same, different = (_drawn(code, rng, same=kind) for kind in (True, False))
    if not len(same[0]) or not len(different[0]):
        return None
    first, second = (faces[np.concatenate([same[side], different[side]])] for side in (0, 1))
    distance = -(embeddings[first] * embeddings[second]).sum(axis=1)
    genuine = np.arange(len(distance)) < len(same[0])
    order = list(range(len(distance)))
    random.Random(_ORDER_SEED).shuffle(order)
    val, error = cross_validated(distance[order], genuine[order])
    return Validation(val, error, len(same[0]), len(different[0]), len(faces), len(names))


def _drawn(code: Ints, rng: random.Random, *, same: bool) -> Pairs:
    """Return at most `MAX_PAIRS` pairs of one subject or of two, drawn from all in lexicographic order.

    code : (n,), the subject of each face.
    """
    n = len(code)
    later_same = np.array([int((code[n_face + 1 :] == code[n_face]).sum()) for n_face in range(n)], dtype=np.int64)
    per_face = later_same if same else np.arange(n - 1, -1, -1) - later_same
    ends = np.cumsum(per_face)
    total = int(ends[-1])
    chosen = np.array(rng.sample(range(total), min(MAX_PAIRS, total)), dtype=np.int64)
    first = np.searchsorted(ends, chosen, side="right")
    rank = chosen - (ends[first] - per_face[first])
    second = np.empty_like(first)
    for face in np.unique(first):
        others = face + 1 + np.flatnonzero((code[face + 1 :] == code[face]) == same)
        of_face = first == face
        second[of_face] = others[rank[of_face]]
    return first, second


def cross_validated(distance: FloatArray, genuine: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return mean and standard deviation over folds of the rate of accepted genuine pairs.

    Parameters
    ----------
    distance : array of shape (n,)
        Minus the cosine of each pair, in the order of the folds.
    genuine : array of shape (n,)
    """
    n = len(distance)
    thresholds, rates = _THRESHOLDS, []
    for held in np.array_split(np.arange(n), min(n, _FOLDS)):
        train = np.ones(n, dtype=bool)
        train[held] = False
        impostors = np.sort(distance[train & ~genuine])
        threshold = 0.0
        # a rate for each threshold there was at first; those that were dropped since count as 0
        far = np.zeros(len(_THRESHOLDS))
        if len(impostors):
            far[: len(thresholds)] = np.searchsorted(impostors, thresholds, side="left") / len(impostors)
        if far.max() >= FAR and far.min() <= FAR:
            levels, places = np.unique(far, return_index=True)
            there = places < len(thresholds)
            thresholds = thresholds[places[there]]
            threshold = float(np.interp(FAR, levels[there], thresholds))
        of_fold = distance[held][genuine[held]]
        rates.append(float((of_fold < threshold).mean()) if len(of_fold) else np.nan)
    return float(np.nanmean(rates)), float(np.nanstd(rates))
