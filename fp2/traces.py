"""Whose picture each planned answer comes from, remembered before it is asked, so that it can be removed with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.config import Config

if TYPE_CHECKING:
    from fp2.data.dataset import Dataset
    from fp2.store.responses import ResponseStore


def register_origins(config: Config, dataset: Dataset, keys: Mapping[str, Sequence[str]], store: ResponseStore) -> None:
    """Remember the people and paths of the pictures that answers are planned for.

    `keys` has, by image id, the response keys (or the contexts of blocks) of what shows the picture.
    """
    from fp2.data.identity import local_salt, salted
    from fp2.store.origins import Origin, register

    people, salt = dataset.people, local_salt(Path(config.paths.state))
    heads = zip(
        people["image_id"], people["image_path"], salted(people["image_id"], salt, "image"),
        salted(people["subject_id"], salt), strict=True,
    )  # fmt: skip
    found = [
        Origin(image, subject, str(Path(path).absolute()), tuple(keys[image_id]))
        for image_id, path, image, subject in heads
        if image_id in keys
    ]
    register(store.connection, store.path, config.data.kind, dataset.release, found)
