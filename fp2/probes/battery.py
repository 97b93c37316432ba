"""A battery: the probes, the questions that make them up, and how answers are decoded; one YAML file each.

The file holds `name, version, probes` and perhaps `description, people, decoding, select`, and `protocol, variants,
options, templates, traits, traits_file` (the last three make a battery of traits: see `trait_battery`). Each probe has
a `label`, what it `measures`, and one or more `questions` with an `id` (unique in the battery) and a `text`, and
perhaps `kind, template, trait, choices`. `select` names the probes to ask, null for all. `people` is how many people
are in the pictures that it is about: 1 (the default), or 2 for questions about both of them.

`kind` is `text` (the default) or `number`, which are answered in words; `yes_no`, which is scored; or `choice`, which
is scored over its `choices`, a list of at least two, or labels with a list of wordings each. The text of a choice may
hold `{options}` once: there the options are listed, in every order that `decoding.choice_orders` (`rotations`, `all` or
`given`) says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.probes.trait_battery import Wording, expanded, is_trait_battery
from fp2.probes.traits import Trait
from fp2.tables import OPTIONS, ChoiceOrders, Decoding, Question, QuestionKind

BATTERY_KEYS = (
    "name", "version", "description", "people", "decoding", "select", "probes", "protocol", "variants", "options",
    "templates", "traits", "traits_file",
)  # fmt: skip
PROBE_KEYS = ("label", "measures", "questions")
QUESTION_KEYS = ("id", "text", "kind", "template", "trait", "choices")
DECODING_KEYS = ("max_new_tokens", "temperature", "seed", "choice_orders")
KINDS: tuple[str, ...] = get_args(QuestionKind)
ORDERS: tuple[str, ...] = get_args(ChoiceOrders)
MOST_PERMUTED = 5  # options: 120 orders; six would be 720 prompts a question


@dataclass(frozen=True, slots=True)
class Probe:
    """One dimension of a battery: its id, its label for people, and what it is meant to bring out."""

    id: str
    label: str
    measures: str


@dataclass(frozen=True)
class Battery:
    """The questions that a run asks.

    Parameters
    ----------
    name, version : str
        Of the battery.
    questions : tuple of Question
        In the order of the file.
    probes : tuple of Probe
        In the order of the file; every question belongs to one, every probe has one.
    digest : str
        sha256 of name, version and questions with their choices: what is asked, without labels and without decoding.
    decoding : Decoding
        How answers are generated, and in which orders options are shown.
    people : int
        How many people are in the pictures that are asked about: 1 or 2.
    protocol : str
        The published method that reads the answers (`fp2.config.PROTOCOLS`).
    variants : tuple of mappings
        How every picture is shown, where one run shows it in several ways (`kind` and its parameters, as in
        `conf/variant`); empty: as the run's `variant` says. Groups are compared on the first.
    classes : mapping
        Question id -> label -> wordings, for choices whose options are wordings of labels.
    options : mapping
        The protocol's own settings.
    wording : Wording or None
        How a battery of traits was made: its words with their polarity, its templates and instruction.
    """

    name: str
    version: str
    questions: tuple[Question, ...]
    probes: tuple[Probe, ...]
    digest: str
    decoding: Decoding = field(default_factory=Decoding)
    people: int = 1
    protocol: str = "fingerprint"
    variants: tuple[Mapping[str, Any], ...] = ()
    classes: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    wording: Wording | None = None

    @property
    def traits(self) -> tuple[Trait, ...]:
        """The trait words that are asked about; none where the battery is not one of traits."""
        return self.wording.traits.traits if self.wording else ()

    @property
    def labels(self) -> dict[str, str]:
        """Label of each probe by id, in order."""
        return {probe.id: probe.label for probe in self.probes}

    def subset(self, probe_ids: Sequence[str]) -> Battery:
        """Return the battery with these probes only, in its own order.

        Raises
        ------
        Fp2Error
            If a probe is unknown, with the nearest name, or if none is named.
        """
        known = [probe.id for probe in self.probes]
        for probe_id in probe_ids:
            if probe_id not in known:
                raise Fp2Error(
                    f"unknown probe '{probe_id}'", where=f"battery '{self.name}'", fix=nearest(probe_id, known)
                )
        if not probe_ids:
            raise Fp2Error(
                "no probe is selected", where=f"battery '{self.name}'", fix=f"Choose from: {', '.join(known)}"
            )
        chosen = set(probe_ids)
        kept = _battery(
            self.name,
            self.version,
            tuple(question for question in self.questions if question.probe in chosen),
            tuple(probe for probe in self.probes if probe.id in chosen),
            self.decoding,
        )
        same = {name: getattr(self, name) for name in ("people", "protocol", "variants", "options", "classes")}
        return replace(kept, **same, wording=self._kept_wording(kept))

    def _kept_wording(self, kept: Battery) -> Wording | None:
        """Return the wording with the templates that are still asked; none once no question is about a trait."""
        asked = {question.template for question in kept.questions if question.trait}
        if self.wording is None or not asked & set(self.wording.templates):
            return None
        templates = {name: text for name, text in self.wording.templates.items() if name in asked}
        return replace(self.wording, templates=templates)


def load_battery(spec: Mapping[str, Any]) -> Battery:
    """Build a battery from the content of its YAML and apply `select`.

    Raises
    ------
    Fp2Error
        If a key is unknown or missing, an id occurs twice, a text is empty, a number is out of range, a question has
        choices that do not fit its kind, or `select` names an unknown probe.
    """
    where = f"battery '{spec.get('name', '?')}'"
    _check_keys(spec, BATTERY_KEYS, ("name", "version", "probes"), where)
    spec, wording = expanded(spec, where) if is_trait_battery(spec) else (_without_traits(spec, where), None)
    body = spec["probes"]
    if not isinstance(body, Mapping) or not body:
        raise Fp2Error("'probes' must name at least one probe", where=where)
    probes: list[Probe] = []
    questions: list[Question] = []
    for probe_id, content in body.items():
        probe, asked = _probe(str(probe_id), content, where)
        probes.append(probe)
        questions.extend(asked)
    _check_unique((question.question_id for question in questions), where)
    name, version = str(spec["name"]), str(spec["version"])
    decoding = _decoding(spec.get("decoding") or {}, where)
    _check_orders(questions, decoding, where)
    people = spec.get("people", 1)
    if isinstance(people, bool) or people not in (1, 2):
        raise Fp2Error(f"people is {people!r}: pictures of 1 or 2 people can be asked about", where=where)
    battery = replace(
        _battery(name, version, tuple(questions), tuple(probes), decoding),
        people=people,
        protocol=str(spec.get("protocol") or "fingerprint"),
        variants=tuple(dict(variant) for variant in spec.get("variants") or ()),
        classes=_classes(body),
        options=dict(spec.get("options") or {}),
        wording=wording,
    )
    select = spec.get("select")
    if select is None:
        return battery
    return battery.subset([select] if isinstance(select, str) else [str(probe_id) for probe_id in select])


def _battery(
    name: str, version: str, questions: tuple[Question, ...], probes: tuple[Probe, ...], decoding: Decoding
) -> Battery:
    asked = [[q.question_id, q.probe, q.text, q.kind, q.template, q.trait, list(q.choices)] for q in questions]
    return Battery(name, version, questions, probes, digest([name, version, asked]), decoding)


def _without_traits(spec: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Refuse traits for a battery that has no place for them."""
    for key in ("traits", "traits_file"):
        if spec.get(key):
            fix = "Write {trait} in the text of a question, or use probe=gras"
            raise Fp2Error(f"no question of this battery has a place for the {key}", where=where, fix=fix)
    return spec


