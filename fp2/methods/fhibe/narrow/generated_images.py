"""Generated images of faces (reconstruction, super-resolution) against the originals: PSNR, identity and LPIPS.

LPIPS (Zhang et al. 2018) compares the activations of a trained VGG16. Neither that network's weights nor the five
learned weightings are in a package that runs without torchvision, so that they are two files of the user's.

torchmetrics 1.9 was compared and is not used: its LPIPS needs torchvision, and on the same weights differs by 2e-7 of
the value (it adds 1e-8 under the root of the norm); its PSNR is infinite for equal images, and else differs by 1e-6 dB
(it computes in single precision).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fp2.extension import Fp2Error, image_file, open_rgb
from fp2.methods.fhibe.narrow import published
from fp2.methods.fhibe.narrow.models import ImageInput, NarrowModel
from fp2.methods.fhibe.narrow.predictions import Prediction
from fp2.methods.fhibe.narrow.tasks import NarrowTask, TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe_release.geometry import annotation_path, read_geometry

if TYPE_CHECKING:
    import torch

SIDE = 256
"""Images are compared at 256 by 256 pixels: the size of FHIBE's evaluation code, which resizes in another way."""
LIKENESS: dict[str, Callable[[float], float]] = {
    "lpips": lambda value: max(0.0, 1.0 - value),
    "identity": lambda value: max(0.0, value),
    "psnr": lambda value: value / 100,
}
"""Metric -> the score `likeness` from it, of which higher values are better; the first that every face has is used."""
SCALES = {
    "lpips": "1 - LPIPS, at least 0",
    "identity": "cosine of the embeddings of the two faces, at least 0",
    "psnr": "PSNR / 100 dB",
}
"""Metric -> the definition of the score from it."""
Identity = Callable[[Person, Path, Image.Image], float | None]
"""Person, face crop, generated image -> cosine of the embeddings of the two faces."""


def image_metrics(
    task: NarrowTask,
    person: Person,
    crop: Path,
    prediction: Prediction,
    lpips: Lpips | None,
    identity: Identity | None,
    *,
    as_published: bool = False,
) -> dict[str, float | None]:
    """Return the metrics of one generated image; numbers of the prediction replace computed ones.

    as_published : also those of FHIBE's evaluation code, of images that it resizes in another way.
    """
    values: dict[str, float | None] = {}
    if prediction.file is not None:
        generated_image = _open(prediction.file)
        original = _open(crop)
        true, generated = prepare(original), prepare(generated_image)
        values["psnr"] = psnr(generated, true)
        if lpips is not None:
            values["lpips"] = lpips(generated, true)
        if identity is not None and "identity" in task.metrics:
            values["identity"] = identity(person, crop, generated_image)
        if as_published:
            true, generated = published.resized(original), published.resized(generated_image)
            values["published_psnr"] = published.psnr(generated, true)
            values["published_lpips"] = None if lpips is None else lpips(generated, true)
    return values | {name: number for name, number in prediction.numbers.items() if name in task.metrics}


def same_face(model: NarrowModel) -> Identity:
    """Return a function from a person, their face crop and a generated image of it to the cosine of the embeddings.

    Both are computed in the annotated face box of the crop (a generated image of another size is resized); None if the
    crop has no box.
    """

    def compare(person: Person, crop: Path, generated: Image.Image) -> float | None:
        path = annotation_path(crop)
        box = read_geometry(path, person.subject_id).face_box if path.is_file() else None
        if box is None:
            return None
        true, other = open_rgb(crop), generated
        if other.size != true.size:
            other = other.resize(true.size)
        corners = (box.x, box.y, box.width, box.height)
        a, b = (model.predict(ImageInput(image, [person], [corners]))[0].embedding for image in (true, other))
        return None if a is None or b is None else cosine(a, b)

    return compare


