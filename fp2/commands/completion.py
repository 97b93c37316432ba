"""What the shell completes: ids of runs, and `group=choice`.

It loads neither the config nor MLflow, so that it takes a fraction of a second: runs are read from the MLflow store of
the project's folder (`FP2_ROOT`, or the current one) and from its output folder. What cannot be read is left out.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from fp2.artifacts import STATUS
from fp2.text import printable

MOST_RUNS = 20
_LOGGED = """
SELECT run_uuid, name FROM runs
WHERE status = 'FINISHED' AND lifecycle_stage = 'active' AND substr(run_uuid, 1, ?) = ?
ORDER BY start_time DESC LIMIT ?
"""


def runs(incomplete: str) -> list[tuple[str, str]]:
    """Return (id, name) of the newest finished runs whose id begins so; a path is left to the shell."""
    root, runs_by_name = Path(os.environ.get("FP2_ROOT") or "."), {}
    with suppress(sqlite3.Error, OSError):
        store = (root / "mlruns" / "mlflow.db").resolve()
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            runs_by_name = dict(connection.execute(_LOGGED, (len(incomplete), incomplete, MOST_RUNS)).fetchall())
    if len(runs_by_name) < MOST_RUNS:
        runs_by_name.update(
            (run, name) for run, name in _in_outputs(root / "outputs", incomplete) if run not in runs_by_name
        )
    return [(run, printable(name or "", 100)) for run, name in list(runs_by_name.items())[:MOST_RUNS]]


def _in_outputs(outputs: Path, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield (id, name) of the runs in the output folders, the newest first; at most `MOST_RUNS`."""
    free_slots = MOST_RUNS
    paths = [path for depth in ("*/*", "*/*/*") for path in outputs.glob(f"{depth}/{STATUS}")]
    for path in sorted(paths, reverse=True):  # folders are named by date and time
        with suppress(OSError, ValueError, KeyError, TypeError):
            status = json.loads(path.read_text(encoding="utf-8"))
            if status["run_id"].startswith(incomplete) and free_slots > 0:
                yield status["run_id"], f"{status['model']} · {'+'.join(status['cuts'])}"
                free_slots -= 1


def settings(words: Sequence[str], incomplete: str) -> list[str]:
    """Return the overrides `group=choice` that begin so; names of groups for an empty word.

    Parameters
    ----------
    words : sequence of str
        Those before it. Bash breaks words at `=`: then the last ones are the group and `=`, and choices alone are
        returned.
    incomplete : str
    """
    from fp2.config import choices, groups

    known_groups = groups()
    before = [word for word in words if word != "="][-1:]  # right after `=` the word is empty
    if before and before[0] in known_groups and (words[-1] == "=" or not incomplete):
        return [name for name in choices(before[0]) if name.startswith(incomplete)]
    if not incomplete:
        return [f"{group}=" for group in known_groups if choices(group)]
    choices_of_groups = (f"{group}={name}" for group in known_groups for name in choices(group))
    return [word for word in choices_of_groups if word.startswith(incomplete)]
