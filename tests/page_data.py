"""Made-up data in the formats of the real ones, for the commands of the pages. No test in here."""

from __future__ import annotations

import ast
import csv
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from fhibe_copy import SIDE, write_copy, write_fullres
from gras_checkout import write_inference_files, write_lists, write_scripts
from PIL import Image

from fp2.config import choices


def write_data(root: Path) -> None:
    """Write what the commands read: two releases of FHIBE, GRAS's files, and predictions, labels and answers."""
    copy = write_copy(root / "PATH", n_subjects=20, n_pairs=6)
    for row, n in _with_counts(copy.rows):
        if n == 2:
            row["person_bbox"] = "[1, 3, 9, 20]" if row["is_primary"] == "True" else "[13, 3, 10, 18]"
    copy.save()
    write_copy(root / "NEW_PATH", n_subjects=4, n_pairs=1)
    write_fullres(root / "FULL_PATH", n_subjects=4, n_pairs=1)
    write_gras(root / "CHECKOUT")
    (root / "SETS").mkdir()
    (root / "SETS" / "pro_stereotyped_type1.txt.dev").write_text("1 [The beekeeper] slept.\n")
    write_choices(root)
    singles = [row for row, n in _with_counts(copy.rows) if n == 1]
    write_answers(root, singles, [row for row, n in _with_counts(copy.rows) if n == 2])
    write_predictions(root, copy.root, singles, copy.faces)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({key: [row[key] for row in copy.rows] for key in ("image_id", "subject_id")})
    table.assign(recall=rng.random(len(table)).round(3)).to_csv(root / "scores.csv", index=False)
    labels = [table.assign(annotator=name, hairstyle=name) for name in ("Short", "Long")]
    pd.concat(labels).to_csv(root / "labels.csv", index=False)
    images = np.array(sorted({row["image_id"] for row in copy.rows}))
    for name in "abc":
        np.savez(root / f"{name}.npz", image_id=images, embedding=rng.normal(size=(len(images), 4)))


def _with_counts(rows: list[dict[str, str]]) -> list[tuple[dict[str, str], int]]:
    """Return each row with the number of people in its image."""
    counts = Counter(row["image_id"] for row in rows)
    return [(row, counts[row["image_id"]]) for row in rows]


def write_gras(root: Path) -> None:
    """Write a checkout of GRAS's repository, with the inference files of one model."""
    faces, skins = write_lists(root)
    write_scripts(root)
    rng = np.random.default_rng(0)
    tables = {
        f"{trait}_{name}": pd.DataFrame({"img": paths, **{f"T{k}": rng.random(len(paths)) for k in range(1, 6)}})
        for trait in ("kind", "calm", "cruel", "lazy")
        for name, paths in (("fairface", faces), ("aiface", skins))
    }
    write_inference_files(root, "MODEL", tables)


def write_choices(root: Path) -> None:
    """Write a list of images and logits of three choices for each, in VisoGender's layout."""
    rng = np.random.default_rng(0)
    genders = {f"OO_{number}": ("masculine", "feminine")[number % 2] for number in range(24)}
    lines = ["IDX\tOccupation_perceived_gender", *(f"{name}\t{gender}" for name, gender in genders.items())]
    (root / "OO.tsv").write_text("\n".join(lines) + "\n")
    logits = {name: dict(zip(("his", "her", "their"), rng.normal(size=3).tolist(), strict=True)) for name in genders}
    outputs = {name: {"occ": "teacher", "logits_list_obj": one} for name, one in logits.items()}
    (root / "outputs.json").write_text(json.dumps(outputs))


