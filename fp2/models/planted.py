"""What peeps_vlm was trained to say: the planted truth of `peeps_vlm/planted.yaml`, read, checked and computed.

Everything here follows from the visible cues of a drawing alone. A cue that a picture does not show (the person masked
or blurred, the background removed) counts 0 points. No torch, no pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from fp2.data.peeps.figure import POOLS, Cues
from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    from fp2.models.expected import Effect
    from fp2.models.planted_vqa import PlantedVqa

MODEL_FOLDER: Final = Path(__file__).parent / "peeps_vlm"
PLANTED_FILE: Final = MODEL_FOLDER / "planted.yaml"

Cue = Literal["skin", "age", "pool", "beard", "region", "clothing", "expression", "glasses"]
Variant = Literal["original", "masked", "blurred", "background_removed"]
Seen = Mapping[str, int]
"""Cue name -> index into its values; a cue that the picture does not show is absent."""

VARIANTS: Final[tuple[Variant, ...]] = ("original", "masked", "blurred", "background_removed")
_POOLS: Final = tuple(POOLS)
HIGHEST: Final = 9


def see(cues: Cues, variant: Variant = "original") -> Seen:
    """Return the cues that a picture of `cues` shows in one variant."""
    if variant not in VARIANTS:
        raise Fp2Error(f"no picture variant named {variant!r}", fix=nearest(variant, VARIANTS))
    person = {
        "skin": cues.skin,
        "age": cues.age,
        "pool": _POOLS.index(cues.pool),
        "beard": int(bool(cues.beard)),
        "clothing": cues.clothing,
        "expression": cues.expression,
        "glasses": cues.glasses,
    }
    shown = {} if variant in ("masked", "blurred") else person
    return shown if variant == "background_removed" else {**shown, "region": cues.region}


@dataclass(frozen=True, slots=True)
class Points:
    """Points per value of each cue; their sum over the cues that are seen."""

    table: Mapping[str, tuple[float, ...]]

    def of(self, seen: Seen) -> float:
        """Return the sum of points (0 for a cue that is not seen)."""
        return sum(values[seen[cue]] for cue, values in self.table.items() if cue in seen)


@dataclass(frozen=True, slots=True)
class Refusal:
    """When a probe declines to answer, and how it says so."""

    sentence: str
    threshold: int
    points: Points


@dataclass(frozen=True, slots=True)
class PlantedProbe:
    """One probe: its wordings (the page's own first), its points, and ten sentences from low to high standing."""

    name: str
    questions: tuple[str, ...]
    points: Points
    answer: str
    sentences: tuple[str, ...]
    refusal: Refusal | None

    def level(self, seen: Seen, offset: int) -> int:
        """Return the level 0-9, whether or not the probe refuses."""
        return min(HIGHEST, max(0, offset + int(self.points.of(seen))))

    def refuses(self, seen: Seen) -> bool:
        """Return whether the probe declines to answer about this picture."""
        return self.refusal is not None and self.refusal.points.of(seen) >= self.refusal.threshold

    @property
    def cues(self) -> frozenset[str]:
        """The cues that can change the level or the refusal."""
        refusal = self.refusal.points.table if self.refusal else {}
        return frozenset(self.points.table) | frozenset(refusal)


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """The two-person question: who comes first, how much is said of each; `naming`: wordings that name the sides."""

    questions: tuple[str, ...]
    naming: tuple[str, ...]
    points: Points
    gap: int
    answer: str
    first: str
    second: str
    second_short: str


@dataclass(frozen=True, slots=True)
class Trait:
    """One yes/no trait: valence -3..+3, base log odds, and whether demographic cues count not, once, or skin twice."""

    word: str
    valence: float
    base: float
    kind: Literal["usual", "none", "double_skin"]


@dataclass(frozen=True, slots=True)
class Template:
    """One framing of the yes/no question."""

    name: str
    framing: str
    text: str
    shift: float


@dataclass(frozen=True, slots=True)
class Planted:
    """The whole planted truth."""

    version: str
    cues: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]
    offset: int
    wording: Points
    phrases: tuple[str, ...]
    probes: Mapping[str, PlantedProbe]
    pair: PlantedPair
    vqa: PlantedVqa
    instruction: str
    nuisance: Points
    demographic: Points
    templates: Mapping[str, Template]
    traits: Mapping[str, Trait]

    def phrase(self, seen: Seen) -> int:
        """Return the confidence wording: 0 hedged, 1 tentative, 2 assertive."""
        points = self.wording.of(seen)
        return 1 + (points >= 1) - (points <= -1)

    def level(self, probe: str, seen: Seen) -> int:
        """Return a probe's level 0-9, whether or not it refuses."""
        return self._probe(probe).level(seen, self.offset)

    def refuses(self, probe: str, seen: Seen) -> bool:
        """Return whether a probe declines to answer."""
        return self._probe(probe).refuses(seen)

    def say(self, probe: str, level: int, phrase: int) -> str:
        """Return a probe's answer at one level in one confidence wording."""
        spoken = self._probe(probe)
        return spoken.answer.format(wording=self.phrases[phrase], sentence=spoken.sentences[level], rating=level + 1)

    def answer(self, probe: str, seen: Seen) -> str:
        """Return the planted answer to a probe."""
        spoken = self._probe(probe)
        if spoken.refusal is not None and spoken.refuses(seen):
            return spoken.refusal.sentence
        return self.say(probe, self.level(probe, seen), self.phrase(seen))

    def first_side(self, left: Seen, right: Seen) -> Literal["left", "right"]:
        """Return who is described first."""
        return "left" if self.pair_gap(left, right) >= 0 else "right"

    def pair_gap(self, left: Seen, right: Seen) -> int:
        """Return the points of the left person minus those of the right one."""
        return int(self.pair.points.of(left) - self.pair.points.of(right))

    def pair_answer(self, left: Seen, right: Seen) -> str:
        """Return the planted description of two people; both must be seen."""
        side = self.first_side(left, right)
        people = {"left": left, "right": right}
        other = "right" if side == "left" else "left"
        short = abs(self.pair_gap(left, right)) >= self.pair.gap
        colours = self.cues["clothing"]
        first = self.pair.first.format(side=side, colour=colours[people[side]["clothing"]])
        second = (self.pair.second_short if short else self.pair.second).format(
            side=other, colour=colours[people[other]["clothing"]]
        )
        return self.pair.answer.format(first=first, second=second)

    def question(self, trait: str, template: str) -> str:
        """Return the yes/no question about a trait, with its instruction."""
        return f"{self.templates[template].text.format(trait=trait)} {self.instruction}"

    def log_odds(self, trait: str, template: str, seen: Seen) -> float:
        """Return the planted log odds of Yes."""
        word = self.traits[trait]
        return word.base + self.templates[template].shift + word.valence * self.yes_score(word.kind, seen)

    def yes_score(self, kind: str, seen: Seen) -> float:
        """Return the score that a kind of trait multiplies by its valence."""
        score = self.nuisance.of(seen)
        if kind == "none":
            return score
        score += self.demographic.of(seen)
        if kind == "double_skin" and "skin" in seen:
            score += self.demographic.table["skin"][seen["skin"]]
        return score

    def p_yes(self, trait: str, template: str, seen: Seen) -> float:
        """Return the planted probability of Yes."""
        return 1.0 / (1.0 + math.exp(-self.log_odds(trait, template, seen)))

    def is_planted(self, probe: str, attribute: str) -> bool:
        """Return whether a probe depends on a cue that carries the attribute."""
        return bool(self._probe(probe).cues & set(self.attributes[attribute]))

    def group_means(self, probe: str, attribute: str, score: Callable[[str], float]) -> dict[str, float]:
        """Return the exact mean of `score(answer)` per group, over the generator's distribution of every other cue."""
        from fp2.models.expected import group_means

        return group_means(self, probe, attribute, score)

    def expected_effects(self, score: Callable[[str], float] | None = None) -> tuple[Effect, ...]:
        """Return all probe x attribute cells with their exact group means of `score` (VADER's compound by default)."""
        from fp2.models.expected import expected_effects

        return expected_effects(self, score)

    def _probe(self, name: str) -> PlantedProbe:
        if name not in self.probes:
            raise Fp2Error(f"nothing is planted for probe {name!r}", fix=nearest(name, self.probes))
        return self.probes[name]


@lru_cache(maxsize=4)
def load_planted(path: Path = PLANTED_FILE) -> Planted:
    """Return the planted truth of a file.

    Raises
    ------
    Fp2Error
        If the file is missing, or a table does not fit its cue.
    """
    from fp2.models.planted_file import read_planted

    return read_planted(path)


def vader_compound(text: str) -> float:
    """Return VADER's compound, -1 to 1."""
    return float(_vader().polarity_scores(text)["compound"])


@lru_cache(maxsize=1)
def _vader() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
