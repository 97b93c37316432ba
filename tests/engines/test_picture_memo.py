"""The memory of resized pictures: once each, exactly what the whole batch gives, or the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fp2.engines.picture_memo import OncePerPicture


class Doubling:
    """An image processor that doubles and counts its pictures; `pad` and `mean` make a batch differ from its parts."""

    def __init__(self, *, pad: bool = False, mean: bool = False) -> None:
        self.seen, self.pad, self.mean, self.size = 0, pad, mean, 7

    def __call__(self, images: list[Any], factor: int = 2) -> dict[str, Any]:
        pictures = [entry[0] if isinstance(entry, list) else entry for entry in images]
        self.seen += len(pictures)
        widest = max(len(picture) for picture in pictures)
        rows = [np.pad(picture, (0, widest - len(picture))) if self.pad else picture for picture in pictures]
        pixels = factor * np.stack(rows) + (np.mean(rows) if self.mean else 0)
        return {"pixels": pixels, "sizes": [len(picture) for picture in pictures]}


def pictures(*lengths: int) -> list[np.ndarray]:
    return [np.arange(length, dtype=float) + 10 * place for place, length in enumerate(lengths)]


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left["sizes"] == right["sizes"] and np.array_equal(left["pixels"], right["pixels"])


@pytest.mark.parametrize("nested", [False, True])
def test_each_picture_once_and_the_same_numbers(nested: bool) -> None:
    a, b, c = pictures(4, 4, 4)
    inner = Doubling()
    memo = OncePerPicture(inner)
    for batch in ([a, a, b], [b, c, c], [c, b, a], [a]):
        entries = [[picture] for picture in batch] if nested else batch
        assert same(memo(entries), Doubling()(entries))
    assert inner.seen == 3 + 3, "three pictures, and the first mixed batch once more as proof"
    assert memo.size == 7, "other attributes are the inner one's"


def test_other_options_are_other_pictures() -> None:
    batch = pictures(4, 4)
    memo = OncePerPicture(Doubling())
    memo(batch)
    assert same(memo(batch, factor=5), Doubling()(batch, factor=5))


def test_pictures_padded_together_go_through_whole() -> None:
    batch = pictures(4, 6)
    assert same(OncePerPicture(Doubling(pad=True))(batch), Doubling(pad=True)(batch))


def test_a_processor_that_looks_at_the_whole_batch_is_found_out() -> None:
    inner = Doubling(mean=True)
    memo = OncePerPicture(inner)
    first, second = pictures(4, 4), pictures(4, 4)[::-1]
    for batch in (first, second):
        assert same(memo(batch), Doubling(mean=True)(batch))
    assert not memo.exact


def test_a_picture_that_is_gone_lends_its_place_to_none() -> None:
    memo = OncePerPicture(Doubling())
    for number in range(200):  # freed memory is used again, and so are ids
        batch = [np.full(3, float(number))]
        assert memo(batch)["pixels"][0, 0] == 2 * number
        del batch
    memo.forget()
    assert memo([np.full(3, -1.0)])["pixels"][0, 0] == -2


def test_what_is_not_a_list_of_single_pictures_goes_through_whole() -> None:
    a, b = pictures(4, 4)
    inner = Doubling()
    memo = OncePerPicture(inner)
    memo([[a, b], [b]])
    memo([[a, b], [b]])
    assert inner.seen == 4
