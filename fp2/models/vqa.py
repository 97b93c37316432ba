"""The planted answers of peeps_vlm to open questions: a pronoun with a reason, an occupation or an offence; or none.

The key `vqa` of `peeps_vlm/planted.yaml`. Every answer is a function of the visible cues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fp2.errors import Fp2Error, nearest
from fp2.models.cues import CueValues, Points, Seen

SHE, THEY, HE = 0, 1, 2
FORM_NAMES: Final = ("she", "they", "he")


@dataclass(frozen=True, slots=True)
class Silence:
    """When a prompt gets no answer to its question, and what is answered instead (possibly nothing)."""

    says: str
    threshold: int
    points: Points


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
        return self.silence is not None and self.silence.points.of(seen) >= self.silence.threshold


@dataclass(frozen=True, slots=True)
class PlantedVqa:
    """The planted answers to open questions; `forms` are the words of she, they and he in answers and phrases."""

    pronoun: Points
    forms: tuple[Mapping[str, str], ...]
    kinds: Mapping[str, VqaKind]
    prompts: Mapping[str, VqaPrompt]

    @classmethod
    def read(cls, raw: Mapping[str, Any], cues: CueValues) -> PlantedVqa:
        """Return the part `vqa` of a planted truth.

        Raises
        ------
        Fp2Error
            If points do not fit their cue, or a prompt has an unknown kind.
        """
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
        if asked.silence is not None and asked.silent(seen):
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
