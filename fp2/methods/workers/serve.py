"""What a worker does: build the engine, answer the images that it is given, and say how far it is.

A worker has an inbox of images. `None` in it ends a pass: the engine answers what it holds back, and the model stays
loaded for the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fp2.extension import Answer, Engine, Fp2Error, ImageTask, digest

Item = ImageTask | None
Build = Callable[[], Engine]


@dataclass(frozen=True)
class Ready:
    """The engine was built; `identity` is the digest of what it says of its model."""

    identity: str


@dataclass(frozen=True)
class Took:
    """The engine took the next image."""


@dataclass(frozen=True)
class Answered:
    """A batch of answers, the calls of the model so far, and what is recorded but not hashed."""

    batch: list[Answer]
    model_calls: int
    runtime: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """The pass has ended: everything that was given is answered."""


@dataclass(frozen=True)
class Refused:
    """A mistake of the user's, as the parts of an `Fp2Error`."""

    what: str
    where: str
    fix: str


@dataclass(frozen=True)
class Raised:
    """Another error of the engine, in one line."""

    line: str


@dataclass(frozen=True)
class Ended:
    """The worker's process is gone; `reason` says how. Only a transport says this."""

    reason: str = field(default="")


Message = Ready | Took | Answered | Done | Refused | Raised | Ended


def serve(build: Build, receive: Callable[[], Item], send: Callable[[Message], None]) -> None:
    """Answer one pass after the other, until the process is ended or the engine fails.

    Parameters
    ----------
    build : callable
        Returns the engine.
    receive : callable
        Returns the next item of the inbox; waits for it. May be called from a thread of the engine's.
    send : callable
        Takes a message; may be called from several threads.
    """

    def taken() -> Iterator[ImageTask]:
        while (task := receive()) is not None:
            send(Took())
            yield task

    try:
        engine = build()
        send(Ready(digest(engine.identity())))
        while True:
            tasks = taken()
            for batch in engine.answer(tasks):
                send(Answered(batch, engine.model_calls, engine.runtime()))
            for _ in tasks:  # an engine that stopped before the end of the pass
                pass
            send(Done())
    except Fp2Error as error:
        send(Refused(error.what, error.where, error.fix))
    except Exception as error:  # what a model raises is unknown
        send(Raised(f"{type(error).__name__}: {error}"))
