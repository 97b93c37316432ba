"""What the simulator believes about yes/no questions: log odds of Yes by trait, template, group, person and picture.

Keys of `yes_no` in a truth, each optional:

    base: 0.0                    log odds of Yes, of everybody
    traits: {WORD: 0.7}          what a trait adds; for other traits a normal number is drawn, with SD `trait_sd`
    templates: {T4: -0.3}        what a template adds
    item_sd: 0.2                 SD of what each template adds for each trait, drawn
    effects: {ATTRIBUTE: {VALUE: 0.1}}                 what a group adds, times the trait's valence
    trait_effects: {WORD: {ATTRIBUTE: {VALUE: 0.5}}}   what a group adds for one trait, as it is
    unaffected: [WORD, ...]      planted zeros: traits that `effects` leave alone
    valences: {WORD: 1.5}        of words that our own list lacks; or the path of a list in the official form
    noise:
      subject_sd: 0.4            between people; `traits` is the share of its variance that all traits have in common
      image_sd: 0.3              between pictures; `templates` is the share that the templates of a trait have in common
      halo_sd: 0.0               between people, times the trait's valence
    mass: {base: 0.98, by: {ATTRIBUTE: {VALUE: -0.3}}}   P(Yes) + P(No), and what a value adds
    first_token: 0.9             share of P(Yes), and of P(No), that is on the first token of the plain word

What a person adds is the same in every template; `errors` of the truth make answers fail, as they do for words.
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
from fp2.errors import Fp2Error
from fp2.hashing import digest

_KEYS = (
    "base", "traits", "templates", "trait_sd", "item_sd", "effects", "trait_effects", "unaffected", "valences", "noise",
    "mass", "first_token",
)  # fmt: skip
_NOISE = ("subject_sd", "image_sd", "halo_sd", "traits", "templates")


@dataclass(frozen=True)
class YesNoTruth:
    """The checked `yes_no` part of a truth; keys as in the module's text. `valences` holds our own list's words too."""

    base: float
    traits: Mapping[str, float]
    templates: Mapping[str, float]
    trait_sd: float
    item_sd: float
    effects: Points
    trait_effects: Mapping[str, Points]
    unaffected: frozenset[str]
    valences: Mapping[str, float]
    subject_sd: float
    image_sd: float
    halo_sd: float
    traits_share: float
    templates_share: float
    mass: Rate
    first_token: float
    digest: str

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute that an effect or the mass names."""
        tables = [self.effects, self.mass.by, *self.trait_effects.values()]
        return frozenset(name for table in tables for name in table)

    @property
    def needs_valence(self) -> bool:
        """Whether the answer to a trait depends on its valence."""
        return bool(self.effects) or self.halo_sd > 0


def read_yes_no(spec: Any, where: str) -> YesNoTruth:
    """Return the checked `yes_no` part of a truth that has every key.

    Raises
    ------
    Fp2Error
        For an unknown key or a number out of range.
    """
    spec = read_mapping(spec, "yes_no", where)
    check_known(spec, _KEYS, "key of yes_no", where)
    noise = read_mapping(spec["noise"], "yes_no.noise", where)
    check_known(noise, _NOISE, "yes_no.noise", where)
    numbers = {
        name: read_number(noise[name], f"yes_no.noise.{name}", where, low=0, high=1 if name in _NOISE[3:] else None)
        for name in _NOISE
    }
    mass, valences = read_rate(spec["mass"], "base", "yes_no.mass", where), _valences(spec["valences"], where)
    own = read_mapping(spec["trait_effects"], "yes_no.trait_effects", where)
    return YesNoTruth(
        base=read_number(spec["base"], "yes_no.base", where),
        traits=_numbers(spec["traits"], "yes_no.traits", where),
        templates=_numbers(spec["templates"], "yes_no.templates", where),
        trait_sd=read_number(spec["trait_sd"], "yes_no.trait_sd", where, low=0),
        item_sd=read_number(spec["item_sd"], "yes_no.item_sd", where, low=0),
        effects=read_points(spec["effects"], "yes_no.effects", where),
        trait_effects={word: read_points(table, f"yes_no.trait_effects.{word}", where) for word, table in own.items()},
        unaffected=frozenset(_words(spec["unaffected"], where)),
        valences=valences,
        subject_sd=numbers["subject_sd"],
        image_sd=numbers["image_sd"],
        halo_sd=numbers["halo_sd"],
        traits_share=numbers["traits"],
        templates_share=numbers["templates"],
        mass=mass,
        first_token=read_number(spec["first_token"], "yes_no.first_token", where, low=0, high=1),
        digest=digest({**{key: spec[key] for key in _KEYS}, "valences": valences}),
    )


def _numbers(table: Any, name: str, where: str) -> dict[str, float]:
    return {key: read_number(value, f"{name}.{key}", where) for key, value in read_mapping(table, name, where).items()}


def _words(value: Any, where: str) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Fp2Error(f"yes_no.unaffected should be a list of traits, not {value!r}", where=where)
    return [str(word) for word in value]


def _valences(value: Any, where: str) -> dict[str, float]:
    """Return the valence of each word: our own list's, and over them those of a table or of a list in a file."""
    from fp2.probes.traits import own_traits, read_traits

    found = {trait.word: trait.valence for trait in own_traits().traits if trait.valence is not None}
    if isinstance(value, str):
        listed = read_traits(Path(value).expanduser()).traits
        return found | {trait.word: trait.valence for trait in listed if trait.valence is not None}
    return found | _numbers(value, "yes_no.valences", where)
