"""Full disks at every stage, read-only folders, truncated and bit-flipped stores."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.torture.project import Patch, Project, Row, Yard

ENOUGH = 10**12


def disks(yard: Yard) -> Iterator[Row]:
    """Yield a row for each fault of a disk."""
    yield _full(yard)
    yield _limited(yard)
    yield _injected(yard)
    yield _read_only(yard)
    yield _truncated(yard)
    yield _flipped(yard)


def _full(yard: Yard) -> Row:
    """Run on a disk of its own (tmpfs) that becomes full at a random moment, then has space again."""
    row = Row("a disk of 40 kB to 4 MB becomes full")
    root = yard.folder / "disk"
    for _ in range(yard.times(30, 0)):
        root.mkdir(exist_ok=True)
        size = int(10 ** yard.random.uniform(4.6, 6.6))
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", root]).returncode:
            print("a full disk: left out, no disk can be mounted here", file=sys.stderr)
            break
        try:
            project = Project(root, yard.pictures)
            ended = project.run("report=default")
            subprocess.run(["mount", "-o", "remount,size=100m", root], check=True)
            _tried(row, project, yard, ended)
        finally:
            subprocess.run(["umount", root], check=True)
    return row


def limit(size: int) -> Patch:
    """Return a patch: no file may grow beyond `size` bytes, as on a disk that is full."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return apply


def _limited(yard: Yard) -> Row:
    """Let writes fail beyond a random size: the store (about 300 kB), the tables, MLflow's database or the figures."""
    row = Row("files cannot grow beyond a random size (RLIMIT_FSIZE)")
    for _ in range(yard.times(20, 1)):
        project = yard.project()
        size = int(10 ** yard.random.uniform(4.4, 6.2))  # the log of what was asked takes 11 kB
        _tried(row, project, yard, project.run("report=default", patch=limit(size)))
    return row


STAGES: dict[str, Callable[[], tuple[Any, str]]] = {
    "the origins": lambda: (_module("fp2.store.origins"), "add"),
    "a commit of answers": lambda: (_module("fp2.store.rows"), "put_failures"),
    "the tables": lambda: (_module("fp2.artifacts"), "write_parquet"),
    "the results": lambda: (_module("fp2.artifacts"), "write_results"),
    "the figures": lambda: (_module("fp2.report.section"), "write_figures"),
    "the dashboard": lambda: (_module("fp2.report.dashboard"), "write_dashboard"),
    "the passport": lambda: (_module("fp2.report.passport"), "write_atomically"),
    "the config": lambda: (_module("omegaconf").OmegaConf, "to_yaml"),
}


def _module(name: str) -> Any:
    import importlib

    return importlib.import_module(name)


def _injected(yard: Yard) -> Row:
    row = Row(f"the disk is full while a run writes {', '.join(STAGES)}")
    names = list(STAGES)
    for number in range(yard.times(3 * len(names), len(names))):
        name = names[number % len(names)]

        def apply(name: str = name) -> None:
            owner, attribute = STAGES[name]()

            def full(*args: Any, **kwargs: Any) -> Any:
                if owner.__name__.startswith("fp2.store"):
                    error = sqlite3.OperationalError("database or disk is full")
                    error.sqlite_errorname = "SQLITE_FULL"
                    raise error
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk")

            setattr(owner, attribute, full)

        project = yard.project()
        _tried(row, project, yard, project.run("report=default", patch=apply))
    return row


def _tried(row: Row, project: Project, yard: Yard, ended: Any) -> None:
    """Count a try, then run again with space."""
    wrong = [] if ended.one_line else [f"{row.fault}: stack trace: {ended.said[-600:]}"]
    asked, _, reported = project.counted()
    if project.stored() < reported:
        wrong.append(f"{reported} answers were stored, {project.stored()} are there")
    wrong += project.finished(yard.tables)
    again = project.counted()[0] - asked
    row.add("ended with one line" if ended.status else "ended well", wrong)
    if again > 432 - reported:
        row.broken.append(f"{again} questions asked again, {reported} answers were stored")
    project.remove()


def _read_only(yard: Yard) -> Row:
    """Make the store unwritable by opening it so: permissions do not bind the superuser."""
    row = Row("the store cannot be written (read-only)")

    def apply() -> None:
        from fp2.store import rows

        real = rows.connect

        def read_only(path: Path) -> Any:
            connection = real(path)
            connection.execute("PRAGMA query_only=1")
            return connection

        rows.connect = read_only

    for _ in range(yard.times(5, 1)):
        project = yard.project()
        _tried(row, project, yard, project.run(patch=apply))
    return row


def _truncated(yard: Yard) -> Row:
    row = Row("the store is truncated at a random length")
    for _ in range(yard.times(20, 1)):
        project = _asked(yard)
        size = project.bench.store.stat().st_size
        os.truncate(project.bench.store, yard.random.randrange(size))
        _damaged(row, project, yard)
    return row


def _flipped(yard: Yard) -> Row:
    row = Row("one bit of the store is flipped")
    for _ in range(yard.times(60, 2)):
        project = _asked(yard)
        with project.bench.store.open("r+b") as handle:
            place = yard.random.randrange(project.bench.store.stat().st_size)
            handle.seek(place)
            byte = handle.read(1)[0]
            handle.seek(place)
            handle.write(bytes([byte ^ (1 << yard.random.randrange(8))]))
        _damaged(row, project, yard)
    return row


def _asked(yard: Yard) -> Project:
    """Return a project whose store has every answer, in one file."""
    project = yard.project()
    project.run()
    with closing(sqlite3.connect(project.bench.store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return project


def _damaged(row: Row, project: Project, yard: Yard) -> None:
    """Run on the damaged store: it is refused in one line, or every number is right; a wrong one is the fault."""
    ended = project.run("seed=5")
    if ended.status == 0:
        same = {name: body for name, body in yard.tables.items() if name != "disparities.parquet"}
        found = project.tables()
        wrong = [f"{name} differs" for name in same if found[name] != same[name]]
        row.add("not noticed, and every table is right", wrong)
    else:
        row.add("refused in one line", [] if ended.one_line else [f"stack trace: {ended.said[-600:]}"])
    project.remove()
