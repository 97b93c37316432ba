"""A data set: tiles of one colour, whose "subjects" belong to one of two teams. Nobody is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from fp2.data.base import DataOptions, Dataset, DataSource, LoadContext, people_table

if TYPE_CHECKING:
    from pathlib import Path

TEAMS = {"warm": (220, 120, 60), "cool": (60, 120, 220)}
"""Team -> mean colour (RGB) of its tiles."""
SIDE = 16


@dataclass(frozen=True, kw_only=True)
class TilesOptions(DataOptions):
    """The options of `data=tiles`; all of them enter the config hash.

    Attributes
    ----------
    n_subjects : int
        Half of them are in each team.
    images_per_subject : int
        Each with noise of its own.
    """

    n_subjects: Annotated[int, Ge(4)] = 40
    images_per_subject: Annotated[int, Ge(1)] = 2


class Tiles(DataSource[TilesOptions]):
    """Tiles are drawn into the cache on first use."""

    Options: ClassVar[type[DataOptions]] = TilesOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the people table: one row per tile."""
        chosen = self.options
        folder = context.cache / f"tiles-{chosen.seed}-{chosen.n_subjects}-{chosen.images_per_subject}"
        columns: dict[str, list[object]] = {
            name: [] for name in ("image_id", "subject_id", "image_path", "is_primary", "n_people", "attr_team")
        }
        with context.progress.steps("Drawing the tiles", chosen.n_subjects) as tick:
            for subject in range(chosen.n_subjects):
                team = list(TEAMS)[subject % len(TEAMS)]
                for image in range(chosen.images_per_subject):
                    path = folder / f"s{subject:04d}_{image}.png"
                    if not path.exists():
                        draw(path, TEAMS[team], seed=[chosen.seed, subject, image])
                    row = (path.stem, f"s{subject:04d}", str(path), True, 1, [team])
                    for name, value in zip(columns, row, strict=True):
                        columns[name].append(value)
                tick()
        return Dataset(chosen.name, None, people_table(columns))


def draw(path: Path, colour: tuple[int, int, int], seed: list[int]) -> None:
    """Write a tile: `colour` with normal noise (standard deviation 40 of 255) that is the same for all its pixels."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(seed).normal(0, 40, 3)
    pixel = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.tile(pixel, (SIDE, SIDE, 1))).save(path)
