"""A battery: its probes, their questions, and how answers are generated; one YAML file each.

The file has the keys `name, version, probes`, and optionally `description, people, decoding, select, protocol,
variants, options, fields` and `templates, traits, traits_file, published` (the last four define a battery of traits,
which a package expands: `BatteryKind`). Each probe has a `label`, what it `measures`, and one or more `questions` with
an `id` (unique in the battery) and a `text`, and optionally `kind, template, trait, choices`. `select` lists the probes
to ask, null for all. `people` is the number of people in the images that are asked about: 1 (default), or 2 for
questions about both. `fields` are names that stand in braces in texts and choices, and are filled in for each row of
the data (see `items`).

`kind` is `text` (default) or `number`, which are answered in words; `yes_no`, answered by probabilities; or `choice`,
answered by probabilities over its `choices`: a list of at least two, or labels with a list of wordings each. The text
of a choice may contain `{options}` once, where the options are listed, in the orders that `decoding.choice_orders`
selects (`rotations`, `all`, `given`, or a seed that draws one). A `text` with `choices` names its options itself;
scorers of choices read which of them an answer names (`fp2.methods.benchmarks.choice.named_choice`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeGuard, get_args

from fp2.config import DEFAULT_PROTOCOL
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.plugins import BATTERIES, load, read_options
from fp2.tables import ITEM, OPTIONS, SAMPLE, TRAIT, Decoding, Question, QuestionKind, sample_id

BATTERY_KEYS = (
    "name", "version", "description", "people", "decoding", "select", "probes", "protocol", "variants", "options",
    "templates", "traits", "traits_file", "published", "fields",
)  # fmt: skip
PROBE_KEYS = ("label", "measures", "questions")
QUESTION_KEYS = ("id", "text", "kind", "template", "trait", "choices")
KINDS: tuple[str, ...] = get_args(QuestionKind)
MOST_PERMUTED = 5  # options: 120 orders; six would be 720 prompts per question


@dataclass(frozen=True, slots=True)
class Probe:
    """One dimension of a battery: its id, its label in reports, and what it measures."""

    id: str
    label: str
    measures: str


class Expansion(Protocol):
    """What the questions of a battery were made from."""

    def subset(self, questions: Sequence[Question]) -> Expansion | None:
        """Return what these questions are made from; None if they are as they stood in the file."""
        ...

    def text(self, template: str) -> str:
        """Return the text of a template as reports show it."""
        ...


class BatteryKind(Protocol):
    """Batteries whose questions are made from others: the entry point `traits` of the group `fp2.batteries`."""

    def expand(self, spec: Mapping[str, Any], where: str, model_id: str | None) -> tuple[Mapping[str, Any], Expansion]:
        """Return the content of a battery's file with the questions that are made from it."""
        ...

    def identity(self, settings: Mapping[str, Any], model_id: str | None) -> dict[str, Any]:
        """Return the settings of a battery as they enter the config hash: files by their digests."""
        ...


@dataclass(frozen=True)
class Battery:
    """A fixed set of questions.

    Parameters
    ----------
    name, version : str
        Of the battery.
    questions : tuple of Question
        In the order of the file.
    probes : tuple of Probe
        In the order of the file. Every question belongs to a probe, and every probe has a question.
    decoding : Decoding
        How answers are generated, and the orders in which options are shown.
    people : int
        The number of people in the images that are asked about: 1 or 2.
    protocol : str
        The evaluation protocol that analyses the answers.
    variants : tuple of mappings
        The image variants of one run (`kind` and its parameters, as in `conf/variant`); empty for the run's `variant`.
        Groups are compared on the first.
    classes : mapping
        Question id -> label -> wordings, for choices whose options are wordings of labels.
    options : mapping
        The protocol's own options.
    fields : tuple of str
        Names in braces that are filled in for each item; each occurs in a question.
    expansion : Expansion or None
        What the questions were made from, in a battery of traits.
    """

    name: str
    version: str
    questions: tuple[Question, ...]
    probes: tuple[Probe, ...]
    decoding: Decoding = field(default_factory=Decoding)
    people: int = 1
    protocol: str = DEFAULT_PROTOCOL
    variants: tuple[Mapping[str, Any], ...] = ()
    classes: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    expansion: Expansion | None = None

    @cached_property
    def digest(self) -> str:
        """sha256 of name, version and questions with their choices, without labels and decoding."""
        question_rows = [
            [q.question_id, q.probe, q.text, q.kind, q.template, q.trait, list(q.choices)] for q in self.questions
        ]
        return digest([self.name, self.version, question_rows])

    @property
    def asked(self) -> tuple[Question, ...]:
        """The questions as they are asked: each `decoding.samples` times, every sample with its own id."""
        return tuple(
            replace(question, question_id=sample_id(question.question_id, sample), sample=sample)
            for question in self.questions
            for sample in range(self.decoding.samples)
        )

    @property
    def labels(self) -> dict[str, str]:
        """Probe id -> label, in order."""
        return {probe.id: probe.label for probe in self.probes}

    def subset(self, probe_ids: Sequence[str]) -> Battery:
        """Return the battery with these probes only, in the battery's order."""
        probe_names, where = [probe.id for probe in self.probes], f"battery '{self.name}'"
        for probe_id in probe_ids:
            if probe_id not in probe_names:
                raise Fp2Error(f"unknown probe '{probe_id}'", where=where, fix=nearest(probe_id, probe_names))
        if not probe_ids:
            raise Fp2Error("no probe is selected", where=where, fix=f"Choose from: {', '.join(probe_names)}")
        questions = tuple(question for question in self.questions if question.probe in probe_ids)
        probes = tuple(probe for probe in self.probes if probe.id in probe_ids)
        expansion = self.expansion.subset(questions) if self.expansion else None
        fields = tuple(_fields_read(questions, self.fields))
        return replace(self, questions=questions, probes=probes, fields=fields, expansion=expansion)


