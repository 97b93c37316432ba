"""Sample logs of lmms-eval (`*_samples_TASK.jsonl`, written with `--log_samples`), one line a document.

A line has `doc_id` (the document's number in its data set), `input` (the prompt), `filtered_resps` and, where they
differ, `resps`; columns of the data set whose name has "image" in it are not logged, so that images are known by
`doc_id`, or by another column. Source: lmms-eval 0.5 and 0.7, `evaluator.py` and `loggers/evaluation_tracker.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import read_table, sha256_bytes
from fp2.methods.recorded.form import Form, place
from fp2.methods.recorded.forms.tables import records, write_lines

if TYPE_CHECKING:
    import pandas as pd

_ANSWER = "answer"


def _read(path: Path) -> pd.DataFrame:
    table = read_table(path)
    responses = place(table, "filtered_resps") or place(table, "resps") or [None] * len(table)
    return table.assign(**{_ANSWER: [_only(one) for one in responses]}).astype(object)


def _only(value: Any) -> Any:
    """Return what lists of one element hold; nothing of an empty one."""
    while isinstance(value, list) and len(value) <= 1:
        value = value[0] if value else None
    return value


def _write(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    lines = []
    for number, row in enumerate(records(rows)):
        answer = [row["text"]] if "text" in row else []
        known = {name: value for name, value in row.items() if name not in ("question_text", "text")}
        asked = row.get("question_text", "")
        hashed = sha256_bytes(f"{row['image']}\0{row['question']}".encode())
        lines.append(
            {"doc_id": number, "target": "", "filtered_resps": answer, "doc_hash": hashed, "input": asked, **known}
        )
    write_lines(path, lines)


LMMS_EVAL = Form(
    "lmms_eval",
    (".jsonl",),
    {
        "id": ("doc_id",),
        "image": ("image", "image_id", "doc.image_id", "doc.image", "doc_id"),
        "question": ("question", "doc.question", "input"),
        "text": (_ANSWER,),
    },
    _read,
    _write,
    lambda first: "doc_id" in first and bool({"filtered_resps", "resps"} & set(first)),
)
