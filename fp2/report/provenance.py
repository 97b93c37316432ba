"""The code that made a report: the version of the package, and the git commit of a checkout."""

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

    `dirty` is True when a tracked file differs from the commit, or an untracked one is in the package or the
    configuration: then the commit alone does not identify the code.
    """
    commit = dirty = None
    # an installed copy may be inside an unrelated repository: only one that tracks this file counts
    if _git("ls-files", "--error-unmatch", "__init__.py") is not None:
        commit = _git("rev-parse", "HEAD")
        tracked = _git("status", "--porcelain", "--untracked-files=no", "--", ":/")
        untracked = _git("ls-files", "--others", "--exclude-standard", "--", ".", ":/conf")
        dirty = None if tracked is None or untracked is None else bool(tracked or untracked)
    return {"name": "fp2", "version": fp2.__version__, "git_commit": commit, "dirty": dirty}


def _git(*arguments: str) -> str | None:
    """Return the output of git in the package's folder, or None if it fails or is not installed."""
    command = ["git", "--no-optional-locks", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
