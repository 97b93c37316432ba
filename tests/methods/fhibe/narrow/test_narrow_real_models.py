"""Models that ship in packages, where they are installed; nothing is installed here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import dlib_faces, mediapipe
from fp2.methods.fhibe.narrow.models import ImageInput, build_model, load_spec, read_spec
from fp2.methods.fhibe.narrow.truth import Person

# The tests' fixture takes FP2_ variables away; a ready environment is looked for before it does.
_GIVEN = os.environ.get("FP2_MEDIAPIPE_PYTHON")
_HERE = mediapipe.python_of(
    mediapipe.environment_folder(Path(__file__).parents[4] / ".fp2", "mediapipe", mediapipe.REQUIREMENTS)
)
_PYTHON = _GIVEN or (str(_HERE) if _HERE else "")


def _image() -> ImageInput:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (120, 100, 3)).astype(np.uint8))
    person = Person("i", "0", Path("image.png"), 1)
    return ImageInput(image, [person], [(20.0, 20.0, 60.0, 60.0)])


@pytest.mark.skipif(not dlib_faces.installed(), reason="the extra [narrow] is not installed")
def test_dlib_gives_an_embedding_of_the_annotated_box_and_says_that_noise_is_no_face() -> None:
    task, model = build_model(load_spec("dlib_face"), Config())
    assert task.name == "face_verification"
    (said,) = model.predict(_image())
    assert said.embedding is not None
    assert said.embedding.shape == (128,)
    assert np.linalg.norm(said.embedding) == pytest.approx(1.0, abs=0.3)
    assert said.score == 0.0
    (again,) = model.predict(_image())
    assert np.array_equal(said.embedding, again.embedding)  # type: ignore[arg-type]
    assert model.identity()["model"].startswith("face-recognition-models==")
    model.close()


@pytest.mark.skipif(not _PYTHON, reason="MediaPipe's environment is not there (experiment=narrow_demo makes it)")
@pytest.mark.parametrize("name", ["mediapipe_face", "mediapipe_person"])
def test_mediapipe_answers_through_its_pipe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FP2_MEDIAPIPE_PYTHON", _PYTHON)
    _, model = build_model(load_spec(name), Config())
    try:
        said = [model.predict(_image()) for _ in range(2)]
    finally:
        model.close()
    assert len(said[0]) == len(said[1])
    for one in said[0]:
        assert (one.mask["size"] == [120, 100]) if one.mask else (one.box is not None)


def test_the_worker_takes_the_package_and_not_a_file_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mediapipe.py"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FP2_MEDIAPIPE_PYTHON", sys.executable)
    package.write_text(
        "from types import SimpleNamespace as One\n__version__ = 'made up'\n"
        "box = One(xmin=0.1, ymin=0.2, width=0.5, height=0.25)\n"
        "found = One(location_data=One(relative_bounding_box=box), score=[0.75])\n"
        "detector = One(process=lambda pixels: One(detections=[found]))\n"
        "solutions = One(face_detection=One(FaceDetection=lambda **settings: detector))\n"
    )
    _, model = build_model(load_spec("mediapipe_face"), Config())
    try:
        (one,) = model.predict(_image())
    finally:
        model.close()
    assert (one.box, one.score) == ((10.0, 24.0, 50.0, 30.0), 0.75)
    package.write_text("raise ImportError('libGL.so.1 is missing')")
    with pytest.raises(Fp2Error, match=r"MediaPipe cannot start: ImportError: libGL\.so\.1 is missing"):
        model.predict(_image())


def test_an_incomplete_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = mediapipe.environment_folder(tmp_path, "mediapipe", ("a==1",))
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    assert mediapipe.python_of(folder) is None
    (folder / "READY").touch()
    assert mediapipe.ensure_environment(tmp_path, "mediapipe", ("a==1",)) == (folder / "bin" / "python").absolute()
    monkeypatch.setenv("FP2_MEDIAPIPE_PYTHON", str(tmp_path / "nothing"))
    with pytest.raises(Fp2Error, match="FP2_MEDIAPIPE_PYTHON"):
        mediapipe.ensure_environment(tmp_path, "mediapipe", ("a==1",))


def test_settings_that_mediapipe_does_not_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    mine = "name: mine\ntask: face_detection\ntarget: fp2.methods.fhibe.narrow.mediapipe:MediaPipe\n"
    path.write_text(mine + "options: {treshold: 0.2}\n")
    with pytest.raises(Fp2Error, match=r"unknown key 'treshold'.*Did you mean 'threshold'"):
        build_model(read_spec(path), Config())
    path.write_text(mine + "options: {threshold: low}\n")
    with pytest.raises(Fp2Error, match=r"'low' is not a number from 0 to 1.*threshold"):
        build_model(read_spec(path), Config())
