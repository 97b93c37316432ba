"""What all tests share: a project folder of their own, so that nothing is written into the repository."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and tiny models are faster on one thread
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # people are drawn in this process; tests that need others say so
HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE / "engines", HERE.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench import Bench, write_pictures  # noqa: E402
from filelock import FileLock  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("fp2", deadline=None)  # a busy machine is no defect
settings.load_profile("fp2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the long files first: with several workers none of them is waited for at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Keep what imports have made out of garbage collection: each model that is let go would walk through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers of this session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def made_once(session_folder: Path) -> Iterator[None]:
    """Draw equal people once, and make MLflow's tables once: the projects of this session get copies."""
    from fp2.methods.peeps.data import source
    from fp2.tracking import database

    draw, draft = source.ensure_peeps, database._draft

    def copied_people(cache: Path, spec: Any, progress: Any = None) -> Path:
        if not source.is_drawn(cache, spec):
            drawn = draw(session_folder / "drawings", spec, progress).parent
            shutil.copytree(drawn, cache / drawn.name, dirs_exist_ok=True)
        return draw(cache, spec, progress)

    def copied_tables(path: Path) -> Path:
        template = session_folder / "mlflow.db"
        with FileLock(session_folder / "mlflow.lock"):
            if not template.exists():
                os.replace(draft(template), template)
        copy = Path(shutil.copy(template, path.with_name(f".{path.name}.new")))  # with its permissions
        with closing(sqlite3.connect(copy)) as connection, connection:
            folder = f"{(path.parent / 'artifacts').as_uri()}/0"
            connection.execute("UPDATE experiments SET artifact_location = ?", (folder,))
        return copy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "ensure_peeps", copied_people)
        patch.setattr(database, "_draft", copied_tables)
        yield


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path) -> Iterator[Path]:
    """Give every test a project folder of its own, and put the environment back after it."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("FP2_", "MLFLOW_TRACKING", "MLFLOW_RUN"))]:
        del os.environ[name]
    os.environ["FP2_ROOT"] = str(tmp_path)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt, here and in children: a shell ignores it in what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 72 small images of 36 people with `people.csv`; not to be changed."""
    return write_pictures(tmp_path_factory.mktemp("squares"))


@pytest.fixture
def bench(own_root: Path, squares: Path) -> Bench:
    """A project of its own on the shared images."""
    return Bench(own_root, squares)


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Bench:
    """A project with one finished quick run in `outputs/one`, with its page; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("finished"), squares)
    bench.run("report=default", "report.figures=false", folder="one")
    return bench


@pytest.fixture
def finished(own_root: Path, finished_project: Bench) -> Bench:
    """The test's own copy of the project with the finished run `outputs/one`."""
    return finished_project.copied_to(own_root)


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of an MLflow store without runs; not to be changed."""
    from fp2.tracking.database import prepare_database

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    prepare_database(path)
    return path


@pytest.fixture
def mlflow_store(own_root: Path, empty_mlflow: Path) -> None:
    """Put an empty MLflow store into the test's project: where a store that is not there yet is not the point."""
    (own_root / "mlruns").mkdir()
    shutil.copyfile(empty_mlflow, own_root / "mlruns" / "mlflow.db")


@pytest.fixture(scope="session")
def found() -> Any:
    """What the fingerprint finds in the default simulated answers, by skin type and age; not to be changed."""
    from simulated import analysed

    return analysed({"each": ["skin", "age"]})
