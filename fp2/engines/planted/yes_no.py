"""The simulator's answers to yes/no questions, for many subjects and questions at once.

The log odds of Yes are a sum (see `truth`), p_yes = mass x logistic(log odds) and p_no = mass - p_yes. As in `text`,
all random numbers are hashes: of names, and for a pair of names mixed by the finaliser of SplitMix64 (Steele, Lea &
Flood 2014), so that an answer does not depend on other subjects, and 2.5 million take seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.engines.planted.text import Bits, Floats, normal, uniform
from fp2.engines.planted.truth import PlantedTruth, PointSums, YesNoTruth
from fp2.tables import YES_NO_NUMBERS, Question

YES_NO_METHOD = "planted_yes_no/1"


class SubjectImage(NamedTuple):
    """One image of one subject."""

    subject_id: str
    image_id: str
    attributes: Mapping[str, Sequence[str]]


def draw_yes_no(
    truth: PlantedTruth, images: Sequence[SubjectImage], questions: Sequence[Question]
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the numbers of every answer: column -> (n_images, n_questions), NaN where the answer failed.

    A question without a `trait` is a trait of its own, named by its text. The columns are `YES_NO_NUMBERS`.
    """
    from scipy.special import expit

    planted = truth.yes_no
    sums = PointSums()
    log_odds = _log_odds(truth, images, questions, sums)
    mass = np.clip([sums.probability(planted.mass, image.attributes) for image in images], 0.0, 1.0)[:, None]
    failure = np.array([sums.probability(truth.errors, image.attributes) for image in images])[:, None]
    if truth.errors.base or truth.errors.by:
        failed = uniform(_pairs(_of_images(truth, images, "failure"), _of_texts(truth, questions))) < failure
        log_odds[failed] = np.nan
    for place, question in enumerate(questions):
        if unknown_trait(planted, question):
            log_odds[:, place] = np.nan
    yes = expit(log_odds)
    p_yes, p_no = mass * yes, mass * (1.0 - yes)
    total = np.where(np.isnan(log_odds), np.nan, mass)
    first = planted.first_token
    columns = (p_yes, p_no, first * p_yes, first * p_no, yes, total, log_odds)
    return {name: values.astype(np.float32) for name, values in zip(YES_NO_NUMBERS, columns, strict=True)}


def unknown_trait(planted: YesNoTruth, question: Question) -> str | None:
    """Return why a question cannot be answered: its valence is needed and unknown. None if it can."""
    word = _word(question)
    if not planted.needs_valence or word in planted.unaffected or word in planted.valences:
        return None
    return f"the simulator knows no valence of the trait {word[:80]!r}"


def _log_odds(
    truth: PlantedTruth, images: Sequence[SubjectImage], questions: Sequence[Question], sums: PointSums
) -> Floats:
    planted = truth.yes_no
    words = [_word(question) for question in questions]
    valence = np.array([planted.valences.get(word, 0.0) for word in words])
    affected = valence * np.array([word not in planted.unaffected for word in words])
    group = np.array([sums.points(planted.effects, image.attributes) for image in images])
    found: Floats = _items(truth, questions, words) + np.outer(group, affected)
    found += _noise(truth, images, questions, valence)
    for word, table in planted.trait_effects.items():
        places = [place for place, other in enumerate(words) if other == word]
        if places:
            found[:, places] += np.array([sums.points(table, image.attributes) for image in images])[:, None]
    return found


def _items(truth: PlantedTruth, questions: Sequence[Question], words: Sequence[str]) -> Floats:
    """Return the log odds (1, n_questions) that are the same for every subject."""
    planted = truth.yes_no
    of_word = normal(uniform(_keys(truth, [("trait", word) for word in words])))
    items = [("item", question.template, word) for question, word in zip(questions, words, strict=True)]
    of_item = normal(uniform(_keys(truth, items)))
    base = [
        planted.base + planted.traits.get(word, planted.trait_sd * drawn) + planted.templates.get(q.template, 0.0)
        for q, word, drawn in zip(questions, words, of_word, strict=True)
    ]
    found: Floats = (np.array(base) + planted.item_sd * of_item)[None, :]
    return found


def _noise(
    truth: PlantedTruth, images: Sequence[SubjectImage], questions: Sequence[Question], valence: Floats
) -> Floats:
    """Return what subjects (the same in every template) and images add: (n_images, n_questions)."""
    noise = truth.yes_no.noise
    subjects = _keys(truth, [("person", image.subject_id) for image in images])
    of_images = _of_images(truth, images, "image")
    traits = _keys(truth, [("trait", _word(question)) for question in questions])
    found: Floats = np.zeros((len(images), len(questions)))
    if noise.subject_sd:
        found += noise.subject_sd * np.sqrt(noise.traits) * normal(uniform(subjects))[:, None]
        found += noise.subject_sd * np.sqrt(1 - noise.traits) * normal(uniform(_pairs(subjects, traits)))
    if noise.halo_sd:
        halo = normal(uniform(_keys(truth, [("halo", image.subject_id) for image in images])))
        found += noise.halo_sd * halo[:, None] * valence
    if noise.image_sd:
        found += noise.image_sd * np.sqrt(noise.templates) * normal(uniform(_pairs(of_images, traits)))
        texts = _of_texts(truth, questions)
        found += noise.image_sd * np.sqrt(1 - noise.templates) * normal(uniform(_pairs(of_images, texts)))
    return found


def _word(question: Question) -> str:
    return question.trait or question.text


def _of_images(truth: PlantedTruth, images: Sequence[SubjectImage], what: str) -> Bits:
    return _keys(truth, [(what, image.subject_id, image.image_id) for image in images])


def _of_texts(truth: PlantedTruth, questions: Sequence[Question]) -> Bits:
    return _keys(truth, [("text", question.text) for question in questions])


def _keys(truth: PlantedTruth, names: Sequence[tuple[str, ...]]) -> Bits:
    """Return 64 random bits for each name, by the seed and the name."""
    head = f"{YES_NO_METHOD}\x1f{truth.seed}"
    data = b"".join(
        hashlib.blake2b("\x1f".join((head, *name)).encode("utf-8", "replace"), digest_size=8).digest() for name in names
    )
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _pairs(rows: Bits, columns: Bits) -> Bits:
    """Return 64 random bits for each pair of a row and a column: (n_rows, n_columns)."""
    return _mixed(_mixed(rows)[:, None] + columns[None, :])


def _mixed(keys: Bits) -> Bits:
    """Return the keys after SplitMix64's finaliser."""
    found = keys + np.uint64(0x9E3779B97F4A7C15)
    found ^= found >> np.uint64(30)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found *= np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found
