"""Facts about images that an analysis can hold constant (`analysis.adjust`): brightness and contrast.

They are added to the people table as attributes with one number, so that they stay with the tables of a run and the
analysis can be repeated without the images.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

FACTS = ("brightness", "contrast")
"""Mean and standard deviation of the luma of the whole image, 0 to 1."""
_SIDE = 256


def with_image_facts(people: pd.DataFrame, wanted: Collection[str]) -> pd.DataFrame:
    """Return the people with an attribute for each image fact of `wanted` that the data set does not have itself.

    An image that cannot be read has no value.
    """
    own = attribute_columns(people)
    names = [name for name in FACTS if name in wanted and name not in own]
    if not names:
        return people
    paths = {path: measure(Path(path)) for path in dict.fromkeys(people["image_path"])}
    out = people.copy()
    for name in names:
        cells = [[f"{paths[path][name]:.4f}"] if paths[path] else [] for path in people["image_path"]]
        out[ATTRIBUTE_PREFIX + name] = cells
    return out


def measure(path: Path) -> dict[str, float]:
    """Return the facts of an image, measured at a side of at most 256 pixels; nothing if it cannot be read."""
    import numpy as np

    from fp2.data.pixels import open_rgb

    try:
        image = open_rgb(path).convert("L")
    except Exception:  # decoders raise many kinds; the image then has no facts
        return {}
    image.thumbnail((_SIDE, _SIDE))
    luma = np.asarray(image, dtype=np.float64) / 255
    return {"brightness": float(luma.mean()), "contrast": float(luma.std())}
