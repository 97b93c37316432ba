"""The planted truth: sentences by level, planted effects, noise, refusals and errors, read from YAML and checked.

Keys of a truth (YAML file or mapping), each optional; they replace those of the neutral `default.yaml`:

    seed: 0                                    of all random numbers
    base: 4                                    level of a subject without any points (0 to 9)
    noise: {subject_sd: 1.2, image_sd: 0.8,    in levels: between subjects, and between images of one subject
            shared: 0.0}                       share of the between-subject variance that all probes have in common
    effects: {PROBE: {ATTRIBUTE: {VALUE: POINTS}}}            points in levels; PROBE may be `all`
    refusals: {PROBE: {base: 0.02, by: {ATTRIBUTE: {VALUE: 0.1}}}}   probability, and what a value adds; or `all`
    errors: {rate: 0.01, by: {ATTRIBUTE: {VALUE: 0.05}}}      the same for failed answers
    probes: {PROBE: {texts: [question texts], sentences: [ten, from level 0 to level 9], refusal: text}}
    choices: {OPTION: {ATTRIBUTE: {VALUE: 0.5}}}   what a group adds to the log odds of an option, which is named by its
                                               text or, where texts differ between items, its place (`#1`); the noise
                                               is that of `yes_no`
    yes_no: {...}                              answers to yes/no questions:

    base: 0.0                    log odds of Yes
    traits: {WORD: 0.7}          what a trait adds; for other traits, a normal random number with SD `trait_sd`
    templates: {T4: -0.3}        what a template adds
    item_sd: 0.2                 SD of a random number for each trait in each template
    effects: {ATTRIBUTE: {VALUE: 0.1}}                 what a group adds, times the trait's valence
    trait_effects: {WORD: {ATTRIBUTE: {VALUE: 0.5}}}   what a group adds for one trait
    unaffected: [WORD, ...]      planted zeros: traits to which `effects` do not apply
    valences: {WORD: 1.5}        of words that our own list lacks; or the path of a list in the official form
    noise:
      subject_sd: 0.4            between subjects; `traits` is the share of its variance that all traits have in common
      image_sd: 0.3              between images; `templates` is the share that the templates of a trait have in common
      halo_sd: 0.0               between subjects, times the trait's valence
    mass: {base: 0.98, by: {ATTRIBUTE: {VALUE: -0.3}}}   P(Yes) + P(No), and what a value adds
    first_token: 0.9             share of P(Yes), and of P(No), on the first token of the plain word

Points of several attributes are summed; of an attribute with several values, their mean counts. What a subject adds to
the log odds is the same in every template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge, Le, Len
from pydantic import AllowInfNan, BeforeValidator, Strict

from fp2.extension import FORBID_EXTRA, Fp2Error, check_names, digest, read_options, read_yaml

if TYPE_CHECKING:
    from fp2.methods.dense.traits import TraitList

LEVELS = 10
EVERY_PROBE = "all"
_WORDS = ("seed", "base", "noise", "effects", "refusals", "errors", "refusal_text", "probes")

Name = Annotated[str, BeforeValidator(str)]  # YAML may give one as a number
Number = Annotated[float, Strict(), AllowInfNan(False)]
NotNegative = Annotated[Number, Ge(0)]
Share = Annotated[Number, Ge(0), Le(1)]
Numbers = Annotated[dict[Name, Number], BeforeValidator(lambda value: {} if value is None else value)]
Points = Annotated[dict[Name, Numbers], BeforeValidator(lambda value: {} if value is None else value)]
"""attribute -> value -> number."""
T = TypeVar("T")


@dataclass(frozen=True)
class Noise:
    """Standard deviations in levels, and the share of the between-subject variance that probes have in common."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    subject_sd: NotNegative
    image_sd: NotNegative
    shared: Share


