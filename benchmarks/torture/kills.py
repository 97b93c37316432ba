"""Kill -9 and SIGTERM at random moments: while MLflow's database is created, asking, analysing, writing, logging."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from benchmarks.torture.project import PER_BATCH, Row, Yard

LOGGED = ("tracking=mlflow", "report=default")


def kills(yard: Yard) -> Iterator[Row]:
    """Kill runs of one project until one ends, then start anew; the moments are spread over the whole run."""
    yield _killed(yard, Row("kill -9 at a random moment"), signal.SIGKILL, yard.times(100, 1))
    yield _killed(yard, Row("SIGTERM at a random moment"), signal.SIGTERM, yard.times(30, 1))


def _killed(yard: Yard, row: Row, how: signal.Signals, times: int) -> Row:
    project = yard.project(slow=0.02)
    length = 3.0
    started = 0
    while row.tries < times:
        moment = yard.random.uniform(0.0, length)
        before = project.counted()[2]
        ended = project.run(*LOGGED, after=moment, how=how)
        started += 1
        _, _, reported = project.counted()
        wrong = (
            [] if project.stored() >= reported else [f"{reported} answers were stored, {project.stored()} are there"]
        )
        if ended.status == 0:  # it was quicker
            length = max(0.5, min(length, ended.seconds))
            project.remove()
            project, started = yard.project(slow=0.02), 0
            continue
        if how == signal.SIGTERM and (not ended.one_line or ended.status not in (130, -signal.SIGTERM)):
            wrong.append(f"SIGTERM ended with {ended.status}: {ended.said[-300:]}")
        length = max(length, ended.seconds)
        place = "asking" if reported > before else "before asking" if not reported else "after asking"
        row.add(f"killed {place}", wrong)
        if project.stored() == 432 or row.tries == times:  # all are stored: the next run must end well
            row.broken += project.finished(yard.tables, *LOGGED)
            asked, distinct, _ = project.counted()
            if asked - distinct > started * PER_BATCH:
                row.broken.append(f"{asked - distinct} questions were asked again after {started} kills")
            row.outcomes["asked again"] += asked - distinct
            project.remove()
            project, started = yard.project(slow=0.02), 0
    project.remove()
    return row
