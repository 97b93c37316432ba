"""`.ci/run`: the audit of dependencies fails it where something is known, and not where nothing can be looked up."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from bench import REPOSITORY


def test_every_pinned_version_has_its_digests(tmp_path: Path) -> None:
    """`.ci/hashes write` makes the file again, `.ci/hashes download` compares it with what an index has."""

    def check(folder: Path) -> int:
        script = folder / ".ci" / "hashes"
        return subprocess.run([script, "check"], capture_output=True, timeout=30, check=False).returncode

    assert check(REPOSITORY) == 0
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "hashes", tmp_path / ".ci")
    whole = f"--hash=sha256:{'0' * 64}"
    for pins, digests, status in (
        ("a==1", f"a==1 {whole}", 0),
        ("a==1", "a==1", 1),
        ("a==2", f"a==1 {whole}", 1),
        ("a==1", f"a==1 {whole[:-1]}", 1),
        ("a==1\nb==1", f"a==1 {whole}", 1),
    ):
        (tmp_path / "constraints.txt").write_text(f"# pins\n{pins}\n")
        (tmp_path / "constraints-hashes.txt").write_text(f"{digests}\n")
        assert check(tmp_path) == status, digests


@pytest.mark.parametrize(
    ("audit", "make", "status"),
    [
        ("echo none; exit 0", "", 0),
        ("echo no network; exit 3", "", 0),
        ("echo package 1.0: CVE-1; exit 1", "", 1),
        ("exit 2", "", 1),
        ("sleep 60", "exit 2", 2),
    ],
)
def test_the_audit_decides_only_where_it_could_be_made(tmp_path: Path, audit: str, make: str, status: int) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", tmp_path / ".ci")
    calls = tmp_path / "calls"
    made = f'echo "$@" >> {calls}; [ "$1" != lint ] || {{ {make or ":"}; }}'
    for path, body in ((tmp_path / ".ci" / "audit", audit), (tmp_path / "bin" / "make", made)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / ".ci" / "run"], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == status, done.stderr
    if audit.startswith("echo"):
        assert audit.removeprefix("echo ").partition(";")[0] in done.stdout
    assert calls.read_text(encoding="utf-8").split() == ["setup", "lint", *(["test"] if not make else [])]
