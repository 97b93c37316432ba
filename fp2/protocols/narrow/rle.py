"""Masks as COCO writes them: run lengths down the columns, as numbers or as pycocotools' compressed text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error

Bools = npt.NDArray[np.bool_]
_FIX = "Write COCO run lengths: {size: [height, width], counts: text of pycocotools.mask.encode, or a list of numbers}"


@dataclass(frozen=True)
class Rle:
    """A mask of `size` = (height, width): lengths of runs outside, inside, outside ... down the columns."""

    size: tuple[int, int]
    counts: tuple[int, ...]

    def mask(self) -> Bools:
        """Return the mask, shape (height, width)."""
        inside = np.zeros(len(self.counts), dtype=bool)
        inside[1::2] = True
        return np.repeat(inside, self.counts).reshape(self.size, order="F")

    @classmethod
    def of(cls, mask: Bools) -> Rle:
        """Return a mask's run lengths."""
        flat = np.asarray(mask, dtype=bool).ravel(order="F")
        changes = np.flatnonzero(np.diff(np.concatenate([[False], flat])))
        runs = np.diff([0, *changes.tolist(), flat.size])
        return cls((mask.shape[0], mask.shape[1]), tuple(runs.tolist()))

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"size": list(self.size), "counts": list(self.counts)}


def rle_of(given: Any, where: str) -> Rle:
    """Return COCO run lengths from a file's entry.

    Raises
    ------
    Fp2Error
        If they are malformed or do not fill the picture.
    """
    if not isinstance(given, Mapping):
        raise Fp2Error("segmentation is neither run lengths nor a path", where=where, fix=_FIX)
    try:
        height, width = (int(side) for side in given["size"])
        counts = given["counts"]
        if isinstance(counts, (str, bytes)):
            runs = _decompress(counts.encode() if isinstance(counts, str) else counts)
        else:
            runs = [int(count) for count in counts]
    except (KeyError, TypeError, ValueError, IndexError):
        raise Fp2Error("segmentation is malformed", where=where, fix=_FIX) from None
    if height < 1 or width < 1 or min(runs, default=-1) < 0 or sum(runs) != height * width:
        what = f"the run lengths of segmentation do not fill {width} x {height} pixels"
        raise Fp2Error(what, where=where, fix=_FIX)
    return Rle((height, width), tuple(runs))


def _decompress(text: Sequence[int]) -> list[int]:
    """Return the run lengths in COCO's text: 5 bits a character from '0' on, each run less the one before the last."""
    runs: list[int] = []
    place = 0
    while place < len(text):
        value, shift, more = 0, 0, True
        while more:
            bits = text[place] - 48
            value |= (bits & 0x1F) << shift
            more = bool(bits & 0x20)
            place, shift = place + 1, shift + 5
            if not more and bits & 0x10:
                value |= -1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
    return runs
