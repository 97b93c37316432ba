"""Batches of training pictures: figures laid over backdrops, shifted, and now and then masked, blurred or cut out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter

from training.peeps.settings import SIZE

PAD = 4  # pixels that a picture may be shifted; its edges are repeated
BLUR = 25.0  # the data set's blur radius of 100 px at 384 px
VIEW_OF_VARIANT = np.array([0, 1, 1, 2])  # original, masked, blurred, background removed -> truth.VIEWS
_NOISE_BANK = 4_000_000


@dataclass(frozen=True)
class Mix:
    """How training pictures are varied (shares, and sizes at 96 px)."""

    variants: tuple[float, float, float, float] = (0.84, 0.05, 0.05, 0.06)
    shifted: float = 0.6
    brightness: float = 0.06
    noise: float = 0.02


PLAIN = Mix((1.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Batch:
    """Normalised pictures (b, 3, SIZE, SIZE), which person each shows, and in which view (truth.VIEWS)."""

    pixels: torch.Tensor
    index: np.ndarray
    view: np.ndarray


def padded(pictures: np.ndarray) -> np.ndarray:
    """Return pictures (..., S, S, c) with PAD pixels of repeated edge on every side."""
    room = [(0, 0)] * (pictures.ndim - 3) + [(PAD, PAD), (PAD, PAD), (0, 0)]
    return np.pad(pictures, room, mode="edge")


def premultiplied(layers: np.ndarray, block: int = 500) -> np.ndarray:
    """Return RGBA layers (n, S, S, 4), padded, with colour times alpha and 255 - alpha in the last channel."""
    n = len(layers)
    out = np.empty((n, SIZE + 2 * PAD, SIZE + 2 * PAD, 4), np.uint8)
    for start in range(0, n, block):
        part = padded(np.asarray(layers[start : start + block]))
        colour = part[..., :3].astype(np.uint16) * part[..., 3:]
        out[start : start + block, ..., :3] = (colour + 127) // 255
        out[start : start + block, ..., 3] = 255 - part[..., 3]
    return out


def _lay(layers: np.ndarray, grounds: np.ndarray) -> np.ndarray:
    """Return premultiplied layers over backdrops, both uint8, as uint8."""
    rest = layers[..., 3:].astype(np.uint16)
    rest += rest >> 7  # 0..256, so that a shift by 8 divides
    under = grounds * rest
    under >>= 8
    under += layers[..., :3]
    np.minimum(under, 255, out=under)
    return under.astype(np.uint8)


def compose(layers: np.ndarray, grounds: np.ndarray, variants: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Lay premultiplied figures (b, S, S, 4) over backdrops (b, S, S, 3); return uint8 pictures.

    `variants` (b,) indexes training.peeps.cues.VARIANTS. Changes its arguments.
    """
    layers[variants == 1, ..., :3] = 0
    grounds[variants == 3] = 0
    pictures = _lay(layers, grounds)
    for i in np.nonzero(variants == 2)[0]:
        soft = Image.fromarray(pictures[i]).filter(ImageFilter.GaussianBlur(BLUR * float(rng.uniform(0.6, 1.1))))
        rest = layers[i, ..., 3:].astype(np.float32) / 255
        mixed = grounds[i] * rest + np.asarray(soft, np.float32) * (1 - rest)
        pictures[i] = np.rint(mixed).astype(np.uint8)
    return pictures


def normalised(pictures: np.ndarray) -> torch.Tensor:
    """Return uint8 pictures (b, S, S, 3) as the processor gives them: float32 (b, 3, S, S) in -1..1."""
    flat = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
    return flat.to(torch.float32).mul_(1 / 127.5).sub_(1.0)


class Source:
    """Draws batches from layers; everything follows from the generator that each call is given."""

    def __init__(self, layers: np.ndarray, regions: np.ndarray, backdrops: Path, mix: Mix) -> None:
        self.layers, self.regions, self.mix = premultiplied(layers), regions, mix
        self.backdrops = padded(np.load(backdrops))
        noise = np.random.default_rng(0).standard_normal(_NOISE_BANK, dtype=np.float32)
        self.noise = torch.from_numpy(noise)

    def batch(self, size: int, rng: np.random.Generator, *, variants: bool = True) -> Batch:
        """Return `size` pictures of random people."""
        return self.pictures(rng.integers(len(self.layers), size=size), rng, variants=variants)

    def pictures(self, index: np.ndarray, rng: np.random.Generator, *, variants: bool = True) -> Batch:
        """Return one picture of each person in `index`."""
        mix, size = self.mix, len(index)
        variant = rng.choice(4, size=size, p=mix.variants) if variants else np.zeros(size, np.int64)
        moves = rng.integers(-PAD, PAD + 1, size=(size, 2))
        moves[rng.random(size) >= mix.shifted] = 0
        phases = rng.integers(self.backdrops.shape[1], size=size)
        layers = np.empty((size, SIZE, SIZE, 4), np.uint8)
        grounds = np.empty((size, SIZE, SIZE, 3), np.uint8)
        for row, (i, phase, (dy, dx)) in enumerate(zip(index, phases, moves, strict=True)):
            window = slice(PAD - dy, PAD - dy + SIZE), slice(PAD - dx, PAD - dx + SIZE)
            layers[row] = self.layers[i][window]
            grounds[row] = self.backdrops[self.regions[i], phase][window]
        pixels = normalised(compose(layers, grounds, variant, rng))
        self._vary(pixels, rng)
        return Batch(pixels, index, VIEW_OF_VARIANT[variant])

    def _vary(self, pixels: torch.Tensor, rng: np.random.Generator) -> None:
        """Change the brightness of half of the pictures a little and add noise, in place."""
        n, mix = len(pixels), self.mix
        gain = np.where(rng.random(n) < 0.5, rng.uniform(1 - mix.brightness, 1 + mix.brightness, n), 1.0)
        if mix.brightness:
            pixels.add_(1.0).mul_(torch.from_numpy(gain.astype(np.float32)).view(-1, 1, 1, 1)).sub_(1.0)
        if mix.noise:
            start = int(rng.integers(_NOISE_BANK - pixels[0].numel()))
            stop = start + pixels[0].numel()
            pixels.add_(self.noise[start:stop].view(pixels[0].shape), alpha=float(rng.uniform(0, mix.noise)))
        pixels.clamp_(-1.0, 1.0)


class Mirrored(Source):
    """A source that mirrors half of its pictures; person (or pair) i, mirrored, is number i + n in its batches."""

    @classmethod
    def of(cls, source: Source) -> Mirrored:
        """Return a source of the same pictures (they are shared)."""
        new = cls.__new__(cls)
        new.__dict__.update(source.__dict__)
        return new

    def batch(self, size: int, rng: np.random.Generator, *, variants: bool = True) -> Batch:
        """Return `size` pictures, each mirrored or not by the toss of a coin."""
        plain = super().batch(size, rng, variants=variants)
        turned = rng.random(size) < 0.5
        pixels, rows = plain.pixels, torch.from_numpy(np.flatnonzero(turned))
        pixels[rows] = pixels[rows].flip(-1)
        return Batch(pixels, plain.index + len(self.layers) * turned, plain.view)
