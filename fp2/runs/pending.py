"""A purge that was killed is finished before anything of people is read or written."""

from __future__ import annotations

from pathlib import Path

from fp2.config import Config
from fp2.progress import Progress

PURGES = "purges"
"""In the state folder: the journal of each purge."""


def finish_purges(config: Config, progress: Progress) -> None:
    """Finish every purge that was begun on this machine and has not ended."""
    if any((Path(config.paths.state) / PURGES).glob("*.json")):
        from fp2.runs.purge import finish_pending

        finish_pending(config, progress)
