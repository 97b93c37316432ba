"""Computing the next items in a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetched(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield `items` in order; up to `depth` of them are computed in a thread in advance.

    An error of the iterable is raised here, at its place. The thread ends when the consumer stops early.
    """
    ready: queue.Queue[object] = queue.Queue(maxsize=max(1, depth))
    stop = threading.Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # raised in the consumer, whatever it is
            put(_Raised(error))
        else:
            put(_END)

    worker = threading.Thread(target=work, name="prefetch", daemon=True)
    worker.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Raised):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        worker.join()


class _Raised:
    """An error of the thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
