"""A data set: tiles of one colour, whose "subjects" belong to one of two teams. Nobody is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from fp2.extension import DataOptions, Dataset, DataSource, LoadContext, Local, people_table

TEAMS = {"warm": (220, 120, 60), "cool": (60, 120, 220)}
"""Team -> mean colour (RGB) of its tiles."""
SIDE = 16


@dataclass(frozen=True, kw_only=True)
class TilesOptions(DataOptions):
    """The options of `data=tiles`; all but `folder`, which is `Local()`, enter the config hash.

    Attributes
    ----------
    n_subjects : int
        Half of them are in each team. It stands for the release: a smaller one lacks the last subjects.
    images_per_subject : int
        Each with noise of its own.
    folder : Path, optional
        Where the tiles are drawn; a folder of the cache by default.
    """

    n_subjects: Annotated[int, Ge(4)] = 40
    images_per_subject: Annotated[int, Ge(1)] = 2
    folder: Annotated[Path | None, Local()] = None


class Tiles(DataSource[TilesOptions]):
    """Tiles are drawn on first use. `has_withdrawals`: `fp2 purge --absent` removes what a release lacks.

    Where a tile is kept stands in a column `private_...`, which no table of a run has.
    """

    Options: ClassVar[type[DataOptions]] = TilesOptions
    has_withdrawals: ClassVar[bool] = True

    def load(self, context: LoadContext) -> Dataset:
        """Return the people table: one row per tile."""
        chosen = self.options
        folder = chosen.folder or context.cache / f"tiles-{chosen.seed}"
        columns: dict[str, list[object]] = {
            name: []
            for name in ("image_id", "subject_id", "image_path", "is_primary", "n_people", "attr_team", "private_shelf")
        }
        with context.progress.steps("Drawing the tiles", chosen.n_subjects) as tick:
            for subject in range(chosen.n_subjects):
                team = list(TEAMS)[subject % len(TEAMS)]
                for image in range(chosen.images_per_subject):
                    path = folder / f"s{subject:04d}_{image}.png"
                    if not path.exists():
                        draw(path, TEAMS[team], seed=[chosen.seed, subject, image])
                    row = (path.stem, f"s{subject:04d}", str(path), True, 1, [team], f"shelf {subject}")
                    for name, value in zip(columns, row, strict=True):
                        columns[name].append(value)
                tick()
        return Dataset(chosen.name, str(chosen.n_subjects), people_table(columns))


def draw(path: Path, colour: tuple[int, int, int], seed: list[int]) -> None:
    """Write a tile: `colour` with normal noise (standard deviation 40 of 255) that is the same for all its pixels."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(seed).normal(0, 40, 3)
    pixel = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.tile(pixel, (SIDE, SIDE, 1))).save(path)
