"""The simulator's answers to yes/no questions, for many people and questions at once.

The log odds of Yes are a sum (see `planted_yes_no_truth`), p_yes = mass x logistic(log odds) and p_no = mass - p_yes.
As in `planted`, all chance comes from hashes: of names, mixed for a pair of names by the finaliser of SplitMix64
(Steele, Lea & Flood 2014), so that an answer depends on nobody else and 2.5 million take seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.engines.planted.truth_reading import PointSums
from fp2.tables import Question

if TYPE_CHECKING:
    from fp2.engines.planted.truth import PlantedTruth
    from fp2.engines.planted.yes_no_truth import YesNoTruth

METHOD = "planted_yes_no/1"
COLUMNS = ("p_yes", "p_no", "p_yes_first_token", "p_no_first_token", "p_yes_norm", "mass", "logit_difference")

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]


class Seen(NamedTuple):
    """One picture of one person."""

    subject_id: str
    image_id: str
    attributes: Mapping[str, Sequence[str]]


def draw_yes_no(
    truth: PlantedTruth, pictures: Sequence[Seen], questions: Sequence[Question]
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the numbers of every answer: column -> (n_pictures, n_questions), NaN where the answer failed.

    A question without a `trait` is a trait of its own, named by its text. Columns are those of a yes/no answer
    (`fp2.engines.base.Answer`).
    """
    from scipy.special import expit

    planted = truth.yes_no
    sums = PointSums()
    log_odds = _log_odds(truth, pictures, questions, sums)
    mass = np.clip([sums.rate(planted.mass, seen.attributes) for seen in pictures], 0.0, 1.0)[:, None]
    failure = np.array([sums.rate(truth.errors, seen.attributes) for seen in pictures])[:, None]
    if truth.errors.base or truth.errors.by:
        failed = _uniform(_pairs(_of_images(truth, pictures, "failure"), _of_texts(truth, questions))) < failure
        log_odds[failed] = np.nan
    for place, question in enumerate(questions):
        if unknown_trait(planted, question):
            log_odds[:, place] = np.nan
    yes = expit(log_odds)
    p_yes, p_no = mass * yes, mass * (1.0 - yes)
    whole = np.where(np.isnan(log_odds), np.nan, mass)
    first = planted.first_token
    columns = (p_yes, p_no, first * p_yes, first * p_no, yes, whole, log_odds)
    return {name: values.astype(np.float32) for name, values in zip(COLUMNS, columns, strict=True)}


def unknown_trait(planted: YesNoTruth, question: Question) -> str | None:
    """Return why a question cannot be answered: its valence would matter and is not known. None if it can."""
    word = _word(question)
    if not planted.needs_valence or word in planted.unaffected or word in planted.valences:
        return None
    return f"the simulator knows no valence of the trait {word[:80]!r}"


def _log_odds(truth: PlantedTruth, pictures: Sequence[Seen], questions: Sequence[Question], sums: PointSums) -> Floats:
    planted = truth.yes_no
    words = [_word(question) for question in questions]
    valence = np.array([planted.valences.get(word, 0.0) for word in words])
    moved = valence * np.array([word not in planted.unaffected for word in words])
    group = np.array([sums.of(planted.effects, seen.attributes) for seen in pictures])
    found: Floats = (
        _items(truth, questions, words) + np.outer(group, moved) + _noise(truth, pictures, questions, valence)
    )
    for word, table in planted.trait_effects.items():
        places = [place for place, other in enumerate(words) if other == word]
        if places:
            found[:, places] += np.array([sums.of(table, seen.attributes) for seen in pictures])[:, None]
    return found


def _items(truth: PlantedTruth, questions: Sequence[Question], words: Sequence[str]) -> Floats:
    """Return the log odds (1, n_questions) that are the same for everybody."""
    planted = truth.yes_no
    of_word = _normal(_keys(truth, [("trait", word) for word in words]))
    of_item = _normal(_keys(truth, [("item", q.template, word) for q, word in zip(questions, words, strict=True)]))
    base = [
        planted.base + planted.traits.get(word, planted.trait_sd * drawn) + planted.templates.get(q.template, 0.0)
        for q, word, drawn in zip(questions, words, of_word, strict=True)
    ]
    found: Floats = (np.array(base) + planted.item_sd * of_item)[None, :]
    return found


def _noise(truth: PlantedTruth, pictures: Sequence[Seen], questions: Sequence[Question], valence: Floats) -> Floats:
    """Return what people (the same in every template) and pictures add: (n_pictures, n_questions)."""
    planted = truth.yes_no
    subjects = _keys(truth, [("person", seen.subject_id) for seen in pictures])
    images = _of_images(truth, pictures, "image")
    traits = _keys(truth, [("trait", _word(question)) for question in questions])
    found: Floats = np.zeros((len(pictures), len(questions)))
    common, single = planted.traits_share, 1 - planted.traits_share
    if planted.subject_sd:
        found += planted.subject_sd * np.sqrt(common) * _normal(subjects)[:, None]
        found += planted.subject_sd * np.sqrt(single) * _normal(_pairs(subjects, traits))
    if planted.halo_sd:
        found += (
            planted.halo_sd * _normal(_keys(truth, [("halo", seen.subject_id) for seen in pictures]))[:, None] * valence
        )
    common, single = planted.templates_share, 1 - planted.templates_share
    if planted.image_sd:
        found += planted.image_sd * np.sqrt(common) * _normal(_pairs(images, traits))
        found += planted.image_sd * np.sqrt(single) * _normal(_pairs(images, _of_texts(truth, questions)))
    return found


def _word(question: Question) -> str:
    return question.trait or question.text


def _of_images(truth: PlantedTruth, pictures: Sequence[Seen], what: str) -> Keys:
    return _keys(truth, [(what, seen.subject_id, seen.image_id) for seen in pictures])


def _of_texts(truth: PlantedTruth, questions: Sequence[Question]) -> Keys:
    return _keys(truth, [("text", question.text) for question in questions])


def _keys(truth: PlantedTruth, names: Sequence[tuple[str, ...]]) -> Keys:
    """Return 64 bits per name, decided by the seed and the name."""
    head = f"{METHOD}\x1f{truth.seed}"
    data = b"".join(
        hashlib.blake2b("\x1f".join((head, *name)).encode("utf-8", "replace"), digest_size=8).digest() for name in names
    )
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _pairs(rows: Keys, columns: Keys) -> Keys:
    """Return 64 bits per pair of a row and a column: (n_rows, n_columns)."""
    return _mixed(_mixed(rows)[:, None] + columns[None, :])


def _mixed(keys: Keys) -> Keys:
    """Return the keys after SplitMix64's finaliser."""
    found = keys + np.uint64(0x9E3779B97F4A7C15)
    found ^= found >> np.uint64(30)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found *= np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found


def _uniform(keys: Keys) -> Floats:
    """Return numbers strictly between 0 and 1."""
    return ((keys >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _normal(keys: Keys) -> Floats:
    """Return standard normal numbers by the inverse distribution function."""
    from scipy.special import ndtri

    numbers: Floats = ndtri(_uniform(keys))
    return numbers
