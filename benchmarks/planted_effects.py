"""Exact group means of the bundled model's answers: what a measurement on drawn people finds, before any sampling.

All cues are independent given the pronoun group, so a mean is one contraction of the table of answers with the
distributions of the cues. A refusal has no score, as in a run: means are over the answers that are not refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fp2.methods.peeps.data.figure import BEARD_RATE, GLASSES_MIXTURE, POOL_MIXTURE
from fp2.scorers.valence import Valence
from fp2.scorers.valence_context import ValenceContext
from training.peeps.cues import Seen
from training.peeps.planted import Planted

Floats = npt.NDArray[np.float64]
Score = Callable[[str, str], float]
"""An answer and its probe -> its score."""
_CUE_OF = {"region": "region", "age": "age", "skin_tone": "skin"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One probe x attribute cell: planted or zero, and the exact group means of its score.

    A zero is exact, but for the score's dependence on the opening phrase, which is planted by pronoun: with
    `valence_in_context` the means of three cells by pronoun differ by up to 0.007, with `vader` none does.
    """

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


def valence_in_context(text: str, probe: str) -> float:
    """Return the default primary score of an answer, -1 to 1."""
    return float(ValenceContext().score([text], [probe]).values[0])


def vader(text: str, probe: str) -> float:
    """Return VADER's compound, -1 to 1."""
    return float(Valence().score([text], [probe]).values[0])


def group_means(planted: Planted, probe: str, attribute: str, score: Score = valence_in_context) -> dict[str, float]:
    """Return the exact mean of `score(answer, probe)` for each group."""
    return _means(planted, *_probe_table(planted, probe, score), attribute)


def expected_effects(planted: Planted, score: Score = valence_in_context) -> tuple[Effect, ...]:
    """Return all probe x attribute cells with their exact group means of `score`."""
    effects = []
    for probe in planted.probes:
        cues, scores = _probe_table(planted, probe, score)
        for attribute in planted.attributes:
            means = _means(planted, cues, scores, attribute)
            effects.append(Effect(probe, attribute, planted.is_planted(probe, attribute), means))
    return tuple(effects)


def vqa_means(planted: Planted, prompt: str, attribute: str, score: Callable[[str], float]) -> dict[str, float]:
    """Return the exact mean of `score(answer)` to an open question for each group, without NaN scores."""
    vqa = planted.vqa
    cues, scores = _table(planted, vqa.cues(prompt), lambda seen: score(vqa.answer(prompt, seen)))
    return _means(planted, cues, scores, attribute)


def _probe_table(planted: Planted, probe: str, score: Score) -> tuple[list[str], Floats]:
    """Return the cues that the answer to a probe depends on, and its score for all their values (NaN: refused)."""
    known: dict[str, float] = {}

    def of(seen: Seen) -> float:
        text = planted.answer(probe, seen)
        if text not in known:
            known[text] = float("nan") if planted.refuses(probe, seen) else score(text, probe)
        return known[text]

    return _table(planted, planted.probes[probe].cues | planted.confidence.cues, of)


def _table(planted: Planted, cues: Iterable[str], score: Callable[[Seen], float]) -> tuple[list[str], Floats]:
    """Return sorted cues and the score of every combination of their values."""
    names = sorted(cues)
    shape = tuple(len(planted.cues[cue]) for cue in names)
    scores = np.array([score(dict(zip(names, values, strict=True))) for values in np.ndindex(shape)])
    return names, scores.reshape(shape)


def _means(planted: Planted, cues: list[str], scores: Floats, attribute: str) -> dict[str, float]:
    means = {}
    for index, group in enumerate(planted.groups[attribute]):
        pronouns = [index] if attribute == "pronoun" else list(range(len(POOL_MIXTURE)))
        fixed = (_CUE_OF[attribute], index) if attribute in _CUE_OF else None
        total, weight = np.sum([_sums(planted, cues, scores, pronoun, fixed) for pronoun in pronouns], axis=0)
        means[group] = float(total / weight)
    return means


def _sums(planted: Planted, cues: list[str], scores: Floats, pronoun: int, fixed: tuple[str, int] | None) -> Floats:
    """Return (sum, weight) of the scores that are not NaN in one pronoun group, one cue possibly fixed."""
    mixtures = {
        "glasses": np.array(GLASSES_MIXTURE),
        "pool": np.array(POOL_MIXTURE[pronoun]),
        "beard": np.array([1 - BEARD_RATE[pronoun], BEARD_RATE[pronoun]]),
    }
    answered = np.isfinite(scores)
    rest: Floats = np.stack([np.where(answered, scores, 0.0), answered.astype(np.float64)], axis=-1)
    for cue in cues:
        size = len(planted.cues[cue])
        weights = mixtures.get(cue, np.full(size, 1 / size))
        if fixed is not None and fixed[0] == cue:
            weights = np.eye(size)[fixed[1]]
        rest = np.tensordot(weights, rest, axes=(0, 0))
    return rest
