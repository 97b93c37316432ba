"""The random order of the images, and the waves in which they are asked about.

First one image of every subject of a group, then the second ones: another subject says more about a group than another
image of the same one. The order of the subjects is stratified by the groups of all cuts together, so that the first
part t of the images has about the part t of every group. A small group is ahead by the factor that gives it enough
subjects in the first wave, until all of it is asked. A comparison then has at least the part t of its information, and
that grows by no larger a factor than t from look to look: its statistics are at least as correlated as those of the
looks.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fp2.extension import Fp2Error, plural

FIRST, RATIO = 0.06, 1.3
"""The least share of the images in the first wave, and by what the share grows from look to look."""
EARLY = 1.5
"""How many times the fewest subjects of a group that is compared are in the first wave: tests at small levels need more
where scores are skewed and groups vary unequally."""


@dataclass(frozen=True)
class Waves:
    """Who is asked about when.

    Attributes
    ----------
    at : tuple of float
        Least share of a group's images up to each look; the last is 1.
    asked : tuple of float
        Share of all images up to each look.
    wave : mapping
        Subject and image -> number of the wave, from 1.
    groups : mapping
        Cut -> number of its groups that have enough subjects to be compared.
    """

    at: tuple[float, ...]
    asked: tuple[float, ...]
    wave: Mapping[tuple[str, str], int]
    groups: Mapping[str, int]


def _uniform(*words: object) -> float:
    """Return a number in (0, 1) that follows from the words."""
    mark = hashlib.sha256("\x00".join(map(str, words)).encode()).digest()
    return (int.from_bytes(mark[:6], "big") + 0.5) / 2**48


def positions(strata: Mapping[str, object], seed: int) -> dict[str, float]:
    """Return the position of every subject in (0, 1); the subjects of a stratum are evenly spaced, in random order."""
    members = defaultdict(list)
    for subject, stratum in strata.items():
        members[stratum].append(subject)
    return {
        subject: (rank + _uniform(seed, "start", stratum)) / len(subjects)
        for stratum, subjects in members.items()
        for rank, subject in enumerate(sorted(subjects, key=lambda subject: _uniform(seed, "subject", subject)))
    }


def make_waves(
    groups_of: Mapping[str, Mapping[str, Collection[str]]],
    images_of: Mapping[str, Collection[str]],
    seed: int,
    least: int,
) -> Waves:
    """Return the waves.

    Parameters
    ----------
    groups_of : mapping
        Subject -> cut -> the groups that it is in; every subject of the run.
    images_of : mapping
        Subject -> its images.
    seed : int
    least : int
        The fewest subjects of a group that is compared.

    Raises
    ------
    Fp2Error
        If no two groups are large enough, or the first wave would be everybody.
    """
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for subject, cuts in groups_of.items():
        for cut, groups in cuts.items():
            for group in groups:
                members[cut, group].append(subject)
    compared = {key: subjects for key, subjects in members.items() if len(subjects) >= least}
    counts: dict[str, int] = defaultdict(int)
    for cut, _ in compared:
        counts[cut] += 1
    if max(counts.values(), default=0) < 2:
        fix = f"Ask about more people, or lower analysis.min_subjects (now {least})"
        raise Fp2Error("no cut has two groups that can be compared", where="answers.stop", fix=fix)
    strata = {
        subject: tuple((cut, *sorted(groups)) for cut, groups in cuts.items()) for subject, cuts in groups_of.items()
    }
    order, few, most = positions(strata, seed), math.ceil(EARLY * least), max(map(len, images_of.values()))
    share = max(FIRST, few / max(map(len, compared.values())) / most)
    factors: dict[str, float] = {}
    for subjects in compared.values():
        factor = max(1.0, few / (share * most * len(subjects)))
        factors.update((subject, factor) for subject in subjects if factor > factors.get(subject, 0.0))
    least_factor = min(factors.values())  # where all groups are small nobody is ahead: the first wave is larger
    share, ahead = share * least_factor, {subject: factors.get(subject, 0.0) / least_factor or 1.0 for subject in order}
    position = {
        (subject, image): (rank + order[subject]) / most / ahead[subject]
        for subject, images in images_of.items()
        for rank, image in enumerate(sorted(images, key=lambda image: _uniform(seed, "image", image)))
    }
    order = {subject: u / ahead[subject] for subject, u in order.items()}
    early = {subject for subject, u in order.items() if u / most <= share}
    for _, subjects in sorted(compared.items()):
        later = sorted(set(subjects) - early, key=lambda subject: (order[subject], subject))
        early.update(later[: max(0, few - len(subjects) + len(later))])
    in_first = {
        (s, image) for (s, image), p in position.items() if p <= share or (s in early and p * most * ahead[s] < 1)
    }
    images, asked = (Counter(subject for subject, _ in pairs) for pairs in (position, in_first))
    first = min(sum(asked[s] for s in subjects) / sum(images[s] for s in subjects) for subjects in compared.values())
    if first == 1:
        problem = f"the first wave would be all {plural(len(order), 'subject')}: {few} of each group are compared"
        raise Fp2Error(problem, where="answers.stop", fix="Ask about more people, or leave answers.stop out")
    looks = 1 + max(1, math.ceil(math.log(1 / first) / math.log(RATIO)))
    at = tuple(round(first ** (1 - k / (looks - 1)), 6) for k in range(looks))
    wave = {
        key: 1 if key in in_first else next(k for k, t in enumerate(at, 1) if k > 1 and p <= t)
        for key, p in position.items()
    }
    asked_by_look = tuple(sum(number <= k for number in wave.values()) / len(wave) for k in range(1, looks + 1))
    return Waves(at, asked_by_look, wave, dict(counts))
