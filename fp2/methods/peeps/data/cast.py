"""The subjects and images of the drawn people: single images, pairs and counterfactual sets, all from the seed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fp2.methods.peeps.data.figure import (
    AGES,
    POOLS,
    PRONOUNS,
    REGIONS,
    TONES,
    Cues,
    DrawnPerson,
    sample_image_cues,
    sample_person,
    sample_presentation,
)
from fp2.methods.peeps.data.spec import TWIN_ATTRIBUTES, PeepsSpec

# Years in each age group; FHIBE's oldest subject is 75.
YEARS = ((18, 29), (30, 39), (40, 49), (50, 59), (60, 75))


@dataclass(frozen=True)
class Subject:
    """A drawn person with a subject id and an age in years."""

    subject_id: str
    person: DrawnPerson
    years: int


@dataclass(frozen=True)
class Appearance:
    """One subject in one image; `right` is the position in an image of two people."""

    subject_id: str
    cues: Cues
    years: int
    is_primary: bool = True
    right: bool = False


@dataclass(frozen=True)
class ImagePlan:
    """An image to be drawn, of one or two people; `set_id` and `set_attribute` are those of a counterfactual set."""

    image_id: str
    people: tuple[Appearance, ...]
    set_id: str = ""
    set_attribute: str = ""

    @property
    def primary(self) -> Appearance:
        """The primary person, in whose folder the image is."""
        return next(appearance for appearance in self.people if appearance.is_primary)


def _new_id(rng: np.random.Generator) -> str:
    """Return a random identifier in the form of a version 4 UUID."""
    return str(uuid.UUID(bytes=rng.bytes(16), version=4))


def _years(group: int, rng: np.random.Generator) -> int:
    """Return an age in years, uniform within its group."""
    first, last = YEARS[group]
    return int(rng.integers(first, last + 1))


def _balanced(n_values: int, n: int, rng: np.random.Generator) -> list[int]:
    """Return `n` values in random order, with counts that differ by at most one."""
    order = rng.permutation(n_values)
    return [int(order[index % n_values]) for index in rng.permutation(n)]


def subjects(n: int, rng: np.random.Generator) -> list[Subject]:
    """Return `n` subjects; each attribute has equal counts and is permuted independently of the others."""
    skins, ages, pronouns, regions = (_balanced(len(values), n, rng) for values in (TONES, AGES, PRONOUNS, REGIONS))
    cast = []
    for skin, age, pronoun, region in zip(skins, ages, pronouns, regions, strict=True):
        person = DrawnPerson(skin, age, pronoun, region, *sample_presentation(pronoun, rng))
        cast.append(Subject(_new_id(rng), person, _years(age, rng)))
    return cast


def _pair(cast: Sequence[Subject], rng: np.random.Generator) -> ImagePlan:
    """Return an image of two subjects of one region (they share a backdrop), in random positions."""
    while True:
        first = cast[int(rng.integers(len(cast)))]
        others = [other for other in cast if other is not first and other.person.region == first.person.region]
        if others:
            break
    second = others[int(rng.integers(len(others)))]
    primary_right = bool(rng.integers(2))
    people = (
        Appearance(first.subject_id, sample_image_cues(first.person, rng), first.years, True, primary_right),
        Appearance(second.subject_id, sample_image_cues(second.person, rng), second.years, False, not primary_right),
    )
    return ImagePlan(_new_id(rng), people)


def plan_people(spec: PeepsSpec) -> list[ImagePlan]:
    """Return the images of a `people` data set: the single images by subject, then the pairs."""
    rng = np.random.default_rng([spec.seed, 0])
    cast = subjects(spec.n_subjects, rng)
    plans = [
        ImagePlan(
            _new_id(rng), (Appearance(subject.subject_id, sample_image_cues(subject.person, rng), subject.years),)
        )
        for subject in cast
        for _ in range(spec.images_per_subject)
    ]
    return plans + [_pair(cast, rng) for _ in range(spec.n_pairs)]


def _variations(attribute: str, cues: Cues, rng: np.random.Generator) -> list[Cues]:
    """Return `cues` once per value of one attribute, with everything else unchanged.

    A pronoun is shown by the head: one from each pool, without facial hair.
    """
    if attribute == "skin_tone":
        return [replace(cues, skin=value) for value in range(len(TONES))]
    if attribute == "age":
        return [replace(cues, age=value) for value in range(len(AGES))]
    if attribute == "region":
        return [replace(cues, region=value) for value in range(len(REGIONS))]
    heads = [pool[int(rng.integers(len(pool)))] for pool in POOLS.values()]
    return [replace(cues, pronoun=value, head=head, beard="") for value, head in enumerate(heads)]


def plan_twins(spec: PeepsSpec) -> list[ImagePlan]:
    """Return the images of a `twins` data set: `n_sets` sets per attribute, each with one subject id."""
    rng = np.random.default_rng([spec.seed, 1])
    plans = []
    for attribute in TWIN_ATTRIBUTES:
        for number in range(spec.n_sets):
            subject_id, base = _new_id(rng), sample_image_cues(sample_person(rng), rng)
            years = _years(base.age, rng)
            for cues in _variations(attribute, base, rng):
                age = years if cues.age == base.age else _years(cues.age, rng)
                person = Appearance(subject_id, cues, age)
                plans.append(ImagePlan(_new_id(rng), (person,), f"{attribute}-{number:03d}", attribute))
    return plans


def plan_images(spec: PeepsSpec) -> list[ImagePlan]:
    """Return every image of the data set, in the order of its table."""
    return plan_people(spec) if spec.kind == "people" else plan_twins(spec)
