"""Pairs of faces: genuine ones (two faces of one subject) and impostor ones, thresholds and acceptance rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.extension import FloatArray

Ints = npt.NDArray[np.int64]
Pairs = tuple[Ints, Ints]
"""Indices of the first and the second face of each pair."""

FAR = 0.001
"""False acceptance rate at which true acceptance rates are reported."""
MAX_PAIRS = 3000
"""Pairs of each kind that are drawn in a group (FHIBE's published code)."""
_BLOCK = 512
_ENUMERATED = 4_000_000  # up to this many pairs, all are listed before some are drawn


@dataclass(frozen=True)
class Rates:
    """The pairs that a threshold accepts: true and false acceptance rate (TAR, FAR).

    `threshold`, `tar` and `far` are None without pairs of both kinds. The interval of the TAR holds the threshold
    fixed.
    """

    n_same: int
    n_different: int
    n_subjects: int
    threshold: float | None
    tar: float | None
    far: float | None
    tar_low: float | None = None
    tar_high: float | None = None


def prepare(embeddings: npt.ArrayLike, similarity: str) -> FloatArray:
    """Return embeddings (n, d) as `compare` takes them: of length 1 for cosine, unchanged for Euclidean."""
    array = np.asarray(embeddings, dtype=np.float64)
    if similarity == "euclidean":
        return array
    length = np.linalg.norm(array, axis=1, keepdims=True)
    ready: FloatArray = np.divide(array, length, out=np.zeros_like(array), where=length > 0)
    return ready


def compare(embeddings: FloatArray, pairs: Pairs, similarity: str) -> FloatArray:
    """Return the similarity of the two faces of each pair: the cosine, or minus the Euclidean distance."""
    first, second = pairs
    parts = []
    for start in range(0, len(first), 65536):
        a, b = embeddings[first[start : start + 65536]], embeddings[second[start : start + 65536]]
        parts.append((a * b).sum(axis=1) if similarity == "cosine" else -np.linalg.norm(a - b, axis=1))
    return np.concatenate(parts) if parts else np.zeros(0)


def threshold_at(different: FloatArray, far: float = FAR) -> float:
    """Return the lowest threshold at which at most `far` of the impostor pairs are at or above it.

    With fewer than 1/`far` pairs that is just above the most similar one.
    """
    allowed = int(np.floor(far * len(different) + 1e-9))
    rank = len(different) - 1 - allowed
    return float(np.nextafter(np.partition(different, rank)[rank], np.inf))


def curve(same: FloatArray, different: FloatArray, fars: Sequence[float]) -> dict[str, Any]:
    """Return `curve`, the true acceptance rate at each of `fars`; nothing without them or without impostor pairs."""
    if not fars or not len(different):
        return {}
    tar = [float((same >= threshold_at(different, far)).mean()) for far in fars]
    return {"curve": {"far": list(fars), "tar": tar}}


def rates(
    same: FloatArray, different: FloatArray, subjects: npt.NDArray[np.object_], *, far: float = FAR, seed: int = 0
) -> Rates:
    """Return threshold and acceptance rates, with a 95 % interval of the TAR (1,000 bootstrap resamples of subjects).

    Parameters
    ----------
    same, different : array of shape (n,)
        Similarity of the genuine and of the impostor pairs.
    subjects : array of shape (n_same,)
        The subject of each genuine pair.
    """
    names = sorted(set(subjects.tolist()))
    if not len(same) or not len(different):
        return Rates(len(same), len(different), len(names), None, None, None)
    threshold = threshold_at(different, far)
    accepted = same >= threshold
    number = {name: index for index, name in enumerate(names)}
    which = np.array([number[name] for name in subjects.tolist()])
    hits, pairs = (np.bincount(which, weights=w, minlength=len(names)) for w in (accepted, np.ones(len(same))))
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=1000)
    low, high = np.quantile((drawn @ hits) / np.maximum(drawn @ pairs, 1e-12), [0.025, 0.975])
    tar, got = float(accepted.mean()), float((different >= threshold).mean())
    return Rates(len(same), len(different), len(names), threshold, tar, got, float(low), float(high))


def genuine_pairs(subjects: Sequence[str]) -> Pairs:
    """Return every pair of two faces of one subject (first < second)."""
    places: dict[str, list[int]] = {}
    for index, subject in enumerate(subjects):
        places.setdefault(subject, []).append(index)
    pairs = [(a, b) for faces in places.values() for n, a in enumerate(faces) for b in faces[n + 1 :]]
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def drawn_pairs(subjects: Sequence[str], seed: int, most: int = MAX_PAIRS) -> tuple[Pairs, Pairs]:
    """Return at most `most` genuine and as many impostor pairs, drawn without replacement.

    Subjects with a single face are in no pair, as in FHIBE's published code.
    """
    counts: dict[str, int] = {}
    for subject in subjects:
        counts[subject] = counts.get(subject, 0) + 1
    usable = np.array([index for index, subject in enumerate(subjects) if counts[subject] > 1], dtype=np.int64)
    rng = np.random.default_rng(seed)
    usable_subjects = [subjects[index] for index in usable]
    first, second = genuine_pairs(usable_subjects)
    keep = np.sort(rng.permutation(len(first))[:most])
    n = len(usable)
    names = {name: number for number, name in enumerate(dict.fromkeys(usable_subjects))}
    code = np.array([names[name] for name in usable_subjects], dtype=np.int64)
    if n * (n - 1) // 2 <= _ENUMERATED:
        a, b = np.triu_indices(n, k=1)
        other = np.flatnonzero(code[a] != code[b])
        chosen = np.sort(rng.permutation(len(other))[:most])
        a, b = a[other[chosen]], b[other[chosen]]
    else:  # far more pairs than are drawn: draw, then drop pairs of one subject and repeated ones
        drawn = np.sort(rng.integers(0, n, size=(most * 20, 2)), axis=1)
        drawn = drawn[(code[drawn[:, 0]] != code[drawn[:, 1]])]
        _, at = np.unique(drawn[:, 0] * n + drawn[:, 1], return_index=True)
        a, b = drawn[np.sort(at)[:most]].T
    return (usable[first[keep]], usable[second[keep]]), (usable[a], usable[b])


def hard_impostor_pairs(
    subjects: Sequence[str], pronouns: Sequence[frozenset[str]], tones: Sequence[int | None]
) -> Iterator[Pairs]:
    """Yield, in blocks, all pairs of two subjects who share a pronoun and differ by at most one skin tone.

    Parameters
    ----------
    tones : sequence of int, optional
        Rank of the skin tone among the six; a face without one is in no pair.
    """
    code = {name: number for number, name in enumerate(dict.fromkeys(subjects))}
    subject = np.array([code[name] for name in subjects])
    words = sorted({word for own in pronouns for word in own})
    has = np.array([[word in own for word in words] for own in pronouns], dtype=np.float32)
    has = has.reshape(len(pronouns), len(words))
    tone = np.array([np.nan if value is None else value for value in tones], dtype=np.float64)
    index = np.arange(len(subjects))
    for start in range(0, len(subjects), _BLOCK):
        rows = slice(start, start + _BLOCK)
        hard = (subject[rows, None] != subject[None, :]) & (np.abs(tone[rows, None] - tone[None, :]) <= 1)
        hard &= (has[rows] @ has.T > 0) & (index[rows, None] < index[None, :])
        first, second = np.nonzero(hard)
        if len(first):
            yield first + start, second
