"""Pins: the commits of hub models that a project uses, in a lock file (`paths.pins`).

A model config names a repository of the hub and, as a rule, no commit (`revision: null`): what `main` is in the local
cache then moves with every download. A pin is the revision of such a config, as if it were written there. It is kept by
repository, so that models of a sweep have one each and configs of the same repository agree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fp2.engines.checkpoint import Checkpoint, is_repository, resolve_checkpoint
from fp2.errors import Fp2Error

COMMIT = re.compile(r"[0-9a-f]{40}")
_HEAD = "# Commits of the hub models that this project uses, by repository: written by `fp2 pin`, read by every run.\n"


def read_pins(path: Path) -> dict[str, str]:
    """Return the pinned commits by repository; none where there is no lock file."""
    import yaml

    if not path.is_file():
        return {}
    fix = "Correct it, or delete it and run fp2 pin again"
    try:
        pins = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise Fp2Error(f"the file of pinned models cannot be read: {reason}", where=str(path), fix=fix) from error
    if not isinstance(pins, dict):
        raise Fp2Error("the file of pinned models is no mapping of repositories to commits", where=str(path), fix=fix)
    for repository, commit in pins.items():
        if not COMMIT.fullmatch(str(commit)):
            raise Fp2Error(f"{repository} is pinned to {commit!r}, not a full commit hash", where=str(path), fix=fix)
    return {str(repository): str(commit) for repository, commit in pins.items()}


def write_pins(path: Path, pins: Mapping[str, str]) -> None:
    """Write the pins in the order of their names; the old file stays until the new one is complete."""
    text = [f"{repository}: {commit!r}\n" for repository, commit in sorted(pins.items())]
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(_HEAD + "".join(text), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise Fp2Error(f"cannot write: {error.strerror}", where=str(path)) from error


def pinned_revision(model: Mapping[str, object], path: Path) -> str | None:
    """Return the revision of a config group `model`: its own, else the pin of its repository, else None."""
    if model["revision"] is not None:
        return str(model["revision"])
    return read_pins(path).get(str(model["id"])) if is_repository(str(model["id"] or "")) else None


def cached_checkpoint(repository: str) -> Checkpoint | None:
    """Return the checkpoint of a repository in the local cache of the hub, with its commit; None where it is not there.

    The commit is that of `main` if the cache has it, else the only one.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model")
    ref, snapshots = folder / "refs" / "main", folder / "snapshots"
    commits = sorted(path.parent.name for path in snapshots.glob("*/config.json"))
    commit = ref.read_text(encoding="utf-8").strip() if ref.is_file() else ""
    if commit not in commits:
        if len(commits) > 1:
            fix = "Download the one you want (hf download), or write it into the file of pins"
            message = f"the local cache has {len(commits)} commits of {repository}: {', '.join(commits)}"
            raise Fp2Error(message, where=str(folder), fix=fix)
        commit = commits[0] if commits else ""
    return resolve_checkpoint(repository, commit) if COMMIT.fullmatch(commit) else None


def may_run_unpinned_code(model: Mapping[str, object]) -> bool:
    """Return whether a config group `model` lets code of a hub checkpoint run that could change without notice.

    Small files of the repository are fetched if the cache lacks them. False where that cannot be known: the run itself
    reports why the checkpoint cannot be read.
    """
    model_id = str(model["id"] or "")
    if not model["trust_remote_code"] or COMMIT.fullmatch(str(model["revision"])) or not is_repository(model_id):
        return False
    try:
        revision = model["revision"]
        return bool(resolve_checkpoint(model_id, revision if revision is None else str(revision)).code)
    except Fp2Error:
        return False
