"""People who are given to the Python interface as a DataFrame, with paths of images or images in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fp2.data.base import DataOptions, Dataset, DataSource, LoadContext, Required
from fp2.errors import Fp2Error
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

NAME = "frame"
IMAGES = Path("hf") / "given"
"""Below `paths.data`: images that were given in memory; a purge deletes them."""


@dataclass(frozen=True, kw_only=True)
class FrameOptions(DataOptions):
    """`content` is the digest of the people, which stands for the DataFrame in the config."""

    content: Annotated[str, Required("the digest of a DataFrame", "DIGEST")]


class Frame(DataSource[FrameOptions]):
    """Stands in a config for a DataFrame: it cannot be loaded from the config."""

    Options = FrameOptions

    def load(self, context: LoadContext) -> Dataset:
        """Raise: a config does not hold the people."""
        message = "the people are a DataFrame, which a config does not hold"
        raise Fp2Error(
            message, where="data", fix="Call fp2.evaluate with the DataFrame again, or write it to a CSV file"
        )


def dataset_of(
    frame: pd.DataFrame,
    folder: Path,
    columns: Mapping[str, str] | None = None,
    image_root: Path | None = None,
    *,
    found: bool = True,
) -> tuple[Dataset, str]:
    """Return a DataFrame as a data set, and the digest of its people.

    Parameters
    ----------
    frame : DataFrame
        One row per person in an image: `image` (a path, or a PIL image), perhaps `subject`, and attributes.
    folder : Path
        Where images in memory are written.
    columns : mapping, optional
        Our names to the frame's columns, as in `fp2.data.readers.table.load_table`; by default every column whose name
        can be one of ours.
    image_root : Path, optional
        The folder that image paths start from; the current one by default.
    found : bool
        Whether any of the images must exist.
    """
    from fp2.data.readers.table import can_be_name, frame_people
    from fp2.hashing import digest

    names = [str(name) for name in frame.columns]
    ignored = [] if columns else [name for name in names if not can_be_name(name)]
    columns = dict(columns or {name: name for name in names if can_be_name(name)})
    root = (image_root or Path.cwd()).expanduser().absolute()
    if "image" in columns and columns["image"] in frame.columns:
        image = columns["image"]
        frame = frame.assign(**{image: [_path(cell, folder) for cell in frame[image]]})
    dataset = frame_people(frame, columns, root, Path(NAME), found=found)
    if ignored:
        listed = ", ".join(map(repr, ignored[:5])) + (", ..." if len(ignored) > 5 else "")
        note = f"{plural(len(ignored), 'column')} without the name of an attribute ignored: {listed} (see `columns`)"
        dataset = replace(dataset, notes=(*dataset.notes, note))
    people = dataset.people
    described = people.drop(columns="image_path")
    return dataset, digest(
        [list(described.columns), [[str(cell) for cell in row] for row in described.itertuples(index=False)]]
    )


def _path(cell: Any, folder: Path) -> Any:
    """Return the path of an image: of one in memory, where it was written as PNG under the digest of its pixels."""
    from PIL import Image

    from fp2.data.pixels import pixel_sha256

    if not isinstance(cell, Image.Image):
        return cell
    rgb = cell.convert("RGB")
    path = folder.absolute() / f"{pixel_sha256(rgb)}.png"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        rgb.save(path)
    return str(path)
