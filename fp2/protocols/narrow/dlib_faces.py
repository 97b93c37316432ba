"""dlib's face embedding (a ResNet trained on three million faces) from the annotated face box; extra `[narrow]`.

dlib's own detector is asked, too, whether it sees a face there: an embedding of what is no face to dlib says nothing,
and where that is so for most people, verification cannot be measured.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.data.fhibe.geometry import annotation_path, read_geometry
from fp2.data.pixels import open_rgb
from fp2.errors import Fp2Error, nearest
from fp2.protocols.narrow.metrics.pictures import cosine
from fp2.protocols.narrow.models import ModelSpec, Picture, number_of
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.truth import Person

if TYPE_CHECKING:
    import numpy.typing as npt

    from fp2.config import Config

_LANDMARKS = "shape_predictor_5_face_landmarks.dat"
_EMBEDDING = "dlib_face_recognition_resnet_model_v1.dat"
_FIX = "Install the extra: pip install 'fp2[narrow]'"


def installed() -> bool:
    """Return whether dlib and its models are here."""
    return all(importlib.util.find_spec(name) is not None for name in ("dlib", "face_recognition_models"))


class DlibFaces:
    """Embeddings of 128 numbers; two faces are one person's, says its author, below a Euclidean distance of 0.6."""

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        known = ("jitters",)
        for name in spec.options:
            if name not in known:
                raise Fp2Error(f"unknown option {name!r}", where=f"narrow model {spec.name}", fix=nearest(name, known))
        if not installed():
            raise Fp2Error("dlib or its models are not installed", where=f"narrow model {spec.name}", fix=_FIX)
        self._jitters = int(number_of(spec, "jitters", spec.options.get("jitters", 0), 0, 1000, whole=True))
        self._loaded: tuple[Any, Any, Any] | None = None
        self._detector: Any = None

    def identity(self) -> dict[str, Any]:
        """Return the versions of the code and of the package that holds the weights."""
        model = f"face-recognition-models=={version('face-recognition-models')}"
        return {"model": model, "family": "dlib", "dlib": version("dlib-bin"), "jitters": self._jitters, "method": 2}

    def predict(self, picture: Picture) -> list[Prediction]:
        """Return an embedding for everyone whose face has a box, with score 0 where dlib's detector sees no face."""
        pixels = np.ascontiguousarray(np.asarray(picture.image))
        if self._detector is None:  # making it takes longer than all else about a picture
            self._detector = self._models()[0].get_frontal_face_detector()
        seen = [(face.left() + face.width() / 2, face.top() + face.height() / 2) for face in self._detector(pixels, 0)]
        return [
            Prediction(
                "",
                subject_id=person.subject_id,
                score=float(any(x <= u <= x + w and y <= v <= y + h for u, v in seen)),
                embedding=self.embed(pixels, (x, y, w, h)),
            )
            for person, box in zip(picture.people, picture.boxes, strict=True)
            if box is not None
            for x, y, w, h in (box,)
        ]

    def embed(self, pixels: npt.NDArray[np.uint8], box: tuple[float, float, float, float]) -> npt.NDArray[np.float64]:
        """Return the embedding of the face in a box (x, y, width, height) of an RGB picture."""
        dlib, landmarks, network = self._models()
        x, y, width, height = box
        rectangle = dlib.rectangle(round(x), round(y), round(x + width) - 1, round(y + height) - 1)
        return np.array(network.compute_face_descriptor(pixels, landmarks(pixels, rectangle), self._jitters))

    def close(self) -> None:
        """Let the models go."""
        self._loaded = self._detector = None

    def _models(self) -> tuple[Any, Any, Any]:
        if self._loaded is None:
            dlib = importlib.import_module("dlib")
            # Importing face_recognition_models needs setuptools; only its files are wanted.
            spec = importlib.util.find_spec("face_recognition_models")
            assert spec is not None
            assert spec.submodule_search_locations
            folder = Path(spec.submodule_search_locations[0]) / "models"
            landmarks = dlib.shape_predictor(str(folder / _LANDMARKS))
            self._loaded = (dlib, landmarks, dlib.face_recognition_model_v1(str(folder / _EMBEDDING)))
        return self._loaded


def same_face(config: Config) -> Callable[[Person, Path, Path], float | None]:
    """Return a function from a person, their face crop and a made picture of it to the cosine of the two embeddings.

    Both are looked at in the crop's annotated face box (scaled, where the made picture has another size); None where
    the crop has none.
    """
    faces = DlibFaces(ModelSpec("identity", "face_verification", "dlib"), config)

    def compare(person: Person, crop: Path, made: Path) -> float | None:
        path = annotation_path(crop)
        box = read_geometry(path, person.subject_id).face_box if path.is_file() else None
        if box is None:
            return None
        true, other = open_rgb(crop), open_rgb(made)
        if other.size != true.size:
            other = other.resize(true.size)
        pixels = (np.ascontiguousarray(np.asarray(image)) for image in (true, other))
        return cosine(*(faces.embed(one, (box.x, box.y, box.width, box.height)) for one in pixels))

    return compare