def _probe(probe_id: str, content: Any, where: str) -> tuple[Probe, list[Question]]:
    where = f"{where}, probe '{probe_id}'"
    _check_keys(content, PROBE_KEYS, ("questions",), where)
    if not _is_list(content["questions"]) or not content["questions"]:
        raise Fp2Error("'questions' must be a list with at least one question", where=where)
    probe = Probe(probe_id, str(content.get("label", probe_id)), str(content.get("measures", "")))
    return probe, [_question(probe_id, question, where) for question in content["questions"]]


def _question(probe_id: str, content: Any, where: str) -> Question:
    _check_keys(content, QUESTION_KEYS, ("id", "text"), where)
    where = f"{where}, question '{content['id']}'"
    text, kind = content["text"], str(content.get("kind", "text"))
    if not isinstance(text, str) or not text.strip():
        raise Fp2Error("the text of a question must not be empty", where=where)
    if kind not in KINDS:
        raise Fp2Error(f"unknown kind '{kind}'", where=where, fix=nearest(kind, KINDS))
    template, trait = str(content.get("template") or ""), str(content.get("trait") or "")
    choices = _choices(content.get("choices"), kind, where)
    if OPTIONS in text and (kind != "choice" or text.count(OPTIONS) > 1):
        fix = f"Write {OPTIONS} once, in the text of a question of kind: choice"
        raise Fp2Error(f"{OPTIONS} stands for the options of one choice", where=where, fix=fix)
    return Question(str(content["id"]), probe_id, text, kind, template, trait, choices)  # type: ignore[arg-type]


