"""The files of a run, in one folder: their names, and how tables and results are written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from fp2.errors import Fp2Error
from fp2.stats.rows import TABLE as READ_BY_TABLE
from fp2.stats.rows import columns_read_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import yaml

RESULTS = "results.json"
DASHBOARD = "dashboard.html"
PASSPORT = "passport.json"
CONFIG = "config.yaml"
OVERRIDES = "overrides.yaml"
TABLE, SAMPLE = "disparities.json", "answers_sample.json"
UI_TABLES = (TABLE, SAMPLE)
"""The JSON tables that MLflow's UI shows."""
FIGURES = "figures"
PEOPLE, RESPONSES, SCORES, DISPARITIES = "people.parquet", "responses.parquet", "scores.parquet", "disparities.parquet"
SHARDS, QUESTIONS = "responses", "questions.parquet"
"""In place of responses and scores: answers as arrays (`fp2.ask.storage`), in parts, and the questions."""
STATUS, LIVE = "status.json", "live.json"
"""How a job ended, and how far it is."""
REPORT_FOLDER, REPORT_PAGE, REPORT_MARKDOWN, REPORT_FIGURE = "report", "report.html", "report.md", "fingerprints.png"
REPORT_FILES = (RESULTS, REPORT_PAGE, REPORT_MARKDOWN, REPORT_FIGURE)
"""Of a report on several runs, in a folder of its own."""
SWEEP = "multirun.yaml"
"""Hydra's copy of the words of a sweep, in its folder while it goes on."""
LOCAL_FILES = (STATUS, LIVE, SWEEP, "traceback.txt")
"""Files that stay on this machine."""
TABLE_COLUMNS = ("probe", "scorer", "cut", *columns_read_by(READ_BY_TABLE))


@contextmanager
def as_user_error(folder: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that cannot be written, into one line."""
    try:
        yield
    except OSError as error:
        raise Fp2Error(
            f"cannot write: {error.strerror or error}",
            where=str(error.filename or folder),
            fix="Free some space or choose another folder; all answers are stored, run the same command again",
        ) from error


def json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, an empty one where there is none that can be read."""
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(body := json.loads(path.read_text(encoding="utf-8")), dict):
            return body
    return {}


def yaml_loader() -> type[yaml.SafeLoader]:
    """Return libyaml's loader of plain data, ten times as fast as PyYAML's, which may have been built without it."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file."""
    import yaml

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), yaml_loader())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Fp2Error(f"not readable as YAML: {' '.join(str(error).split())}", where=str(path)) from error
    if not isinstance(content, dict):
        raise Fp2Error("a mapping was expected at the top of the file", where=str(path))
    return content


def read_status(folder: Path) -> dict[str, Any]:
    """Return how the job in `folder` ended; nothing where that is not written."""
    return json_object(folder / STATUS)


def job_folders(sweep: Path) -> list[Path]:
    """Return the folders of the jobs of the sweep in a folder, in their order, wherever below it Hydra has them.

    A job without a status was stopped: it is found by its number, which is the name of its folder by default.
    """
    numbered = {path: int(path.name) for path in sweep.glob("*") if path.name.isdigit()}
    for path in sweep.rglob(STATUS):
        status = read_status(path.parent)
        if status.get("sweep") and (path.parent / status["sweep"]).resolve() == sweep.resolve():
            numbered[path.parent] = int(status["job"])
    return sorted(numbered, key=lambda path: (numbered[path], path))


def check_writable(path: Path) -> None:
    """Raise if a file that the user named cannot be written; it stays as it is, or absent."""
    with as_user_error(path.parent):
        is_new = not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a file that the user named, and its folder where there is none."""
    with as_user_error(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table, compressed with zstd."""
    table.to_parquet(path, compression="zstd", index=False)


def write_disparities(folder: Path, rows: list[dict[str, Any]], *, parquet: bool = True) -> None:
    """Write the disparities as the JSON table that MLflow's UI compares side by side, and as Parquet on demand."""
    import pandas as pd

    if parquet:
        table = pd.DataFrame([{**row, "groups": json.dumps(row["groups"])} for row in rows])
        write_parquet(folder / DISPARITIES, table)
    _write_table(folder / TABLE, TABLE_COLUMNS, [[row[name] for name in TABLE_COLUMNS] for row in rows])


class ReadAnswer(TypedDict):
    """The text of an answer, and the primary scorer's value; None where it has none."""

    text: str
    refused: bool
    value: float | None


class SampledAnswer(ReadAnswer):
    """An answer to read; `image` is a salted key (None of a changed image), `groups` are by cut (None: not named)."""

    probe: str
    question: str
    image: str | None
    groups: dict[str, str | None]


def write_sample(folder: Path, sample: Sequence[SampledAnswer], scorer: str) -> None:
    """Write a sample of answers (`fp2.report.samples`) as a JSON table; none where there are no texts."""
    if not sample:
        return
    cuts = list(sample[0]["groups"])
    data = [
        [row["probe"], *(row["groups"][cut] for cut in cuts), row["text"], row["refused"], row["value"]]
        for row in sample
    ]
    _write_table(folder / SAMPLE, ["probe", *cuts, "answer", "refused", scorer], data)


def _write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table as `mlflow.load_table` reads it."""
    table = {"columns": list(columns), "data": rows}
    path.write_text(json.dumps(table, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def write_results(folder: Path, results: Mapping[str, object]) -> Path:
    """Write `results.json` (finite numbers only)."""
    path = folder / RESULTS
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def files_of(folder: Path) -> dict[str, Path]:
    """Return what the run publishes, by name relative to `folder`: every file but the passport and local notes."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in (PASSPORT, *LOCAL_FILES)
        and not path.relative_to(folder).parts[0].startswith(".")
    }


def replace_file(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file, which a kill leaves as it was or as it becomes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for draft in path.parent.glob(f".{path.name}.*"):  # of a process that was killed
        draft.unlink()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(draft, path)
