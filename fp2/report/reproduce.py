"""How a run is repeated, as its pages state it: command, code, seeds, how answers were generated, and its passport.

Everything is read from what the run publishes: `config.yaml` and `overrides.yaml`, in which `local:NAME` stands for a
path of the machine, and `passport.json`.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from fp2 import artifacts
from fp2.hashing import sha256_bytes
from fp2.report.reading import plain, were_supplied
from fp2.results import Probe, RunResults
from fp2.tables import Decoding
from fp2.text import printable

_USER = re.compile(r"(?<=://)[^/\s@'\"]*@")
"""User and password in an address."""
_PLACE = re.compile(r"local:[^\s,\]}'\"]*")
_IN_WORDS = ("text", "number")
_SAID = ("max_new_tokens", "temperature", "seed", "choice_orders", "samples")
GIVEN = {"fp2.engines.given:GivenEngine": "the model", "fp2.data.frame:Frame": "the data set"}
"""Targets in a config that stand for an object of the caller's."""


class Command(TypedDict):
    """The line that starts a run, the words in it that stand for files, and what was given in Python, not in it."""

    command: str | None
    places: list[str]
    objects: list[str]


class HowToRepeat(Command):
    """How a run is repeated; what its files do not say is None.

    Attributes
    ----------
    source, earlier
        The run whose answers it scored again, and the lines that made that.
    seeds
        Of `analysis` and `data`.
    decoding
        How texts were generated; None where none were, or that is not known.
    probabilities
        Whether answers are probabilities only.
    settings
        The text of `config.yaml`.
    passport
        `payload_sha256`, `keys` (ids of the signing keys), `partial`.
    """

    source: str | None
    earlier: list[str]
    code: Mapping[str, object]
    seeds: dict[str, object]
    decoding: dict[str, Any] | None
    probabilities: bool
    settings: str
    passport: Mapping[str, object] | None


class ShownProbe(TypedDict):
    """A probe with a text for each question or template, and the choices, as far as results state them."""

    label: str
    texts: list[str]
    choices: list[list[str]]


class QuestionSet(TypedDict):
    """What was asked in the same words; `runs` are labels, none if all runs asked the same."""

    runs: list[str]
    probes: list[ShownProbe]


def how_to_repeat(folder: Path, results: RunResults, code: Mapping[str, object] | None = None) -> HowToRepeat:
    """Return how the run in `folder` is repeated.

    Parameters
    ----------
    code : mapping, optional
        `version, git_commit, dirty` of the code that writes the run now (`fp2.report.passport.generator`); without it,
        what the passport in `folder` states.
    """
    settings = _text(folder / artifacts.CONFIG)
    config, passport = _mapping(_parsed(settings)), _passport(folder / artifacts.PASSPORT)
    stated = _mapping(passport.pop("generator", None))
    overrides = _parsed(_text(folder / artifacts.OVERRIDES))
    before = _mapping(results.get("rescored_from"))
    source = before.get("run_id")
    words = [_shown(word) for word in overrides or []] if isinstance(overrides, list | None) else None
    decoding, probabilities = _generation(config, results)
    return {
        **_command(words, source, config),
        "source": source,
        "earlier": list(before.get("commands") or ()),
        "code": dict(code or stated or {"version": results["fp2_version"], "git_commit": None, "dirty": None}),
        "seeds": {"analysis": config.get("seed"), "data": _mapping(config.get("data")).get("seed")},
        "decoding": decoding,
        "probabilities": probabilities,
        "settings": _USER.sub("", settings),
        "passport": passport or None,
    }


def _command(overrides: Sequence[str] | None, source: str | None, config: Mapping[str, object]) -> Command:
    """Return the line, the words in it that stand for files, and what it lacks."""
    if overrides is None or not config:
        return {"command": None, "places": [], "objects": []}
    command = shlex.join(["fp2", *(["rescore", str(source)] if source else ["run"]), *overrides])
    targets = (_mapping(config.get(section)).get("target") for section in ("engine", "data"))
    objects = [GIVEN[str(target)] for target in targets if str(target) in GIVEN]
    if _mapping(config.get("probe")).get("name") == "custom" and not any("probe" in word for word in overrides):
        objects.append("the questions")
    return {"command": command, "places": list(dict.fromkeys(_PLACE.findall(" ".join(overrides)))), "objects": objects}


