"""The rule `certain`: a storage that calls for the answers of one wave after the other, and decides between them.

What is decided follows from the seed and the stored answers alone: a run that was killed, or whose answers are in the
store, goes through the same waves and takes the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from fp2.extension import (
    LOOKS,
    NOT_ASKED,
    Config,
    Fp2Error,
    GroupComparison,
    ImageTask,
    Inputs,
    RowAnswers,
    RunTables,
    SuppliesAnswers,
    comparison_of,
    fingerprint,
    memberships,
    plural,
    scored,
    shares,
)
from fp2.methods.stopping.decisions import expected_share, take_look
from fp2.methods.stopping.looks import OPEN, SPENDING, Decision, StoppingLooks
from fp2.methods.stopping.order import Waves, make_waves

CORRECTIONS = ("holm", "bonferroni")
WHERE = "answers.stop"


class Certain:
    """The storage of the answers that are called for (see `fp2.ask.loop.Storage`)."""

    supplement: ClassVar = "fp2.methods.stopping.block:Stopping"
    refuses: ClassVar = ("analysis.looks", "shard", "answers.against")
    """Settings that do not go with the rule."""

    def __init__(self, protocol: GroupComparison, inputs: Inputs, storage: Any) -> None:
        if isinstance(inputs.engine, SuppliesAnswers):
            raise Fp2Error("answers that exist already cannot be asked in waves", where=WHERE, fix="Omit it")
        assert inputs.battery is not None
        self._protocol, self._inputs, self._storage = protocol, inputs, storage
        self._waves = waves_of(inputs)
        plan = storage.plan
        self._probes = [question.probe for question in plan.questions]
        self._row_wave = np.array([self._waves.wave[row.subject_id, row.image_id] for row in plan.rows], dtype=np.int64)
        self._hidden = np.array([row.error is not None for row in plan.rows], dtype=bool)
        first: dict[str, int] = {}  # what shows the same pixels is asked about once
        for row, number in zip(plan.rows, self._row_wave.tolist(), strict=True):
            if row.task >= 0:
                pixels = plan.tasks[row.task].pixel_sha256
                first[pixels] = min(first.get(pixels, number), number)
        self._task_wave = {task.image_id: first.get(task.pixel_sha256, 1) for task in plan.tasks}
        names = [name for name in inputs.scorers for _ in range(len(set(self._probes)) * len(inputs.cuts))]
        comparison = self._comparison = comparison_of(inputs.config, len(inputs.battery.probes), len(inputs.cuts))
        if comparison.correction not in CORRECTIONS:
            fix = "Fewer probes, cuts or scorers make a smaller family"
            raise Fp2Error(f"it is not made for {comparison.correction}", where=WHERE, fix=fix)
        of_tests = shares([*names, *[comparison.primary] * len(inputs.cuts)], comparison)
        smallest, self._primary_share = min(of_tests), of_tests[-1]
        self.looks = StoppingLooks(
            at=self._waves.at, now=1, spending=SPENDING, alpha=comparison.alpha, smallest_share=smallest,
            primary=comparison.primary, groups={cut.name: self._waves.groups.get(cut.name, 0) for cut in inputs.cuts},
        )  # fmt: skip
        self._decided_at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @classmethod
    def added_to(cls, protocol: GroupComparison, config: Config) -> GroupComparison:
        """Return the protocol with the rule's supplement; raise for settings that the rule does not go with."""
        for name in cls.refuses:
            if attrgetter(name)(config) is not None:
                raise Fp2Error(
                    f"it does not go with {WHERE}={config.answers.stop}", where=name, fix="Leave one of them out"
                )
        if config.analysis.correction not in CORRECTIONS:
            fix = f"Set analysis.correction={CORRECTIONS[0]}, or leave {WHERE} out"
            raise Fp2Error(f"it does not go with {WHERE}", where="analysis.correction", fix=fix)
        supplements = (*protocol.options.supplements, cls.supplement)
        return type(protocol)(replace(protocol.options, supplements=supplements))

    @staticmethod
    def recall(block: Mapping[str, Any]) -> StoppingLooks:
        """Return the looks of a logged run from its block."""
        rows = {(row["probe"], row["scorer"], row["cut"]): _recalled(row) for row in block["rows"]}
        composites = {row["cut"]: _recalled(row) for row in block["composites"]}
        last = {probe["probe"]: probe["look"] for probe in block["probes"]}
        names = ("now", "spending", "alpha", "smallest_share", "groups")
        return StoppingLooks(
            at=tuple(block["at"]), last=last, rows=rows, composites=composites, primary=block.get("primary", ""),
            **{name: block[name] for name in names},
        )  # fmt: skip

    @property
    def facts(self) -> dict[str, Any]:
        """What the analysis of the run needs: its looks."""
        return {LOOKS: self.looks}

    @property
    def progress(self) -> str:
        """How many rows are decided, in words."""
        awaited = self.looks.awaited.values()
        decided = sum(decision.decided != OPEN for decision in awaited)
        return f"look {self._decided_at} of {len(self.looks.at)}: {decided} of {len(awaited)} rows decided"

    def expected_answers(self, ratio: float) -> int | None:
        """Return about how many answers are asked where the clearest gap beyond the smallest effect has this size.

        `ratio` is in minimum detectable effects. A probe waits for all its rows, so that more may be asked.
        """
        level = self.looks.alpha * self._primary_share
        share = expected_share(ratio, self.looks.at, level, self.looks.spending)
        return round(share * int(self._storage.n_planned))

    def _limit(self, probe: str) -> int:
        """Return the last wave that a probe is asked in so far."""
        return min(self.looks.now, self.looks.last.get(probe, self.looks.now))

    def _called_for(self, rows: np.ndarray) -> int:
        """Return how many answers about `rows` (wave numbers) are called for so far."""
        return sum(int((rows <= self._limit(probe)).sum()) for probe in self._probes)

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
        later = int(self._hidden.sum()) * len(self._probes) - self.n_not_shown
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
            if questions := tuple(q for q in task.questions if wave <= self._limit(q.probe)):
                tasks.append(task if len(questions) == len(task.questions) else replace(task, questions=questions))
        return tasks

    def answers(self) -> RowAnswers:
        """Return one row per planned answer; one that was not called for counts as not asked, stored or not."""
        frame = self._storage.answers().frame
        limits = frame["probe"].map({probe: self._limit(probe) for probe in set(self._probes)})
        waves = [self._waves.wave[key] for key in zip(frame["subject_id"], frame["image_id"], strict=True)]
        not_asked = np.array(waves) > limits.to_numpy()
        empty = {"text": None, "numbers": None, "status": "error", "error": NOT_ASKED, "attempts": 0, "seconds": 0.0,
                 "tokens": 0, "cached": False}  # fmt: skip
        frame = frame.copy()
        for name, value in empty.items():
            frame.loc[not_asked, name] = value
        return RowAnswers(frame)

    def next_wave(self) -> bool:
        """Decide by the answers of the wave; return whether a further one is to be asked."""
        self._decide()
        asked = {probe for probe in self._probes if probe not in self.looks.last}
        self._inputs.progress.note(f"{self.progress}; {plural(len(asked), 'probe')} asked further")
        if not asked:
            return False
        self.looks = replace(self.looks, now=self.looks.now + 1)
        return True

    def _decide(self) -> None:
        """Take the look `now` at the answers of the waves so far."""
        looks, inputs = self.looks, self._inputs
        tables = scored(self._protocol, RunTables(inputs.people, self.answers(), None), inputs)
        assert tables.scores is not None
        comparison = replace(looks, running=True).settings(self._comparison, inputs.config.analysis.permutations)
        compared = fingerprint(
            tables.scores, inputs.people, inputs.cuts, inputs.scorers, replace(comparison, n_bootstrap=0),
            inputs.config.analysis.severity,
        )  # fmt: skip
        self.looks = take_look(looks, compared.disparities, compared.composites, dict.fromkeys(self._probes))
        self._decided_at = looks.now


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


def _recalled(row: Mapping[str, Any]) -> Decision:
    return Decision(row["look"], row["decided"], row["p_values"], row.get("raw"), row.get("n_subjects"))
