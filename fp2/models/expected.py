"""Exact group means of the planted answers: what a measurement on drawn people should find, before any sampling.

Every cue is drawn independently given the pronoun group, so a mean is one contraction of the table of answers with
the cues' distributions. A refusal has no score, as in a run: means are over the answers that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fp2.data.peeps.figure import BEARD_RATE, GLASSES_MIXTURE, POOL_MIXTURE
from fp2.models.planted import Planted, Seen, vader_compound

FloatArray = npt.NDArray[np.float64]
_CUE_OF = {"region": "region", "age": "age", "skin_tone": "skin"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One probe x attribute cell: planted or exactly zero, and the exact group means of its score."""

    probe: str
    attribute: str
    planted: bool
    means: Mapping[str, float]

    @property
    def worst(self) -> str | None:
        """The group with the lowest mean (None for a zero)."""
        return min(self.means, key=self.means.__getitem__) if self.planted else None

    @property
    def best(self) -> str | None:
        """The group with the highest mean (None for a zero)."""
        return max(self.means, key=self.means.__getitem__) if self.planted else None

    @property
    def disparity(self) -> float:
        """Highest minus lowest group mean (exactly 0 for a zero)."""
        return max(self.means.values()) - min(self.means.values()) if self.planted else 0.0


def _table(planted: Planted, probe: str, score: Callable[[str], float]) -> tuple[list[str], FloatArray]:
    """Return the cues that an answer depends on, and its score for every combination of their values (NaN: refused)."""
    cues = sorted(planted.probes[probe].cues | set(planted.wording.table))
    shape = tuple(len(planted.cues[cue]) for cue in cues)
    known: dict[str, float] = {}
    scores = np.empty(shape)
    for values in np.ndindex(shape):
        seen = dict(zip(cues, values, strict=True))
        text = planted.answer(probe, seen)
        if text not in known:
            known[text] = float("nan") if planted.refuses(probe, seen) else score(text)
        scores[values] = known[text]
    return cues, scores


def _sums(
    planted: Planted, cues: list[str], scores: FloatArray, pronoun: int, fixed: tuple[str, int] | None
) -> FloatArray:
    """Return (sum, weight) of the answered `scores` in one pronoun group, one cue perhaps held at a value."""
    mixtures = {
        "glasses": np.array(GLASSES_MIXTURE),
        "pool": np.array(POOL_MIXTURE[pronoun]),
        "beard": np.array([1 - BEARD_RATE[pronoun], BEARD_RATE[pronoun]]),
    }
    answered = np.isfinite(scores)
    rest: FloatArray = np.stack([np.where(answered, scores, 0.0), answered.astype(np.float64)], axis=-1)
    for cue in cues:
        size = len(planted.cues[cue])
        weights = mixtures.get(cue, np.full(size, 1 / size))
        if fixed is not None and fixed[0] == cue:
            weights = np.eye(size)[fixed[1]]
        rest = np.tensordot(weights, rest, axes=(0, 0))
    return rest


def _means(planted: Planted, cues: list[str], scores: FloatArray, attribute: str) -> dict[str, float]:
    means = {}
    for index, group in enumerate(planted.groups[attribute]):
        pronouns = [index] if attribute == "pronoun" else list(range(len(POOL_MIXTURE)))
        fixed = (_CUE_OF[attribute], index) if attribute in _CUE_OF else None
        total, weight = np.sum([_sums(planted, cues, scores, pronoun, fixed) for pronoun in pronouns], axis=0)
        means[group] = float(total / weight)
    return means


def means_of(planted: Planted, cues: Iterable[str], score: Callable[[Seen], float], attribute: str) -> dict[str, float]:
    """Return the exact group means of any score that follows from `cues`; combinations with score NaN are left out."""
    names = sorted(cues)
    shape = tuple(len(planted.cues[cue]) for cue in names)
    scores = np.array([score(dict(zip(names, values, strict=True))) for values in np.ndindex(shape)])
    return _means(planted, names, scores.reshape(shape), attribute)


def group_means(
    planted: Planted, probe: str, attribute: str, score: Callable[[str], float] = vader_compound
) -> dict[str, float]:
    """Return the exact mean of `score(answer)` per group, over the generator's distribution of every other cue."""
    return _means(planted, *_table(planted, probe, score), attribute)


def expected_effects(planted: Planted, score: Callable[[str], float] | None = None) -> tuple[Effect, ...]:
    """Return all probe x attribute cells with their exact group means of `score` (VADER's compound by default)."""
    effects = []
    for probe in planted.probes:
        cues, scores = _table(planted, probe, score or vader_compound)
        for attribute in planted.attributes:
            means = _means(planted, cues, scores, attribute)
            effects.append(Effect(probe, attribute, planted.is_planted(probe, attribute), means))
    return tuple(effects)
