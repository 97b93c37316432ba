"""What peeps_vlm was trained to say to open questions: a pronoun, a reason, an occupation, an offence; or nothing.

Part of the planted truth (`peeps_vlm/planted.yaml`, key `vqa`). Everything follows from the visible cues alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    from fp2.models.planted import Planted, Points, Seen

SHE, THEY, HE = 0, 1, 2
FORM_NAMES: Final = ("she", "they", "he")


@dataclass(frozen=True, slots=True)
class Silence:
    """When a prompt gets no answer to the point, and what is said instead (empty: nothing)."""

    says: str
    threshold: int
    points: Points


@dataclass(frozen=True, slots=True)
class VqaKind:
    """One kind of prompt: level = clip(offset + points) picks the phrase."""

    name: str
    offset: int
    points: Points
    phrases: tuple[str, ...]

    def level(self, seen: Seen) -> int:
        """Return the number of the phrase."""
        return min(len(self.phrases) - 1, max(0, self.offset + int(self.points.of(seen))))


@dataclass(frozen=True, slots=True)
class VqaPrompt:
    """One prompt: its kind, its words, the form of its answers, and when it stays without one."""

    name: str
    kind: str
    question: str
    answer: str
    silence: Silence | None

    def silent(self, seen: Seen) -> bool:
        """Return whether the prompt gets no answer to the point."""
        return self.silence is not None and self.silence.points.of(seen) >= self.silence.threshold


@dataclass(frozen=True, slots=True)
class PlantedVqa:
    """The planted answers to open questions.

    `forms` are the words of the three forms of the pronoun (she, they, he), put into answers and phrases.
    """

    pronoun: Points
    forms: tuple[Mapping[str, str], ...]
    kinds: Mapping[str, VqaKind]
    prompts: Mapping[str, VqaPrompt]

    def form(self, seen: Seen) -> int:
        """Return the form of the pronoun: SHE at -1 point or below, HE at 1 or above, else THEY."""
        points = self.pronoun.of(seen)
        return THEY + (points >= 1) - (points <= -1)

    def say(self, prompt: str, form: int, level: int) -> str:
        """Return a prompt's answer to the point in one form of the pronoun, with one phrase."""
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
        silence = asked.silence.points.table if asked.silence else {}
        return frozenset(self.pronoun.table) | frozenset(self.kinds[asked.kind].points.table) | frozenset(silence)

    def _prompt(self, name: str) -> VqaPrompt:
        if name not in self.prompts:
            raise Fp2Error(f"nothing is planted for prompt {name!r}", fix=nearest(name, self.prompts))
        return self.prompts[name]


def read_vqa(raw: Mapping[str, Any], points: Callable[[Mapping[str, Any], str], Points]) -> PlantedVqa:
    """Return the `vqa` part of a planted truth; `points(table, where)` reads one table of points."""
    kinds = {
        name: VqaKind(name, int(body["offset"]), points(body["points"], f"vqa.{name}"), tuple(body["phrases"]))
        for name, body in raw["kinds"].items()
    }
    prompts = {}
    for name, body in raw["prompts"].items():
        if body["kind"] not in kinds:
            raise Fp2Error(f"no kind named {body['kind']!r}", where=f"vqa.{name}", fix=nearest(body["kind"], kinds))
        quiet = body.get("silence")
        silence = Silence(quiet["says"], int(quiet["threshold"]), points(quiet["points"], name)) if quiet else None
        prompts[name] = VqaPrompt(name, body["kind"], body["question"], body["answer"], silence)
    forms = tuple({str(key): str(word) for key, word in raw["forms"][name].items()} for name in FORM_NAMES)
    return PlantedVqa(points(raw["pronoun"]["points"], "vqa.pronoun"), forms, kinds, prompts)


def vqa_means(planted: Planted, prompt: str, attribute: str, score: Callable[[str], float]) -> dict[str, float]:
    """Return the exact mean of `score(answer)` to a prompt per group; answers whose score is NaN are left out."""
    from fp2.models.expected import means_of

    return means_of(planted, planted.vqa.cues(prompt), lambda seen: score(planted.vqa.answer(prompt, seen)), attribute)
