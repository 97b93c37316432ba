"""The image processor that remembers its last image: each is resized once, with the result of the processor itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from fp2.engines.hf.processors import LastImageProcessor


class Doubling:
    """An image processor that doubles and counts its images."""

    size = 7

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, images: Any, factor: int = 2) -> dict[str, Any]:
        pictures = images if isinstance(images, list) else [images]
        flat = [one for entry in pictures for one in (entry if isinstance(entry, list) else [entry])]
        self.seen += len(flat)
        return {"pixels": factor * np.stack(flat), "count": len(flat)}


def test_other_options_are_processed_again() -> None:
    memo, picture = LastImageProcessor(Doubling()), np.ones(3)
    assert memo([picture], factor=2)["pixels"].max() == 2
    assert memo([picture], factor=5)["pixels"].max() == 5


def test_removing_an_entry_of_the_result_changes_nothing() -> None:
    memo, picture = LastImageProcessor(Doubling()), np.ones(3)
    memo([picture]).pop("count")
    assert memo([picture])["count"] == 1


def test_a_reused_id_is_not_taken_for_the_same_image() -> None:
    memo = LastImageProcessor(Doubling())
    for number in range(200):  # freed memory is used again, and so are ids
        assert memo([np.full(3, float(number))])["pixels"][0, 0] == 2 * number
        memo.forget()


def test_several_images_are_not_remembered() -> None:
    a, b = np.zeros(2), np.ones(2)
    inner = Doubling()
    memo = LastImageProcessor(inner)
    for _ in range(2):
        assert memo([[a, b]])["count"] == 2
    assert inner.seen == 4
