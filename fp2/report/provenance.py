"""Which code made a report: the package's version, and the commit it was checked out at if it is a checkout."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import fp2

_PACKAGE = Path(fp2.__file__).resolve().parent


@functools.cache
def generator() -> dict[str, Any]:
    """Return `{name, version, git_commit, dirty}`; the last two are None where the package is not a git checkout.

    `dirty` is True when a tracked file differs from the commit or an untracked one lies in the package or the
    configuration: then the commit alone does not say what ran.
    """
    commit = dirty = None
    # An installed copy may lie inside somebody's unrelated repository: only one that tracks this very file is ours.
    if _git("ls-files", "--error-unmatch", "__init__.py") is not None:
        commit = _git("rev-parse", "HEAD")
        tracked = _git("status", "--porcelain", "--untracked-files=no", "--", ":/")
        untracked = _git("ls-files", "--others", "--exclude-standard", "--", ".", ":/conf")
        dirty = None if tracked is None or untracked is None else bool(tracked or untracked)
    return {"name": "fp2", "version": fp2.__version__, "git_commit": commit, "dirty": dirty}


def _git(*arguments: str) -> str | None:
    """Return what git prints for the package's folder, or None if it fails or is not there."""
    command = ["git", "--no-optional-locks", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
