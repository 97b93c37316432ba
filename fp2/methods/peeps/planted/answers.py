"""The simulator's answers, in words and as probabilities of Yes and No, or of options.

Text: the level of an answer is `clip(floor(base + points + subject noise + image noise + 1/2), 0, 9)`, and the answer
is the probe's sentence of that level. All random numbers are hashes of (seed, subject, image, question text, sample):
an answer does not depend on order, batches or other subjects. Samples of one answer differ in the noise of the image.

Yes/no: the log odds of Yes are a sum (see `truth`), p_yes = mass x logistic(log odds) and p_no = mass - p_yes. The
random number of a pair of names is the hashes of both, mixed by the finaliser of SplitMix64 (Steele, Lea & Flood 2014),
so that 2.5 million answers take seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.extension import YES_NO_NUMBERS, FloatArray, Question
from fp2.methods.peeps.planted.truth import EVERY_PROBE, LEVELS, PlantedTruth, Points, PointSums, Rate, YesNoTruth

TEXT_METHOD = "planted/1"
_NO_RATE = Rate()
_NO_POINTS: Points = {}

Bits = npt.NDArray[np.uint64]


class Case(NamedTuple):
    """One question about one image of one subject, and which sample of its answer is drawn."""

    subject_id: str
    image_id: str
    text: str
    attributes: Mapping[str, Sequence[str]]
    sample: int = 0

    @property
    def name(self) -> tuple[str, ...]:
        """What the random numbers of the image are named by; the first sample has those of a single answer."""
        return ("image", self.subject_id, self.image_id, self.text, *([str(self.sample)] if self.sample else []))


class SimulatedText(NamedTuple):
    """A simulated answer: its level (0-9, or -1 without one), and its text or its error."""

    level: int
    text: str | None
    error: str | None


def draw_text(truth: PlantedTruth, cases: Sequence[Case]) -> list[SimulatedText]:
    """Return the simulated answer of each case, in their order."""
    probes = [truth.probe_of.get(case.text) for case in cases]
    sums = PointSums()
    points = np.array([_points(truth, sums, probe, case) for probe, case in zip(probes, cases, strict=True)])
    refusal = np.array([_refusal(truth, sums, probe, case) for probe, case in zip(probes, cases, strict=True)])
    failure = np.array([sums.probability(truth.errors, case.attributes) for case in cases])
    uniforms = _uniforms(truth.seed, [case.name for case in cases])
    # of each subject, a part common to all questions, and one for each question
    common = _normal_by_name(truth.seed, [("person", case.subject_id) for case in cases])
    single = _normal_by_name(truth.seed, [("person", case.subject_id, case.text) for case in cases])
    shared = truth.noise.shared
    noise = truth.noise.subject_sd * (np.sqrt(shared) * common + np.sqrt(1 - shared) * single)
    noise += truth.noise.image_sd * normal(uniforms[:, 0])
    levels = np.clip(np.floor(truth.base + points + noise + 0.5), 0, LEVELS - 1).astype(np.int64)
    refused, failed = uniforms[:, 1] < refusal, uniforms[:, 2] < failure
    return [
        _text(truth, case.text, probe, int(level), bool(no), bool(bad))
        for case, probe, level, no, bad in zip(cases, probes, levels, refused, failed, strict=True)
    ]


def hashed(head: str, name: Sequence[str]) -> bytes:
    """Return 32 bytes that depend on `head` and `name`."""
    return hashlib.blake2b("\x1f".join((TEXT_METHOD, head, *name)).encode("utf-8", "replace"), digest_size=32).digest()


def uniform(bits: Bits) -> FloatArray:
    """Return uniform numbers strictly between 0 and 1 from the upper 53 of 64 random bits."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normal(uniforms: FloatArray) -> FloatArray:
    """Return standard normal numbers by inverse transform sampling."""
    from scipy.special import ndtri

    numbers: FloatArray = ndtri(uniforms)
    return numbers


def _text(truth: PlantedTruth, text: str, probe: str | None, level: int, refused: bool, failed: bool) -> SimulatedText:
    if probe is None:
        return SimulatedText(-1, None, f"the simulator does not know the question {text[:80]!r}")
    if failed:
        return SimulatedText(-1, None, "planted error")
    if refused:
        return SimulatedText(-1, truth.refusal_texts[probe], None)
    return SimulatedText(level, truth.sentences[probe][level], None)


def _points(truth: PlantedTruth, sums: PointSums, probe: str | None, case: Case) -> float:
    """Return the level points of a subject."""
    tables = (truth.effects.get(name, _NO_POINTS) for name in (probe or "", EVERY_PROBE))
    return sum(sums.points(table, case.attributes) for table in tables)


def _refusal(truth: PlantedTruth, sums: PointSums, probe: str | None, case: Case) -> float:
    """Return the probability of a refusal."""
    rates = (truth.refusals.get(name, _NO_RATE) for name in (probe or "", EVERY_PROBE))
    return sum(sums.probability(rate, case.attributes) for rate in rates)