def _choices(content: Any, kind: str, where: str) -> tuple[str, ...]:
    """Return the options of a choice, each as text; none for other kinds."""
    if kind != "choice":
        if content is not None:
            raise Fp2Error(f"a question of kind '{kind}' has no choices", where=where, fix="Set kind: choice")
        return ()
    if isinstance(content, Mapping):
        content = _wordings(content, where)
    if not _is_list(content) or len(content) < 2:
        raise Fp2Error("a choice needs a list of at least two choices", where=where, fix="Add choices: [A, B]")
    for option in content:
        if not isinstance(option, str):
            fix = f"Put it in quotes: '{str(option).lower() if isinstance(option, bool) else option}'"
            raise Fp2Error(f"the choice {option!r} is no text", where=where, fix=fix)  # YAML reads yes as true
    choices = tuple(option.strip() for option in content)
    if "" in choices:
        raise Fp2Error("a choice must not be empty", where=where)
    if len(set(choices)) < len(choices):
        twice = next(option for option in choices if choices.count(option) > 1)
        raise Fp2Error(f"the choice '{twice}' occurs twice", where=where)
    return choices


def _wordings(labels: Mapping[str, Any], where: str) -> list[Any]:
    """Return the wordings of all labels, one after the other."""
    if len(labels) < 2 or not all(_is_list(wordings) and wordings for wordings in labels.values()):
        fix = "Write choices: {LABEL: [WORDING, ...], ...} with two labels or more"
        raise Fp2Error("labels need a list of wordings each", where=where, fix=fix)
    return [wording for wordings in labels.values() for wording in wordings]


def _classes(probes: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return question id -> label -> wordings of the choices that are written by labels."""
    asked = [question for probe in probes.values() for question in probe["questions"]]
    labelled = {str(q["id"]): q["choices"] for q in asked if isinstance(q.get("choices"), Mapping)}
    return {
        name: {str(label): tuple(str(w).strip() for w in wordings) for label, wordings in labels.items()}
        for name, labels in labelled.items()
    }


def _check_orders(questions: Iterable[Question], decoding: Decoding, where: str) -> None:
    if decoding.choice_orders != "all":
        return
    for question in questions:
        if len(question.choices) > MOST_PERMUTED:
            raise Fp2Error(
                f"{len(question.choices)} choices have too many orders to show all of them",
                where=f"{where}, question '{question.question_id}'",
                fix=f"Set decoding.choice_orders=rotations, or give at most {MOST_PERMUTED} choices",
            )


def _decoding(content: Any, where: str) -> Decoding:
    where = f"{where}, decoding"
    _check_keys(content, DECODING_KEYS, (), where)
    tokens, temperature = content.get("max_new_tokens", 64), content.get("temperature", 0.0)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise Fp2Error("max_new_tokens must be a whole number of at least 1", where=where)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise Fp2Error("temperature must be a number from 0 (greedy) to 2", where=where)
    seed = content.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Fp2Error("seed must be a whole number of at least 0", where=where)
    orders = str(content.get("choice_orders", "rotations"))
    if orders not in ORDERS:
        raise Fp2Error(f"unknown choice_orders '{orders}'", where=where, fix=nearest(orders, ORDERS))
    return Decoding(tokens, float(temperature), seed, orders)  # type: ignore[arg-type]


def _check_keys(content: Any, known: tuple[str, ...], required: tuple[str, ...], where: str) -> None:
    if not isinstance(content, Mapping):
        raise Fp2Error(f"a mapping was expected, with {', '.join(known)}", where=where)
    for key in content:
        if key not in known:
            raise Fp2Error(f"unknown key '{key}'", where=where, fix=nearest(str(key), known))
    for key in required:
        if content.get(key) is None:
            raise Fp2Error(f"the key '{key}' is missing", where=where)


def _check_unique(ids: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for question_id in ids:
        if question_id in seen:
            raise Fp2Error(f"the question id '{question_id}' occurs twice", where=where)
        seen.add(question_id)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
