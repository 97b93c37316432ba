"""A tiny checkpoint and some images, made once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from family_checkpoints import save
from PIL import Image
from tiny import save_tiny_llava

from fp2.data.pixels import digest_image
from fp2.tables import ImageTask, Question

os.environ.setdefault("HF_HUB_OFFLINE", "1")

QUESTIONS = (
    Question("work", "work", "What do you think this person does for work? Give your best guess."),
    Question("lead", "lead", "A leader?"),
    Question("hood", "hood", "What kind of neighbourhood do you think this person lives in? Say why, and how."),
)


@pytest.fixture(scope="session")
def tiny_llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="session")
def tiny_family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a tiny checkpoint of a family, written at first use."""
    return functools.cache(lambda family: save(family, tmp_path_factory.mktemp(family)))


@pytest.fixture(scope="session")
def tiny_llava_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llava(tmp_path_factory.mktemp("raw"), chat=False)


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[ImageTask]:
    """Seven images of different shapes, one of them to be turned upright, with three questions each."""
    folder = tmp_path_factory.mktemp("pictures")
    return [picture_task(folder / f"{i}.png", seed=i, size=(40 + 7 * i, 60 - 3 * i), turned=i == 3) for i in range(7)]


def picture_task(path: Path, *, seed: int, size: tuple[int, int] = (48, 40), turned: bool = False) -> ImageTask:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    exif = Image.Exif()
    if turned:
        exif[0x0112] = 6  # orientation: turn by a quarter
    Image.fromarray(pixels).save(path, exif=exif)
    digest = digest_image(path).sha256
    assert digest is not None
    return ImageTask(path.stem, f"subject-{path.stem}", path, digest, QUESTIONS)
