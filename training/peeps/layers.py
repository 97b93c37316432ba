"""Draw the training material: people without backdrop (RGBA) and backdrops, so that any person meets any backdrop.

A figure laid over a backdrop gives the picture that the renderer draws in one go (up to rounding), and makes masks,
blur and background removal exact: the figure's alpha is the person's outline. Most figures are drawn at the model's
own 96 px, a share at the data set's 384 px and reduced as the processor does it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import resvg_py
from PIL import Image

from fp2.methods.peeps.data.draw import figure, render_backdrop
from fp2.methods.peeps.data.figure import REGIONS, Cues, sample_image_cues, sample_person
from fp2.methods.peeps.data.style import PAIR_WIDTH, place
from training.peeps.settings import SIZE

LARGE = 384
SHARE_LARGE = 0.12
PHASES = 48


@dataclass(frozen=True)
class Pair:
    """Two people in one picture, on the backdrop of `region`."""

    left: Cues
    right: Cues
    region: int


def sample_cues(seed: int, count: int) -> list[Cues]:
    """Return `count` pictures of as many different people."""
    rng = np.random.default_rng(seed)
    return [sample_image_cues(sample_person(rng), rng) for _ in range(count)]


def sample_pairs(seed: int, count: int) -> list[Pair]:
    """Return `count` pairs of people."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        left, right = (sample_image_cues(sample_person(rng), rng) for _ in range(2))
        pairs.append(Pair(left, right, int(rng.integers(len(REGIONS)))))
    return pairs


def _layer(elements: str, size: int) -> np.ndarray:
    """Return SVG elements as an RGBA picture of SIZE by SIZE, drawn at `size` and reduced by averaging boxes."""
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" fill="none">{elements}</svg>'
    image = Image.open(io.BytesIO(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))).convert("RGBA")
    return np.asarray(image if size == SIZE else image.resize((SIZE, SIZE), Image.Resampling.BOX))


def person_layer(cues: Cues, size: int) -> np.ndarray:
    """Return one person without backdrop, uint8 (SIZE, SIZE, 4)."""
    return _layer(figure(cues, place(cues, size), "one"), size)


def pair_layer(pair: Pair, size: int) -> np.ndarray:
    """Return two people without backdrop, uint8 (SIZE, SIZE, 4)."""
    left = figure(pair.left, place(pair.left, size, left=0.0, width=PAIR_WIDTH), "left")
    right = figure(pair.right, place(pair.right, size, left=1.0 - PAIR_WIDTH, width=PAIR_WIDTH), "right")
    return _layer(left + right, size)


def backdrops(phases: int = PHASES) -> np.ndarray:
    """Return backdrops, uint8 (regions, phases, SIZE, SIZE, 3), drawn large and reduced."""
    bank = np.empty((len(REGIONS), phases, SIZE, SIZE, 3), np.uint8)
    for region in range(len(REGIONS)):
        for phase in range(phases):
            image = render_backdrop(region, phase / phases, LARGE)
            bank[region, phase] = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))
    return bank


def _write(path: Path, layers: Iterator[np.ndarray], count: int) -> None:
    """Write layers to one .npy, under its own name only when complete."""
    part = path.with_suffix(".part.npy")
    store = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=(count, SIZE, SIZE, 4))
    for index, layer in enumerate(layers):
        store[index] = layer
    store.flush()
    part.rename(path)


def draw_people(folder: Path, name: str, seed: int, count: int) -> None:
    """Draw `count` people into `folder/name.npy` with their cues in `folder/name.json`; skipped when there."""
    path = folder / f"{name}.npy"
    if path.exists():
        return
    people = sample_cues(seed, count)
    large = np.random.default_rng(seed + 1).random(count) < SHARE_LARGE
    (folder / f"{name}.json").write_text(json.dumps([asdict(cues) for cues in people]))
    _write(path, (person_layer(c, LARGE if big else SIZE) for c, big in zip(people, large, strict=True)), count)


def draw_pairs(folder: Path, name: str, seed: int, count: int) -> None:
    """Draw `count` pairs into `folder/name.npy` with their cues in `folder/name.json`; skipped when there."""
    path = folder / f"{name}.npy"
    if path.exists():
        return
    pairs = sample_pairs(seed, count)
    large = np.random.default_rng(seed + 1).random(count) < SHARE_LARGE
    (folder / f"{name}.json").write_text(json.dumps([asdict(pair) for pair in pairs]))
    _write(path, (pair_layer(p, LARGE if big else SIZE) for p, big in zip(pairs, large, strict=True)), count)


def read_people(folder: Path, name: str) -> tuple[np.ndarray, list[Cues]]:
    """Return the layers (memory-mapped) and cues that `draw_people` wrote."""
    cues = [Cues(**row) for row in json.loads((folder / f"{name}.json").read_text())]
    return np.load(folder / f"{name}.npy", mmap_mode="r"), cues


def read_pairs(folder: Path, name: str) -> tuple[np.ndarray, list[Pair]]:
    """Return the layers (memory-mapped) and pairs that `draw_pairs` wrote."""
    rows = json.loads((folder / f"{name}.json").read_text())
    pairs = [Pair(Cues(**row["left"]), Cues(**row["right"]), row["region"]) for row in rows]
    return np.load(folder / f"{name}.npy", mmap_mode="r"), pairs
