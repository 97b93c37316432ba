"""The models that are run on narrow tasks, and their predictions for the images of a data set.

A model is described by a YAML file, in `conf/narrow` (ours or an installed package's) or the user's own, which names
its class. The model names itself (`identity`) and predicts for one image at a time. Nothing is loaded before the first
image whose predictions are not cached.

Predictions are cached image by image (`prediction_cache`), so that an interrupted run continues.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fp2.extension import (
    Fp2Error,
    OptionTable,
    PixelDigest,
    PixelIndex,
    check_members,
    digest,
    load_path,
    nearest,
    open_rgb,
    read_options,
    read_yaml,
    without_path,
)
from fp2.methods.fhibe.narrow.prediction_cache import PredictionCache
from fp2.methods.fhibe.narrow.predictions import Prediction
from fp2.methods.fhibe.narrow.tasks import EMBEDDING, GENERATED, PARSING, POSE, NarrowTask, narrow_task
from fp2.methods.fhibe.narrow.truth import Person, people_by_image

if TYPE_CHECKING:
    from PIL import Image

    from fp2.extension import Config


@dataclass(frozen=True)
class ModelSpec:
    """One model: its name, its task, its class (`target`, an import path), and where its weights are (checkpoints).

    `person` is the name of the class that is kept; `pickled_weights` permits weights that are in `*.bin` files only;
    `options` are those of the model's class.
    """

    name: str
    task: str
    target: str
    id: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    pickled_weights: bool = False
    person: str = "person"
    options: OptionTable = field(default_factory=dict)


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
    """A model of one task, created from its `ModelSpec` and the config without loading weights.

    Attributes
    ----------
    tasks : tuple of str
        The tasks that models of this class can do.
    similarity : {"cosine", "euclidean"}
        How its authors compare two of its embeddings (models without embeddings: cosine).
    """

    tasks: ClassVar[tuple[str, ...]]
    similarity: ClassVar[str]

    def identity(self) -> dict[str, Any]:
        """Return what decides a prediction (JSON values, no paths)."""
        ...

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return the predictions for one image; `image_id` is set by the caller."""
        ...

    def close(self) -> None:
        """Release what it holds (memory, a process)."""
        ...


MEMBERS = ("tasks", "similarity", "identity", "predict", "close")


def load_spec(name: str, where: str = "task.options.models") -> ModelSpec:
    """Return the model of a YAML file of `conf/narrow`.

    A path is not accepted: the settings of a run would have a place on this machine, and not what the file says.
    """
    from fp2.extension import choices

    files = {file.stem: file for file in choices("narrow").values()}
    if name not in files:
        fix = f"{nearest(name, files)}; give a YAML file of your own as task.files.model=FILE"
        raise Fp2Error(f"there is no narrow model {name!r}", where=where, fix=fix)
    return read_spec(files[name])


def identity_spec(name: str) -> ModelSpec | None:
    """Return the model of the option `identity`, whose embeddings compare generated faces with their originals.

    Parameters
    ----------
    name : str
        A face verification model of `conf/narrow`, or `none`.
    """
    if name == "none":
        return None
    where = "task.options.identity"
    spec = load_spec(name, where)
    if narrow_task(spec.task, where).form != EMBEDDING:
        fix = "Choose a model of face_verification"
        raise Fp2Error(f"the model {name!r} does not compute embeddings", where=where, fix=fix)
    return spec


def read_spec(path: Path) -> ModelSpec:
    """Return the model that a YAML file describes."""
    settings = {str(name): value for name, value in read_yaml(path).items() if value is not None}
    spec = read_options(ModelSpec, settings, str(path))
    model, task = _model_class(spec, str(path)), narrow_task(spec.task, str(path))
    if task.form in (PARSING, GENERATED):
        fix = f"Give its predictions: task.files.{task.name}=FILE"
        raise Fp2Error(f"models of {task.name} are not run here", where=str(path), fix=fix)
    if task.name not in model.tasks:
        what = f"{spec.target} has no models of {task.name}"
        raise Fp2Error(what, where=str(path), fix=f"Its tasks: {', '.join(model.tasks)}")
    return spec


