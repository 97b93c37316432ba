"""Where the code came from: the commit and its cleanness, and nothing where the package is not in its own checkout."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import fp2
from fp2.report import passport


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A committed package in a repository of its own."""
    folder = tmp_path / "repo" / "fp2"
    (folder.parent / "conf").mkdir(parents=True)
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder.parent / "README.md").write_text("one")
    (folder.parent / ".gitignore").write_text("*.pyc\n")
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-qm", "first")
    monkeypatch.setattr(passport, "_PACKAGE", folder)
    passport.generator.cache_clear()
    yield folder
    passport.generator.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_clean_checkout(package: Path) -> None:
    (package / "cache.pyc").write_text("ignored")
    (package.parent / "notes.txt").write_text("beside the code")
    commit = git(package, "rev-parse", "HEAD")
    assert passport.generator() == {"name": "fp2", "version": fp2.__version__, "git_commit": commit, "dirty": False}


@pytest.mark.parametrize("name", ["fp2/__init__.py", "README.md", "fp2/new.py", "conf/new.yaml"])
def test_a_change_makes_it_dirty(package: Path, name: str) -> None:
    (package.parent / name).write_text("changed")
    assert passport.generator()["dirty"] is True


def test_a_copy_in_somebody_elses_repository_has_no_commit(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = package.parent / ".venv" / "fp2"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    monkeypatch.setattr(passport, "_PACKAGE", installed)
    made = passport.generator()
    assert (made["git_commit"], made["dirty"]) == (None, None)


def test_no_git_is_no_error(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert passport.generator()["git_commit"] is None
