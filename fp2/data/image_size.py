"""Images that are resized to a fixed square before a model gets them (`model.image_size`), as published studies did.

The side is one number for all images, or a mapping from subsets of the data set (its attribute `subset`) to sides:
GRAS's scripts resize the AI-Face images only. A model's own processor resizes every image again, as it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fp2.data.stimuli import original_image_id
from fp2.errors import Fp2Error
from fp2.tables import ATTRIBUTE_PREFIX, BLIND, GREY, ImageTask

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

    from fp2.data.stimuli import Change

VERSION = 1  # raise it when a change here can change the pixels that are shown
SUBSET = "subset"
WHERE = "model.image_size"


def check_image_size(size: object) -> None:
    """Raise unless `size` is None, a positive whole number, or a mapping from subsets to such numbers."""
    sides = list(size.values()) if isinstance(size, Mapping) else [size]
    if size is not None and (not sides or not all(type(side) is int and side >= 1 for side in sides)):
        fix = "Give the side in pixels, such as 256, or one for each subset, such as {aiface: 256}"
        raise Fp2Error(f"{size!r} is not a size of images", where=WHERE, fix=fix)


def with_image_size(
    tasks: Sequence[ImageTask],
    people: pd.DataFrame,
    size: int | Mapping[str, int],
    note: Callable[[str], None],
    resample: str | None = None,
) -> tuple[ImageTask, ...]:
    """Return the stimuli, each resized if `size` says so (after its image variant is made).

    Parameters
    ----------
    tasks : sequence of ImageTask
        The distinct stimuli of a plan. Those that show no subject's image (`blind`, `grey`) are not resized.
    people : DataFrame
        The people table; a mapping needs the column `attr_subset`.
    size : int or mapping
        The side in pixels, of all images or by subset; images of other subsets are not resized.
    note : callable
        Called with a line for the user if a subset has no image in the sample.
    resample : str, optional
        The filter; bicubic if None.
    """
    sides = _sides(people, size, note)
    return tuple(_resized(task, sides.get(original_image_id(task.image_id)), resample) for task in tasks)


def _sides(people: pd.DataFrame, size: int | Mapping[str, int], note: Callable[[str], None]) -> dict[str, int]:
    images = people["image_id"].tolist()
    if not isinstance(size, Mapping):
        return dict.fromkeys(images, size)
    if (column := ATTRIBUTE_PREFIX + SUBSET) not in people:
        fix = "Give one side for all images, or null"
        raise Fp2Error("the images of this data set are not in subsets", where=WHERE, fix=fix)
    subsets = people[column].tolist()
    subset_names = {value for values in subsets for value in values}
    for name in sorted(set(size) - subset_names):
        note(f"{WHERE}: no image is of the subset {name!r}; there are {', '.join(sorted(subset_names)) or 'none'}")
    return {image: size[v] for image, values in zip(images, subsets, strict=True) for v in values if v in size}


def _resized(task: ImageTask, side: int | None, resample: str | None) -> ImageTask:
    if side is None or task.variant in (BLIND, GREY):
        return task
    resized = {"version": VERSION, "side": side} | ({} if resample is None else {"resample": resample})
    params = {**task.variant_params, "resized": resized}
    change = partial(_resize, side=side, resample=resample, first=task.change)
    return replace(task, variant_params=params, change=change)


def _resize(image: Image.Image, *, side: int, resample: str | None, first: Change | None) -> Image.Image:
    from PIL.Image import Resampling

    changed = image if first is None else first(image)
    return changed.convert("RGB").resize((side, side), Resampling[(resample or "bicubic").upper()])
