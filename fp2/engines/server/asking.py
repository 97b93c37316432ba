"""Which question goes to which server next: each server has an image of its own, whose questions follow each other."""

from __future__ import annotations

import queue
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from fp2.engines.base import failed, open_images
from fp2.engines.server.chat import Shown, shown
from fp2.engines.server.client import Channel, ServerClient
from fp2.engines.server.limits import Spending
from fp2.engines.server.pool import Server
from fp2.errors import without_path
from fp2.tables import Answer, ImageTask, Question

Ask = Callable[[Channel, ImageTask, Question, Shown], Coroutine[object, None, Answer]]
"""Asks one question about what is shown."""


def ask_about(
    client: ServerClient,
    tasks: Iterator[ImageTask],
    ask: Ask,
    requests: Callable[[Question], Sequence[Mapping[str, object]]],
    window: int,
) -> Iterator[list[Answer]]:
    """Yield answers as they arrive; each server is asked about one image at a time while the next are decoded here.

    Parameters
    ----------
    requests : callable
        Returns the requests of a question without its image, for what it may cost.
    window : int
        Pending questions for a server, those that others answer in its place included.

    Raises
    ------
    OverspentError
        Before the next question costs more than the run may; all others are answered by then.
    """
    done: queue.SimpleQueue[tuple[Server, Future[Answer], float]] = queue.SimpleQueue()
    spending = client.limits.spending
    servers, pending = client.pool.servers, Counter[Server]()
    waiting: dict[Server, deque[tuple[ImageTask, Question, Shown]]] = {server: deque() for server in servers}
    more = True
    while more or any(waiting.values()) or pending.total():
        ready = [
            one for one in servers if pending[one] < window and (waiting[one] or (more and client.pool.takes(one)))
        ]
        if not ready:
            yield _collect(done, pending, spending)
            continue
        home = min(ready, key=pending.__getitem__)
        if waiting[home]:
            if (cost := spending.reserve(partial(requests, waiting[home][0][1]))) is None:
                if not pending.total():
                    raise spending.overspent()
                yield _collect(done, pending, spending)
                continue
            request = client.submit(ask(client.channel(home), *waiting[home].popleft()))
            request.add_done_callback(lambda future, home=home, cost=cost: done.put((home, future, cost)))  # type: ignore[misc]
            pending[home] += 1
        elif (task := next(tasks, None)) is None:
            more = False
        else:
            try:
                image = None if task.blind else shown(open_images(task))
            except Exception as error:  # a decoder can raise anything; it is the error of this image only
                reason = f"the image cannot be read: {without_path(error, task.path)}"
                yield [failed(task, question, reason) for question in task.questions]
            else:
                waiting[home].extend((task, question, image) for question in task.questions)


def _collect(
    done: queue.SimpleQueue[tuple[Server, Future[Answer], float]], pending: Counter[Server], spending: Spending
) -> list[Answer]:
    """Wait for one answer; return it with all others that have arrived, which are no longer pending."""
    arrived = [done.get()]
    with suppress(queue.Empty):
        while True:
            arrived.append(done.get_nowait())
    pending.subtract(home for home, _, _ in arrived)
    spending.release(sum(cost for _, _, cost in arrived))
    return [future.result() for _, future, _ in arrived]