def _generation(config: Mapping[str, object], results: RunResults) -> tuple[dict[str, Any] | None, bool]:
    """Return how answers were generated: the decoding of texts, and whether answers are probabilities."""
    battery = _mapping(config.get("probe"))
    asked_model = bool(results["answers"]["planned"]) and not were_supplied(results)
    kinds = {
        str(_mapping(question).get("kind") or _IN_WORDS[0])
        for probe in _mapping(battery.get("probes")).values()
        for question in _mapping(probe).get("questions") or ()
    }
    in_words = bool(kinds & set(_IN_WORDS)) or not (kinds or battery.get("templates"))
    decoding = {**asdict(Decoding()), **_mapping(battery.get("decoding"))}
    return decoding if asked_model and in_words else None, asked_model and not in_words


def _passport(path: Path) -> dict[str, object]:
    """Return what a passport states of itself, unverified; nothing where there is none."""
    try:
        envelope = json.loads(path.read_bytes())
        payload = base64.b64decode(envelope["payload"])
        statement = json.loads(payload)
        return {
            "payload_sha256": sha256_bytes(payload),
            "keys": [printable(signature.get("keyid") or "") for signature in envelope["signatures"]],
            "partial": str(statement["predicateType"]).endswith("/PARTIAL"),
            "generator": _mapping(statement["predicate"].get("generator")),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _parsed(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return {}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _shown(word: object) -> str:
    """Return an override without user and password of an address; control characters are escapes."""
    return _USER.sub("", printable(word, None))


def decoding_words(found: HowToRepeat) -> str:
    """Return how answers were generated, in words; empty where that is not known, or nothing was asked."""
    if found["probabilities"]:
        return "read as probabilities of the options; no text is generated"
    if (decoding := found["decoding"]) is None:
        return ""
    temperature, samples = decoding["temperature"], decoding["samples"]
    how = f"sampled at temperature {temperature:g}" if temperature else "greedy (temperature 0)"
    seed = f", decoding seed {decoding['seed']}" if temperature or samples > 1 else ""
    many = f"{samples} samples" if samples > 1 else "one answer"
    usual = asdict(Decoding())
    further = {name: value for name, value in decoding.items() if name not in _SAID and value != usual[name]}
    how += "".join(f", {name} {value}" for name, value in further.items())
    return plain(f"{how}, at most {decoding['max_new_tokens']} new tokens, {many} for each question and image{seed}")


def code_words(code: Mapping[str, object]) -> str:
    """Return version and commit of the code."""
    commit = f"commit {code['git_commit']}" if code.get("git_commit") else "commit not recorded"
    return plain(f"fp2 {code['version']}, {commit}{', with uncommitted changes' if code.get('dirty') else ''}")


def question_sets(runs: Sequence[tuple[str, Sequence[Probe]]]) -> list[QuestionSet]:
    """Return the different sets of questions of labelled runs."""
    sets: list[QuestionSet] = []
    for label, probes in runs:
        questions: list[ShownProbe] = [
            {
                "label": plain(probe.get("label") or probe["id"]),
                "texts": str(probe.get("text") or "").split(" | "),
                "choices": [[str(entry) for entry in listed] for listed in probe.get("choices") or ()],
            }
            for probe in probes
        ]
        same = next((entry for entry in sets if entry["probes"] == questions), None)
        if same is None and questions:
            same = {"runs": [], "probes": questions}
            sets.append(same)
        if same is not None:
            same["runs"].append(label)
    if len(sets) == 1 and len(sets[0]["runs"]) == len(runs):
        sets[0]["runs"] = []
    return sets
