"""Made pictures of faces against real ones: PSNR, identity, and LPIPS where its weights are at hand.

LPIPS (Zhang et al., 2018) compares what the layers of a trained VGG16 see. Neither that network's weights nor the five
learned weightings ship in a package that runs here without torchvision, so they are two files of the user's.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]

SIDE = 256
"""Pictures are compared at 256 by 256 pixels, as FHIBE's published code does."""
NO_LPIPS = "no LPIPS: its weights are not given"
LPIPS_FIX = (
    "Give both files, task.files={lpips_network: vgg16.pth, lpips_weights: vgg.pth} (torchvision's VGG16 and the "
    "`weights/v0.1/vgg.pth` of the package lpips), or put a number `lpips` beside each prediction"
)
# VGG16's convolutions by their number in torchvision's `features`, in five blocks; a pooling lies between two blocks.
_BLOCKS = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # LPIPS' own scaling of pixels in [-1, 1]


def prepared(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Return a picture as it is compared: RGB, 256 by 256, shape (256, 256, 3)."""
    picture = image.convert("RGB")
    if picture.size != (SIDE, SIDE):
        picture = picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(picture)


def psnr(found: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of 8-bit pixels in decibels: 10 log10(255^2 / mean squared error).

    Identical pictures have none (it is infinite): they get the 100 dB that stand for "no difference".
    """
    error = float(np.mean((found.astype(np.float64) - true.astype(np.float64)) ** 2))
    return 100.0 if error == 0 else min(100.0, float(10 * np.log10(255.0**2 / error)))


def cosine(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return the cosine of two embeddings, NaN if one has no length."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second / length) if length else float("nan")


class Lpips:
    """LPIPS with VGG16, version 0.1: 0 for equal pictures, larger for more different ones."""

    def __init__(self, network: dict[str, Any], weights: dict[str, Any]) -> None:
        """Take torchvision's VGG16 (`features.N.weight`, `.bias`) and lpips' weightings (`linN.model.1.weight`)."""
        self._layers = [[(network[f"features.{n}.weight"], network[f"features.{n}.bias"]) for n in b] for b in _BLOCKS]
        self._weights = [weights[f"lin{n}.model.1.weight"] for n in range(5)]

    def __call__(self, found: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
        """Return the distance of two pictures of shape (height, width, 3)."""
        import torch

        with torch.inference_mode():
            both = self._seen(torch.from_numpy(np.stack([found, true]).transpose(0, 3, 1, 2).copy()))
            total = 0.0
            for layer, weight in zip(both, self._weights, strict=True):
                unit = layer / (layer.pow(2).sum(dim=1, keepdim=True).sqrt() + 1e-10)
                difference = (unit[:1] - unit[1:]) ** 2
                total += float(torch.nn.functional.conv2d(difference, weight).mean())
        return total

    def _seen(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return what the last layer of each block gives."""
        import torch

        functional = torch.nn.functional
        shift, scale = (torch.tensor(values).view(1, 3, 1, 1) for values in (_SHIFT, _SCALE))
        x = (pixels.float() / 127.5 - 1 - shift) / scale
        seen = []
        for number, block in enumerate(self._layers):
            if number:
                x = functional.max_pool2d(x, 2)
            for weight, bias in block:
                x = functional.relu(functional.conv2d(x, weight, bias, padding=1))
            seen.append(x)
        return seen


@functools.lru_cache(maxsize=1)
def load_lpips(network: Path, weights: Path) -> Lpips:
    """Return LPIPS from its two files (PyTorch state dicts).

    Raises
    ------
    Fp2Error
        If a file cannot be read or lacks a layer.
    """
    import torch

    parts = []
    for path, what in ((network, "lpips_network"), (weights, "lpips_weights")):
        try:
            parts.append(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch's unpickler raises many kinds
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise Fp2Error(
                f"LPIPS weights cannot be read: {reason}", where=f"task.files.{what}", fix=LPIPS_FIX
            ) from None
    try:
        return Lpips(*parts)
    except (KeyError, TypeError) as error:
        raise Fp2Error(f"LPIPS weights lack {error}", where="task.files", fix=LPIPS_FIX) from None
