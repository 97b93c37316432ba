"""MediaPipe's face detector and selfie segmenter: trained models whose weights are in their package.

MediaPipe 0.10.21 is the newest version with the weights, and needs numpy below 2: it is installed into a virtual
environment of its own at first use, and answers through a pipe (`mediapipe_worker.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from filelock import FileLock

from fp2.extension import Fp2Error, Range, digest, printable, read_options, sha256_file
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec
from fp2.methods.fhibe.narrow.predictions import Prediction, read_rle

if TYPE_CHECKING:
    from fp2.extension import Config

REQUIREMENTS = ("mediapipe==0.10.21", "numpy<2")
WORKER = Path(__file__).with_name("mediapipe_worker.py")


@dataclass(frozen=True)
class MediaPipeOptions:
    """MediaPipe's own settings: which of its two models, and the least score of a face, or level of a mask's pixel."""

    model: Annotated[int, Range(0, 1)] = 0
    threshold: Annotated[float, Range(0, 1)] = 0.5


class MediaPipe:
    """One of the two models, started with the first image."""

    tasks: ClassVar[tuple[str, ...]] = ("face_detection", "person_segmentation")
    similarity: ClassVar[str] = "cosine"

    def __init__(self, spec: ModelSpec, config: Config) -> None:
        read_options(MediaPipeOptions, spec.options, f"narrow model {spec.name}")
        self._task, self._settings = spec.task, {**vars(MediaPipeOptions()), **spec.options}
        self._state = Path(config.paths.state)
        self._process: subprocess.Popen[bytes] | None = None

    def identity(self) -> dict[str, Any]:
        """Return the pinned version (which has the weights), the settings and the worker's digest."""
        settings = {name: float(value) for name, value in self._settings.items()}
        pinned = {"model": REQUIREMENTS[0], "family": "mediapipe", "task": self._task}
        return {**pinned, "settings": settings, "worker": sha256_file(WORKER)}

    def predict(self, shown: ImageInput) -> list[Prediction]:
        """Return face boxes, or the one mask of all people in the image."""
        pixels = np.asarray(shown.image)
        shape = {"height": pixels.shape[0], "width": pixels.shape[1]}
        reply = self._send(json.dumps(shape).encode() + b"\n" + pixels.tobytes())
        if isinstance(reply, dict):
            raise RuntimeError(reply["error"])
        return [
            Prediction("", score=entry["score"], box=tuple(entry["box"]))
            if "box" in entry
            else Prediction("", score=entry["score"], mask=read_rle(entry["mask"], "MediaPipe"))
            for entry in reply
        ]

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

    def _send(self, message: bytes) -> Any:
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
            raise Fp2Error("MediaPipe's process ended", fix="Check the free memory, and run the same command again")
        return json.loads(line)

    def _start(self) -> subprocess.Popen[bytes]:
        python = ensure_environment(self._state, "mediapipe", REQUIREMENTS)
        # -P: `import mediapipe` in the worker means the package, and not this file beside it
        command = [str(python), "-P", str(WORKER), self._task, json.dumps(self._settings)]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            if not process.stdout.readline():
                process.kill()
                process.wait()
                errors.seek(0)
                said = errors.read().decode("utf-8", "replace").strip().splitlines()
                what = f"MediaPipe cannot start: {printable(said[-1], 200) if said else 'it said nothing'}"
                fix = "Remove the folder and run again; a server without a display may lack libgl1"
                raise Fp2Error(what, where=str(python.parents[1]), fix=fix)
        self._process = process
        return process


# -- its virtual environment

FOLDER = "environments"
"""Below the state folder."""
_READY = "READY"


def environment_folder(state: Path, name: str, requirements: Sequence[str]) -> Path:
    """Return the folder of the virtual environment with `requirements`, which may not exist."""
    return state / FOLDER / f"{name}-{digest(sorted(requirements))[:12]}"


def python_of(folder: Path) -> Path | None:
    """Return the environment's Python; None if it is missing or incomplete."""
    python = _python(folder)
    return python if (folder / _READY).is_file() and python.exists() else None


def ensure_environment(state: Path, name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of the environment, which is created with venv and pip if it is missing.

    The variable `FP2_<NAME>_PYTHON` names another one, for machines without a package index. An environment cannot be
    moved: it is created in place, under a lock, and marked when it is complete; what an interrupted call left is
    removed.
    """
    variable = f"FP2_{name.upper()}_PYTHON"
    if python_path := os.environ.get(variable):
        if not Path(python_path).is_file():
            raise Fp2Error(f"there is no Python {python_path!r}", where=variable)
        return Path(python_path)
    folder = environment_folder(state, name, requirements).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if python := python_of(folder):
            return python
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)], name, requirements)
        python = _python(folder)
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", *requirements], name, requirements)
        (folder / _READY).write_text("\n".join(requirements) + "\n", encoding="utf-8")
        return python


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _run(command: list[str], name: str, requirements: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.strip().startswith("ERROR")]
        reason = (errors or done.stderr.strip().splitlines() or ["no reason given"])[-1].removeprefix("ERROR: ")
        fix = "It needs the package index once; or leave these models out (task.options.models)"
        what = f"the environment of {name} cannot be created: {reason}"
        raise Fp2Error(what, where=" ".join(requirements), fix=fix)
