"""Which story a config is run by: asking one row an answer, asking in blocks, or working on the user's own tables."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fp2.config import ASK, Config
from fp2.progress import Progress

if TYPE_CHECKING:
    from fp2.finish import Outcome

JOBS = {"ask": "fp2.run", "blocks": "fp2.run_blocks", "tables": "fp2.run_tables"}
"""Kind of job -> the module whose `run(config, folder, overrides, progress)` does it."""


def job_of(config: Config) -> str:
    """Return the kind of job that `config` is."""
    if config.task.name != ASK:
        return "tables"
    return "blocks" if config.probe.protocol == "gras" else "ask"


def run_job(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Run what `config` says and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    story = importlib.import_module(JOBS[job_of(config)])
    return cast("Outcome", story.run(config, folder, overrides, progress))
