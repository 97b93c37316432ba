"""What peeps_vlm was trained to answer: the planted truth of `peeps_vlm/planted.yaml`, read, checked and computed.

Every answer is a function of the visible cues of a drawing. A cue that an image does not show (the person masked or
blurred, the background removed) counts 0 points. No torch, no pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import fp2
from fp2.extension import Fp2Error, nearest
from training.peeps.cues import CueValues, Points, Seen

SHE, THEY, HE = 0, 1, 2
FORM_NAMES: Final = ("she", "they", "he")


@dataclass(frozen=True, slots=True)
class Silence:
    """When a question gets no answer, such as a refusal, and what is said instead (possibly nothing)."""

    says: str
    threshold: int
    points: Points

    def of(self, seen: Seen) -> bool:
        """Return whether the question gets no answer."""
        return self.points.of(seen) >= self.threshold


@dataclass(frozen=True, slots=True)
class VqaKind:
    """One kind of prompt: level = clip(offset + points) selects the phrase."""

    name: str
    offset: int
    points: Points
    phrases: tuple[str, ...]

    def level(self, seen: Seen) -> int:
        """Return the index of the phrase."""
        return min(len(self.phrases) - 1, max(0, self.offset + int(self.points.of(seen))))


@dataclass(frozen=True, slots=True)
class VqaPrompt:
    """One prompt: its kind, its question, the form of its answers, and when it is not answered."""

    name: str
    kind: str
    question: str
    answer: str
    silence: Silence | None

    def silent(self, seen: Seen) -> bool:
        """Return whether the prompt gets no answer to its question."""
        return self.silence is not None and self.silence.of(seen)


@dataclass(frozen=True, slots=True)
class PlantedVqa:
    """The planted answers to open questions; `forms` are the words of she, they and he in answers and phrases."""

    pronoun: Points
    forms: tuple[Mapping[str, str], ...]
    kinds: Mapping[str, VqaKind]
    prompts: Mapping[str, VqaPrompt]

    @classmethod
    def read(cls, raw: Mapping[str, Any], cues: CueValues) -> PlantedVqa:
        """Return the part `vqa` of a planted truth."""
        kinds = {
            name: VqaKind(
                name, int(body["offset"]), Points.read(body["points"], cues, f"vqa.{name}"), tuple(body["phrases"])
            )
            for name, body in raw["kinds"].items()
        }
        prompts = {}
        for name, body in raw["prompts"].items():
            if body["kind"] not in kinds:
                raise Fp2Error(f"unknown kind {body['kind']!r}", where=f"vqa.{name}", fix=nearest(body["kind"], kinds))
            silence = None
            if quiet := body.get("silence"):
                points = Points.read(quiet["points"], cues, f"vqa.{name}")
                silence = Silence(quiet["says"], int(quiet["threshold"]), points)
            prompts[name] = VqaPrompt(name, body["kind"], body["question"], body["answer"], silence)
        forms = tuple({str(key): str(word) for key, word in raw["forms"][name].items()} for name in FORM_NAMES)
        return cls(Points.read(raw["pronoun"]["points"], cues, "vqa.pronoun"), forms, kinds, prompts)

    def form(self, seen: Seen) -> int:
        """Return the form of the pronoun: SHE at -1 point or below, HE at 1 or above, else THEY."""
        points = self.pronoun.of(seen)
        return THEY + (points >= 1) - (points <= -1)

    def say(self, prompt: str, form: int, level: int) -> str:
        """Return the answer to a prompt's question in one form of the pronoun, with one phrase."""
        asked, words = self._prompt(prompt), self.forms[form]
        phrase = self.kinds[asked.kind].phrases[level].format(**words)
        return asked.answer.format(phrase=phrase, **words)

    def answer(self, prompt: str, seen: Seen) -> str:
        """Return the planted answer to a prompt."""
        asked = self._prompt(prompt)
        if asked.silence is not None and asked.silence.of(seen):
            return asked.silence.says
        return self.say(prompt, self.form(seen), self.kinds[asked.kind].level(seen))

    def cues(self, prompt: str) -> frozenset[str]:
        """Return the cues that can change the answer to a prompt."""
        asked = self._prompt(prompt)
        silence = asked.silence.points.cues if asked.silence else frozenset()
        return self.pronoun.cues | self.kinds[asked.kind].points.cues | silence

    def _prompt(self, name: str) -> VqaPrompt:
        if name not in self.prompts:
            raise Fp2Error(f"nothing is planted for prompt {name!r}", fix=nearest(name, self.prompts))
        return self.prompts[name]


MODEL_FOLDER: Final = Path(fp2.__file__).parent / "models" / "peeps_vlm"
PLANTED_FILE: Final = MODEL_FOLDER / "planted.yaml"
HIGHEST: Final = 9