def _normal_by_name(seed: int, names: Sequence[tuple[str, ...]]) -> FloatArray:
    """Return a standard normal number for each name, equal for equal names; each name is hashed once."""
    places = {name: index for index, name in enumerate(dict.fromkeys(names))}
    numbers = normal(_uniforms(seed, list(places))[:, 0])
    return numbers[[places[name] for name in names]]


def _uniforms(seed: int, names: Sequence[tuple[str, ...]]) -> FloatArray:
    """Return (n, 4) independent uniform numbers strictly between 0 and 1, by `seed` and name."""
    data = b"".join(hashed(str(seed), name) for name in names)
    return uniform(np.frombuffer(data, dtype="<u8").reshape(-1, 4))


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
    for index, question in enumerate(questions):
        if unknown_trait(planted, question):
            log_odds[:, index] = np.nan
    yes = expit(log_odds)
    p_yes, p_no = mass * yes, mass * (1.0 - yes)
    total = np.where(np.isnan(log_odds), np.nan, mass)
    first = planted.first_token
    columns = (p_yes, p_no, first * p_yes, first * p_no, yes, total, log_odds)
    return {name: values.astype(np.float32) for name, values in zip(YES_NO_NUMBERS, columns, strict=True)}


CHOICE_METHOD = "planted_choice/1"


def draw_choice(truth: PlantedTruth, image: SubjectImage, question: Question, sums: PointSums) -> list[float] | None:
    """Return the probability of each option, a softmax of what its effects and noise add; None where the answer fails.

    Noise of a subject is the same for an option wherever it stands, that of an image is for each question.
    """
    who, noise = (image.subject_id, image.image_id), truth.yes_no.noise
    keys = _keys(
        truth,
        [
            ("failure", *who, question.text),
            *(("person", who[0], option) for option in question.choices),
            *(("option", *who, question.text, option) for option in question.choices),
        ],
    )
    if uniform(keys[:1])[0] < sums.probability(truth.errors, image.attributes):
        return None
    of_subject, of_image = np.split(normal(uniform(keys[1:])), 2)
    effects = [
        sum(sums.points(truth.choices.get(name, _NO_POINTS), image.attributes) for name in (option, f"#{place}"))
        for place, option in enumerate(question.choices, start=1)
    ]
    odds = np.exp(np.array(effects) + noise.subject_sd * of_subject + noise.image_sd * of_image)
    return [float(p) for p in odds / odds.sum()]


def unknown_trait(planted: YesNoTruth, question: Question) -> str | None:
    """Return why a question cannot be answered: its valence is needed and unknown. None if it can."""
    word = _word(question)
    if not planted.needs_valence or word in planted.unaffected or word in planted.valence_of:
        return None
    return f"the simulator knows no valence of the trait {word[:80]!r}"


def _log_odds(
    truth: PlantedTruth, images: Sequence[SubjectImage], questions: Sequence[Question], sums: PointSums
) -> FloatArray:
    planted = truth.yes_no
    words = [_word(question) for question in questions]
    valence = np.array([planted.valence_of.get(word, 0.0) for word in words])
    affected = valence * np.array([word not in planted.unaffected for word in words])
    group = np.array([sums.points(planted.effects, image.attributes) for image in images])
    found: FloatArray = _items(truth, questions, words) + np.outer(group, affected)
    found += _noise(truth, images, questions, valence)
    for word, table in planted.trait_effects.items():
        places = [index for index, other in enumerate(words) if other == word]
        if places:
            found[:, places] += np.array([sums.points(table, image.attributes) for image in images])[:, None]
    return found


def _items(truth: PlantedTruth, questions: Sequence[Question], words: Sequence[str]) -> FloatArray:
    """Return the log odds (1, n_questions) that are the same for every subject."""
    planted = truth.yes_no
    of_word = normal(uniform(_keys(truth, [("trait", word) for word in words])))
    items = [("item", question.template, word) for question, word in zip(questions, words, strict=True)]
    of_item = normal(uniform(_keys(truth, items)))
    base = [
        planted.base + planted.traits.get(word, planted.trait_sd * drawn) + planted.templates.get(q.template, 0.0)
        for q, word, drawn in zip(questions, words, of_word, strict=True)
    ]
    found: FloatArray = (np.array(base) + planted.item_sd * of_item)[None, :]
    return found


def _noise(
    truth: PlantedTruth, images: Sequence[SubjectImage], questions: Sequence[Question], valence: FloatArray
) -> FloatArray:
    """Return what subjects (the same in every template) and images add: (n_images, n_questions)."""
    noise = truth.yes_no.noise
    subjects = _keys(truth, [("person", image.subject_id) for image in images])
    of_images = _of_images(truth, images, "image")
    traits = _keys(truth, [("trait", _word(question)) for question in questions])
    found: FloatArray = np.zeros((len(images), len(questions)))
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
