"""The models that this harness can run itself on a narrow task: a YAML each, in `conf/narrow` or the user's own.

A model says what it is (`identity`, which the remembered predictions are filed under) and predicts for one picture at
a time. Nothing is loaded before the first picture that nobody remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fp2.errors import Fp2Error, nearest
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.tasks import NarrowTask, narrow_task
from fp2.protocols.narrow.truth import Person

if TYPE_CHECKING:
    from PIL import Image

    from fp2.config import Config

FAMILIES = {
    "detr": ("fp2.protocols.narrow.checkpoints:Detector", ("person_detection",)),
    "deformable_detr": ("fp2.protocols.narrow.checkpoints:Detector", ("person_detection",)),
    "mask2former": ("fp2.protocols.narrow.checkpoints:Segmenter", ("person_segmentation",)),
    "vitpose": ("fp2.protocols.narrow.checkpoints:Poser", ("pose_estimation",)),
    "mediapipe": ("fp2.protocols.narrow.mediapipe:MediaPipe", ("face_detection", "person_segmentation")),
    "dlib": ("fp2.protocols.narrow.dlib_faces:DlibFaces", ("face_verification",)),
}
"""Family -> where its model is, and its tasks."""


@dataclass(frozen=True)
class ModelSpec:
    """One model: what it is called, its task, its family, and where its weights are (families of transformers)."""

    name: str
    task: str
    family: str
    id: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    person: str = "person"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A picture as a model is shown it: its pixels, everyone in it, and the boxes that a task gives to the model.

    `boxes` are (x, y, width, height) in pixels: of the people for a pose, of the faces for an embedding; None where the
    data have none. They are part of what a prediction is remembered under.
    """

    image: Image.Image
    people: Sequence[Person]
    boxes: Sequence[tuple[float, float, float, float] | None] = ()


class NarrowModel(Protocol):
    """A model of one task."""

    def identity(self) -> dict[str, Any]:
        """Return what decides a prediction (JSON values, no paths)."""
        ...

    def predict(self, picture: Picture) -> list[Prediction]:
        """Return the predictions about one picture; `image_id` is filled in by the caller."""
        ...

    def close(self) -> None:
        """Let go of what it holds (memory, a process)."""
        ...


def load_spec(name: str) -> ModelSpec:
    """Return the model that `name` means: a YAML file of `conf/narrow`.

    A path is none of these names: a run's settings would hold a place on this machine, and not what the file says.

    Raises
    ------
    Fp2Error
        If there is none.
    """
    from fp2.config import choices

    known = {file.stem: file for file in choices("narrow").values()}
    if name not in known:
        fix = f"{nearest(name, known)}; a YAML file of your own goes into task.files.model=FILE"
        raise Fp2Error(f"there is no narrow model {name!r}", where="task.options.models", fix=fix)
    return read_spec(known[name])


def read_spec(path: Path) -> ModelSpec:
    """Return the model that a YAML file describes.

    Raises
    ------
    Fp2Error
        If it cannot be read or is no model.
    """
    import yaml

    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise Fp2Error(f"the model file cannot be read: {type(error).__name__}", where=str(path)) from None
    if not isinstance(given, dict):
        raise Fp2Error("the model file holds no settings", where=str(path))
    known = {item.name for item in fields(ModelSpec)}
    for name in given:
        if name not in known:
            raise Fp2Error(f"unknown setting {name!r}", where=str(path), fix=nearest(str(name), known))
    for name in ("name", "task", "family"):
        if not isinstance(given.get(name), str):
            raise Fp2Error(f"{name} is missing", where=str(path))
    for name in ("id", "revision", "dtype", "person"):
        if given.get(name) is not None and not isinstance(given[name], str):
            raise Fp2Error(f"{name} is {given[name]!r}, no text", where=str(path), fix="Write it in quotes")
    for name in ("dtype", "person", "options"):
        if name in given and given[name] is None:
            given.pop(name)
    if not isinstance(given.get("options", {}), Mapping):
        raise Fp2Error(f"options is {given['options']!r}", where=str(path), fix="Write options: {NAME: VALUE}")
    spec = ModelSpec(**given)
    if spec.family not in FAMILIES:
        raise Fp2Error(f"unknown family {spec.family!r}", where=str(path), fix=nearest(spec.family, FAMILIES))
    task, tasks = narrow_task(spec.task, str(path)), FAMILIES[spec.family][1]
    if task.name not in tasks:
        raise Fp2Error(f"{spec.family} does not do {task.name}", where=str(path), fix=f"Its tasks: {', '.join(tasks)}")
    return spec


def number_of(spec: ModelSpec, name: str, value: Any, low: float, high: float, *, whole: bool = False) -> float:
    """Return the value of one of a model's options, a number from `low` to `high`.

    Raises
    ------
    Fp2Error
        If it is something else.
    """
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        where = f"narrow model {spec.name}"
        raise Fp2Error(f"{name} is {value!r}", where=where, fix=f"Give {kind} from {low:g} to {high:g}")
    return value


def build_model(spec: ModelSpec, config: Config) -> tuple[NarrowTask, NarrowModel]:
    """Return the model of a spec, not loaded yet, and its task."""
    import importlib

    module, _, kind = FAMILIES[spec.family][0].partition(":")
    model: NarrowModel = getattr(importlib.import_module(module), kind)(spec, config)
    return narrow_task(spec.task), model
