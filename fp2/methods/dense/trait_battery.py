"""A battery of traits: a question with `{trait}` in its text is asked once per trait word.

    probes: {direct: {questions: [{id: T1, kind: yes_no, text: "Is the person {trait}?"}]}}
    templates: {A: "Is the person {trait}?"}          replaces all probes: one probe per template
    traits: {kind: 2.6, cruel: -2.9}                  or traits_file: PATH; by default the packaged list (`traits.py`)
    options: {instruction: Answer with Yes or No.}    is appended to every such question
    published: PATH                                   texts and instruction of GRAS's authors (`published.py`)

The id of an expanded question is `{template}_{trait}`; its template is the id of the question in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard

from fp2.extension import TRAIT, Battery, Fp2Error, Question, file_digest, is_trait_battery
from fp2.methods.dense.published import PublishedTemplates, read_wording
from fp2.methods.dense.traits import (
    NEGATIVE,
    POSITIVE,
    Trait,
    TraitList,
    given_traits,
    own_traits,
    read_traits,
    traits_path,
)

INSTRUCTION: Final = "instruction"


@dataclass(frozen=True)
class TraitTemplates:
    """The trait words of a battery, the text of each template with `{trait}`, and the instruction that follows it.

    `script` is the authors' file that the texts are from, instruction and all; empty for other texts.
    """

    traits: TraitList
    templates: Mapping[str, str] = field(default_factory=dict)
    instruction: str = ""
    script: str = ""

    def subset(self, questions: Sequence[Question]) -> TraitTemplates | None:
        """Return the templates that these questions are made from; None if they are about no trait."""
        used_templates = {question.template for question in questions if question.trait}
        templates = {name: text for name, text in self.templates.items() if name in used_templates}
        return replace(self, templates=templates) if templates else None

    def text(self, template: str) -> str:
        """Return the text of a template with the instruction."""
        return f"{self.templates.get(template, template)} {self.instruction}".strip()


def asked_traits(battery: Battery) -> tuple[Trait, ...]:
    """Return the trait words that a battery asks about; none unless it is one of traits."""
    return battery.expansion.traits.traits if isinstance(battery.expansion, TraitTemplates) else ()


def expand(spec: Mapping[str, Any], where: str, model_id: str | None = None) -> tuple[dict[str, Any], TraitTemplates]:
    """Return the content of a battery's YAML file with one question per template and trait, and these texts."""
    options = protocol_options(spec.get("options"))
    probes = _from_templates(spec["templates"], where) if spec.get("templates") else spec["probes"]
    traits = traits_of(spec.get("traits"), spec.get("traits_file"))
    trait_words = [trait.word for trait in traits.traits]
    templates: dict[str, str] = {}
    questions_of = {}
    wording = _wording(spec, probes, model_id)
    published = iter(wording.texts if wording else ())
    instruction = "" if wording else _instruction(spec.get("options"))
    after = f" {instruction}" if instruction else ""
    for name, probe in probes.items():
        questions: list[object] = []
        for question in _questions(probe):
            if not _has_placeholder(question):
                questions.append(question)
                continue
            template = str(question.get("id"))
            text = next(published) if wording else _checked(question["text"], template, where)
            templates[template] = text
            asks = ((word, text.replace(TRAIT, word) + after) for word in trait_words)
            questions.extend(_about(question, template, word, is_whole) for word, is_whole in asks)
        questions_of[name] = {**probe, "questions": questions} if questions else probe
    _check_distinct(templates, where)
    script = wording.script if wording else ""
    battery = {**spec, "probes": questions_of, "options": options, "templates": None}
    return battery, TraitTemplates(traits, templates, instruction, script)


def identity(settings: Mapping[str, Any], model_id: str | None) -> dict[str, Any]:
    """Return the settings of a battery with digests in place of published texts, and of the list of words."""
    named = dict(settings)
    if "published" in named:
        named["published"] = f"sha256:{read_wording(named['published'], model_id).sha256}"
    if "traits_file" in named:
        named["traits_file"] = file_digest(str(traits_path(named["traits_file"])), "probe.traits_file")
    elif is_trait_battery(named) and "traits" not in named:
        named["traits"] = f"sha256:{own_traits().sha256}"
    return named


