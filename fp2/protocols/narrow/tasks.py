"""The eight narrow tasks of FHIBE, and the options of `task=fhibe_narrow` (docs/narrow.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fp2.errors import Fp2Error, nearest
from fp2.protocols.fhibe.scores.conditions import names_in
from fp2.protocols.option_types import FORBID_EXTRA, Flag, Names, Range

IMAGE, FACE = "image", "face crop"
BOX, MASK, POSE, PARSING, EMBEDDING, GENERATED = "box", "mask", "pose", "parsing", "embedding", "generated image"


@dataclass(frozen=True)
class NarrowTask:
    """One task.

    Attributes
    ----------
    shown : str
        What a model sees: the whole image, or the aligned crop of one face.
    form : str
        What a prediction holds (`fp2.protocols.narrow.predictions`).
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
)  # fmt: skip
TASKS: dict[str, NarrowTask] = {task.name: task for task in _ALL}
FILES = (*TASKS, "model", "lpips_network", "lpips_weights")
"""Keys of `task.files`: predictions under the name of their task, the YAML file of a model, the weights of LPIPS."""


def narrow_task(name: str, where: str = "task.options.tasks") -> NarrowTask:
    """Return the task of that name.

    Raises
    ------
    Fp2Error
        If it is unknown.
    """
    if name not in TASKS:
        raise Fp2Error(f"unknown narrow task {name!r}", where=where, fix=nearest(name, TASKS))
    return TASKS[name]


Share = Annotated[float, Range(0, 1)]


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
    pck : {"paper", "api"}
        PCK at 0.5 of the diagonal of the face box, or the mean over 0.1, 0.2 ... 0.9.
    mirrored : bool
        Whether the left of a parsing model is that of the image, and not of the person.
    similarity : {"auto", "cosine", "euclidean"}
        How embeddings are compared; auto: by the measure of the model's authors, else by cosine.
    identity : {"none", "dlib"}
        The embedding that compares generated images of faces with the original.
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
    """

    tasks: Names | None = None
    models: Names = ()
    two_person: Literal["match", "leave_out"] = "match"
    pck: Literal["paper", "api"] = "paper"
    mirrored: Flag = False
    similarity: Literal["auto", "cosine", "euclidean"] = "auto"
    identity: Literal["none", "dlib"] = "none"
    measurable: Share = 0.5
    within: Names = ()
    smallest_effect: Share = 0.05
    top_k: Annotated[int, Range(0, 1_000_000)] = 40
    depth: Annotated[int, Range(0, 5)] = 1

    __pydantic_config__ = FORBID_EXTRA

    def __post_init__(self) -> None:
        for name in self.tasks or ():
            narrow_task(name)
        for condition in self.within:
            names_in(condition)

    def wants(self, task: str) -> bool:
        """Whether a task is scored."""
        return self.tasks is None or task in self.tasks


def given_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of `task.files` that are given.

    Raises
    ------
    Fp2Error
        For an unknown key, or one of the two files of LPIPS without the other.
    """
    for name in files:
        if name not in FILES:
            raise Fp2Error(f"unknown file {name!r}", where="task.files", fix=nearest(name, FILES))
    given = {name: path for name, path in files.items() if path}
    if ("lpips_network" in given) != ("lpips_weights" in given):
        raise Fp2Error("LPIPS needs both of its files", where="task.files", fix="Give lpips_network and lpips_weights")
    return given
