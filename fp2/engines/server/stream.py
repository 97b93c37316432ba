"""Requests that are no questions about images, such as those of a judge: many at a time, results as they arrive."""

from __future__ import annotations

import queue
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from fp2.engines.server.client import ServerClient

T = TypeVar("T")


def stream(client: ServerClient, jobs: Iterable[Coroutine[Any, Any, T]], window: int) -> Iterator[list[T]]:
    """Yield the results of jobs as they arrive; `window` of them are pending, and a job is made as one ends."""
    done: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    waiting, pending = iter(jobs), 0
    while True:
        if pending < window and (job := next(waiting, None)) is not None:
            client.submit(job).add_done_callback(done.put)
            pending += 1
            continue
        if not pending:
            return
        batch = [done.get().result()]
        while not done.empty():
            batch.append(done.get().result())
        pending -= len(batch)
        yield batch
