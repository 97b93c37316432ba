"""What the simulator believes about people: sentences by level, planted effects, noise, refusals and errors.

Keys of a truth (YAML file or mapping), each optional, laid over the neutral `planted_default.yaml`:

    seed: 0                                    everything random follows from it
    base: 4                                    level of a person without any points (0 to 9)
    noise: {subject_sd: 1.2, image_sd: 0.8,    in levels: between people, and between pictures of one person
            shared: 0.0}                       share of the between-people variance that all probes have in common
    effects: {PROBE: {ATTRIBUTE: {VALUE: POINTS}}}            points in levels; PROBE may be `all`
    refusals: {PROBE: {base: 0.02, by: {ATTRIBUTE: {VALUE: 0.1}}}}   probability, and what a value adds; or `all`
    errors: {rate: 0.01, by: {ATTRIBUTE: {VALUE: 0.05}}}      the same for answers that fail
    probes: {PROBE: {texts: [question texts], sentences: [ten, from level 0 to level 9], refusal: text}}

Points of several attributes add up. Of an attribute with several values, the mean of their points counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest

LEVELS = 10
EVERY_PROBE = "all"
_KEYS = ("name", "version", "seed", "base", "noise", "effects", "refusals", "errors", "refusal_text", "probes")
_NOISE = ("subject_sd", "image_sd", "shared")

Points = Mapping[str, Mapping[str, float]]
"""attribute -> value -> number."""


@dataclass(frozen=True)
class Rate:
    """A probability: `base`, and what each attribute value adds to it (the sum is kept within 0 and 1)."""

    base: float
    by: Points


@dataclass(frozen=True)
class PlantedTruth:
    """A checked truth. `probe_of` maps a question's exact text to its probe."""

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
    digest: str

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that an effect or a rate names."""
        tables = [*self.effects.values(), *(rate.by for rate in self.refusals.values()), self.errors.by]
        return frozenset(name for table in tables for name in table)


def load_truth(spec: str | Path | Mapping[str, Any] | None = None) -> PlantedTruth:
    """Return the truth that `spec` (a YAML file, a mapping, or None for the neutral one) lays over the default.

    Raises
    ------
    Fp2Error
        If a key, probe or shape in it is wrong; unknown names are answered with the nearest known one.
    """
    where = f"truth file {spec}" if isinstance(spec, (str, Path)) else "model.truth"
    default = _read_yaml(Path(__file__).with_name("planted_default.yaml"))
    own = _read_yaml(Path(spec)) if isinstance(spec, (str, Path)) else dict(spec or {})
    _known(own, _KEYS, "key", where)
    merged = {**default, **own}
    merged["noise"] = {**default["noise"], **_mapping(own.get("noise"), "noise", where)}
    return _checked(merged, where)


def _checked(spec: Mapping[str, Any], where: str) -> PlantedTruth:
    probes = _mapping(spec["probes"], "probes", where)
    noise = _mapping(spec["noise"], "noise", where)
    _known(noise, _NOISE, "noise", where)
    errors = _mapping(spec["errors"], "errors", where)
    _known(errors, ("rate", "by"), "key of errors", where)
    truth = PlantedTruth(
        seed=int(_number(spec["seed"], "seed", where)),
        base=_number(spec["base"], "base", where, low=0, high=LEVELS - 1),
        subject_sd=_number(noise["subject_sd"], "noise.subject_sd", where, low=0),
        image_sd=_number(noise["image_sd"], "noise.image_sd", where, low=0),
        shared=_number(noise["shared"], "noise.shared", where, low=0, high=1),
        sentences={probe: _sentences(probe, body, where) for probe, body in probes.items()},
        refusal_texts={probe: str(body.get("refusal") or spec["refusal_text"]) for probe, body in probes.items()},
        probe_of=_texts(probes, where),
        effects={
            probe: _points(table, f"effects.{probe}", where)
            for probe, table in _by_probe(spec["effects"], probes, "effects", where).items()
        },
        refusals={
            probe: _rate(table, "base", f"refusals.{probe}", where)
            for probe, table in _by_probe(spec["refusals"], probes, "refusals", where).items()
        },
        errors=_rate(errors, "rate", "errors", where),
        digest=digest({key: spec[key] for key in _KEYS if key not in {"name", "version"}}),
    )
    return truth


def _sentences(probe: str, body: Any, where: str) -> tuple[str, ...]:
    body = _mapping(body, f"probes.{probe}", where)
    _known(body, ("texts", "sentences", "refusal"), f"key of probe {probe}", where)
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
    found = _mapping(tables, name, where)
    _known(found, (*probes, EVERY_PROBE), "probe", where)
    return found


def _rate(table: Any, base: str, name: str, where: str) -> Rate:
    table = _mapping(table, name, where)
    _known(table, (base, "by"), f"key of {name}", where)
    first = _number(table.get(base, 0.0), f"{name}.{base}", where, low=0, high=1)
    return Rate(first, _points(table.get("by"), f"{name}.by", where))


def _points(table: Any, name: str, where: str) -> dict[str, dict[str, float]]:
    return {
        str(attribute): {
            str(value): _number(points, f"{name}.{attribute}.{value}", where)
            for value, points in _mapping(values, f"{name}.{attribute}", where).items()
        }
        for attribute, values in _mapping(table, name, where).items()
    }


def _number(value: Any, name: str, where: str, low: float | None = None, high: float | None = None) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    if not is_number or (low is not None and value < low) or (high is not None and value > high):
        bounds = f" from {low} to {high}" if high is not None else (f" of at least {low}" if low is not None else "")
        raise Fp2Error(f"{name} should be a number{bounds}, not {value!r}", where=where)
    return float(value)


def _mapping(value: Any, name: str, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Fp2Error(f"{name} should be a table of names and values, not {value!r}", where=where)
    return {str(key): inner for key, inner in value.items()}


def _known(table: Mapping[str, Any], names: Sequence[str], what: str, where: str) -> None:
    for name in table:
        if name not in names:
            raise Fp2Error(f"unknown {what} {name!r}", where=where, fix=nearest(name, names))


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        line = " ".join(str(error).split())
        raise Fp2Error(f"the truth file cannot be read: {line}", where=str(path)) from error
    return _mapping(value, "a truth", str(path))
