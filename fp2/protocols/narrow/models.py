"""The models that are run on narrow tasks: a YAML file each, in `conf/narrow` or the user's own.

A model names itself (`identity`, the key of its cached predictions) and predicts for one image at a time. Nothing is
loaded before the first image whose predictions are not cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fp2.errors import Fp2Error, nearest
from fp2.plugins import load_path, read_options
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.tasks import NarrowTask, narrow_task
from fp2.protocols.narrow.truth import Person
from fp2.protocols.option_types import FORBID_EXTRA, Table

if TYPE_CHECKING:
    from PIL import Image

    from fp2.config import Config

FAMILIES = {
    "detr": ("fp2.protocols.narrow.checkpoints:Detector", ("person_detection",)),
    "deformable_detr": ("fp2.protocols.narrow.checkpoints:Detector", ("person_detection",)),
    "mask2former": ("fp2.protocols.narrow.checkpoints:Segmenter", ("person_segmentation",)),
    "vitpose": ("fp2.protocols.narrow.checkpoints:PoseEstimator", ("pose_estimation",)),
    "mediapipe": ("fp2.protocols.narrow.mediapipe:MediaPipe", ("face_detection", "person_segmentation")),
    "dlib": ("fp2.protocols.narrow.dlib_faces:DlibFaces", ("face_verification",)),
}
"""Family -> import path of its models, and its tasks."""


@dataclass(frozen=True)
class ModelSpec:
    """One model: its name, task and family, and where its weights are (families of transformers).

    `person` is the name of the class that is kept; `options` are those of the family.
    """

    name: str
    task: str
    family: str
    id: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    person: str = "person"
    options: Table = field(default_factory=dict)

    __pydantic_config__ = FORBID_EXTRA


@dataclass(frozen=True)
class ImageInput:
    """An image as it is shown to a model: its pixels, the people in it, and the boxes that the task gives to the model.

    `boxes` are (x, y, width, height) in pixels: of the people for a pose, of the faces for an embedding; None where the
    data have none. They are part of the key of cached predictions.
    """

    image: Image.Image
    people: Sequence[Person]
    boxes: Sequence[tuple[float, float, float, float] | None] = ()


class NarrowModel(Protocol):
    """A model of one task."""

    def identity(self) -> dict[str, Any]:
        """Return what decides a prediction (JSON values, no paths)."""
        ...

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the predictions for one image; `image_id` is set by the caller."""
        ...

    def close(self) -> None:
        """Release what it holds (memory, a process)."""
        ...


def load_spec(name: str) -> ModelSpec:
    """Return the model of a YAML file of `conf/narrow`.

    A path is not accepted: the settings of a run would have a place on this machine, and not what the file says.

    Raises
    ------
    Fp2Error
        If there is none of that name.
    """
    from fp2.config import choices

    known = {file.stem: file for file in choices("narrow").values()}
    if name not in known:
        fix = f"{nearest(name, known)}; give a YAML file of your own as task.files.model=FILE"
        raise Fp2Error(f"there is no narrow model {name!r}", where="task.options.models", fix=fix)
    return read_spec(known[name])


def read_spec(path: Path) -> ModelSpec:
    """Return the model that a YAML file describes.

    Raises
    ------
    Fp2Error
        If it cannot be read, or a setting is missing, unknown or of another type.
    """
    import yaml

    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise Fp2Error(f"the model file cannot be read: {type(error).__name__}", where=str(path)) from None
    if not isinstance(given, dict):
        raise Fp2Error("the model file has no settings", where=str(path))
    spec = read_options(ModelSpec, _without_nulls(given), str(path))
    if spec.family not in FAMILIES:
        raise Fp2Error(f"unknown family {spec.family!r}", where=str(path), fix=nearest(spec.family, FAMILIES))
    task, tasks = narrow_task(spec.task, str(path)), FAMILIES[spec.family][1]
    if task.name not in tasks:
        what = f"{spec.family} has no models of {task.name}"
        raise Fp2Error(what, where=str(path), fix=f"Its tasks: {', '.join(tasks)}")
    return spec


def _without_nulls(given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in given.items() if value is not None}


def build_model(spec: ModelSpec, config: Config) -> tuple[NarrowTask, NarrowModel]:
    """Return the task of a spec, and its model, whose weights are not loaded yet."""
    model: NarrowModel = load_path(FAMILIES[spec.family][0], f"narrow model {spec.name}")(spec, config)
    return narrow_task(spec.task), model
