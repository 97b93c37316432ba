"""Making the next things ready in the background while the model works on the last."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
_END = object()


def ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield `items` in order; up to `depth` of them are made in a thread before they are asked for.

    What the making raises is raised here, at its place. When the consumer stops early, so does the thread.
    """
    ready: queue.Queue[object] = queue.Queue(maxsize=max(1, depth))
    stop = threading.Event()

    def put(thing: object) -> bool:
        while not stop.is_set():
            try:
                ready.put(thing, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # handed over to the consumer, whatever it is
            put(_Raised(error))
        else:
            put(_END)

    worker = threading.Thread(target=make, name="prefetch", daemon=True)
    worker.start()
    try:
        while (thing := ready.get()) is not _END:
            if isinstance(thing, _Raised):
                raise thing.error
            yield thing  # type: ignore[misc]
    finally:
        stop.set()
        worker.join()


class _Raised:
    """Carries an error from the thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
