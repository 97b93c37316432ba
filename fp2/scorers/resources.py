"""What a run gives to scorers that ask a model: the store, progress bars, the questions, and how much may fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.progress import Progress
from fp2.store.salted_keys import local_salt

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.probes.battery import Battery
    from fp2.store.rows import ResponseStore


@dataclass(frozen=True)
class Resources:
    """What a scorer that asks a model is given by a run.

    Attributes
    ----------
    store : ResponseStore, optional
        Where values are kept; None keeps nothing.
    progress : Progress
    questions : Mapping
        Question id -> text.
    salt : bytes, optional
        With which image ids are salted; None where they are salted keys already.
    error_budget : float
        Texts that may fail: a share up to 1, a count above.
    verify_files : bool
        Do not trust what is remembered of files and servers (`--verify-inputs`).
    """

    store: ResponseStore | None = None
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))
    questions: Mapping[str, str] = field(default_factory=dict)
    salt: bytes | None = None
    error_budget: float = 0.05
    verify_files: bool = False

    @classmethod
    def of(
        cls, config: Config, store: ResponseStore, progress: Progress, battery: Battery | None, *, keyed: bool = False
    ) -> Resources:
        """Return the resources of a run; `keyed`: whether image ids are salted keys already."""
        questions = {one.question_id: one.text for one in battery.asked} if battery else {}
        salt = None if keyed else local_salt(Path(config.paths.state))
        return cls(store, progress, questions, salt, config.answers.error_budget, config.verify_inputs)
