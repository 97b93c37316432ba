"""A battery of traits: questions with `{trait}` in their text stand for one question per trait word.

    probes: {direct: {questions: [{id: T1, kind: yes_no, text: "Is the person {trait}?"}]}}
    templates: {A: "Is the person {trait}?"}          in place of all probes: a probe per template
    traits: {kind: 2.6, cruel: -2.9}                  or traits_file: PATH; else our own list (`fp2/probes/traits.py`)
    options: {instruction: Answer with Yes or No.}    follows every such question

A question's id is `{template}_{trait}`, its template the id that it has in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fp2.errors import Fp2Error
from fp2.probes.traits import NEGATIVE, POSITIVE, TraitList, given_traits, own_traits, read_traits, traits_path

PLACE: Final = "{trait}"
INSTRUCTION: Final = "instruction"


@dataclass(frozen=True)
class Wording:
    """How a battery of traits was made: its words, the text of each template with `{trait}`, and what follows it."""

    traits: TraitList
    templates: Mapping[str, str] = field(default_factory=dict)
    instruction: str = ""


def is_trait_battery(spec: Mapping[str, Any]) -> bool:
    """Return whether the questions of a battery's YAML stand for many, one per trait."""
    return bool(spec.get("templates")) or PLACE in str(spec.get("probes"))


def expanded(spec: Mapping[str, Any], where: str) -> tuple[dict[str, Any], Wording]:
    """Return a battery's YAML with a question for each template and trait, and how it was made.

    Raises
    ------
    Fp2Error
        If a text lacks `{trait}` or has it twice, a template is no text or has the text of another, the instruction is
        no text, or the traits cannot be read.
    """
    options = protocol_options(spec.get("options"))
    instruction = _instruction(spec.get("options"))
    probes = _from_templates(spec["templates"], where) if spec.get("templates") else spec["probes"]
    traits = traits_of(spec.get("traits"), spec.get("traits_file"))
    words = [trait.word for trait in traits.traits]
    templates: dict[str, str] = {}
    asked = {}
    for name, probe in probes.items():
        questions: list[Any] = []
        for question in _questions(probe):
            if not _has_place(question):
                questions.append(question)
                continue
            template = str(question.get("id"))
            templates[template] = _checked(question["text"], template, where)
            questions.extend(_about(question, template, word, instruction) for word in words)
        asked[name] = {**probe, "questions": questions} if questions else probe
    _check_distinct(templates, where)
    wording = Wording(traits, templates, instruction)
    return {**spec, "probes": asked, "options": options, "templates": None}, wording


def protocol_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a battery's options that are its protocol's: without the instruction, and without what is left open."""
    return {name: value for name, value in (options or {}).items() if name != INSTRUCTION and value is not None}


def traits_of(given: Any, file: str | None) -> TraitList:
    """Return the trait words of a config: those of `file`, those given, or our own.

    Raises
    ------
    Fp2Error
        If both are there, or what is there cannot be read.
    """
    if file and given:
        raise Fp2Error("traits and traits_file are both there", where="probe.traits", fix="Leave one of them out")
    if file:
        return read_traits(traits_path(file))
    return given_traits(given) if given else own_traits()


def facts(wording: Wording) -> dict[str, Any]:
    """Return what results say about a battery of traits: its words' source, digest and numbers, and its wording."""
    return {
        "source": wording.traits.source,
        "sha256": wording.traits.sha256,
        "n_positive": wording.traits.count(POSITIVE),
        "n_negative": wording.traits.count(NEGATIVE),
        "notes": list(wording.traits.notes),
        "templates": dict(wording.templates),
        "instruction": wording.instruction,
    }


def _questions(probe: Any) -> Sequence[Any]:
    """Return the questions of a probe; none where it is none, which the battery itself says."""
    found = probe.get("questions") if isinstance(probe, Mapping) else None
    return found if isinstance(found, Sequence) and not isinstance(found, str) else ()


def _instruction(options: Mapping[str, Any] | None) -> str:
    """Return what follows every question, blanks at its ends left out.

    Raises
    ------
    Fp2Error
        If it is no text.
    """
    given = (options or {}).get(INSTRUCTION)
    if given is not None and not isinstance(given, str):
        fix = "Write a text in quotes, or null for none"
        raise Fp2Error(f"the instruction is {given!r}, which is no text", where=f"probe.options.{INSTRUCTION}", fix=fix)
    return (given or "").strip()


def _check_distinct(templates: Mapping[str, str], where: str) -> None:
    """Refuse two templates with one text: asked once, they would be scored as two."""
    first: dict[str, str] = {}
    for name, text in templates.items():
        same = first.setdefault(text, name)
        if same != name:
            what = f"the templates '{same}' and '{name}' ask the same: {text!r}"
            raise Fp2Error(what, where=where, fix="Leave one of them out")


def _has_place(question: Any) -> bool:
    return isinstance(question, Mapping) and bool(question.get("id")) and PLACE in str(question.get("text"))


def _from_templates(templates: Any, where: str) -> dict[str, Any]:
    if not isinstance(templates, Mapping):
        raise Fp2Error("templates should be a table of names and texts", where=where)
    for name, text in templates.items():
        if not isinstance(text, str) or PLACE not in text:
            raise Fp2Error(f"the template '{name}' has no {PLACE}", where=where, fix=f"Write 'Is the person {PLACE}?'")
    return {
        str(name): {"label": str(name), "questions": [{"id": str(name), "kind": "yes_no", "text": text}]}
        for name, text in templates.items()
    }


def _checked(text: Any, template: str, where: str) -> str:
    if str(text).count(PLACE) > 1:
        raise Fp2Error(f"the template '{template}' has {PLACE} more than once", where=where)
    return " ".join(str(text).split())


def _about(question: Mapping[str, Any], template: str, word: str, instruction: str) -> dict[str, Any]:
    text = " ".join(str(question["text"]).split()).replace(PLACE, word)
    return {
        "kind": "yes_no",
        **question,
        "id": f"{template}_{word}",
        "text": f"{text} {instruction}".strip(),
        "template": template,
        "trait": word,
    }
