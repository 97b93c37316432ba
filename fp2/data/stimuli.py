"""Stimuli: what the model is shown for each row of the people table, that is, an image in one image variant.

The variants `blind`, `grey` and `swapped` are negative controls: a difference between groups that remains there is not
caused by the image of the subject. The response key contains what was shown, so that `swapped` shares its answers with
the original images, and under `blind` and `grey` all subjects share one answer per question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error
from fp2.plugins import VARIANTS, load
from fp2.tables import (
    BLIND,
    GREY,
    IMAGE_B,
    MIRRORED,
    ORIGINAL,
    SECOND,
    SWAPPED,
    VARIANT_PARAMETERS,
    ImageTask,
    Question,
)

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

    from fp2.config import VariantConfig
    from fp2.data.pixels import PixelDigest

VARIANT_VERSION = 1  # of the image variants: raise it when a change here can change the pixels that are shown
GREY_LEVEL = 128
NO_PIXELS = "no picture"
_ITEM = "#item:"

Change = Callable[["Image.Image"], "Image.Image"]
ChangeAll = Callable[..., "list[Stimulus]"]
"""`(stimuli, people, variant, pixels, tick) -> stimuli`: a variant of a package, with arguments of `make_stimuli`."""


@dataclass(frozen=True, slots=True)
class Stimulus:
    """What is shown for one row of the people table, or the reason why nothing can be shown (`error`).

    `image_id` and `subject_id` are those of the image that is shown (under `swapped`, the donor's), not those of the
    row; the other fields are those of `fp2.tables.ImageTask`.
    """

    image_id: str
    subject_id: str
    path: Path
    pixel_sha256: str
    variant: str = ORIGINAL
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    change: Change | None = None
    error: str | None = None
    second: Path | None = None

    def task(self, questions: tuple[Question, ...]) -> ImageTask:
        """Return the task that asks `questions` about the stimulus."""
        return ImageTask(
            self.image_id,
            self.subject_id,
            self.path,
            self.pixel_sha256,
            questions,
            self.variant,
            self.attributes,
            self.params,
            self.change,
            self.second,
        )


def make_stimuli(
    people: pd.DataFrame,
    variant: VariantConfig,
    pixels: Mapping[Path, PixelDigest],
    folder: Path,
    tick: Callable[[int], None] = lambda more: None,
) -> list[Stimulus]:
    """Return the stimulus of each row of `people`, in the order of the rows.

    Parameters
    ----------
    people : DataFrame
        The people table, one row per image.
    variant : VariantConfig
        The image variant.
    pixels : Mapping
        Digest of each image's decoded pixels, by path.
    folder : Path
        Where the grey image is written; no other image is.
    tick : callable
        Called with the number of images done since the last call, for variants that need the person's region.
    """
    if variant.kind == BLIND:
        return [Stimulus(BLIND, BLIND, Path(), NO_PIXELS, BLIND)] * len(people)
    if variant.kind == GREY:
        return [_grey(int(variant.size or 0), folder)] * len(people)
    originals = _originals(people, pixels)
    if variant.kind == ORIGINAL:
        return originals
    if variant.kind == SWAPPED:
        donors = donor_rows(people, int(variant.seed or 0))
        return [originals[donor] for donor in donors]
    change: ChangeAll = load(VARIANTS, variant.kind, "variant.kind")
    return change(originals, people, variant, pixels, tick)


def mirrored(shown: Stimulus) -> Stimulus:
    """Return the stimulus with its image mirrored, under an image id of its own."""
    from PIL import ImageOps

    return replace(
        shown,
        image_id=f"{shown.image_id}#{MIRRORED}",
        variant=MIRRORED,
        params={"version": VARIANT_VERSION},
        change=ImageOps.mirror,
    )


def with_variant_id(shown: Stimulus) -> Stimulus:
    """Return the stimulus under an image id of its own, for runs that show an image in several variants."""
    return replace(shown, image_id=f"{shown.image_id}#{shown.variant}")


def shown_to(shown_id: str, image_id: str) -> str:
    """Return the image id of a stimulus whose questions are those of the item `image_id`, which may show another."""
    return shown_id if original_image_id(shown_id) == image_id else f"{shown_id}{_ITEM}{image_id}"


def original_image_id(image_id: str) -> str:
    """Return the image id of the data set for the image id of a stimulus, which may name a variant and an item too."""
    image_id = image_id.partition(_ITEM)[0]
    head, separator, kind = image_id.rpartition("#")
    return head if separator and kind in (MIRRORED, *VARIANT_PARAMETERS) else image_id


def _originals(people: pd.DataFrame, pixels: Mapping[Path, PixelDigest]) -> list[Stimulus]:
    from fp2.data.pixels import paths_of
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    names = attribute_columns(people)
    cells = [people[ATTRIBUTE_PREFIX + name].tolist() for name in names]
    stimuli = []
    for row, (image_id, subject_id, path) in enumerate(
        zip(people["image_id"], people["subject_id"], paths_of(people["image_path"]), strict=True)
    ):
        pixel, attributes = pixels[path], {name: tuple(column[row]) for name, column in zip(names, cells, strict=True)}
        error = None if pixel.sha256 else (pixel.error or "the image cannot be read").replace(str(path), "the file")
        stimuli.append(Stimulus(image_id, subject_id, path, pixel.sha256 or "", attributes=attributes, error=error))
    return _with_second(stimuli, people[IMAGE_B], pixels) if IMAGE_B in people else stimuli


def _with_second(
    stimuli: Sequence[Stimulus], paths: Iterable[str | None], pixels: Mapping[Path, PixelDigest]
) -> list[Stimulus]:
    """Return the stimuli with the second image of those that have one."""
    from fp2.data.pixels import paths_of

    out = []
    for stimulus, path in zip(stimuli, paths_of(file if isinstance(file, str) else "" for file in paths), strict=True):
        if path.name:
            pixel, error = pixels[path], stimulus.error
            if error is None and not pixel.sha256:
                error = f"second image: {pixel.error}".replace(str(path), "the file")
            stimulus = replace(stimulus, second=path, params={SECOND: pixel.sha256 or ""}, error=error)
        out.append(stimulus)
    return out


def _grey(size: int, folder: Path) -> Stimulus:
    """Return a neutral grey square of `size` pixels, written once into `folder`."""
    import os

    from PIL import Image

    from fp2.data.pixels import pixel_sha256

    image = Image.new("RGB", (size, size), (GREY_LEVEL,) * 3)
    path = folder / f"grey_{size}_{GREY_LEVEL}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        image.save(temporary, format="PNG")
        temporary.replace(path)  # processes that start at once write the same bytes
    except OSError as error:
        raise Fp2Error(f"the grey image cannot be written: {error.strerror}", where=str(path)) from error
    return Stimulus(GREY, GREY, path, pixel_sha256(image), GREY, params={"size": size, "level": GREY_LEVEL})


def donor_rows(people: pd.DataFrame, seed: int) -> list[int]:
    """Return for each row the row of the image that is shown instead, which is always another subject's.

    Subjects are permuted cyclically, in an order that `seed` draws, so that none is mapped to itself. The k-th image of
    a subject is replaced by the k-th image of the donor, cyclically if the donor has fewer. The result depends on the
    seed and on the subjects, not on the order of the rows.
    """
    import numpy as np

    rows: dict[str, list[int]] = {}
    for row in np.argsort(people["image_id"].to_numpy(dtype=str), kind="stable"):
        rows.setdefault(str(people["subject_id"].iloc[int(row)]), []).append(int(row))
    subjects = sorted(rows)
    if len(subjects) < 2:
        raise Fp2Error("images can only be swapped between two subjects or more", where="variant=swapped")
    ring = [subjects[position] for position in np.random.default_rng(seed).permutation(len(subjects))]
    donors = [0] * len(people)
    for subject, donor in zip(ring, [*ring[1:], ring[0]], strict=True):
        for position, row in enumerate(rows[subject]):
            donors[row] = rows[donor][position % len(rows[donor])]
    return donors
