"""The person's region of every image, and the stimulus that shows it changed, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import BOX, HIDES_PERSON, VARIANT_PARAMETERS, VARIANT_VERSION, Fp2Error
from fp2.methods.fhibe_release.geometry import annotation_path
from fp2.methods.image_variants import images
from fp2.methods.image_variants.regions import PersonLocation, Region

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

    from fp2.extension import Change, PixelDigest, Stimulus, VariantConfig


def by_region(
    stimuli: Sequence[Stimulus],
    people: pd.DataFrame,
    variant: VariantConfig,
    pixels: Mapping[Path, PixelDigest],
    tick: Callable[[int], None],
) -> list[Stimulus]:
    """Return the stimuli in a variant that needs the person's region; `tick` is called with 1 after each.

    Parameters
    ----------
    stimuli : sequence of Stimulus
        The unchanged stimulus of each row of `people`.
    people, variant, pixels, tick
        As of `fp2.data.stimuli.make_stimuli`.
    """
    changed = []
    boxes, faces = (_boxes(people, prefix) for prefix in ("box", "face"))
    masks = people["mask_path"].tolist() if "mask_path" in people else [None] * len(people)
    paths = [Path(path) for path in people["image_path"]]
    rows = zip(stimuli, paths, people["subject_id"], boxes, faces, masks, strict=True)
    for stimulus, path, subject, box, face, mask in rows:
        size = pixels[path].width, pixels[path].height
        location = PersonLocation(path, subject, size, box, face, Path(mask) if mask else None)
        changed.append(stimulus if stimulus.error else _with_variant(stimulus, location, variant))
        tick(1)
    return changed


def _boxes(people: pd.DataFrame, prefix: str) -> list[Any]:
    """Return the box in the columns `<prefix>_x` and so on of each row, or None."""
    names = [f"{prefix}_{side}" for side in "xywh"]
    if not set(names) <= set(people.columns):
        return [None] * len(people)
    rows = people[names].to_numpy(dtype=float).tolist()
    return [None if any(value != value for value in row) else tuple(row) for row in rows]


def _with_variant(stimulus: Stimulus, location: PersonLocation, variant: VariantConfig) -> Stimulus:
    """Return the variant of an image that can be read, or the reason why the data do not allow it."""
    parameters = {name: getattr(variant, name) for name in VARIANT_PARAMETERS[variant.kind]}
    change: Change
    try:
        if variant.kind in ("face_crop", "person_crop"):
            box = location.face() if variant.kind == "face_crop" else location.person()
            corners = images.crop_corners(location.size, box, float(variant.margin or 0))
            where: dict[str, Any] = {"corners": list(corners)}
            change = partial(images.cropped, corners=corners)
        else:
            region = location.region(box=variant.region == BOX)
            where = region.identity()
            change = partial(_apply, kind=variant.kind, region=region, options=parameters)
    except Fp2Error as error:  # the reason is published and must not name the file: its name has the image id
        reason = error.what.replace(str(annotation_path(location.image_path)), "the file")
        return replace(stimulus, variant=variant.kind, error=reason)
    attributes = {} if variant.kind in HIDES_PERSON else stimulus.attributes
    params = {"version": VARIANT_VERSION, **parameters, **where}
    return replace(stimulus, variant=variant.kind, attributes=attributes, params=params, change=change)


def _apply(image: Image.Image, *, kind: str, region: Region, options: Mapping[str, Any]) -> Image.Image:
    if kind == "blurred":
        return images.blurred(image, **region.arguments(), **options)
    function = images.masked if kind == "masked" else images.background_removed
    return function(image, **region.arguments())
