"""Items are prefetched in order; an error is raised at its place; the thread ends with the consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fp2.engines.base import prefetched


def test_order_and_number() -> None:
    assert list(prefetched(range(100), 4)) == list(range(100))
    assert list(prefetched([], 4)) == []


def test_the_next_is_made_while_the_first_is_used_and_no_more_than_asked() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(50):
            made.append(i)
            yield i

    stream = prefetched(items(), 3)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 4 <= len(made) <= 6
    stream.close()


def test_an_error_comes_after_what_was_made_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    stream = prefetched(items(), 8)
    assert next(stream) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)


def test_who_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    for item in prefetched(iter(range(10_000)), 2):
        if item == 3:
            break
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
