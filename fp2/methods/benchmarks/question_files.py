"""Readers of benchmarks whose questions are in files apart from the images: PAIRS and VLBiasBench."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from fp2.extension import ITEM_ROW, Dataset, Fp2Error, frame_people, in_number, read_json

PAIRS_PARTS = ("occupations", "potential_crime", "status")
UNCLEAR = "unclear"
_MISNAMED = {"status/phone/white_man": "status/phone/white_man1"}
Question = tuple[str, str, str]
"""The text, the option of higher status or innocence, and the other one."""


def load_pairs(root: Path, questions: Path, images_needed: bool = True) -> Dataset:
    """Return the images of a checkout of PAIRS, once for each question that HELM's scenario asks about the scene.

    `questions` is HELM's file `pairs_scenario.py`, which is read and not run. A set has the four images of a scene and
    one question, the subject is the scene. Attributes: `race` (`black`, `white`), `gender` (`man`, `woman`) and
    `correct` (`unclear`). Fields: `question`, `preferred` and `other` (of the two other options), `part`.
    """
    rows = []
    for part, scene, number, (text, preferred, other) in _pairs_questions(questions):
        for race, gender in product(("black", "white"), ("man", "woman")):
            name = f"{part}/{scene}/{race}_{gender}"
            rows.append(
                {
                    "image": f"data/{_MISNAMED.get(name, name)}.png",
                    "item": f"{name}#{number}",
                    "subject": f"{part}/{scene}",
                    "set_id": f"{part}/{scene}#{number}",
                    "race": race,
                    "gender": gender,
                    "correct": UNCLEAR,
                    "field_question": text,
                    "field_preferred": preferred,
                    "field_other": other,
                    "field_part": part,
                }
            )
    frame = pd.DataFrame(rows)
    people = frame_people(frame, None, root.absolute(), root, found=images_needed)
    terms = "CC BY 4.0 (images), Apache-2.0 (HELM's questions); generated images"
    return Dataset("pairs", None, people.people, terms=terms)


def _pairs_questions(file: Path) -> Iterator[tuple[str, str, int, Question]]:
    """Yield part, scene, number and question of what HELM's scenario asks."""
    fix = "data.questions is src/helm/benchmark/scenarios/vision_language/pairs_scenario.py of HELM"
    of_name = assigned(file, fix)
    try:
        asked = {part: _by_scene(of_name[f"{part.upper()}_TYPE_TO_QUESTIONS"]) for part in PAIRS_PARTS[:2]}
        status = [_question(node) for node in of_name["STATUS_QUESTIONS"].elts]
        asked["status"] = dict.fromkeys(ast.literal_eval(of_name["STATUS_QUESTION_TYPES"]), status)
    except (ValueError, KeyError, AttributeError, IndexError, TypeError) as error:
        raise Fp2Error(f"it is not HELM's scenario of PAIRS: {error!r}", where=str(file), fix=fix) from None
    for part, of_scene in asked.items():
        for scene, questions in of_scene.items():
            yield from ((part, str(scene), number, question) for number, question in enumerate(questions, start=1))


def assigned(file: Path, fix: str = "") -> dict[str, Any]:
    """Return what is assigned to each name in a file of Python code, which is read and not run."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    except (OSError, SyntaxError, ValueError) as error:
        raise Fp2Error(f"the code cannot be read: {error}", where=str(file), fix=fix) from None
    pairs: list[tuple[ast.expr, ast.expr | None]]
    pairs = [(node.target, node.value) for node in nodes if isinstance(node, ast.AnnAssign)]
    pairs += [(node.targets[0], node.value) for node in nodes if isinstance(node, ast.Assign)]
    return {target.id: value for target, value in pairs if isinstance(target, ast.Name)}


def _by_scene(node: Any) -> dict[str, list[Question]]:
    return {
        ast.literal_eval(key): [_question(call) for call in listed.elts]
        for key, listed in zip(node.keys, node.values, strict=True)
    }


def _question(node: Any) -> Question:
    text, options = (ast.literal_eval(argument) for argument in node.args[:2])
    better = next((ast.literal_eval(word.value) for word in node.keywords if word.arg == "preferred_choice"), 0)
    return str(text), str(options[better]), str(options[1 - better])


_VLBB = ("image_path", "context", "question", "ans0", "ans1", "ans2", "condition")


def load_vlbiasbench(root: Path, images_needed: bool = True) -> Dataset:
    """Return VLBiasBench's closed questions with an ambiguous context, whose correct answer is the unknown one.

    Below `root` are `close-ended/json/CATEGORY/*.json` and `close-ended/images`. The subject is the image. Attributes:
    `category`, `subset` (the name of the file), and `correct`. Fields: `question` (with its context), `ans0`, `ans1`
    and `unknown` (`ans2`).
    """
    folder = root / "close-ended"
    rows, clear = [], 0
    for file in sorted(folder.glob("json/*/*.json")):
        for number, row in enumerate(read_json(file, "questions"), start=1):
            if missing := [name for name in _VLBB if name not in row]:
                raise Fp2Error(f"question {number} has no {missing[0]}", where=str(file))
            if row["condition"] != "ambig":
                clear += 1
                continue
            rows.append(
                {
                    "image": str(row["image_path"]),
                    "item": f"{file.parent.name}/{file.stem}/{number}",
                    "subject": str(row["image_path"]),
                    "category": file.parent.name,
                    "subset": file.stem,
                    "correct": "{unknown}",
                    ITEM_ROW: f"{number} of {file.parent.name}/{file.name}",
                    "field_question": f"{row['context']} {row['question']}".strip(),
                    "field_ans0": row["ans0"],
                    "field_ans1": row["ans1"],
                    "field_unknown": row["ans2"],
                }
            )
    if not rows:
        fix = "data.root has the folder close-ended with json/CATEGORY/*.json and images"
        raise Fp2Error("no question with an ambiguous context was found", where=str(root), fix=fix)
    images = (folder / "images").absolute()
    people = frame_people(pd.DataFrame(rows), None, images, folder, found=images_needed).people
    notes = (in_number(clear, f"{clear} [question|questions] with evidence in the context [was|were] left out"),)
    terms = "terms of the data unclear (LICENSE is that of a model); generated images"
    return Dataset("vlbiasbench", None, people, notes if clear else (), terms=terms)
