"""An engine whose model runs in several processes: it plans and names answers here, and answers with workers.

Each worker gets the next image when it is ready. It holds a few images that its engine has not taken yet, so that
memory stays bounded here and there, and a slow worker holds up no other. The variants of one image go to one worker.
What a dead worker had not taken goes back to the others. What it had taken may be what killed it, so that these images
are asked at the end, one by one: one that ends a worker again fails, and costs no other image its answers.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from fp2.extension import Answer, Engine, Fp2Error, ImageTask, WorkerOptions, digest, failed, plural, worker_devices
from fp2.methods.workers.serve import Answered, Build, Done, Ended, Item, Message, Raised, Ready, Refused, Took

Rebuild = Callable[[Mapping[str, Any]], Build]


class WorkersEngine:
    """The engine `inner`, with its answers from workers; everything else is what `inner` says.

    Parameters
    ----------
    inner : Engine
        Loads no model here.
    connect : callable
        Returns the transport to the workers; called when the first question arrives.
    places : sequence of str
        Where the workers are, for the record.
    """

    def __init__(self, inner: Engine, connect: Callable[[], Transport], places: Sequence[str]) -> None:
        self.inner, self._connect, self.places = inner, connect, list(places)

    def __getattr__(self, name: str) -> Any:
        """Return what `inner` has of this name."""
        return getattr(self.inner, name)

    @cached_property
    def _dispatcher(self) -> Dispatcher:
        found = Dispatcher(self._connect(), len(self.places), digest(self.inner.identity()))
        weakref.finalize(self, found.close)
        return found

    @property
    def model_calls(self) -> int:
        """Calls of the model in all workers."""
        return self._dispatcher.model_calls if "_dispatcher" in self.__dict__ else 0

    @property
    def notices(self) -> Sequence[str]:
        """What `inner` reports, and which workers were lost."""
        lost = self._dispatcher.reports if "_dispatcher" in self.__dict__ else []
        return [*self.inner.notices, *lost]

    def runtime(self) -> dict[str, Any]:
        """Return what the worker of the last batch records, and where the workers are."""
        last = self._dispatcher.runtime if "_dispatcher" in self.__dict__ else {}
        return {**(last or self.inner.runtime()), "workers": self.places}

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Do nothing: each worker drafts from its own answers."""

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers of the workers in batches; raises as `Dispatcher.answer`."""
        return self._dispatcher.answer(tasks)


_HERE = {"devices": None, "ray": None}  # the engine of a worker runs in the worker's process


def on_devices(inner: Engine, options: WorkerOptions, rebuild: Rebuild) -> Engine:
    """Return the engine in a process of each device that the options list.

    Parameters
    ----------
    inner : Engine
    options : WorkerOptions
    rebuild : callable
        Returns, for options that replace the engine's, a picklable callable that builds the engine.
    """
    from fp2.methods.workers.processes import Processes

    devices = worker_devices(options)
    builds = [rebuild({**_HERE, "device": device.partition(":")[0]}) for device in devices]  # a worker sees one GPU
    processes = Processes(builds, devices)
    return WorkersEngine(inner, lambda: processes, devices)


def on_ray(inner: Engine, options: WorkerOptions, rebuild: Rebuild) -> Engine:
    """Return the engine in actors of Ray; parameters as in `on_devices`."""
    from fp2.methods.workers.on_ray import RayActors, check_ray

    check_ray()
    ray, build = options.ray, rebuild(_HERE)
    assert ray is not None
    return WorkersEngine(inner, lambda: RayActors(build, ray), ["ray"] * ray.actors)


AHEAD = 16
"""Images that a worker holds before its engine takes them."""
_WAIT = 1.0  # seconds


class Transport(Protocol):
    """How workers are started and reached. A worker that is started again has a new number."""

    def start(self, place: int) -> int:
        """Start the worker of a place (a device, say); return its number."""
        ...

    def label(self, place: int) -> str:
        """Return what to call the worker of a place in messages."""
        ...

    def give(self, number: int, items: Sequence[Item]) -> None:
        """Put items into a worker's inbox; one that is gone is not an error."""
        ...

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return what workers have sent, with their numbers; waits for up to `timeout` seconds."""
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


@dataclass
class _Worker:
    place: int
    number: int
    tasks: dict[str, ImageTask] = field(default_factory=dict)  # not answered yet, in the order in which they were given
    waiting: deque[str] = field(default_factory=deque)  # those of them that the engine has not taken
    ready: bool = False
    answered: bool = False
    passing: bool = False  # between its first image and the end of the pass
    model_calls: int = 0


class Dispatcher:
    """Answers images with the workers of a transport; they stay for the next call, and end with `close`.

    Parameters
    ----------
    transport : Transport
    n_workers : int
    identity : str
        The digest of the engine's identity here: a worker that has another model is refused.
    """

    def __init__(self, transport: Transport, n_workers: int, identity: str) -> None:
        self._transport, self._n, self._identity = transport, n_workers, identity
        self._workers: dict[int, _Worker] = {}
        self._again: deque[list[ImageTask]] = deque()
        self._suspects: deque[ImageTask] = deque()
        self._calls_of_the_gone = 0
        self.reports: list[str] = []
        """Which workers were lost, in words."""
        self.runtime: dict[str, Any] = {}
        """What the worker of the last batch records."""

    @property
    def model_calls(self) -> int:
        """Calls of the model in all workers."""
        return self._calls_of_the_gone + sum(worker.model_calls for worker in self._workers.values())

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers of all workers in batches; see `Engine.answer`.

        Raises
        ------
        Fp2Error
            If a worker cannot load the model, has another one, or all are gone.
        RuntimeError
            For another error of an engine.
        """
        pictures = by_picture(tasks)
        first = next(pictures, None)
        if first is None:
            return
        try:
            # all workers at first, later those that were lost
            for place in sorted(set(range(self._n)) - {worker.place for worker in self._workers.values()}):
                self._start(place)
            yield from self._shared(itertools.chain([first], pictures))
            while self._again:
                yield from self._shared(iter([self._again.popleft() for _ in range(len(self._again))]))
            yield from self._one_by_one()
        except BaseException:  # an interrupt, too
            self.close()
            raise

    def close(self) -> None:
        """End all workers."""
        self._calls_of_the_gone = self.model_calls
        self._workers.clear()
        self._again.clear()
        self._suspects.clear()
        self._transport.close()

    def _start(self, place: int) -> None:
        number = self._transport.start(place)
        self._workers[number] = _Worker(place, number)

    def _shared(self, pictures: Iterator[list[ImageTask]]) -> Iterator[list[Answer]]:
        """Deal all images to whichever worker holds the fewest."""
        there = True
        while True:
            while there and (free := self._free()) is not None:
                picture = next(pictures, None)
                there = picture is not None
                if picture is not None:
                    self._give(free, picture)
            if not there:
                self._end_passes()
                if not any(worker.passing for worker in self._workers.values()):
                    return
            yield from self._receive(alone=False)

    def _one_by_one(self) -> Iterator[list[Answer]]:
        """Ask each image that a dead worker had taken with nothing else in the worker."""
        while True:
            idle = [worker for worker in self._workers.values() if not worker.passing]
            for worker in idle[: len(self._suspects)]:
                self._give(worker, [self._suspects.popleft()])
            self._end_passes()
            if not self._suspects and not any(worker.passing for worker in self._workers.values()):
                return
            yield from self._receive(alone=True)

    def _free(self) -> _Worker | None:
        """Return the worker that holds the fewest images, if it may hold more; those that load a model come last."""
        some = [worker for worker in self._workers.values() if len(worker.waiting) < AHEAD]
        return min(some, key=lambda worker: (len(worker.waiting), not worker.ready, len(worker.tasks)), default=None)

    def _give(self, worker: _Worker, tasks: Sequence[ImageTask]) -> None:
        worker.passing = True
        worker.tasks |= {task.image_id: task for task in tasks}
        worker.waiting.extend(task.image_id for task in tasks)
        self._transport.give(worker.number, tasks)

    def _end_passes(self) -> None:
        for worker in self._workers.values():
            if worker.passing and _LAST not in worker.waiting:
                worker.waiting.append(_LAST)
                self._transport.give(worker.number, [None])

    def _receive(self, *, alone: bool) -> Iterator[list[Answer]]:
        for number, message in self._transport.receive(_WAIT):
            worker = self._workers.get(number)
            if worker is not None:
                label = self._transport.label(worker.place)
                match message:
                    case Ready(identity):
                        if identity != self._identity:
                            fix = "Install the same packages and put the same files of the model on every machine"
                            raise Fp2Error(
                                f"{label} has another model, or other versions of packages", where="engine", fix=fix
                            )
                        worker.ready = True
                    case Took():
                        worker.waiting.popleft()
                    case Answered(batch, calls, runtime):
                        worker.answered, worker.model_calls, self.runtime = True, calls, runtime
                        _strike(worker.tasks, batch)
                        yield batch
                    case Done():
                        worker.passing = False
                        worker.tasks.clear()  # what is left was not answered, which the caller reports
                        worker.waiting.clear()
                    case Refused(what, where, fix):
                        raise Fp2Error(f"{label}: {what}", where=where, fix=fix)
                    case Raised(line):
                        raise RuntimeError(f"{label}: {line}")
                    case Ended(reason):
                        yield from self._lost(worker, reason, alone=alone)

    def _lost(self, worker: _Worker, reason: str, *, alone: bool) -> Iterator[list[Answer]]:
        """Take over what a dead worker held, and start another in its place if it had worked."""
        del self._workers[worker.number]
        self._calls_of_the_gone += worker.model_calls
        label = self._transport.label(worker.place)
        waiting = set(worker.waiting)
        untaken = [[task] for name, task in worker.tasks.items() if name in waiting]
        tasks = [task for name, task in worker.tasks.items() if name not in waiting]
        restarts = bool(tasks) if alone else worker.answered
        if alone and tasks:
            self.reports.append(f"{label} was lost with one image ({reason}); its answers have failed")
            why = f"the process of the model ended ({reason})"
            yield [failed(task, question, why) for task in tasks for question in task.questions]
        else:
            self._suspects.extend(tasks)
            if alone:
                self._suspects.extendleft(task for one in untaken for task in one)
            else:
                self._again.extend(untaken)
            held = len(tasks) + len(untaken)
            self.reports.append(
                f"{label} was lost ({reason}); the {plural(held, 'image')} that it held will be asked again"
            )
        if restarts:
            self._start(worker.place)
        if not self._workers:
            fix = "All answers so far are stored; the same command continues"
            raise Fp2Error(f"every worker was lost, the last: {reason}", where="engine", fix=fix)


_LAST = "\0"
"""Stands for the end of the pass in the list of what a worker has not taken."""


def by_picture(tasks: Iterable[ImageTask]) -> Iterator[list[ImageTask]]:
    """Yield the tasks, those that follow each other and are made from one file together."""
    for _, group in itertools.groupby(tasks, key=lambda task: task.path):
        yield list(group)


def _strike(tasks: dict[str, ImageTask], batch: Iterable[Answer]) -> None:
    """Remove the answered questions from what a worker has to answer."""
    answered: dict[str, set[str]] = {}
    for answer in batch:
        answered.setdefault(answer.image_id, set()).add(answer.question_id)
    for image_id in answered.keys() & tasks.keys():
        task = tasks[image_id]
        left = tuple(question for question in task.questions if question.question_id not in answered[image_id])
        if left:
            tasks[image_id] = replace(task, questions=left)
        else:
            del tasks[image_id]
