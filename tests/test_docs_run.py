"""The commands of README and docs run, and what `docs/coverage.csv` names is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench import REPOSITORY, results_of
from fake_server import serving
from pages import NOT_RUN, PAGES, ROUTES, STATUSES, Project, page_path, prepare, write_project, written
from test_coverage import rows
from test_docs import PAGES as FILES

from fp2.config import choices

pytestmark = pytest.mark.long
WITHOUT = {
    "CHANGELOG", "CONTRIBUTING", "SECURITY", "architecture", "benchmarks", "deletions", "dense_storage", "ethics",
    "glossary",
    "harnesses", "peeps", "published", "python", "troubleshooting", "validity",
}  # fmt: skip
"""Pages that name commands in passing and have none of their own; their settings are composed in test_docs.py."""


PURGE = "fp2 purge"


def is_run(command: str) -> bool:
    """Return whether a command is not among those that do not run here."""
    return not any(re.search(pattern, command) for pattern in NOT_RUN)


@contextmanager
def commands_run(root: Path, empty_mlflow: Path, pages: Iterable[str]) -> Iterator[Project]:
    """Run every command of the pages, in their order, but for those that purge people."""
    write_project(root, empty_mlflow)
    with pytest.MonkeyPatch.context() as patch, serving(ROUTES) as server:
        patch.chdir(root)
        patch.setenv("FP2_ROOT", str(root))
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        made = Project(root, server)
        for page in pages:
            prepare(made, page)
            for command in filter(is_run, written(page)):
                if not command.startswith(PURGE):
                    made.run(command)
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> Iterator[Project]:
    """A project in which every command of all pages has run."""
    with commands_run(tmp_path_factory.mktemp("pages"), empty_mlflow, PAGES) as project:
        yield project


def test_what_does_not_run_here_is_stated_with_a_test_of_it() -> None:
    known = [command for page in PAGES for command in written(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, command) for command in known)] == []
    for reason in NOT_RUN.values():
        assert [path for path in re.findall(r"tests/\S+\.py", reason) if not (REPOSITORY / path).exists()] == []
        assert "tests/" in reason
    assert {path.stem for path in FILES if path.parent.name != "peeps_vlm"} - {*PAGES, "README"} == WITHOUT
    assert all(page_path(page).exists() for page in PAGES)


@pytest.mark.thorough
def test_every_name_of_the_coverage_is_there(project: Project) -> None:
    results = [results_of(folder) for folder in project.folders()]
    files = {path.name for path in project.root.rglob("*") if path.is_file()}
    spans = {(row["number"], span) for row in rows() for span in row["how_to_get_it"].split("; ") if span}
    missing = [(number, span) for number, span in sorted(spans) if not _is_there(span, results, files)]
    assert missing == []
    assert not _is_there("results.json:composites.nothing", results, files)
    assert not _is_there("task.options.nothing", results, files)


@pytest.fixture(scope="module")
def purged(project: Project) -> Project:
    """The project after the pages' purges: at last, since who is purged is in no later run, and results are gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        patch.setenv("FP2_ROOT", str(project.root))
        for page in PAGES:
            for command in written(page):
                if command.startswith(PURGE):
                    project.run(command)
    return project


def wrong_statuses(project: Project) -> dict[str, int]:
    """Return the exit status of each command that ended otherwise than its page says."""
    wrong = {}
    for command, status in project.statuses.items():
        allowed = next((statuses for pattern, statuses in STATUSES.items() if re.match(pattern, command)), (0,))
        if status not in allowed:
            wrong[command] = status
    return wrong


def test_the_commands_of_the_first_pages_run(tmp_path: Path, empty_mlflow: Path) -> None:
    with commands_run(tmp_path, empty_mlflow, ("sweep", "start")) as project:
        assert wrong_statuses(project) == {}
        assert len(project.statuses) > 10


@pytest.mark.thorough
def test_every_command_runs(purged: Project) -> None:
    assert wrong_statuses(purged) == {}
    assert len(purged.statuses) > 150


def _is_there(span: str, results: list[Any], files: set[str]) -> bool:
    """Return whether a key of results, a command, a choice, a setting or a file exists."""
    if span.startswith("results.json:"):
        keys = span.partition(":")[2].split(".")
        return any(_has(found, keys) for found in results)
    if span.startswith("fp2 "):
        return any(f"{command} ".startswith(f"{span} ") for page in PAGES for command in written(page))
    group, _, choice = span.partition("=")
    if choice:
        return choice in choices(group)
    if span in files or (REPOSITORY / span).is_file():
        return True
    group, *keys = span.split(".")
    texts = [path.read_text(encoding="utf-8") for path in choices(group).values()]
    return bool(keys) and any(_has(yaml.safe_load(text), keys) for text in texts)


def _has(value: Any, keys: list[str]) -> bool:
    """Return whether nested tables, or any entry of lists of them, have these keys; CUT is the name of any cut."""
    if not keys:
        return True
    if isinstance(value, list):
        return any(_has(entry, keys) for entry in value)
    if isinstance(value, Mapping) and keys[0] == "CUT":
        return any(_has(entry, keys[1:]) for entry in value.values())
    return isinstance(value, Mapping) and keys[0] in value and _has(value[keys[0]], keys[1:])