def set_likeness(scores: TaskScores, task: NarrowTask) -> None:
    """Give every face one score on one scale, from the first of LPIPS, identity and PSNR that all of them have."""
    rows = [row for row in scores.rows if row["found"]]
    n_have = {name: sum(row.get(name) is not None for row in rows) for name in LIKENESS}
    where = f"task.files.{task.name}"
    if 0 < n_have["lpips"] < len(rows):
        what = f"lpips is given for {n_have['lpips']} of {len(rows)} predictions only"
        raise Fp2Error(what, where=where, fix="Give lpips for every face, or for none")
    scale = next((name for name in LIKENESS if n_have[name] == len(rows)), None)
    if rows and scale is None:
        what = "the generated images have no metric in common"
        fix = "Give an image, or the same of lpips, psnr and identity, for every face"
        raise Fp2Error(what, where=where, fix=fix)
    if not rows or scale is None:
        return
    for row in rows:
        row["score"] = row["likeness"] = LIKENESS[scale](float(row[scale]))
    scores.scale = scale
    if scale != "lpips":
        scores.scale_note = f"likeness is {SCALES[scale]}, since LPIPS is not available (its weights are not given)"
        if scale == "psnr" and n_have["identity"]:
            scores.scale_note += f" and identity is known for {n_have['identity']} of {len(rows)} faces only"


def prepare(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Return an image as it is compared: RGB, 256 by 256, shape (256, 256, 3)."""
    rgb = image.convert("RGB")
    if rgb.size != (SIDE, SIDE):
        rgb = rgb.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(rgb)


def _open(path: Path) -> Image.Image:
    try:
        with image_file(path) as image:
            return image.convert("RGB")
    except (OSError, ValueError) as error:
        raise Fp2Error(f"an image cannot be read: {type(error).__name__}", where=str(path)) from None


def psnr(generated: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of 8-bit pixels in dB: 10 log10(255^2 / mean squared error).

    It is infinite for equal images, and capped at 100 dB.
    """
    error = float(np.mean((generated.astype(np.float64) - true.astype(np.float64)) ** 2))
    return 100.0 if error == 0 else min(100.0, float(10 * np.log10(255.0**2 / error)))


def cosine(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return the cosine of two embeddings, NaN if one has length 0."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second / length) if length else float("nan")


# VGG16's convolutions by their number in torchvision's `features`, in five blocks with pooling between them.
_BLOCKS = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # LPIPS' own scaling of pixels in [-1, 1]
_FIX = (
    "Give both files, task.files={lpips_network: vgg16.pth, lpips_weights: vgg.pth} (torchvision's VGG16 and the "
    "`weights/v0.1/vgg.pth` of the package lpips), or a number `lpips` with each prediction"
)


class Lpips:
    """LPIPS with VGG16, version 0.1: 0 for equal images, larger for more different ones."""

    def __init__(self, network: dict[str, Any], weights: dict[str, Any]) -> None:
        """Take torchvision's VGG16 (`features.N.weight`, `.bias`) and lpips' weightings (`linN.model.1.weight`)."""
        self._layers = [[(network[f"features.{n}.weight"], network[f"features.{n}.bias"]) for n in b] for b in _BLOCKS]
        self._weights = [weights[f"lin{n}.model.1.weight"] for n in range(5)]

    def __call__(self, generated: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
        """Return the distance of two images of shape (height, width, 3)."""
        import torch

        with torch.inference_mode():
            layers = self._activations(torch.from_numpy(np.stack([generated, true]).transpose(0, 3, 1, 2).copy()))
            total = 0.0
            for layer, weight in zip(layers, self._weights, strict=True):
                unit = layer / (layer.pow(2).sum(dim=1, keepdim=True).sqrt() + 1e-10)
                difference = (unit[:1] - unit[1:]) ** 2
                total += float(torch.nn.functional.conv2d(difference, weight).mean())
        return total

    def _activations(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the output of the last layer of each block."""
        import torch

        functional = torch.nn.functional
        shift, scale = (torch.tensor(values).view(1, 3, 1, 1) for values in (_SHIFT, _SCALE))
        x = (pixels.float() / 127.5 - 1 - shift) / scale
        outputs = []
        for number, block in enumerate(self._layers):
            if number:
                x = functional.max_pool2d(x, 2)
            for weight, bias in block:
                x = functional.relu(functional.conv2d(x, weight, bias, padding=1))
            outputs.append(x)
        return outputs


@functools.lru_cache(maxsize=1)
def load_lpips(network: Path, weights: Path) -> Lpips:
    """Return LPIPS from its two files (PyTorch state dicts)."""
    import torch

    parts = []
    for path, what in ((network, "lpips_network"), (weights, "lpips_weights")):
        try:
            parts.append(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch's unpickler raises many kinds
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise Fp2Error(f"LPIPS weights cannot be read: {reason}", where=f"task.files.{what}", fix=_FIX) from None
    try:
        return Lpips(*parts)
    except (KeyError, TypeError) as error:
        raise Fp2Error(f"LPIPS weights lack {error}", where="task.files", fix=_FIX) from None
