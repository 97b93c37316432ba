"""What the simulator believes about people: sentences by level, planted effects, noise, refusals and errors.

Keys of a truth (YAML file or mapping), each optional, laid over the neutral `default.yaml`:

    seed: 0                                    everything random follows from it
    base: 4                                    level of a person without any points (0 to 9)
    noise: {subject_sd: 1.2, image_sd: 0.8,    in levels: between people, and between pictures of one person
            shared: 0.0}                       share of the between-people variance that all probes have in common
    effects: {PROBE: {ATTRIBUTE: {VALUE: POINTS}}}            points in levels; PROBE may be `all`
    refusals: {PROBE: {base: 0.02, by: {ATTRIBUTE: {VALUE: 0.1}}}}   probability, and what a value adds; or `all`
    errors: {rate: 0.01, by: {ATTRIBUTE: {VALUE: 0.05}}}      the same for answers that fail
    probes: {PROBE: {texts: [question texts], sentences: [ten, from level 0 to level 9], refusal: text}}
    yes_no: {...}                              answers to yes/no questions: see fp2/engines/planted/yes_no_truth.py

Points of several attributes add up. Of an attribute with several values, the mean of their points counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.engines.planted.truth_reading import (
    Points,
    Rate,
    check_known,
    read_mapping,
    read_number,
    read_points,
    read_rate,
)
from fp2.engines.planted.yes_no_truth import YesNoTruth, read_yes_no
from fp2.errors import Fp2Error
from fp2.hashing import digest

LEVELS = 10
EVERY_PROBE = "all"
_WORDS = ("seed", "base", "noise", "effects", "refusals", "errors", "refusal_text", "probes")
_KEYS = ("name", "version", *_WORDS, "yes_no")
_NOISE = ("subject_sd", "image_sd", "shared")


@dataclass(frozen=True)
class PlantedTruth:
    """A checked truth. `probe_of` maps a question's exact text to its probe; `digest` is of all but `yes_no`."""

    seed: int
    base: float
    subject_sd: float
    image_sd: float
    shared: float
    sentences: Mapping[str, tuple[str, ...]]
    refusal_texts: Mapping[str, str]
    probe_of: Mapping[str, str]
    effects: Mapping[str, Points]
    refusals: Mapping[str, Rate]
    errors: Rate
    yes_no: YesNoTruth
    digest: str

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that an effect or a rate names."""
        tables = [*self.effects.values(), *(rate.by for rate in self.refusals.values()), self.errors.by]
        return frozenset(name for table in tables for name in table) | self.yes_no.attributes


def load_truth(spec: str | Path | Mapping[str, Any] | None = None) -> PlantedTruth:
    """Return the truth that `spec` (a YAML file, a mapping, or None for the neutral one) lays over the default.

    Raises
    ------
    Fp2Error
        If a key, probe or shape in it is wrong; unknown names are answered with the nearest known one.
    """
    where = f"truth file {spec}" if isinstance(spec, (str, Path)) else "model.truth"
    default = _read_yaml(Path(__file__).with_name("default.yaml"))
    own = _read_yaml(Path(spec)) if isinstance(spec, (str, Path)) else dict(spec or {})
    check_known(own, _KEYS, "key", where)
    merged = {**default, **own}
    for key in ("noise", "yes_no"):
        merged[key] = {**default[key], **read_mapping(own.get(key), key, where)}
    merged["yes_no"]["noise"] = {
        **default["yes_no"]["noise"],
        **read_mapping(merged["yes_no"]["noise"], "yes_no.noise", where),
    }
    return _checked(merged, where)


def _checked(spec: Mapping[str, Any], where: str) -> PlantedTruth:
    probes = read_mapping(spec["probes"], "probes", where)
    noise = read_mapping(spec["noise"], "noise", where)
    check_known(noise, _NOISE, "noise", where)
    errors = read_mapping(spec["errors"], "errors", where)
    check_known(errors, ("rate", "by"), "key of errors", where)
    truth = PlantedTruth(
        seed=int(read_number(spec["seed"], "seed", where)),
        base=read_number(spec["base"], "base", where, low=0, high=LEVELS - 1),
        subject_sd=read_number(noise["subject_sd"], "noise.subject_sd", where, low=0),
        image_sd=read_number(noise["image_sd"], "noise.image_sd", where, low=0),
        shared=read_number(noise["shared"], "noise.shared", where, low=0, high=1),
        sentences={probe: _sentences(probe, body, where) for probe, body in probes.items()},
        refusal_texts={probe: str(body.get("refusal") or spec["refusal_text"]) for probe, body in probes.items()},
        probe_of=_texts(probes, where),
        effects={
            probe: read_points(table, f"effects.{probe}", where)
            for probe, table in _by_probe(spec["effects"], probes, "effects", where).items()
        },
        refusals={
            probe: read_rate(table, "base", f"refusals.{probe}", where)
            for probe, table in _by_probe(spec["refusals"], probes, "refusals", where).items()
        },
        errors=read_rate(errors, "rate", "errors", where),
        yes_no=read_yes_no(spec["yes_no"], where),
        digest=digest({key: spec[key] for key in _WORDS}),
    )
    return truth


def _sentences(probe: str, body: Any, where: str) -> tuple[str, ...]:
    body = read_mapping(body, f"probes.{probe}", where)
    check_known(body, ("texts", "sentences", "refusal"), f"key of probe {probe}", where)
    found = body.get("sentences")
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != LEVELS:
        raise Fp2Error(f"probe {probe!r} needs {LEVELS} sentences, from the lowest level to the highest", where=where)
    return tuple(str(sentence) for sentence in found)


def _texts(probes: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return question text -> probe; one text cannot belong to two probes."""
    found: dict[str, str] = {}
    for probe, body in probes.items():
        for text in body.get("texts") or []:
            if found.setdefault(str(text), probe) != probe:
                raise Fp2Error(f"the question {text!r} belongs to two probes", where=where)
    return found


def _by_probe(tables: Any, probes: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = read_mapping(tables, name, where)
    check_known(found, (*probes, EVERY_PROBE), "probe", where)
    return found


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        line = " ".join(str(error).split())
        raise Fp2Error(f"the truth file cannot be read: {line}", where=str(path)) from error
    return read_mapping(value, "a truth", str(path))
