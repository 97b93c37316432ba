"""Face verification: the share of true pairs that are accepted where one false pair in a thousand is.

Two protocols of the FHIBE paper. (i) Within each subgroup, pairs are drawn and the threshold is the subgroup's own.
(ii) Over the whole set: every pair of one person, against all hard pairs of two people (same pronoun, skin at most one
of the six tones apart), one threshold for all; then errors by the two hairstyles of a pair, for each pronoun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FAR = 0.001
MOST_PAIRS = 3000
"""Pairs of each kind that are drawn in a subgroup (FHIBE's published code)."""
SIMILARITIES = ("cosine", "euclidean")
_BLOCK = 512


@dataclass(frozen=True)
class Rates:
    """What a threshold accepts. `threshold`, `tar` and `far` are None where there are no pairs of a kind."""

    n_same: int
    n_different: int
    n_subjects: int
    threshold: float | None
    tar: float | None
    far: float | None
    tar_low: float | None = None
    tar_high: float | None = None


def unit(embeddings: npt.ArrayLike, similarity: str = "cosine") -> Floats:
    """Return embeddings (n, d) made ready for `likeness`: of length one for cosine, as they are for Euclidean."""
    array = np.asarray(embeddings, dtype=np.float64)
    if similarity == "euclidean":
        return array
    length = np.linalg.norm(array, axis=1, keepdims=True)
    ready: Floats = np.divide(array, length, out=np.zeros_like(array), where=length > 0)
    return ready


def likeness(embeddings: Floats, first: Ints, second: Ints, similarity: str = "cosine") -> Floats:
    """Return how alike the two faces of each pair are (larger is more alike): the cosine, or minus the distance."""
    parts = []
    for start in range(0, len(first), 65536):
        a, b = embeddings[first[start : start + 65536]], embeddings[second[start : start + 65536]]
        parts.append((a * b).sum(axis=1) if similarity == "cosine" else -np.linalg.norm(a - b, axis=1))
    return np.concatenate(parts) if parts else np.zeros(0)


def threshold_at(different: Floats, far: float = FAR) -> float:
    """Return the lowest threshold at which at most `far` of the different pairs lie at or above it.

    With fewer than 1/`far` pairs that is just above the most alike of them.
    """
    allowed = int(np.floor(far * len(different) + 1e-9))
    place = len(different) - 1 - allowed
    return float(np.nextafter(np.partition(different, place)[place], np.inf))


def rates(
    same: Floats, different: Floats, subjects: npt.NDArray[np.object_], *, far: float = FAR, seed: int = 0
) -> Rates:
    """Return threshold and acceptance rates, with a 95 % interval of the TAR from 1,000 resamples of subjects.

    Parameters
    ----------
    same, different : array of shape (n,)
        Likeness of pairs of one person and of two.
    subjects : array of shape (n_same,)
        Whose pair each of `same` is. The interval holds the threshold fixed.
    """
    people = sorted(set(subjects.tolist()))
    if not len(same) or not len(different):
        return Rates(len(same), len(different), len(people), None, None, None)
    threshold = threshold_at(different, far)
    accepted = same >= threshold
    place = {name: index for index, name in enumerate(people)}
    which = np.array([place[name] for name in subjects.tolist()])
    hits, pairs = (np.bincount(which, weights=w, minlength=len(people)) for w in (accepted, np.ones(len(same))))
    drawn = np.random.default_rng(seed).multinomial(len(people), np.full(len(people), 1 / len(people)), size=1000)
    low, high = np.quantile((drawn @ hits) / np.maximum(drawn @ pairs, 1e-12), [0.025, 0.975])
    tar, got = float(accepted.mean()), float((different >= threshold).mean())
    return Rates(len(same), len(different), len(people), threshold, tar, got, float(low), float(high))


def same_pairs(subjects: Sequence[str]) -> tuple[Ints, Ints]:
    """Return every pair of two faces of one person, as two arrays of indices (first < second)."""
    places: dict[str, list[int]] = {}
    for index, subject in enumerate(subjects):
        places.setdefault(subject, []).append(index)
    pairs = [(a, b) for own in places.values() for n, a in enumerate(own) for b in own[n + 1 :]]
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def drawn_pairs(
    subjects: Sequence[str], seed: int, most: int = MOST_PAIRS
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Return at most `most` pairs of one person and as many of two people, drawn without replacement.

    People with a single face are in no pair, as in FHIBE's published code.
    """
    counts: dict[str, int] = {}
    for subject in subjects:
        counts[subject] = counts.get(subject, 0) + 1
    usable = np.array([index for index, subject in enumerate(subjects) if counts[subject] > 1], dtype=np.int64)
    rng = np.random.default_rng(seed)
    own = [subjects[index] for index in usable]
    first, second = same_pairs(own)
    keep = np.sort(rng.permutation(len(first))[:most])
    n = len(usable)
    names = {name: number for number, name in enumerate(dict.fromkeys(own))}
    code = np.array([names[name] for name in own], dtype=np.int64)
    if n * (n - 1) // 2 <= 4_000_000:
        a, b = np.triu_indices(n, k=1)
        other = np.flatnonzero(code[a] != code[b])
        chosen = np.sort(rng.permutation(len(other))[:most])
        a, b = a[other[chosen]], b[other[chosen]]
    else:  # far more pairs than are drawn: draw, drop what is no pair of two people or came before
        drawn = np.sort(rng.integers(0, n, size=(most * 20, 2)), axis=1)
        drawn = drawn[(code[drawn[:, 0]] != code[drawn[:, 1]])]
        _, at = np.unique(drawn[:, 0] * n + drawn[:, 1], return_index=True)
        a, b = drawn[np.sort(at)[:most]].T
    return (usable[first[keep]], usable[second[keep]]), (usable[a], usable[b])


def hard_pairs(
    subjects: Sequence[str], pronouns: Sequence[frozenset[str]], tones: Sequence[int | None]
) -> Iterator[tuple[Ints, Ints]]:
    """Yield, in blocks, all pairs of two people who share a pronoun and whose skin is at most one tone apart.

    Parameters
    ----------
    tones : sequence of int, optional
        Place of the skin tone among the six; a face without one is in no pair.
    """
    code = {name: number for number, name in enumerate(dict.fromkeys(subjects))}
    who = np.array([code[subject] for subject in subjects])
    words = sorted({word for own in pronouns for word in own})
    says = np.array([[word in own for word in words] for own in pronouns], dtype=np.float32)
    says = says.reshape(len(pronouns), len(words))
    tone = np.array([np.nan if value is None else value for value in tones], dtype=np.float64)
    everyone = np.arange(len(subjects))
    for start in range(0, len(subjects), _BLOCK):
        rows = slice(start, start + _BLOCK)
        fits = (who[rows, None] != who[None, :]) & (np.abs(tone[rows, None] - tone[None, :]) <= 1)
        fits &= (says[rows] @ says.T > 0) & (everyone[rows, None] < everyone[None, :])
        first, second = np.nonzero(fits)
        if len(first):
            yield first + start, second