def is_trait_battery(spec: Mapping[str, object]) -> bool:
    """Return whether a question of the battery is asked once per trait."""
    return bool(spec.get("templates")) or TRAIT in str(spec.get("probes"))


def trait_batteries() -> BatteryKind:
    """Return what makes the questions of a battery of traits; raise an `Fp2Error` where it is not installed."""
    kind: BatteryKind = load(BATTERIES, "traits", "probe")
    return kind


def load_battery(spec: Mapping[str, Any], model_id: str | None = None) -> Battery:
    """Return the battery that the content of a YAML file describes, with `select` applied.

    `model_id` is the model that is asked: published texts (`published`) may be another's for another model.
    """
    where = f"battery '{spec.get('name', '?')}'"
    _checked(spec, BATTERY_KEYS, ("name", "version", "probes"), where)
    expansion = None
    if is_trait_battery(spec):
        spec, expansion = trait_batteries().expand(spec, where, model_id)
    elif unused := next((key for key in ("traits", "traits_file", "published") if spec.get(key)), None):
        fix = "Write {trait} in the text of a question, or write templates instead of questions"
        raise Fp2Error(f"no question of this battery asks about {unused}", where=where, fix=fix)
    body = spec["probes"]
    if not isinstance(body, Mapping) or not body:
        raise Fp2Error("'probes' must name at least one probe", where=where)
    probes: list[Probe] = []
    questions: list[Question] = []
    for probe_id, content in body.items():
        of_probe = f"{where}, probe '{probe_id}'"
        probe = _checked(content, PROBE_KEYS, ("questions",), of_probe)
        if not _is_list(probe["questions"]) or not probe["questions"]:
            raise Fp2Error("'questions' must be a list with at least one question", where=of_probe)
        probes.append(Probe(str(probe_id), str(probe.get("label", probe_id)), str(probe.get("measures", ""))))
        questions += [_question(str(probe_id), question, of_probe) for question in probe["questions"]]
    ids = Counter(question.question_id for question in questions)
    if repeated := next((name for name, n in ids.items() if n > 1), None):
        raise Fp2Error(f"the question id '{repeated}' occurs twice", where=where)
    people = spec.get("people", 1)
    if isinstance(people, bool) or people not in (1, 2):
        raise Fp2Error(f"people is {people!r}, not 1 or 2", where=where, fix="Questions are about one person or two")
    battery = Battery(
        str(spec["name"]),
        str(spec["version"]),
        tuple(questions),
        tuple(probes),
        decoding=read_options(Decoding, spec.get("decoding") or {}, f"{where}, decoding"),
        people=people,
        protocol=str(spec.get("protocol") or DEFAULT_PROTOCOL),
        variants=tuple(dict(variant) for variant in spec.get("variants") or ()),
        classes=_classes(body),
        options=dict(spec.get("options") or {}),
        fields=_fields(spec.get("fields"), questions, where),
        expansion=expansion,
    )
    select = spec.get("select")
    if select is not None:
        battery = battery.subset([select] if isinstance(select, str) else [str(probe_id) for probe_id in select])
    _check_decoding(battery, where)
    return battery


def _question(probe_id: str, content: object, where: str) -> Question:
    entry = _checked(content, QUESTION_KEYS, ("id", "text"), where)
    where = f"{where}, question '{entry['id']}'"
    text, kind = entry["text"], str(entry.get("kind", "text"))
    if not isinstance(text, str) or not text.strip():
        raise Fp2Error("the text of a question is empty", where=where)
    if kind not in KINDS:
        raise Fp2Error(f"unknown kind '{kind}'", where=where, fix=nearest(kind, KINDS))
    template, trait = str(entry.get("template") or ""), str(entry.get("trait") or "")
    choices = _choices(entry.get("choices"), kind, where)
    if OPTIONS in text and (kind != "choice" or text.count(OPTIONS) > 1):
        fix = f"Write {OPTIONS} once, in the text of a question of kind: choice"
        raise Fp2Error(f"{OPTIONS} is replaced by the options of one choice", where=where, fix=fix)
    if mark := next((mark for mark in (SAMPLE, ITEM) if mark in str(entry["id"])), None):
        raise Fp2Error(f"the id contains '{mark}', which marks samples and items of a question", where=where)
    return Question(str(entry["id"]), probe_id, text, kind, template, trait, choices)  # type: ignore[arg-type]


