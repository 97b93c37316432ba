"""FHIBE's narrow tasks, the options of `task=fhibe_narrow` (docs/methods/fhibe.md), and the scores of one task.

The eight tasks are the paper's; body part detection is in its evaluation code only.

A task has a row of scores for every person in every image that is judged, and counts of what is not. A person whose
ground truth the data lack has no row. A person whom a detector did not find has a row with score 0. A face without a
prediction has a row without a score, which is not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fp2.extension import Flag, Fp2Error, Names, OmitDefault, Range, check_may_leave, check_names, task_tables
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.scores.conditions import names_in
from fp2.methods.fhibe_release.vocab import SEGMENT_CLASSES

if TYPE_CHECKING:
    import pandas as pd

IMAGE, FACE = "image", "face crop"
BOX, MASK, POSE, PARSING, EMBEDDING, GENERATED = "box", "mask", "pose", "parsing", "embedding", "generated image"
PARTS = "body parts"


@dataclass(frozen=True)
class NarrowTask:
    """One task.

    Attributes
    ----------
    shown : str
        What a model sees: the whole image, or the aligned crop of one face.
    form : str
        What a prediction holds (`fp2.methods.fhibe.narrow.predictions`).
    metric : str
        The metric that is the score; higher values are better.
    metrics : mapping
        Column -> definition, the score's metric first.
    """

    name: str
    title: str
    shown: str
    form: str
    metric: str
    metrics: Mapping[str, str]


_RECALL = "average recall over IoU 0.5, 0.55 ... 0.95"
_IOU = "largest intersection over union with any prediction"
_ALL = (
    NarrowTask(
        "pose_estimation", "Pose estimation", IMAGE, POSE, "pck",
        {
            "pck": "correct keypoints at 0.5 of the face box's diagonal",
            "oks": "object keypoint similarity",
            "oks_recall": "share of the OKS thresholds 0.5, 0.55 ... 0.95 that are reached",
        },
    ),
    NarrowTask("person_segmentation", "Person segmentation", IMAGE, MASK, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("person_detection", "Person detection", IMAGE, BOX, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("face_detection", "Face detection", IMAGE, BOX, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("face_parsing", "Face parsing", FACE, PARSING, "f1", {"f1": "mean F1 of the parts of the face"}),
    NarrowTask(
        "face_verification", "Face verification", FACE, EMBEDDING, "accepted",
        {"accepted": "share of the face's genuine pairs that are accepted at a false acceptance rate of 0.001"},
    ),
    NarrowTask(
        "face_reconstruction", "Face reconstruction", FACE, GENERATED, "likeness",
        {
            "likeness": "1 - LPIPS, at least 0 (without LPIPS: cosine of the embeddings, then PSNR / 100 dB)",
            "lpips": "LPIPS: lower is better",
            "psnr": "peak signal-to-noise ratio in dB",
            "identity": "cosine of the embeddings of the two faces",
        },
    ),
    NarrowTask(
        "face_super_resolution", "Face super-resolution", FACE, GENERATED, "likeness",
        {
            "likeness": "1 - LPIPS, at least 0 (without LPIPS: PSNR / 100 dB)",
            "lpips": "LPIPS: lower is better",
            "psnr": "peak signal-to-noise ratio in dB",
        },
    ),
    NarrowTask(
        "body_part_detection", "Body part detection", IMAGE, PARTS, "accuracy",
        {
            "accuracy": "share of the predicted body parts whose presence is predicted correctly at a threshold of 0.5",
            "recall": "mean over the parts that are there of the share of the thresholds 0.5, 0.55 ... 0.95 reached",
        },
    ),
)  # fmt: skip
TASKS: dict[str, NarrowTask] = {task.name: task for task in _ALL}
FILES = (*TASKS, "model", "lpips_network", "lpips_weights")
"""Keys of `task.files`: predictions under the name of their task, the YAML file of a model, the weights of LPIPS."""

COCO_KEYPOINTS: tuple[str, ...] = (
    "Nose", "Left eye", "Right eye", "Left ear", "Right ear", "Left shoulder", "Right shoulder", "Left elbow",
    "Right elbow", "Left wrist", "Right wrist", "Left hip", "Right hip", "Left knee", "Right knee", "Left ankle",
    "Right ankle",
)  # fmt: skip
"""COCO's keypoints in COCO's order, under FHIBE's names (left is the person's left)."""
BODY_PARTS: tuple[str, ...] = (
    "Face", "Hand", "Left hand", "Right hand", "Leg", "Left leg", "Right leg", *SEGMENT_CLASSES
)  # fmt: skip
"""What body part detection knows: the first seven follow from keypoints and segments, the others are segments."""


def narrow_task(name: str, where: str = "task.options.tasks") -> NarrowTask:
    """Return the task of that name."""
    check_names([name], TASKS, "unknown narrow task", where)
    return TASKS[name]


Share = Annotated[float, Range(0, 1)]


PCK_MEANINGS = {
    "api": "correct keypoints, mean over 0.1, 0.2 ... 0.9 of the face box's diagonal",
    "head": "correct keypoints at half of a head length of 0.6 diagonals of the face box",
}
"""`task.options.pck` -> the definition of the score, where it is another than that of the task."""


@dataclass(frozen=True)
class NarrowOptions:
    """`task.options`.

    Attributes
    ----------
    tasks : tuple of str, optional
        Tasks that are scored; None: all with predictions or models.
    models : tuple of str
        Models of `conf/narrow` that are run.
    two_person : {"match", "leave_out"}
        Images of two people: match each prediction to one of them (COCO's rule), or leave the image out.
    pck : {"paper", "api", "head"}
        PCK at 0.5 of the diagonal of the face box, the mean over 0.1, 0.2 ... 0.9, or at half of MPII's head length
        (0.6 diagonals).
    mirrored : bool
        Whether the left of a parsing model is that of the image, and not of the person.
    similarity : {"auto", "cosine", "euclidean"}
        How embeddings are compared; auto: by the measure of the model's authors, else by cosine.
    identity : str
        The model of `conf/narrow` whose embedding compares generated images of faces with the original, or `none`.
    measurable : float
        The share of people that has to be found for a task to be measurable.
    within : tuple of str
        Conditions.
    smallest_effect : float
        The smallest effect of interest.
    top_k : int
        Rows of the table of highest disparities.
    depth : int
        Sensitive attributes of an intersection at most.
    metric : {"own", "published"}
        Whether the numbers of FHIBE's evaluation code are reported beside ours.
    published_poses : {"matched", "listed"}
        Whose pose the published PCK is of: the person's own, as in our score, or, as in the evaluation code, the n-th
        pose of the file for the n-th person of the image in the data.
    keypoints : tuple of str
        The keypoints of COCO that poses are scored on; none: all 17.
    curves : bool
        Whether scores are reported at every threshold.
    attributes : tuple of str
        Further attributes that are compared one by one; `all`: every attribute that may leave the data folder.
    """

    tasks: Names | None = None
    models: Names = ()
    two_person: Literal["match", "leave_out"] = "match"
    pck: Literal["paper", "api", "head"] = "paper"
    mirrored: Flag = False
    similarity: Literal["auto", "cosine", "euclidean"] = "auto"
    identity: str = "none"
    measurable: Share = 0.5
    within: Names = ()
    smallest_effect: Share = 0.05
    top_k: Annotated[int, Range(0, 1_000_000)] = 40
    depth: Annotated[int, Range(0, 5)] = 1
    metric: Annotated[Literal["own", "published"], OmitDefault()] = "own"
    published_poses: Annotated[Literal["matched", "listed"], OmitDefault()] = "matched"
    keypoints: Annotated[Names, OmitDefault()] = ()
    curves: Annotated[Flag, OmitDefault()] = False
    attributes: Annotated[Names, OmitDefault()] = ()

    def __post_init__(self) -> None:
        for name in self.tasks or ():
            narrow_task(name)
        check_names(self.keypoints, COCO_KEYPOINTS, "unknown keypoint", "task.options.keypoints")
        if self.published_poses != "matched" and self.metric != "published":
            fix = "Add task.options.metric=published"
            raise Fp2Error("only published metrics take poses as listed", where="task.options.published_poses", fix=fix)
        check_may_leave(self.attributes, "task.options.attributes")
        for condition in self.within:
            names_in(condition)

    def wants(self, task: str) -> bool:
        """Whether a task is scored."""
        return self.tasks is None or task in self.tasks


def given_files(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of `task.files` that are given; of a task's predictions there may be several."""
    given = task_tables.given_files(files, FILES, several=TASKS)
    if ("lpips_network" in given) != ("lpips_weights" in given):
        raise Fp2Error("LPIPS needs both of its files", where="task.files", fix="Give lpips_network and lpips_weights")
    return given


Row = dict[str, Any]
Tick = Callable[[], None]
FOUND_AT = 0.5
"""The overlap from which on a person is found, and the share of correct keypoints from which on a pose is."""

NOT_IN_RUN = "of images outside this run"
UNKNOWN_SUBJECT = "with a subject_id that is not in the image"
SECOND_POSE = "of a pose of a subject with another one"
SECOND = "of a subject with another prediction"
NO_SUBJECT = "without a subject_id, of images of two people"
NO_PREDICTION = "without a prediction"
NO_FACE_BOX = "without a face box in the data"
NO_CROP = "without an aligned face crop in the data"
NO_PARTS = "without face parts in the data"
NO_MASK = "without a mask in the data"
NO_ANNOTATION = "without keypoints or segments in the data"
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
    published, curves : bool
        Whether the metrics of FHIBE's evaluation code (`published_...`), and scores at every threshold (`at_...`), are
        added.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    scale: str | None = None
    scale_note: str | None = None
    published: bool = False
    curves: bool = False

    def add(self, person: Person, score: float | None, found: bool | None, **metrics: float | None) -> None:
        """Add the row of a person; `found` is None of a person who is in the published metrics only."""
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
    """Refuse predictions of which none is about a known image."""
    if predicted and not set(predicted) & set(known):
        what = f"no prediction is about an image of the data set (the first is about {next(iter(predicted))!r})"
        raise Fp2Error(what, where=f"task.files.{task.name}", fix="Use the image_id of the people table")


def unknown_subjects(example: str | None, task: NarrowTask) -> Fp2Error:
    """Return the error of predictions about known images of which no subject is known."""
    what = f"no subject_id of the predictions is in its image (the first is {example!r})"
    return Fp2Error(what, where=f"task.files.{task.name}", fix="Use the subject_id of the people table, or omit it")
