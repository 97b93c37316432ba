"""The scores of one task: a row for every person in every image that is judged, and counts of what is not.

A person whose ground truth the data lack has no row. A person whom a detector did not find has a row with score 0. A
face without a prediction has a row without a score, which is not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error
from fp2.protocols.narrow.tasks import NarrowTask
from fp2.protocols.narrow.truth import Person

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Tick = Callable[[], None]
FOUND_AT = 0.5
"""The overlap from which on a person is found, and the share of correct keypoints from which on a pose is."""

NOT_IN_RUN = "of images outside this run"
UNKNOWN_SUBJECT = "with a subject_id that is not in the image"
SECOND_POSE = "of a pose of a subject with another one"
NO_SUBJECT = "without a subject_id, of images of two people"
NO_PREDICTION = "without a prediction"
NO_FACE_BOX = "without a face box in the data"
NO_CROP = "without an aligned face crop in the data"
NO_PARTS = "without face parts in the data"
NO_MASK = "without a mask in the data"
TWO_PEOPLE = "in an image of two people"


@dataclass
class TaskScores:
    """Rows of one task.

    Attributes
    ----------
    rows : list of dict
        `image_id, subject_id, score, found`, and one entry per metric.
    left_out, ignored : Counter
        People who are not judged, and predictions that are not used, by reason.
    scale : str, optional
        The metric that `likeness` is computed from.
    scale_note : str, optional
        A limitation that follows from the scale.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    scale: str | None = None
    scale_note: str | None = None

    def add(self, person: Person, score: float | None, found: bool, **metrics: float | None) -> None:
        """Add the row of a person."""
        ids = {"image_id": person.image_id, "subject_id": person.subject_id}
        self.rows.append({**ids, "score": score, "found": found, **metrics})

    def add_missing(self, person: Person) -> None:
        """Add the row of a face without a prediction."""
        self.left_out[NO_PREDICTION] += 1
        self.add(person, None, False)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=None if self.rows else ["image_id", "subject_id", "score", "found"])


def check_images(predicted: Mapping[str, Any], known: Mapping[str, Any], task: NarrowTask) -> None:
    """Refuse predictions of which none is about a known image.

    Raises
    ------
    Fp2Error
        With an example.
    """
    if predicted and not set(predicted) & set(known):
        what = f"no prediction is about an image of the data set (the first is about {next(iter(predicted))!r})"
        raise Fp2Error(what, where=f"task.files.{task.name}", fix="Use the image_id of the people table")


def unknown_subjects(example: str | None, task: NarrowTask) -> Fp2Error:
    """Return the error of predictions about known images of which no subject is known."""
    what = f"no subject_id of the predictions is in its image (the first is {example!r})"
    return Fp2Error(what, where=f"task.files.{task.name}", fix="Use the subject_id of the people table, or omit it")