def protocol_options(options: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the options of the protocol: those of the battery without the instruction and without nulls."""
    return {name: value for name, value in (options or {}).items() if name != INSTRUCTION and value is not None}


def traits_of(traits: object, file: str | None) -> TraitList:
    """Return the trait words of a config: those of `file`, those given, or else the packaged list."""
    if file and traits:
        raise Fp2Error("traits and traits_file are both given", where="probe.traits", fix="Remove one of them")
    if file:
        return read_traits(traits_path(file))
    return given_traits(traits) if traits else own_traits()


def facts(asked: TraitTemplates) -> dict[str, Any]:
    """Return the results' entry on a battery of traits: source, digest and counts of its words, and its texts."""
    return {
        "source": asked.traits.source,
        "sha256": asked.traits.sha256,
        "n_positive": asked.traits.count(POSITIVE),
        "n_negative": asked.traits.count(NEGATIVE),
        "notes": list(asked.traits.notes),
        "templates": dict(asked.templates),
        "instruction": asked.instruction,
        **({"published_script": asked.script} if asked.script else {}),
    }


def _wording(
    spec: Mapping[str, object], probes: Mapping[str, object], model_id: str | None
) -> PublishedTemplates | None:
    """Return the published wording if the battery asks for it, a text for each of its templates."""
    path = spec.get("published")
    if not path:
        return None
    if spec.get("templates"):
        raise Fp2Error("templates are both given and published", where="probe.published", fix="Remove one of them")
    wording = read_wording(str(path), model_id)
    n_templates = sum(_has_placeholder(question) for probe in probes.values() for question in _questions(probe))
    if len(wording.texts) != n_templates:
        message = f"{wording.script} has {len(wording.texts)} templates, the battery {n_templates}"
        raise Fp2Error(message, where="probe.published", fix="Use a battery with probe.templates and probe.traits")
    return wording


def _questions(probe: object) -> Sequence[object]:
    """Return the questions of a probe; none if they are malformed, which the battery refuses."""
    questions = probe.get("questions") if isinstance(probe, Mapping) else None
    return questions if isinstance(questions, Sequence) and not isinstance(questions, str) else ()


def _instruction(options: Mapping[str, object] | None) -> str:
    text = (options or {}).get(INSTRUCTION)
    if text is not None and not isinstance(text, str):
        fix = "Write a text in quotes, or null for none"
        raise Fp2Error(f"the instruction is {text!r}, which is not text", where=f"probe.options.{INSTRUCTION}", fix=fix)
    return (text or "").strip()


def _check_distinct(templates: Mapping[str, str], where: str) -> None:
    """Raise Fp2Error for two templates with one text: their answers would count twice."""
    first: dict[str, str] = {}
    for name, text in templates.items():
        same = first.setdefault(text, name)
        if same != name:
            message = f"the templates '{same}' and '{name}' have one text: {text!r}"
            raise Fp2Error(message, where=where, fix="Remove one of them")


def _has_placeholder(question: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(question, Mapping) and bool(question.get("id")) and TRAIT in str(question.get("text"))


def _from_templates(templates: object, where: str) -> dict[str, dict[str, object]]:
    if not isinstance(templates, Mapping):
        raise Fp2Error("templates is not a mapping of names to texts", where=where)
    for name, text in templates.items():
        if not isinstance(text, str) or TRAIT not in text:
            raise Fp2Error(f"the template '{name}' has no {TRAIT}", where=where, fix=f"Write 'Is the person {TRAIT}?'")
    return {
        str(name): {"label": str(name), "questions": [{"id": str(name), "kind": "yes_no", "text": text}]}
        for name, text in templates.items()
    }


def _checked(text: object, template: str, where: str) -> str:
    if str(text).count(TRAIT) > 1:
        raise Fp2Error(f"the template '{template}' has {TRAIT} more than once", where=where)
    return " ".join(str(text).split())


def _about(question: Mapping[str, object], template: str, word: str, text: str) -> dict[str, object]:
    return {"kind": "yes_no", **question, "id": f"{template}_{word}", "text": text, "template": template, "trait": word}


class TraitBatteries:
    """Batteries of traits (see `fp2.probes.battery.BatteryKind`)."""

    expand = staticmethod(expand)
    identity = staticmethod(identity)


TRAITS = TraitBatteries()
