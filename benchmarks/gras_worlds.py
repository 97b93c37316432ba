"""Made-up answers to a GRAS battery of which the truth is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fp2.cuts import Cut
from fp2.methods.dense.traits import Trait
from fp2.methods.gras.answers import GrasAnswers

OFFICIAL = {"gender": 2, "race": 7, "age": 5}
TONES = 10


@dataclass(frozen=True)
class World:
    """How answers come about: 0.5 + 0.1 z + planted effects, z normal.

    subjects: people, each in `images` images. groups: attribute -> number of groups, drawn per subject; `tones` adds
    a separate set of that many people for the skin tone. template_correlation: of the answers to one trait in two
    templates; trait_correlation: of two traits (an image that looks nice looks so in many); subject_correlation: of
    two images of one subject. effects: (attribute, group number, trait numbers, size in P(Yes)).

    sizes: attribute -> subjects per group, in place of equal groups. skew: (a, b), answers expit(a + b z) in place of
    0.5 + 0.1 z: many near 0, few large. In the last group of the first attribute, `images_last` images a subject,
    `spread_last` times the distance of each answer from the mean, and a share `missing_last` of missing answers in
    addition to the share `missing` of all.
    """

    subjects: int = 120
    images: int = 1
    groups: dict[str, int] = field(default_factory=lambda: {"gender": 2, "age": 4})
    tones: int = 0
    traits: int = 20
    templates: int = 5
    template_correlation: float = 0.5
    trait_correlation: float = 0.1
    subject_correlation: float = 0.3
    effects: tuple[tuple[str, int, tuple[int, ...], float], ...] = ()
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    skew: tuple[float, float] | None = None
    images_last: int | None = None
    spread_last: float = 1.0
    missing: float = 0.0
    missing_last: float = 0.0

    @property
    def cuts(self) -> list[Cut]:
        """The attributes."""
        names = [*self.groups, *(["skin_tone"] if self.tones else [])]
        return [Cut(name, (name,)) for name in names]

    def people(self, rng: np.random.Generator) -> pd.DataFrame:
        """Return a people table: groups drawn independently for each attribute, of equal size or of `sizes`."""
        people = self.subjects + self.tones
        codes = {name: self._codes(rng, name) for name in self.groups}
        images = np.full(people, self.images)
        if self.images_last is not None:
            first = next(iter(self.groups))
            images[: self.subjects][codes[first] == self.groups[first] - 1] = self.images_last
        subject = np.repeat(np.arange(people), images)
        n = len(subject)
        table = pd.DataFrame({"image_id": [f"i{k}" for k in range(n)], "subject_id": [f"s{k}" for k in subject]})
        for name, code in codes.items():
            table[f"attr_{name}"] = [[f"{name} {code[s]}"] if s < self.subjects else [] for s in subject]
        if self.tones:
            tone = _balanced(rng, TONES, self.tones) + 1
            labels = [[]] * self.subjects + [[f"MST {k:02d}"] for k in tone]
            table["attr_skin_tone"] = [labels[s] for s in subject]
        return table

    def answers(self, people: pd.DataFrame, rng: np.random.Generator) -> GrasAnswers:
        """Return one model's answers about these people."""
        subject = np.unique(people["subject_id"], return_inverse=True)[1]
        z = self._noise(rng, subject, self.subjects + self.tones)
        y = 0.5 + 0.1 * z if self.skew is None else 1 / (1 + np.exp(-(self.skew[0] + self.skew[1] * z)))
        first = next(iter(self.groups))
        last = np.array([f"{first} {self.groups[first] - 1}" in cell for cell in people[f"attr_{first}"]])
        if self.spread_last != 1.0:
            mean = self._mean()
            y[last] = mean + self.spread_last * (y[last] - mean)
        for name, group, traits, size in self.effects:
            inside = np.array([f"{name} {group}" in cell for cell in people[f"attr_{name}"]])
            y[np.ix_(inside, list(traits))] += size
        if self.missing or self.missing_last:
            y[rng.random(y.shape) < np.where(last, self.missing + self.missing_last, self.missing)[:, None, None]] = (
                np.nan
            )
        words = tuple(Trait(f"trait {k}", "positive" if k % 2 == 0 else "negative") for k in range(self.traits))
        templates = tuple(f"T{k + 1}" for k in range(self.templates))
        ids = (people["image_id"].to_numpy(dtype=object), people["subject_id"].to_numpy(dtype=object))
        return GrasAnswers(*ids, words, templates, {"p_yes_first_token": y.astype(np.float32)})

    def _codes(self, rng: np.random.Generator, name: str) -> np.ndarray:
        """Return the group of each subject in one attribute."""
        if name not in self.sizes:
            return _balanced(rng, self.groups[name], self.subjects)
        return rng.permutation(np.repeat(np.arange(self.groups[name]), self.sizes[name]))

    def _mean(self) -> float:
        """Return the mean answer without effects (Gauss-Hermite quadrature where answers are skewed)."""
        if self.skew is None:
            return 0.5
        z, weight = np.polynomial.hermite_e.hermegauss(60)
        return float((weight / (1 + np.exp(-(self.skew[0] + self.skew[1] * z)))).sum() / weight.sum())

    def true_omega(self) -> float:
        """Return the mean over tests of f^2 / (1 + f^2), f^2 = variance of the group means / variance within."""
        cells = {name: np.zeros((k, self.traits)) for name, k in self.groups.items()}
        for name, group, traits, size in self.effects:
            cells[name][group, list(traits)] += size
        f2 = np.concatenate([means.var(axis=0) / self._within(name) for name, means in cells.items()])
        zeros = np.zeros(self.traits if self.tones else 0)
        return float(np.concatenate([f2 / (1 + f2), zeros]).mean())

    def _within(self, attribute: str) -> np.ndarray:
        """Variance of the answers within a group of `attribute`, per trait: noise and other attributes' effects."""
        out = np.full(self.traits, 0.01)
        for name, k in self.groups.items():
            means = np.zeros((k, self.traits))
            for own, group, traits, size in self.effects:
                if own == name != attribute:
                    means[group, list(traits)] += size
            out += means.var(axis=0)
        return out

    def true_gap(self) -> float:
        """Return the root mean square over tests of max - min of the true group means."""
        gaps = []
        for name, k in self.groups.items():
            means = np.zeros((k, self.traits))
            for own, group, traits, size in self.effects:
                if own == name:
                    means[group, list(traits)] += size
            gaps.append(np.ptp(means, axis=0))
        gaps += [np.zeros(self.traits)] if self.tones else []
        return float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))

    def _noise(self, rng: np.random.Generator, subject: np.ndarray, people: int) -> np.ndarray:
        """Standard normal answers (images, traits, templates) with the correlations asked for."""

        def part(lines: int) -> np.ndarray:
            shape = (lines, self.traits, self.templates)
            a, t = self.trait_correlation, self.template_correlation
            own = np.sqrt(t) * rng.normal(size=(lines, self.traits, 1)) + np.sqrt(1 - t) * rng.normal(size=shape)
            return np.asarray(np.sqrt(a) * rng.normal(size=(lines, 1, 1)) + np.sqrt(1 - a) * own)

        r = self.subject_correlation if self.images > 1 else 0.0
        within = np.sqrt(1 - r) * part(len(subject))
        return within + np.sqrt(r) * part(people)[subject] if r else within


def _balanced(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Return `n` codes below `k` in equal shares, in random order."""
    return rng.permutation(np.arange(n) % k)
