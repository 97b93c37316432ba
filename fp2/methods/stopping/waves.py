"""A storage that calls for the answers of one wave after the other, and decides between them what is asked further."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import LOOKS, Config, Fp2Error, ImageTask, Inputs, Question, SuppliesAnswers, memberships
from fp2.methods.stopping.order import Waves, make_waves

WHERE = "answers.stop"
REFUSED: tuple[str, ...] = ("analysis.looks", "shard", "answers.against")
"""Settings that do not go with rules that decide by one run alone."""


class AskedInWaves:
    """The storage of the answers that are called for (see `fp2.ask.storage.Storage`).

    What is decided follows from the seed and the stored answers alone: a run that was killed, or whose answers are in
    the store, goes through the same waves and takes the same decisions.

    Attributes
    ----------
    looks : frozen dataclass
        The looks so far: `at`, `now`, and `last`, which maps each unit (`unit_of`) that is asked no further to the last
        look at it.
    """

    looks: Any

    def __init__(self, inputs: Inputs, storage: Any) -> None:
        if isinstance(inputs.engine, SuppliesAnswers):
            raise Fp2Error("answers that exist already cannot be asked in waves", where=WHERE, fix="Omit it")
        self._inputs, self._storage, self._waves = inputs, storage, waves_of(inputs)
        plan = storage.plan
        self._units = [self.unit_of(question) for question in plan.questions]
        self._row_wave = np.array([self._waves.wave[row.subject_id, row.image_id] for row in plan.rows], dtype=np.int64)
        self._hidden = np.array([row.error is not None for row in plan.rows], dtype=bool)
        first: dict[str, int] = {}  # what shows the same pixels is asked about once
        for row, number in zip(plan.rows, self._row_wave.tolist(), strict=True):
            if row.task >= 0:
                pixels = plan.tasks[row.task].pixel_sha256
                first[pixels] = min(first.get(pixels, number), number)
        self._task_wave = {task.image_id: first.get(task.pixel_sha256, 1) for task in plan.tasks}
        self._decided_at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def unit_of(self, question: Question) -> Any:
        """Return what a question is about: questions about the same (a probe, say) end at the same look."""
        raise NotImplementedError

    def decide(self) -> None:
        """Take the look `now` at the answers of the waves so far."""
        raise NotImplementedError

    @property
    def progress(self) -> str:
        """How many rows are decided, in words."""
        raise NotImplementedError

    @property
    def facts(self) -> dict[str, Any]:
        """What the analysis of the run needs: its looks."""
        return {LOOKS: self.looks}

    def limit(self, unit: Any) -> int:
        """Return the last wave that a unit is asked in so far."""
        return int(min(self.looks.now, self.looks.last.get(unit, self.looks.now)))

    def _called_for(self, rows: NDArray[np.int64]) -> int:
        """Return how many answers about `rows` (wave numbers) are called for so far."""
        return sum(int((rows <= self.limit(unit)).sum()) for unit in self._units)

    @property
    def n_planned(self) -> int:
        """Answers called for so far."""
        return self._called_for(self._row_wave)

    @property
    def n_not_shown(self) -> int:
        """Those of them whose stimulus cannot be shown."""
        return self._called_for(self._row_wave[self._hidden])

    @property
    def n_failed(self) -> int:
        """Those of them that failed."""
        later = int(self._hidden.sum()) * len(self._units) - self.n_not_shown
        return int(self._storage.n_failed) - later

    def load(self) -> int:
        """Read what the store has; return how many of the answers called for that is."""
        self._storage.load()
        return max(0, self.n_planned - sum(len(task.questions) for task in self.open_tasks()))

    def open_tasks(self) -> list[ImageTask]:
        """Return the stimuli with the questions that are called for and have no answer yet."""
        tasks = []
        for task in self._storage.open_tasks():
            wave = self._task_wave[task.image_id]
            if questions := tuple(q for q in task.questions if wave <= self.limit(self.unit_of(q))):
                tasks.append(task if len(questions) == len(task.questions) else replace(task, questions=questions))
        return tasks

    @property
    def asked_further(self) -> set[Any]:
        """The units that are not decided."""
        return {unit for unit in self._units if unit not in self.looks.last}

    def next_wave(self) -> bool:
        """Decide by the answers of the wave; return whether a further one is to be asked."""
        self.decide()
        self._decided_at = self.looks.now
        self._inputs.progress.note(self.progress)
        if not self.asked_further:
            return False
        self.looks = replace(self.looks, now=self.looks.now + 1)
        return True


def check_settings(config: Config, refused: Iterable[str] = REFUSED) -> None:
    """Raise for settings that do not go with the rule of a config."""
    for name in refused:
        if attrgetter(name)(config) is not None:
            fix = "Leave one of them out"
            raise Fp2Error(f"it does not go with {WHERE}={config.answers.stop}", where=name, fix=fix)


def waves_of(inputs: Inputs) -> Waves:
    """Return the waves of a run."""
    groups_of: dict[str, dict[str, set[str]]] = {str(subject): {} for subject in inputs.people["subject_id"]}
    for cut in inputs.cuts:
        table = memberships(inputs.people, cut)
        for subject, group in zip(table["subject_id"], table["group"], strict=True):
            groups_of[subject].setdefault(cut.name, set()).add(group)
    images_of: dict[str, set[str]] = {}
    for subject, image in zip(inputs.people["subject_id"], inputs.people["image_id"], strict=True):
        images_of.setdefault(str(subject), set()).add(image)
    return make_waves(groups_of, images_of, inputs.config.seed, inputs.config.analysis.min_subjects)