@dataclass(frozen=True)
class Rate:
    """A probability: `base`, and what each attribute value adds to it (the sum is clipped to 0 and 1)."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    base: Share = 0.0
    by: Points = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorRate:
    """A `Rate` whose base is called `rate`."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    rate: Share = 0.0
    by: Points = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeTruth:
    """The questions of a probe, its sentences from the lowest level to the highest, and its refusal."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    sentences: Annotated[tuple[Name, ...], Len(LEVELS, LEVELS)]
    texts: tuple[Name, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True)
class YesNoNoise:
    """Standard deviations in log odds, and the shares of variance that traits or templates have in common."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    subject_sd: NotNegative
    image_sd: NotNegative
    halo_sd: NotNegative
    traits: Share
    templates: Share


@dataclass(frozen=True)
class YesNoTruth:
    """The `yes_no` part of a truth; keys as in the module's docstring."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    base: Number
    traits: Numbers
    templates: Numbers
    trait_sd: NotNegative
    item_sd: NotNegative
    effects: Points
    trait_effects: dict[Name, Points]
    unaffected: frozenset[Name]
    valences: Numbers
    noise: YesNoNoise
    mass: Rate
    first_token: Share

    @cached_property
    def valence_of(self) -> dict[str, float]:
        """The valence of each word: of our own list, if `valences` does not give another."""
        from fp2.methods.dense.traits import own_traits

        return _valences(own_traits()) | dict(self.valences)

    @property
    def needs_valence(self) -> bool:
        """Whether the answer to a trait depends on its valence."""
        return bool(self.effects) or self.noise.halo_sd > 0


@dataclass(frozen=True)
class PlantedTruth:
    """A checked truth.

    Attributes
    ----------
    probe_of : Mapping
        The exact text of a question -> its probe.
    yes_no_spec : Mapping
        `yes_no` as it was stated.
    digest : str
        Of what answers in words follow from.
    """

    seed: int
    base: float
    noise: Noise
    sentences: Mapping[str, tuple[str, ...]]
    refusal_texts: Mapping[str, str]
    probe_of: Mapping[str, str]
    effects: Mapping[str, Points]
    refusals: Mapping[str, Rate]
    errors: Rate
    choices: Mapping[str, Points]
    yes_no: YesNoTruth
    yes_no_spec: Mapping[str, Any]
    digest: str

    @property
    def yes_no_digest(self) -> str:
        """The digest of what yes/no answers follow from."""
        return digest({**self.yes_no_spec, "valences": self.yes_no.valence_of})

    @property
    def tables(self) -> list[Points]:
        """What groups add: to levels, to log odds, and to rates."""
        rates = [*(rate.by for rate in self.refusals.values()), self.errors.by, self.yes_no.mass.by]
        odds = [*self.choices.values(), self.yes_no.effects, *self.yes_no.trait_effects.values()]
        return [*self.effects.values(), *rates, *odds]

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that an effect or a rate names."""
        return frozenset(name for table in self.tables for name in table)

    @property
    def has_effects(self) -> bool:
        """Whether some group adds anything."""
        return any(points for table in self.tables for values in table.values() for points in values.values())


