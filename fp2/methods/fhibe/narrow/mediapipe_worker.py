"""MediaPipe's face detector and selfie segmenter behind a pipe, in an environment that has numpy below 2.

Run as `python mediapipe_worker.py TASK SETTINGS` with settings as JSON. For each picture the program reads one JSON
line, `{"height": h, "width": w}`, and h * w * 3 bytes of RGB, and answers with one JSON line: a list of predictions, or
`{"error": ...}`. The first line that it writes says which version it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Said = list[dict[str, Any]]


def faces(mediapipe: Any, settings: dict[str, float]) -> Callable[[Any], Said]:
    """Return a function from pixels to face boxes (x, y, width, height) with scores."""
    detector = mediapipe.solutions.face_detection.FaceDetection(
        model_selection=int(settings["model"]), min_detection_confidence=float(settings["threshold"])
    )

    def found(pixels: Any) -> Said:
        height, width = pixels.shape[:2]
        said = []
        for detection in detector.process(pixels).detections or ():
            box = detection.location_data.relative_bounding_box
            corner = [box.xmin * width, box.ymin * height, box.width * width, box.height * height]
            said.append({"box": corner, "score": float(detection.score[0])})
        return said

    return found


def person(mediapipe: Any, settings: dict[str, float]) -> Callable[[Any], Said]:
    """Return a function from pixels to one mask as COCO run lengths, or none where it is empty."""
    segmenter = mediapipe.solutions.selfie_segmentation.SelfieSegmentation(model_selection=int(settings["model"]))
    threshold = float(settings["threshold"])

    def found(pixels: Any) -> Said:
        level = segmenter.process(pixels).segmentation_mask
        mask = level > threshold
        if not mask.any():
            return []
        flat = mask.ravel(order="F")
        changes = np.flatnonzero(np.diff(np.concatenate([[False], flat])))
        runs = np.diff([0, *changes.tolist(), flat.size])
        record = {"size": list(mask.shape), "counts": runs.tolist()}
        return [{"mask": record, "score": float(level[mask].mean())}]

    return found


def main() -> None:
    """Answer until the pipe is closed."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints must not look like a reply
    import mediapipe

    look = {"face_detection": faces, "person_segmentation": person}[sys.argv[1]](mediapipe, json.loads(sys.argv[2]))
    replies.write(json.dumps({"mediapipe": mediapipe.__version__}) + "\n")
    replies.flush()
    pictures = sys.stdin.buffer
    while line := pictures.readline():
        shape = json.loads(line)
        pixels = np.frombuffer(pictures.read(shape["height"] * shape["width"] * 3), dtype=np.uint8)
        try:
            said: Any = look(pixels.reshape(shape["height"], shape["width"], 3))
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(said) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
