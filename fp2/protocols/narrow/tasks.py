"""The eight narrow tasks: what each is measured by, on which picture, and what a prediction of it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fp2.errors import Fp2Error, nearest

WHOLE, FACE = "whole picture", "face crop"
BOX, MASK, POSE, PARSING, EMBEDDING, PICTURE = "box", "mask", "pose", "parsing", "embedding", "picture"


@dataclass(frozen=True)
class NarrowTask:
    """One task.

    Attributes
    ----------
    shown : str
        What a model sees: the whole picture, or the aligned crop of one face.
    form : str
        What a prediction holds (see `fp2.protocols.narrow.predictions`).
    metric : str
        The metric whose value is a person's score: larger is better.
    metrics : mapping
        Column -> what it is, the score's metric first.
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
        "pose_estimation", "Pose estimation", WHOLE, POSE, "pck",
        {
            "pck": "correct keypoints at 0.5 of the face box's diagonal",
            "oks": "object keypoint similarity",
            "oks_recall": "share of the OKS thresholds 0.5, 0.55 ... 0.95 that are reached",
        },
    ),
    NarrowTask("person_segmentation", "Person segmentation", WHOLE, MASK, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("person_detection", "Person detection", WHOLE, BOX, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("face_detection", "Face detection", WHOLE, BOX, "recall", {"recall": _RECALL, "iou": _IOU}),
    NarrowTask("face_parsing", "Face parsing", FACE, PARSING, "f1", {"f1": "mean F1 of the parts of the face"}),
    NarrowTask(
        "face_verification", "Face verification", FACE, EMBEDDING, "accepted",
        {"accepted": "share of the face's true pairs that are accepted where one hard false pair in 1,000 is"},
    ),
    NarrowTask(
        "face_reconstruction", "Face reconstruction", FACE, PICTURE, "likeness",
        {
            "likeness": "1 - LPIPS, at least 0 (the identity cosine, then PSNR / 100 dB, where there is no LPIPS)",
            "lpips": "LPIPS: lower is better",
            "psnr": "peak signal-to-noise ratio in dB",
            "identity": "cosine of the embeddings of the two faces",
        },
    ),
    NarrowTask(
        "face_super_resolution", "Face super-resolution", FACE, PICTURE, "likeness",
        {
            "likeness": "1 - LPIPS, at least 0 (PSNR / 100 dB where there is no LPIPS)",
            "lpips": "LPIPS: lower is better",
            "psnr": "peak signal-to-noise ratio in dB",
        },
    ),
)  # fmt: skip
TASKS: dict[str, NarrowTask] = {task.name: task for task in _ALL}


def narrow_task(name: str, where: str = "task.options.tasks") -> NarrowTask:
    """Return the task of that name.

    Raises
    ------
    Fp2Error
        If there is none.
    """
    if name not in TASKS:
        raise Fp2Error(f"unknown narrow task {name!r}", where=where, fix=nearest(name, TASKS))
    return TASKS[name]


def narrow_tasks(names: Sequence[str]) -> list[NarrowTask]:
    """Return the tasks of these names, each once."""
    return [narrow_task(name) for name in dict.fromkeys(names)]