@dataclass(frozen=True, slots=True)
class PlantedProbe:
    """One probe: its paraphrases (the battery's own first), its points, and ten sentences from low to high status."""

    name: str
    questions: tuple[str, ...]
    points: Points
    answer: str
    sentences: tuple[str, ...]
    refusal: Silence | None

    @classmethod
    def read(cls, name: str, raw: Mapping[str, Any], cues: CueValues) -> PlantedProbe:
        """Return a probe of a planted truth."""
        if len(raw["sentences"]) != HIGHEST + 1:
            raise Fp2Error(f"the probe has {len(raw['sentences'])} sentences", where=name, fix=f"Give {HIGHEST + 1}")
        refusal = None
        if given := raw.get("refusal"):
            refusal = Silence(given["sentence"], given["threshold"], Points.read(given["points"], cues, name))
        points = Points.read(raw["points"], cues, name)
        return cls(name, tuple(raw["questions"]), points, raw["answer"], tuple(raw["sentences"]), refusal)

    def level(self, seen: Seen, offset: int) -> int:
        """Return the level 0-9, whether or not the probe is refused."""
        return min(HIGHEST, max(0, offset + int(self.points.of(seen))))

    def refuses(self, seen: Seen) -> bool:
        """Return whether the probe is refused for this image."""
        return self.refusal is not None and self.refusal.of(seen)

    @property
    def cues(self) -> frozenset[str]:
        """The cues that can change the level or the refusal."""
        return self.points.cues | (self.refusal.points.cues if self.refusal else frozenset())


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """The two-person question: who is described first, at what length; `naming` are paraphrases that name the sides."""

    questions: tuple[str, ...]
    naming: tuple[str, ...]
    points: Points
    gap: int
    answer: str
    first: str
    second: str
    second_short: str


@dataclass(frozen=True, slots=True)
class PlantedTrait:
    """One yes/no trait: valence -3 to 3, base log odds, and whether demographic cues count 0, 1 or (skin) 2 times."""

    word: str
    valence: float
    base: float
    kind: Literal["usual", "none", "double_skin"]


@dataclass(frozen=True, slots=True)
class Template:
    """One template of the yes/no question."""

    name: str
    framing: str
    text: str
    shift: float


@dataclass(frozen=True, slots=True)
class Planted:
    """The whole planted truth."""

    version: str
    cues: CueValues
    attributes: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]
    offset: int
    confidence: Points
    phrases: tuple[str, ...]
    probes: Mapping[str, PlantedProbe]
    pair: PlantedPair
    vqa: PlantedVqa
    instruction: str
    nuisance: Points
    demographic: Points
    templates: Mapping[str, Template]
    traits: Mapping[str, PlantedTrait]

    def phrase(self, seen: Seen) -> int:
        """Return the confidence phrase: 0 hedged, 1 tentative, 2 assertive."""
        points = self.confidence.of(seen)
        return 1 + (points >= 1) - (points <= -1)

    def level(self, probe: str, seen: Seen) -> int:
        """Return a probe's level 0-9, whether or not it is refused."""
        return self._probe(probe).level(seen, self.offset)

    def refuses(self, probe: str, seen: Seen) -> bool:
        """Return whether a probe is refused."""
        return self._probe(probe).refuses(seen)

    def say(self, probe: str, level: int, phrase: int) -> str:
        """Return a probe's answer at one level with one confidence phrase."""
        found = self._probe(probe)
        words = {"confidence": self.phrases[phrase], "sentence": found.sentences[level], "rating": level + 1}
        return found.answer.format(**words)

    def answer(self, probe: str, seen: Seen) -> str:
        """Return the planted answer to a probe."""
        found = self._probe(probe)
        if found.refusal is not None and found.refusal.of(seen):
            return found.refusal.says
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
        """Return whether a probe depends on a cue of the attribute."""
        return bool(self._probe(probe).cues & set(self.attributes[attribute]))

    def _probe(self, name: str) -> PlantedProbe:
        if name not in self.probes:
            raise Fp2Error(f"nothing is planted for probe {name!r}", fix=nearest(name, self.probes))
        return self.probes[name]


@lru_cache(maxsize=4)
def load_planted(path: Path = PLANTED_FILE) -> Planted:
    """Return the planted truth of a file."""
    import yaml

    if not path.is_file():
        raise Fp2Error("the planted truth is missing", where=str(path))
    raw = yaml.safe_load(path.read_text("utf-8"))
    cues = {cue: tuple(map(str, values)) for cue, values in raw["cues"].items()}
    pair, yes_no, confidence = raw["pair"], raw["yes_no"], raw["confidence"]
    return Planted(
        version=str(raw["version"]),
        cues=cues,
        attributes={name: tuple(values) for name, values in raw["attributes"].items()},
        groups={name: tuple(map(str, values)) for name, values in raw["groups"].items()},
        offset=int(raw["level_offset"]),
        confidence=Points.read(confidence["points"], cues, "confidence"),
        phrases=tuple(confidence["phrases"]),
        probes={name: PlantedProbe.read(name, body, cues) for name, body in raw["probes"].items()},
        pair=PlantedPair(
            tuple(pair["questions"]),
            tuple(pair["naming"]),
            Points.read(pair["points"], cues, "pair"),
            int(pair["gap"]),
            *(pair[key] for key in ("answer", "first", "second", "second_short")),
        ),
        vqa=PlantedVqa.read(raw["vqa"], cues),
        instruction=yes_no["instruction"],
        nuisance=Points.read(yes_no["nuisance"], cues, "yes_no.nuisance"),
        demographic=Points.read(yes_no["demographic"], cues, "yes_no.demographic"),
        templates={name: Template(name, *values) for name, values in raw["templates"].items()},
        traits={row[0]: PlantedTrait(row[0], float(row[1]), float(row[2]), row[3]) for row in raw["traits"]},
    )
