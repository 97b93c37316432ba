"""The simulator's answers in words.

The level of an answer is `clip(floor(base + points + subject noise + image noise + 1/2), 0, 9)`, and the answer is the
probe's sentence of that level. All random numbers are hashes of (seed, subject, image, question text): an answer does
not depend on order, batches or other subjects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.engines.planted.truth import EVERY_PROBE, LEVELS, PlantedTruth, Points, PointSums, Rate

TEXT_METHOD = "planted/1"
_NO_RATE = Rate()
_NO_POINTS: Points = {}

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint64]


class Case(NamedTuple):
    """One question about one image of one subject."""

    subject_id: str
    image_id: str
    text: str
    attributes: Mapping[str, Sequence[str]]


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
    uniforms = _uniforms(truth.seed, [("image", case.subject_id, case.image_id, case.text) for case in cases])
    noise = _subject_noise(truth, cases) + truth.noise.image_sd * normal(uniforms[:, 0])
    levels = np.clip(np.floor(truth.base + points + noise + 0.5), 0, LEVELS - 1).astype(np.int64)
    refused, failed = uniforms[:, 1] < refusal, uniforms[:, 2] < failure
    return [
        _text(truth, case.text, probe, int(level), bool(no), bool(bad))
        for case, probe, level, no, bad in zip(cases, probes, levels, refused, failed, strict=True)
    ]


def hashed(head: str, name: Sequence[str]) -> bytes:
    """Return 32 bytes that depend on `head` and `name`."""
    return hashlib.blake2b("\x1f".join((TEXT_METHOD, head, *name)).encode("utf-8", "replace"), digest_size=32).digest()


def uniform(bits: Bits) -> Floats:
    """Return uniform numbers strictly between 0 and 1 from the upper 53 of 64 random bits."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normal(uniforms: Floats) -> Floats:
    """Return standard normal numbers by inverse transform sampling."""
    from scipy.special import ndtri

    numbers: Floats = ndtri(uniforms)
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


def _subject_noise(truth: PlantedTruth, cases: Sequence[Case]) -> Floats:
    """Return the offset of each subject: a part common to all questions, and one for each question."""
    common = _normal_by_name(truth.seed, [("person", case.subject_id) for case in cases])
    single = _normal_by_name(truth.seed, [("person", case.subject_id, case.text) for case in cases])
    shared = truth.noise.shared
    mixed: Floats = truth.noise.subject_sd * (np.sqrt(shared) * common + np.sqrt(1 - shared) * single)
    return mixed


def _normal_by_name(seed: int, names: Sequence[tuple[str, ...]]) -> Floats:
    """Return a standard normal number for each name, equal for equal names; each name is hashed once."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    numbers = normal(_uniforms(seed, list(places))[:, 0])
    return numbers[[places[name] for name in names]]


def _uniforms(seed: int, names: Sequence[tuple[str, ...]]) -> Floats:
    """Return (n, 4) independent uniform numbers strictly between 0 and 1, by `seed` and name."""
    data = b"".join(hashed(str(seed), name) for name in names)
    return uniform(np.frombuffer(data, dtype="<u8").reshape(-1, 4))
