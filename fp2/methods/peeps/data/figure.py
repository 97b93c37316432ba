"""A drawn person and the cues of one image: everything that is visible, and how it is sampled.

A drawn person is an invented figure (Open Peeps, CC0), not an image of a real person. Its attributes are labels of the
generator:

* skin tone: a flat fill with one of FHIBE's six tones, plus one lightness jitter;
* age group: hair tone from black to light grey, and 0 to 4 sets of face lines;
* pronoun: one of three pools of heads and perhaps facial hair, sampled from overlapping mixtures, so that no head
  determines the pronoun;
* region: **only** an abstract backdrop pattern; no physical trait represents a region.

All four are drawn independently of each other, and so is everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fp2.extension import Fp2Error, check_names

TONES: Final = ("I", "II", "III", "IV", "V", "VI")
AGES: Final = ("18-29", "30-39", "40-49", "50-59", "60+")
PRONOUNS: Final = ("she", "he", "they")
REGIONS: Final = ("Africa", "Americas", "Asia", "Europe", "Oceania")

POOLS: Final[dict[str, tuple[str, ...]]] = {
    "F": (
        "long",
        "longCurly",
        "bangs",
        "bangs2",
        "mediumStraight",
        "medium2",
        "medium3",
        "buns",
        "bun2",
        "cornrows2",
    ),
    "M": (
        "flatTop",
        "twists2",
        "short1",
        "short2",
        "short4",
        "short5",
        "pomp",
        "noHair1",
        "noHair3",
        "mohawk",
    ),
    "N": (
        "afro",
        "dreads1",
        "dreads2",
        "twists",
        "bantuKnots",
        "medium1",
        "short3",
        "shaved1",
        "shaved2",
        "mediumBangs3",
    ),
}
HEADS: Final = tuple(head for pool in POOLS.values() for head in pool)
POOL_OF: Final = {head: pool for pool, heads in POOLS.items() for head in heads}
BEARDS: Final = ("chin", "full", "full2", "goatee1", "goatee2", "moustache5")
EXPRESSIONS: Final = ("smile", "smileBig", "calm", "blank", "serious", "solemn", "concerned", "driven")
GLASSES: Final = ("", "glasses3", "glasses2")
N_CLOTHING: Final = 7

# P(pool | pronoun) in the order of POOLS and P(facial hair | pronoun), in the order of PRONOUNS.
POOL_MIXTURE: Final = ((0.70, 0.08, 0.22), (0.06, 0.74, 0.20), (0.30, 0.28, 0.42))
BEARD_RATE: Final = (0.02, 0.45, 0.15)
GLASSES_MIXTURE: Final = (0.60, 0.20, 0.20)

MAX_SHIFT: Final = 0.02
SCALES: Final = (0.92, 0.98)


@dataclass(frozen=True)
class DrawnPerson:
    """The cues of a person that are the same in all images.

    `skin` 0-5 is Fitzpatrick I-VI, `age` indexes AGES, `pronoun` PRONOUNS, `region` REGIONS; `head` is one of HEADS;
    `beard` is one of BEARDS or empty.
    """

    skin: int
    age: int
    pronoun: int
    region: int
    head: str
    beard: str = ""

    @property
    def pool(self) -> str:
        """The pool that the head comes from: F, M or N."""
        return POOL_OF[self.head]


@dataclass(frozen=True)
class Cues(DrawnPerson):
    """Every visible cue of one image of a person.

    In addition to those of the person: `clothing` 0-6; `expression` indexes EXPRESSIONS, `glasses` GLASSES (0 is none);
    `tone` in [-1, 1] shifts the skin fill by up to 3 grey levels; `phase` in [0, 1) moves the backdrop pattern; `dx`
    and `dy` move the figure by a fraction of the image's side; `scale` is the figure's size relative to it.
    """

    clothing: int = 0
    expression: int = 0
    glasses: int = 0
    tone: float = 0.0
    phase: float = 0.0
    dx: float = 0.0
    dy: float = 0.0
    scale: float = 0.95

    def __post_init__(self) -> None:
        limits = {"skin": 6, "age": 5, "pronoun": 3, "region": 5, "clothing": 7, "expression": 8, "glasses": 3}
        for name, limit in limits.items():
            value = getattr(self, name)
            if not 0 <= value < limit:
                raise Fp2Error(f"cue '{name}' is {value}", fix=f"Choose from 0 to {limit - 1}")
        check_names([self.head], HEADS, "no head named")
        check_names([self.beard] if self.beard else [], BEARDS, "no facial hair named")

    @property
    def person(self) -> DrawnPerson:
        """The person of the image, without the cues that change between images."""
        return DrawnPerson(self.skin, self.age, self.pronoun, self.region, self.head, self.beard)


def sample_presentation(pronoun: int, rng: np.random.Generator) -> tuple[str, str]:
    """Return a head and facial hair (or empty) from the mixtures of one pronoun group."""
    pool = list(POOLS)[int(rng.choice(len(POOLS), p=POOL_MIXTURE[pronoun]))]
    head = POOLS[pool][int(rng.integers(len(POOLS[pool])))]
    bearded = float(rng.random()) < BEARD_RATE[pronoun]
    beard = BEARDS[int(rng.integers(len(BEARDS)))]
    return head, beard if bearded else ""


def sample_person(rng: np.random.Generator) -> DrawnPerson:
    """Return a person whose skin tone, age group, pronoun and region are drawn uniformly and independently."""
    skin, age, pronoun, region = (int(rng.integers(n)) for n in (len(TONES), len(AGES), len(PRONOUNS), len(REGIONS)))
    head, beard = sample_presentation(pronoun, rng)
    return DrawnPerson(skin, age, pronoun, region, head, beard)


def sample_image_cues(person: DrawnPerson, rng: np.random.Generator) -> Cues:
    """Return the cues of one image of `person`: clothes, expression, glasses and jitters are sampled independently."""
    return Cues(
        person.skin,
        person.age,
        person.pronoun,
        person.region,
        person.head,
        person.beard,
        clothing=int(rng.integers(N_CLOTHING)),
        expression=int(rng.integers(len(EXPRESSIONS))),
        glasses=int(rng.choice(len(GLASSES), p=GLASSES_MIXTURE)),
        tone=float(rng.uniform(-1.0, 1.0)),
        phase=float(rng.random()),
        dx=float(rng.uniform(-MAX_SHIFT, MAX_SHIFT)),
        dy=float(rng.uniform(-MAX_SHIFT, MAX_SHIFT)),
        scale=float(rng.uniform(*SCALES)),
    )
