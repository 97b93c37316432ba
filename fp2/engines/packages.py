"""Versions of the packages that a model runs on: read from the disk once, and told without importing any of them."""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fp2.engines.hf.loading import HfSpec

ABSENT = "not installed"
"""No answer is ever kept under it: loading the model says in one line what is missing."""


@functools.cache
def version(package: str) -> str:
    """Return the version of a package, or `ABSENT`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ABSENT


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of packages by name."""
    return {name: version(name) for name in packages}


def major_minor(number: str) -> str:
    """Return the version family, in which answers are taken to be the same: 5.23 of 5.23.0."""
    return ".".join(itertools.islice(number.split("."), 2))


def families(spec: HfSpec) -> dict[str, str]:
    """Return the version families of what can change an answer: what computes, and what resizes the pictures."""
    resizing = "pillow" if spec.image_backend == "pil" else "torchvision"
    names = ("transformers", "torch", resizing, *(("bitsandbytes",) if spec.quantisation else ()))
    return {name: major_minor(version(name)) for name in names}