class PointSums:
    """Sums of points over attributes; the mean of a list of values is computed once."""

    def __init__(self) -> None:
        self._means: dict[tuple[int, str, tuple[str, ...]], float] = {}

    def points(self, table: Points, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the points of a subject with `attributes`; `table` must outlive this object."""
        return sum(self._mean(table, name, tuple(attributes.get(name, ()))) for name in table)

    def probability(self, rate: Rate, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the probability for a subject with `attributes`, not clipped."""
        return rate.base + self.points(rate.by, attributes)

    def _mean(self, table: Points, name: str, values: tuple[str, ...]) -> float:
        key = (id(table), name, values)
        if key not in self._means:
            points = [table[name].get(value, 0.0) for value in values]
            self._means[key] = sum(points) / len(points) if points else 0.0
        return self._means[key]


def load_truth(spec: str | Path | Mapping[str, Any] | None = None) -> PlantedTruth:
    """Return the truth of `spec` (a YAML file, a mapping, or None for the neutral one)."""
    is_file = isinstance(spec, (str, Path))
    where = f"{spec}: truth" if is_file else "model.truth"
    default = read_yaml(Path(__file__).with_name("default.yaml"))
    own = read_yaml(Path(str(spec))) if is_file else dict(spec or {})  # type: ignore[arg-type]
    check_names(own, default, "unknown key", where)
    merged = {**default, **own}
    for key in ("noise", "yes_no"):
        merged[key] = {**default[key], **_mapping(own.get(key), f"{where}.{key}")}
    noise = _mapping(merged["yes_no"]["noise"], f"{where}.yes_no.noise")
    merged["yes_no"]["noise"] = {**default["yes_no"]["noise"], **noise}
    probes = _read_each(ProbeTruth, merged["probes"], f"{where}.probes")
    for name in ("effects", "refusals"):
        check_names(
            _mapping(merged[name], f"{where}.{name}"), (*probes, EVERY_PROBE), "unknown probe", f"{where}.{name}"
        )
    errors = _read(ErrorRate, merged["errors"], f"{where}.errors")
    start = _read(_Start, {"seed": merged["seed"], "base": merged["base"]}, where)
    yes_no = _read_yes_no(merged["yes_no"], f"{where}.yes_no")
    probe_of: dict[str, str] = {}
    for name, probe in probes.items():
        for text in probe.texts:
            if probe_of.setdefault(text, name) != name:
                raise Fp2Error(f"the question {text!r} belongs to two probes", where=f"{where}.probes")
    return PlantedTruth(
        seed=start.seed,
        base=start.base,
        noise=_read(Noise, merged["noise"], f"{where}.noise"),
        sentences={name: probe.sentences for name, probe in probes.items()},
        refusal_texts={name: probe.refusal or str(merged["refusal_text"]) for name, probe in probes.items()},
        probe_of=probe_of,
        effects=_read_each(Points, merged["effects"], f"{where}.effects"),
        refusals=_read_each(Rate, merged["refusals"], f"{where}.refusals"),
        errors=Rate(errors.rate, errors.by),
        choices=_read_each(Points, merged["choices"], f"{where}.choices"),
        yes_no=yes_no,
        yes_no_spec=merged["yes_no"],
        digest=digest({key: merged[key] for key in _WORDS}),
    )


@dataclass(frozen=True)
class _Start:
    """Where levels start, and the seed."""

    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    seed: Annotated[int, Strict()]
    base: Annotated[Number, Ge(0), Le(LEVELS - 1)]


def _read_yes_no(spec: Mapping[str, Any], where: str) -> YesNoTruth:
    """Return the `yes_no` part."""
    given = spec["valences"]
    if isinstance(given, str):
        from fp2.methods.dense.traits import read_traits

        given = _valences(read_traits(Path(given).expanduser()))
    sections = {
        "valences": _mapping(given, f"{where}.valences"),
        "noise": _read(YesNoNoise, spec["noise"], f"{where}.noise"),
        "mass": _read(Rate, spec["mass"], f"{where}.mass"),
    }
    return _read(YesNoTruth, {**spec, **sections}, where)


def _valences(words: TraitList) -> dict[str, float]:
    return {trait.word: trait.valence for trait in words.traits if trait.valence is not None}


def _read(kind: type[T], value: Any, where: str) -> T:
    return read_options(kind, _mapping(value, where), where)


def _read_each(kind: type[T], table: Any, where: str) -> dict[str, T]:
    return {name: _read(kind, value, f"{where}.{name}") for name, value in _mapping(table, where).items()}


def _mapping(value: Any, where: str) -> dict[str, Any]:
    """Return a mapping with its keys as text; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Fp2Error(f"{value!r} is not a mapping", where=where)
    return {str(key): inner for key, inner in value.items()}