def _model_class(spec: ModelSpec, where: str) -> Any:
    """Return the class of a model; raise Fp2Error if it lacks a member of `NarrowModel`."""
    model = load_path(spec.target, where)
    check_members(model, MEMBERS, "a narrow model", where)
    return model


def build_model(spec: ModelSpec, config: Config) -> tuple[NarrowTask, NarrowModel]:
    """Return the task of a spec, and its model, whose weights are not loaded yet."""
    model: NarrowModel = _model_class(spec, f"narrow model {spec.name}")(spec, config)
    return narrow_task(spec.task), model


@dataclass(frozen=True)
class Predicted:
    """Predictions; of how many images they were computed now or cached; image id -> reason of those that failed."""

    predictions: list[Prediction]
    computed: int
    cached: int
    failed: dict[str, str]


def predict_all(
    task: NarrowTask,
    model: NarrowModel,
    people: Sequence[Person],
    store: sqlite3.Connection,
    tick: Callable[[], None] = lambda: None,
    error_budget: float = 0.05,
) -> Predicted:
    """Return the predictions of a model for the images of `people`, computed or cached.

    An image that cannot be read, or on which the model fails, is left out with the reason and tried again by the next
    run. `tick` is called after each other image.
    """
    cache = PredictionCache(store, model.identity(), task.name)
    pixels = PixelIndex(store).digest_many([person.image_path for person in people])
    images = people_by_image(people)
    allowed = error_budget if error_budget > 1 else error_budget * len(images)
    predictions: list[Prediction] = []
    computed = 0
    failed: dict[str, str] = {}
    try:
        for image_id, group in images.items():
            try:
                of_image, new = _predict(task, model, cache, group, pixels[group[0].image_path])
            except Fp2Error:
                raise
            except Exception as error:  # decoders and models raise many kinds; each is an error of this image
                failed[image_id] = f"{type(error).__name__}: {without_path(error, group[0].image_path)}"
                if len(failed) > allowed:
                    what = f"{len(failed)} of {len(images)} images failed, the last with {failed[image_id]}"
                    raise Fp2Error(what, where=f"task {task.name}") from error
            else:
                predictions += [replace(prediction, image_id=image_id) for prediction in of_image]
                computed += new
            tick()
    finally:
        model.close()
    return Predicted(predictions, computed, len(images) - computed - len(failed), failed)


def _predict(
    task: NarrowTask, model: NarrowModel, cache: PredictionCache, group: list[Person], pixels: PixelDigest
) -> tuple[list[Prediction], bool]:
    """Return the predictions for one image, and whether they were computed now."""
    if pixels.sha256 is None:
        raise ValueError(pixels.error)
    path = group[0].image_path
    boxes = [_box(task, person) for person in group] if task.form in (POSE, EMBEDDING) else []
    shown = digest({"pixels": pixels.sha256, "boxes": [None if box is None else list(box) for box in boxes]})
    places = [str(number) for number in range(len(group))]
    numbered = [replace(person, subject_id=index) for person, index in zip(group, places, strict=True)]
    predictions, new = cache.get(shown), False
    if predictions is None:
        predictions, new = model.predict(ImageInput(open_rgb(path), numbered, boxes)), True
        cache.put(shown, path, predictions)
    subjects = {index: person.subject_id for index, person in zip(places, group, strict=True)}
    named = [
        prediction if prediction.subject_id is None else replace(prediction, subject_id=subjects[prediction.subject_id])
        for prediction in predictions
    ]
    return named, new


def _box(task: NarrowTask, person: Person) -> tuple[float, float, float, float] | None:
    """Return the annotated box that the task gives to the model."""
    geometry = person.geometry()
    box = geometry.face_box if task.form == EMBEDDING else geometry.person_box
    if box is None or box.width <= 0 or box.height <= 0:
        return None
    return box.x, box.y, box.width, box.height