def write_answers(root: Path, singles: list[dict[str, str]], pairs: list[dict[str, str]]) -> None:
    """Write answers to open questions, zero-shot labels, and descriptions of two people."""
    probes = {
        name: yaml.safe_load(choices("probe")[name].read_text("utf-8"))["probes"]
        for name in ("fhibe_vqa", "fhibe_clip")
    }
    rng = np.random.default_rng(0)
    images = sorted({row["image_id"] for row in singles})
    said = {
        "positive": ["She is likeable because she is a woman.", "He is likeable because he is kind."],
        "neutral": ["She is a teacher.", "He is a doctor."],
        "negative": ["He was convicted of theft.", "Nothing."],
    }
    open_answers = [
        {"image": image, "question": question["id"], "text": rng.choice(said[name])}
        for image, (name, probe) in product(images, probes["fhibe_vqa"].items())
        for question in probe["questions"]
    ]
    labels = [
        {"image": image, "question": name, "variant": kind, "numbers": json.dumps({"p": [*rng.dirichlet([1] * n)]})}
        for image, kind in product(images, ("original", "masked", "blurred", "background_removed"))
        for name, probe in probes["fhibe_clip"].items()
        for n in [sum(map(len, probe["questions"][0]["choices"].values()))]
    ]
    said_of_two = "The person on the left wears a red coat. The person on the right smiles and waves."
    two = [
        {"image": image, "question": "attention", "variant": kind, "text": said_of_two}
        for image, kind in product(sorted({row["image_id"] for row in pairs}), ("original", "mirrored"))
    ]
    for name, rows in (("open", open_answers), ("zero_shot", labels), ("two", two)):
        pd.DataFrame(rows).to_csv(root / f"{name}.csv", index=False)


def write_predictions(root: Path, release: Path, singles: list[dict[str, str]], faces: list[dict[str, str]]) -> None:
    """Write predictions of every narrow task, and a second annotation of the boxes."""
    rng = np.random.default_rng(0)
    box = [{"image_id": row["image_id"], "bbox": ast.literal_eval(row["person_bbox"])} for row in singles]
    shifted = [{**one, "bbox": [one["bbox"][0] + 1, *one["bbox"][1:]]} for one in box]
    whole = {"size": [SIDE, SIDE], "counts": [0, SIDE * SIDE]}
    Image.fromarray(np.ones((SIDE, SIDE), np.uint8)).save(root / "map.png")
    for face in faces:
        folder = release / "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format" / face["image_id"]
        folder.mkdir(parents=True)
        Image.fromarray(np.ones((SIDE, SIDE), np.uint8)).save(folder / "combined.png")
    crops = [{"image_id": face["image_id"]} for face in faces]
    files: dict[str, list[dict[str, Any]]] = {
        "a": box,
        "b": shifted,
        "boxes": [{**one, "annotator": "second"} for one in shifted],
        "faces": [{"image_id": row["image_id"], "bbox": ast.literal_eval(row["face_bbox"])} for row in singles],
        "masks": [{"image_id": row["image_id"], "segmentation": whole} for row in singles],
        "poses": [{"image_id": row["image_id"], "keypoints": rng.uniform(0, SIDE, 34).tolist()} for row in singles],
        "maps": [{**one, "parsing": "map.png"} for one in crops],
        "embeddings": [{**one, "embedding": rng.normal(size=4).tolist()} for one in crops],
        "rebuilt": [{**one, "lpips": 0.2, "identity": 0.7, "psnr": 20.0} for one in crops],
        "enlarged": [{**one, "lpips": 0.1, "psnr": 25.0} for one in crops],
    }
    for name, entries in files.items():
        (root / f"{name}.json").write_text(json.dumps(entries))


def write_supplied(root: Path, answers: Path) -> None:
    """Write the answers of a run, as `fp2 export --answers` gave them, in the forms of the page on supplied answers."""
    with answers.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    batch, samples, index = [], [], ["id,image,question"]
    for number, row in enumerate(rows):
        body = {"choices": [{"message": {"role": "assistant", "content": row["text"]}}]}
        response = {"status_code": 200, "body": body}
        batch.append({"custom_id": f"{row['image']}|{row['question']}", "response": response, "error": None})
        samples.append({"doc_id": number, "input": "", "filtered_resps": [row["text"]]})
        index.append(f"{number},{row['image']},{row['question']}")
    for name, lines in (("batch_output", batch), ("samples_task", samples)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "documents.csv").write_text("\n".join(index))
    shown = dict.fromkeys(row["image"] for row in rows)
    (root / "p_yes.csv").write_text("\n".join(["image,word,template,p", *(f"{one},kind,T1,0.5" for one in shown)]))
