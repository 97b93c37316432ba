"""Models that raise, run out of memory, hang, answer nothing, without end or in broken text; clocks that jump."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks.torture.project import Patch, Project, Row, Yard

Change = Callable[[list[Any], int], list[Any]]


def faulty(change: Change) -> Patch:
    """Return a patch: `change` gets each batch of answers with its number, and returns what the model says instead."""

    def apply() -> None:
        from fp2.methods.peeps.planted.engine import PlantedEngine

        quick = PlantedEngine.answer

        def answer(self: Any, tasks: Any) -> Iterator[Any]:
            for number, batch in enumerate(quick(self, tasks)):
                yield change(batch, number)

        PlantedEngine.answer = answer  # type: ignore[method-assign]

    return apply


def raising(kind: type[BaseException]) -> Change:
    """Return a model that raises in its fourth batch."""

    def change(batch: list[Any], number: int) -> list[Any]:
        if number == 3:
            raise kind("the model broke\x1b[31m")
        return batch

    return change


def saying(text: str | None, **fields: Any) -> Change:
    """Return a model that says `text` in its fourth batch."""
    return lambda batch, number: [replace(one, text=text, **fields) for one in batch] if number == 3 else batch


def hanging(batch: list[Any], number: int) -> list[Any]:
    """Hang in the fourth batch."""
    if number == 3:
        time.sleep(1000)
    return batch


class Fault(NamedTuple):
    """What a model does, the exit statuses that are right then, and whether its stored answers are wrong."""

    change: Change
    statuses: tuple[int, ...]
    lies: bool = False


FAULTS: dict[str, Fault] = {
    "raises an exception": Fault(raising(RuntimeError), (1,)),
    "runs out of memory": Fault(raising(MemoryError), (1,)),
    "answers nothing to some questions, once": Fault(lambda batch, number: batch[:5] if number == 3 else batch, (0,)),
    "never answers some questions": Fault(lambda batch, number: batch[:-2], (0, 3)),  # by the error budget
    "answers with empty text": Fault(saying(""), (0,), lies=True),
    "answers with a text of 5 MB": Fault(saying("again and " * 500_000), (0,)),
    "answers in invalid UTF-8 (lone surrogates)": Fault(saying("a \ud800 b \udfff"), (0,), lies=True),
    "answers with control characters": Fault(
        saying("\x00\x1b]0;title\x07\x1b[31m [bold]red[/] \r\n=1+1"), (0,), lies=True
    ),
    "answers with numbers that are none": Fault(saying("Yes", numbers={"p_yes": float("nan")}), (0, 3)),
    "answers with a failure and no text": Fault(saying(None, error="\x1b[31mno\x00"), (0, 3)),
}


def models(yard: Yard) -> Iterator[Row]:
    """Yield a row for each fault of a model."""
    for name, fault in FAULTS.items():
        row = Row(f"a model {name}")
        for _ in range(yard.times(5, 1)):
            project = yard.project()
            ended = project.run("report=default", patch=faulty(fault.change))
            wrong = [] if ended.status in fault.statuses else [f"exit status {ended.status}: {ended.said[-600:]}"]
            if "\x1b[31m" in ended.said or "\x00" in ended.said:
                wrong.append("its control characters reached the terminal")
            _, _, reported = project.counted()
            if project.stored() < reported - 24:  # the batch with the fault may have failed
                wrong.append(f"{reported} answers were stored, {project.stored()} are there")
            if not fault.lies:
                wrong += project.finished(yard.tables)
            row.add(f"exit status {ended.status}", wrong)
            project.remove()
        yield row
    yield _hangs(yard)
    yield _clocks(yard)


def _hangs(yard: Yard) -> Row:
    row = Row("a model hangs, and the run gets SIGTERM")
    for _ in range(yard.times(5, 1)):
        project = yard.project()
        ended = project.run(patch=faulty(hanging), after=yard.seconds + 3, how=signal.SIGTERM)
        wrong = [] if ended.status == 130 and ended.one_line else [f"exit status {ended.status}: {ended.said[-600:]}"]
        row.add(f"exit status {ended.status}, {project.stored()} answers stored", wrong + project.finished(yard.tables))
        project.remove()
    return row


def _clocks(yard: Yard) -> Row:
    """Let the clock jump by up to a year at every look, backwards too."""
    row = Row("the clock jumps by up to a year, backwards and forwards")

    def apply() -> None:
        import random

        real, jumps = time.time, random.Random(3)
        time.time = lambda: real() + jumps.uniform(-3e7, 3e7)

    for _ in range(yard.times(10, 1)):
        project: Project = yard.project()
        ended = project.run(patch=apply)
        wrong = [] if ended.status == 0 else [f"exit status {ended.status}: {ended.said[-600:]}"]
        asked, distinct, _ = project.counted()
        if asked != distinct:
            wrong.append(f"{asked - distinct} questions were asked twice")
        row.add("ended well", wrong + project.finished(yard.tables))
        project.remove()
    return row
