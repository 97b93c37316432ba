"""MediaPipe's face detector and selfie segmenter: real trained models whose weights ship in their package.

MediaPipe 0.10.21 is the newest version that carries the weights, and it wants numpy below 2: it lives in an environment
that is made at first use, and answers through a pipe (`workers/mediapipe_worker.py`).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.errors import Fp2Error, nearest
from fp2.hashing import sha256_file
from fp2.protocols.narrow import environment
from fp2.protocols.narrow.models import ModelSpec, Picture, number_of
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.rle import Rle

if TYPE_CHECKING:
    from fp2.config import Config

REQUIREMENTS = ("mediapipe==0.10.21", "numpy<2")
SETTINGS: dict[str, dict[str, float]] = {
    "face_detection": {"model": 0, "threshold": 0.5},
    "person_segmentation": {"model": 0, "threshold": 0.5},
}
"""Task -> MediaPipe's own settings: which of its two models, and from what score or level on something is found."""
WORKER = Path(__file__).parent / "workers" / "mediapipe_worker.py"


class MediaPipe:
    """One of the two, started when the first picture comes."""

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        known = SETTINGS[spec.task]
        for name in spec.options:
            if name not in known:
                raise Fp2Error(f"unknown option {name!r}", where=f"narrow model {spec.name}", fix=nearest(name, known))
            number_of(spec, name, spec.options[name], 0, 1, whole=name == "model")
        self._task, self._settings = spec.task, {**known, **spec.options}
        self._state = Path(config.paths.state)
        self._process: subprocess.Popen[bytes] | None = None

    def identity(self) -> dict[str, Any]:
        """Return the pinned version (the weights are in it), the settings and the worker's digest."""
        settings = {name: float(value) for name, value in self._settings.items()}
        pinned = {"model": REQUIREMENTS[0], "family": "mediapipe", "task": self._task}
        return {**pinned, "settings": settings, "worker": sha256_file(WORKER)}

    def predict(self, picture: Picture) -> list[Prediction]:
        """Return face boxes, or the one mask of whoever is in the picture."""
        pixels = np.asarray(picture.image)
        shape = {"height": pixels.shape[0], "width": pixels.shape[1]}
        said = self._ask(json.dumps(shape).encode() + b"\n" + pixels.tobytes())
        if isinstance(said, dict):
            raise RuntimeError(said["error"])
        return [self._prediction(one) for one in said]

    @staticmethod
    def _prediction(said: dict[str, Any]) -> Prediction:
        if "box" in said:
            x, y, width, height = said["box"]
            return Prediction("", score=said["score"], box=(x, y, width, height))
        size = said["mask"]["size"]
        return Prediction("", score=said["score"], mask=Rle((size[0], size[1]), tuple(said["mask"]["counts"])))

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def _ask(self, message: bytes) -> Any:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(message)
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        if not line:
            self._process = None
            process.kill()
            process.wait()
            raise Fp2Error("MediaPipe's process ended", fix="Is there memory enough? Then run the same command again")
        return json.loads(line)

    def _start(self) -> subprocess.Popen[bytes]:
        python = environment.ensure(self._state, "mediapipe", REQUIREMENTS)
        command = [str(python), str(WORKER), self._task, json.dumps(self._settings)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.kill()
            self._process.wait()
            self._process = None
            fix = "Remove the folder and run again; a server without a display may lack libgl1"
            raise Fp2Error("MediaPipe cannot start in its environment", where=str(python.parents[1]), fix=fix)
        return self._process
