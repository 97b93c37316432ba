"""Planning: every stimulus that a run shows, once, and the row of the people table that each answer is filed under.

A plan loads no model and knows no response key: the storage derives those (`fp2.ask.storage`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.data.stimuli import shown_to
from fp2.errors import Fp2Error
from fp2.probes.items import Items
from fp2.tables import BY_REGION, ImageTask, Question
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import VariantConfig
    from fp2.data.pixels import PixelDigest
    from fp2.data.stimuli import Stimulus
    from fp2.progress import Progress


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One row of the people table in one image variant.

    Attributes
    ----------
    image_id, subject_id : str
        What the answers are filed under, whatever is shown in place of the image.
    variant : str
        The kind of image variant.
    task : int
        Index of what is shown in `Plan.tasks`, -1 where nothing can be shown.
    error : str or None
        Why nothing can be shown.
    """

    image_id: str
    subject_id: str
    variant: str
    task: int
    error: str | None = None


@dataclass(frozen=True)
class Plan:
    """Every answer that a run needs: `rows` x `questions`.

    Attributes
    ----------
    questions : tuple of Question
        The battery's, in its order; where it has fields, before they are filled in.
    rows : tuple of PlannedRow
        Variant by variant, each in the order of the people table.
    tasks : tuple of ImageTask
        The distinct stimuli, without questions; where the battery has fields, one for each item, with its questions.
    """

    questions: tuple[Question, ...]
    rows: tuple[PlannedRow, ...]
    tasks: tuple[ImageTask, ...]

    def questions_of(self, task: int) -> tuple[Question, ...]:
        """Return the questions about a stimulus, in the order of `questions`."""
        return self.tasks[task].questions or self.questions

    @property
    def n_planned(self) -> int:
        """How many answers are needed."""
        return len(self.rows) * len(self.questions)

    @property
    def n_not_shown(self) -> int:
        """How many rows cannot be shown."""
        return sum(row.task < 0 for row in self.rows)


def make_plan(
    shown: Iterable[tuple[pd.DataFrame, str, Sequence[Stimulus]]],
    questions: Sequence[Question],
    fields: Sequence[str] = (),
    *,
    by_file: bool = False,
) -> Plan:
    """Return the plan that puts every question to every stimulus.

    Parameters
    ----------
    shown : iterable of (people, variant, stimuli)
        Per image variant: rows of the people table, the kind of variant, and what is shown for each row. One stimulus
        may be shown for several rows; it is asked about once.
    questions : sequence of Question
        The battery's.
    fields : sequence of str
        The battery's: every row is then an item with questions of its own (`fp2.probes.items`).
    by_file : bool
        Whether the stimuli made from one file follow each other, so that it is opened once.
    """
    rows: list[PlannedRow] = []
    tasks: list[ImageTask] = []
    for people, variant, stimuli in shown:
        task_index: dict[tuple[str, str], int] = {}
        items = Items(questions, fields, people) if fields else None
        names = zip(people["image_id"], people["subject_id"], strict=True)
        for number, ((image_id, subject_id), stimulus) in enumerate(zip(names, stimuli, strict=True)):
            asked = items.of(number) if items else ()
            if stimulus.error is not None:
                rows.append(PlannedRow(image_id, subject_id, variant, -1, stimulus.error))
                continue
            shown_id = stimulus.image_id if items is None else shown_to(stimulus.image_id, image_id)
            name = (shown_id, stimulus.subject_id)
            if name not in task_index:
                task_index[name] = len(tasks)
                task = stimulus.task(asked)
                tasks.append(task if shown_id == task.image_id else replace(task, image_id=shown_id))
            rows.append(PlannedRow(image_id, subject_id, variant, task_index[name]))
    plan = Plan(tuple(questions), tuple(rows), tuple(tasks))
    return _by_file(plan) if by_file else plan


def _by_file(plan: Plan) -> Plan:
    """Return the plan with its stimuli ordered by the first place of their file."""
    first = {task.path: index for index, task in reversed(list(enumerate(plan.tasks)))}
    order = sorted(range(len(plan.tasks)), key=lambda index: first[plan.tasks[index].path])
    new = {old: index for index, old in enumerate(order)}
    rows = [
        PlannedRow(row.image_id, row.subject_id, row.variant, new.get(row.task, -1), row.error) for row in plan.rows
    ]
    return Plan(plan.questions, tuple(rows), tuple(plan.tasks[old] for old in order))


def show(
    people: pd.DataFrame, variant: VariantConfig, pixels: Mapping[Path, PixelDigest], folder: Path, progress: Progress
) -> list[Stimulus]:
    """Return what is shown for each row of `people`; report how many images the data do not allow the variant for.

    Parameters
    ----------
    pixels : mapping
        Digest of each image's decoded pixels, by path.
    folder : Path
        Where the grey image is kept.
    """
    from fp2.data.stimuli import make_stimuli

    if variant.kind not in BY_REGION:
        return make_stimuli(people, variant, pixels, folder)
    with progress.count_up("Locating the person", len(people)) as tick:
        stimuli = make_stimuli(people, variant, pixels, folder, tick)
    reasons = Counter(stimulus.error for stimulus in stimuli if stimulus.error and stimulus.variant == variant.kind)
    for reason, count in reasons.most_common(3):
        if count == len(stimuli):
            raise Fp2Error(f"no image can be shown as {variant.name}: {reason}", where=f"variant={variant.name}")
        progress.note(f"{plural(count, 'image')} cannot be shown as {variant.name}: {reason}")
    return stimuli


@dataclass(frozen=True)
class Shard:
    """A shard: the part `part` (from 1) of `of` of the planned questions, so that several machines each ask one part.

    What shows the same pixels is in one shard, whatever else is planned: a shard stays the same when images are added,
    and no two shards ask the same question.
    """

    part: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """Return the shard that `i/n` names; None is all."""
        if text is None:
            return cls()
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise Fp2Error(f"{text!r} is not a shard", where="shard", fix="Give i/n with i from 1 to n, such as 1/4")
        return cls(int(match[1]), int(match[2]))

    def has(self, task: ImageTask) -> bool:
        """Whether a stimulus is in this shard."""
        mark = hashlib.sha256(task.pixel_sha256.encode()).digest()
        return int.from_bytes(mark[:8], "big") % self.of == self.part - 1

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"
