"""Resize a picture once, however many questions are asked about it.

A processor runs its image processor over every (picture, question) pair. `OncePerPicture` stands in its place, keeps
what came out for each picture, and joins the pieces: exactly what the whole batch would have given, or the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class OncePerPicture:
    """An image processor that remembers its pictures until `forget`; every other attribute is the inner one's.

    Joining is by concatenation along the first axis. Where that is impossible (pieces padded to different sizes) the
    inner processor gets the whole batch; the first time that different pictures are joined, the result is compared with
    the inner processor's, and if they differ in one value the memory is never used again.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._kept: dict[int, tuple[Any, Any]] = {}  # the picture is held too, so that its id is not given anew
        self._options: dict[str, Any] = {}
        self._proved = False
        self.exact = True
        """Whether joined pieces equal the whole batch, as far as was seen."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forget(self) -> None:
        """Drop every picture."""
        self._kept.clear()

    def __call__(self, images: Any, *args: Any, **options: Any) -> Any:
        """Return what the inner processor returns for `images`: a list of pictures, or of lists of one picture."""
        pictures = _pictures(images)
        if not self.exact or args or pictures is None:
            return self._inner(images, *args, **options)
        if options != self._options:
            self.forget()
            self._options = dict(options)
        for picture, entry in zip(pictures, images, strict=True):
            if id(picture) not in self._kept:
                self._kept[id(picture)] = (picture, self._inner([entry], **options))
        pieces = [self._kept[id(picture)][1] for picture in pictures]
        joined = _join(pieces)
        if joined is None:
            return self._inner(images, **options)
        if not self._proved and len({id(picture) for picture in pictures}) > 1:
            whole = self._inner(images, **options)
            self.exact, self._proved = _equal(joined, whole), True
            return whole
        return type(pieces[0])(joined)


def _pictures(images: Any) -> list[Any] | None:
    """Return the picture of each entry, or None if an entry is not exactly one picture."""
    if not isinstance(images, list) or not images:
        return None
    found = [entry[0] if isinstance(entry, list) and len(entry) == 1 else entry for entry in images]
    return None if any(isinstance(picture, list) for picture in found) else found


def _join(pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the pieces' values joined along the first axis, or None where they do not fit together."""
    first = pieces[0]
    if any(set(piece) != set(first) for piece in pieces):
        return None
    joined: dict[str, Any] = {}
    for name, value in first.items():
        values = [piece[name] for piece in pieces]
        if isinstance(value, list):
            joined[name] = [entry for part in values for entry in part]
        elif hasattr(value, "shape") and len({(part.shape[1:], part.dtype) for part in values}) == 1:
            joined[name] = _concatenate(values)
        else:
            return None
    return joined


def _concatenate(values: Sequence[Any]) -> Any:
    if isinstance(values[0], np.ndarray):
        return np.concatenate(values)
    import torch

    return torch.cat(list(values))


def _equal(joined: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Return whether both hold the same names and exactly the same numbers."""
    if set(joined) != set(whole):
        return False
    return all(_same(joined[name], whole[name]) for name in joined)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(_same(a, b) for a, b in zip(left, right, strict=True))
        )
    return bool(np.array_equal(np.asarray(left), np.asarray(right)))
