"""Output of OpenAI's Batch API (JSON Lines), of chat completions and of responses; vLLM's `run-batch` writes the same.

A line has `custom_id`, `response` (`status_code`, `body`) and `error`. Where the body lists `top_logprobs` of the first
token, they are read as probabilities of Yes and No by the rule of `engine=openai_compat`. Form: OpenAI's API reference,
"The request output object", "The chat completion object", "The response object".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import YES_NO_NUMBERS, Question, read_table, sha256_bytes
from fp2.methods.recorded.form import Form, place
from fp2.methods.recorded.forms.tables import records, write_lines

if TYPE_CHECKING:
    import pandas as pd

_YES_NO = Question("", "", "", "yes_no")


def _read(path: Path) -> pd.DataFrame:
    table = read_table(path)
    bodies = place(table, "response.body") or [None] * len(table)
    codes = place(table, "response.status_code") or [None] * len(table)
    errors = place(table, "error") or [None] * len(table)
    table["text"] = [_text(body) for body in bodies]
    table["numbers"] = [_numbers(body) for body in bodies]
    table["status"] = [
        "answered" if error is None and code in (None, 200) else f"error {code or ''}".strip()
        for error, code in zip(errors, codes, strict=True)
    ]
    return table.astype(object)


def _text(body: Any) -> str | None:
    """Return the text of a completion or a response, or of the refusal in its place."""
    if not isinstance(body, Mapping):
        return None
    choices = body.get("choices") or [{}]
    message = choices[0].get("message") or {}
    parts = message.get("content", choices[0].get("text"))  # the older completions have the text itself
    if parts is None and isinstance(body.get("output"), list):
        parts = [part for item in body["output"] for part in item.get("content") or () if isinstance(part, Mapping)]
    if isinstance(parts, list):
        said = [str(part.get("text") or part.get("refusal") or "") for part in parts if isinstance(part, Mapping)]
        return "".join(said) if said else None
    return parts if parts is not None else message.get("refusal")


def _numbers(body: Any) -> Any:
    """Return the numbers of a yes/no answer from the probabilities of its first token; None without any."""
    from fp2.extension import RefusedError, TopLogprobs

    if not isinstance(body, Mapping):
        return None
    own = (body.get("metadata") or {}).get("numbers")
    if own is not None:
        return own
    try:
        found = TopLogprobs(0).read([body], _YES_NO, "given").numbers
    except (RefusedError, ValueError, TypeError, KeyError):  # no probabilities, or none of Yes and No
        return None
    return {name: found[name] for name in YES_NO_NUMBERS}


def _write(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    lines = []
    for row in records(rows):
        known: dict[str, str] = {
            name: str(row[name]) for name in ("image", "question", "variant", "planted_effects") if name in row
        }
        numbers = row.get("numbers") or {name: row[name] for name in YES_NO_NUMBERS if name in row}
        if numbers:
            known["numbers"] = numbers if isinstance(numbers, str) else json.dumps(numbers)
        custom = "|".join(str(row[name]) for name in ("image", "question", "variant"))
        mark = sha256_bytes(custom.encode())[:32]
        message = {"role": "assistant", "content": row.get("text"), "refusal": None}
        tokens = {"Yes": row.get("p_yes"), "No": row.get("p_no")}
        top = [
            {"token": token, "logprob": math.log(p), "bytes": list(token.encode())} for token, p in tokens.items() if p
        ]
        top.sort(key=lambda one: -float(str(one["logprob"])))
        choice = {
            "index": 0,
            "message": message,
            "logprobs": {"content": [{**top[0], "top_logprobs": top}], "refusal": None} if top else None,
            "finish_reason": "stop",
        }
        body = {
            "id": f"chatcmpl-{mark}",
            "object": "chat.completion",
            "created": about["created"],
            "model": about["model"],
            "choices": [choice],
            "metadata": known,
        }
        done = row.get("status", "answered") == "answered"
        error = None if done else {"code": "no_answer", "message": str(row.get("error") or row["status"])}
        response = {"status_code": 200, "request_id": mark, "body": body} if done else None
        lines.append({"id": f"batch_req_{mark}", "custom_id": custom, "response": response, "error": error})
    write_lines(path, lines)


_METADATA = "response.body.metadata"
OPENAI_BATCH = Form(
    "openai_batch",
    (".jsonl",),
    {
        "id": ("custom_id",),
        "image": (f"{_METADATA}.image", "custom_id"),
        "question": (f"{_METADATA}.question",),
        "variant": (f"{_METADATA}.variant",),
        "planted_effects": (f"{_METADATA}.planted_effects",),
    },
    _read,
    _write,
    lambda first: "custom_id" in first and "response" in first,
)
