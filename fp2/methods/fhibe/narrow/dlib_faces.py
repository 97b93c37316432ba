"""dlib's face embedding (a ResNet trained on three million faces) of the annotated face box; extra `[narrow]`.

dlib's own face detector is run as well: the embedding of what it does not detect as a face means little, and if that is
so for most people, verification is not measurable.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from fp2.extension import Fp2Error, Range, read_options
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec
from fp2.methods.fhibe.narrow.predictions import Prediction

if TYPE_CHECKING:
    import numpy.typing as npt

    from fp2.extension import Config

_LANDMARKS = "shape_predictor_5_face_landmarks.dat"
_EMBEDDING = "dlib_face_recognition_resnet_model_v1.dat"


def installed() -> bool:
    """Return whether dlib and its models are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("dlib", "face_recognition_models"))


@dataclass(frozen=True)
class DlibOptions:
    """`jitters`: how many randomly distorted copies of a face are averaged; 0: the face itself."""

    jitters: Annotated[int, Range(0, 1000)] = 0


class DlibFaces:
    """Embeddings of 128 numbers; its author takes two faces within a Euclidean distance of 0.6 as one person's."""

    tasks: ClassVar[tuple[str, ...]] = ("face_verification",)
    similarity: ClassVar[str] = "euclidean"

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        where = f"narrow model {spec.name}"
        self._jitters = read_options(DlibOptions, spec.options, where).jitters
        if not installed():
            fix = "Install the extra: pip install 'fp2[narrow]'"
            raise Fp2Error("dlib or its models are not installed", where=where, fix=fix)
        self._loaded: tuple[Any, Any, Any] | None = None
        self._detector: Any = None

    def identity(self) -> dict[str, Any]:
        """Return the versions of the code and of the package with the weights."""
        model = f"face-recognition-models=={version('face-recognition-models')}"
        return {"model": model, "family": "dlib", "dlib": version("dlib-bin"), "jitters": self._jitters, "method": 2}

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return an embedding of every face with a box; its score is 0 if dlib's detector detects no face there."""
        pixels = np.ascontiguousarray(np.asarray(shown.image))
        if self._detector is None:  # creating it takes longer than an image
            self._detector = self._models()[0].get_frontal_face_detector()
        faces = [(face.left() + face.width() / 2, face.top() + face.height() / 2) for face in self._detector(pixels, 0)]
        return [
            Prediction(
                "",
                subject_id=person.subject_id,
                score=float(any(x <= u <= x + w and y <= v <= y + h for u, v in faces)),
                embedding=self.embed(pixels, (x, y, w, h)),
            )
            for person, box in zip(shown.people, shown.boxes, strict=True)
            if box is not None
            for x, y, w, h in (box,)
        ]

    def embed(self, pixels: npt.NDArray[np.uint8], box: tuple[float, float, float, float]) -> npt.NDArray[np.float64]:
        """Return the embedding of the face in a box (x, y, width, height) of an RGB image."""
        dlib, landmarks, network = self._models()
        x, y, width, height = box
        rectangle = dlib.rectangle(round(x), round(y), round(x + width) - 1, round(y + height) - 1)
        return np.array(network.compute_face_descriptor(pixels, landmarks(pixels, rectangle), self._jitters))

    def close(self) -> None:
        """Release the models."""
        self._loaded = self._detector = None

    def _models(self) -> tuple[Any, Any, Any]:
        if self._loaded is None:
            dlib = importlib.import_module("dlib")
            # face_recognition_models cannot be imported without setuptools; its files are enough
            spec = importlib.util.find_spec("face_recognition_models")
            assert spec is not None
            assert spec.submodule_search_locations
            folder = Path(spec.submodule_search_locations[0]) / "models"
            landmarks = dlib.shape_predictor(str(folder / _LANDMARKS))
            self._loaded = (dlib, landmarks, dlib.face_recognition_model_v1(str(folder / _EMBEDDING)))
        return self._loaded
