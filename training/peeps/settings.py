"""Every number of the training recipe: seeds, sizes, steps and rates. Nothing depends on the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SIZE = 96
PATCH = 24
MODEL_FOLDER = Path(__file__).resolve().parents[2] / "fp2" / "models" / "peeps_vlm"
WORK_FOLDER = Path(__file__).resolve().parents[2] / "build" / "train-peeps"


@dataclass(frozen=True)
class Seeds:
    """One seed per purpose; people of the last two are never trained on, and `report` never chose anything."""

    people: int = 11
    pairs: int = 12
    weights: int = 13
    vision: int = 14
    language: int = 15
    validation: int = 7001
    report: int = 9001


@dataclass(frozen=True)
class Sizes:
    """How many pictures are drawn."""

    people: int = 40_000
    pairs: int = 16_000
    validation: int = 600
    report: int = 1_000


@dataclass(frozen=True)
class Recipe:
    """The whole recipe."""

    seeds: Seeds = field(default_factory=Seeds)
    sizes: Sizes = field(default_factory=Sizes)