def _choices(content: object, kind: str, where: str) -> tuple[str, ...]:
    if kind != "choice" and content is None:
        return ()
    if kind not in ("choice", "text"):
        raise Fp2Error(f"a question of kind '{kind}' has no choices", where=where, fix="Set kind: choice")
    if isinstance(content, Mapping):  # labels with a list of wordings each
        if len(content) < 2 or not all(_is_list(wordings) and wordings for wordings in content.values()):
            fix = "Write choices: {LABEL: [WORDING, ...], ...} with two labels or more"
            raise Fp2Error("every label needs a list of wordings", where=where, fix=fix)
        content = [wording for wordings in content.values() for wording in wordings]
    if not _is_list(content) or len(content) < 2:
        raise Fp2Error("a choice needs a list of at least two choices", where=where, fix="Add choices: [A, B]")
    choices: list[str] = []
    for option in content:
        if not isinstance(option, str):
            fix = f"Put it in quotes: '{str(option).lower() if isinstance(option, bool) else option}'"
            raise Fp2Error(f"the choice {option!r} is not text", where=where, fix=fix)  # YAML reads yes as true
        choices.append(option.strip())
    if "" in choices:
        raise Fp2Error("a choice is empty", where=where)
    if len(set(choices)) < len(choices):
        twice = next(option for option in choices if choices.count(option) > 1)
        raise Fp2Error(f"the choice '{twice}' occurs twice", where=where)
    return tuple(choices)


def _classes(probes: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return question id -> label -> wordings, for the choices that are given by labels."""
    questions = [question for probe in probes.values() for question in probe["questions"]]
    labelled = {str(q["id"]): q["choices"] for q in questions if isinstance(q.get("choices"), Mapping)}
    return {
        name: {str(label): tuple(str(w).strip() for w in wordings) for label, wordings in labels.items()}
        for name, labels in labelled.items()
    }


def _fields(content: object, questions: Sequence[Question], where: str) -> tuple[str, ...]:
    """Return the fields, each of which a question has to read."""
    if content is None:
        return ()
    names = [str(name) for name in content] if _is_list(content) else []
    if not names or not all(name.isidentifier() for name in names):
        raise Fp2Error("fields is not a list of names", where=where, fix="Write fields: [NAME, ...]")
    for name in names:
        if name not in _fields_read(questions, names):
            fix = f"Write {{{name}}} in a text or a choice, or leave the field out"
            raise Fp2Error(f"no question reads the field {name!r}", where=where, fix=fix)
    return tuple(names)


def _fields_read(questions: Sequence[Question], fields: Sequence[str]) -> list[str]:
    texts = [text for question in questions for text in (question.text, *question.choices)]
    return [name for name in fields if any(f"{{{name}}}" in text for text in texts)]


def _check_decoding(battery: Battery, where: str) -> None:
    """Raise where a choice has too many orders to show them all, or several samples of an answer would be equal."""
    decoding = battery.decoding
    for question in battery.questions if decoding.choice_orders == "all" else ():
        if len(question.choices) > MOST_PERMUTED:
            message = f"{len(question.choices)} choices have too many orders to show all"
            fix = f"Set decoding.choice_orders=rotations, or give at most {MOST_PERMUTED} choices"
            raise Fp2Error(message, where=f"{where}, question '{question.question_id}'", fix=fix)
    if decoding.samples == 1:
        return
    where, one_sample = f"{where}, decoding.samples", "Set probe.decoding.samples=1"
    scored = next((question for question in battery.questions if question.kind in ("yes_no", "choice")), None)
    if scored is not None:
        message = f"question '{scored.question_id}' is answered by probabilities, so that its samples would be equal"
        raise Fp2Error(message, where=where, fix=f"{one_sample}, or select probes that are answered in words")
    if not decoding.sampled:
        fix = f"Set probe.decoding.temperature above 0. {one_sample} where decoding is greedy"
        raise Fp2Error("at temperature 0 the samples would be equal", where=where, fix=fix)


def _checked(content: object, allowed: tuple[str, ...], required: tuple[str, ...], where: str) -> Mapping[str, object]:
    """Return a part of a battery's file, which is a mapping with these keys."""
    if not isinstance(content, Mapping):
        raise Fp2Error(f"not a mapping with the keys {', '.join(allowed)}", where=where)
    for key in content:
        if key not in allowed:
            raise Fp2Error(f"unknown key '{key}'", where=where, fix=nearest(str(key), allowed))
    for key in required:
        if content.get(key) is None:
            raise Fp2Error(f"the key '{key}' is missing", where=where)
    return content


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
