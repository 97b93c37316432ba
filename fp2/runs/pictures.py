"""The images of a run on this machine: by their salted keys, and small copies of those that pages may show."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config

_SIDE = 144
"""Pixels of the long side of a copy: about 6 kB."""


def paths_by_key(people: pd.DataFrame, state: Path) -> dict[str, Path]:
    """Return the file of each image of a data set by the image's salted key."""
    from fp2.store.salted_keys import local_salt, salted

    keys = salted(people["image_id"], local_salt(state), "image")
    return {key: Path(path) for key, path in zip(keys, people["image_path"], strict=True)}


def thumbnail(path: Path, side: int) -> bytes:
    """Return an image as JPEG with a long side of at most `side` pixels.

    Raises
    ------
    OSError, ValueError
        If it cannot be read.
    """
    from fp2.data.pixels import open_rgb

    image = open_rgb(path)
    image.thumbnail((side, side))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=88)
    return data.getvalue()


def shown_picture(config: Config) -> Callable[[str], str]:
    """Return a function from the salted key of an image to a small copy, a `data:` URI.

    The copy is empty where the data set does not say that its images may be shown (`DataSource.may_be_shown`), and
    where the image is not here. The data are loaded at the first image only.
    """
    from fp2.data.base import configured_source, load_configured
    from fp2.progress import Progress

    @cache
    def paths() -> Mapping[str, Path]:
        try:
            if not configured_source(config).may_be_shown:
                return {}
            return paths_by_key(load_configured(config, Progress(quiet=True)).people, Path(config.paths.state))
        except Fp2Error:
            return {}

    def picture(key: str) -> str:
        try:
            copy = thumbnail(paths()[key], _SIDE)
        except (KeyError, OSError, ValueError):
            return ""
        return f"data:image/jpeg;base64,{base64.b64encode(copy).decode()}"

    return picture
