"""Made-up annotations of two annotators, and the words that compare them. No test in here."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image


def write_annotations(folder: Path) -> Path:
    """60 subjects in two groups; of group b the second annotator often chooses another label, and moves the box."""
    rng = np.random.default_rng(0)
    Image.new("RGB", (30, 30)).save(folder / "image.png")
    people, labels, boxes = [], [], []
    for number in range(60):
        name, group = f"p{number}.png", "ab"[number % 2]
        (folder / name).write_bytes((folder / "image.png").read_bytes())
        people.append([name, f"s{number}", group, "short", 5, 5, 20, 20])
        labels.append([name, "first", "short"])
        labels.append([name, "second", "long" if group == "b" and rng.random() < 0.8 else "short"])
        boxes.append({"image_id": name, "annotator": "second", "bbox": [5 + 10 * (group == "b"), 5, 20, 20]})
    for file, head, rows in (
        ("people.csv", ["image", "person", "group", "hair", "x", "y", "w", "h"], people),
        ("labels.csv", ["image_id", "annotator", "hair"], labels),
    ):
        with (folder / file).open("w", newline="") as handle:
            csv.writer(handle).writerows([head, *rows])
    (folder / "boxes.json").write_text(json.dumps(boxes))
    return folder


def agreement_words(world: Path, root: Path, *more: str) -> list[str]:
    """Return the overrides of a run on the annotations in `world`, inside `root`."""
    columns = "image: image, subject: person, group: group, hair: hair, box_x: x, box_y: y, box_w: w, box_h: h"
    return [
        "task=annotator_agreement",
        "data=table",
        f"data.path={world / 'people.csv'}",
        f"data.columns={{{columns}}}",
        "cut.by=[group]",
        "analysis.permutations=999",
        "analysis.bootstrap=50",
        "tracking=none",
        f"paths.root={root}",
        f"paths.state={root / 'state'}",
        *more,
    ]
