"""Records of single answers of Every Eval Ever (JSON Lines), as `instance_level_eval.schema.json` 0.3.0 defines them.

A record has the image or item as `sample_id`, the question in `input.raw`, the answer in `output.raw`, and our further
names in `metadata`, whose values are text. A run of fp2 has no correct answers: `score` is 1 where the model answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import YES_NO_NUMBERS, read_table
from fp2.methods.recorded.form import Form, evaluation_id, place
from fp2.methods.recorded.forms.tables import records, write_lines

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "0.3.0"
_IN_PLACE = ("image", "question_text", "text", "error")


def _read(path: Path) -> pd.DataFrame:
    """Return the records, with the numbers of yes/no answers as numbers."""
    table = read_table(path)
    columns = {name: place(table, f"metadata.{name}") for name in YES_NO_NUMBERS}
    numbers = {name: cells for name, cells in columns.items() if cells is not None}
    for name, cells in numbers.items():
        table[name] = [None if cell is None else float(cell) for cell in cells]
    return table.astype(object)


def _write(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    model = str(about["model"])
    lines = []
    for row in records(rows):
        answered = row.get("status", "answered") == "answered"
        more = {name: value for name, value in row.items() if name not in _IN_PLACE}
        metadata = {name: value if isinstance(value, str) else json.dumps(value) for name, value in more.items()}
        score_is = "1 where the model answered; there is no correct answer"
        lines.append(
            {
                "schema_version": SCHEMA,
                "evaluation_id": evaluation_id(model, about["created"]),
                "model_id": str(about["model_id"] or model),
                "evaluation_name": str(row.get("probe", row["question"])),
                "sample_id": str(row["image"]),
                "interaction_type": "single_turn",
                "input": {"raw": str(row.get("question_text", row["question"])), "reference": []},
                "output": {"raw": [row["text"]] if "text" in row else []},
                "answer_attribution": [],
                "evaluation": {"score": float(answered), "is_correct": answered},
                **({"error": str(row["error"])} if "error" in row else {}),
                "metadata": metadata | {"score_is": score_is},
            }
        )
    write_lines(path, lines)


EVERY_EVAL_EVER = Form(
    "every_eval_ever",
    (".jsonl",),
    {
        "id": ("sample_id",),
        "image": ("sample_id",),
        "question": ("metadata.question", "input.raw"),
        "text": ("output.raw.0",),
        **{name: (f"metadata.{name}",) for name in ("subject", "variant", "trait", "template", "status", "numbers")},
    },
    _read,
    _write,
    lambda first: {"evaluation_id", "sample_id", "interaction_type"} <= set(first),
)
