"""Logs of Inspect: `.eval` (a zip with a JSON file per sample) and `.json`.

A sample has `id`, `epoch`, `input` (text, or messages), `output.completion`, `metadata` and perhaps `error`. Long texts
may be replaced by `attachment://DIGEST`, which stands in the sample's `attachments`. A log that was interrupted has no
`header.json` yet, and its samples are read all the same. Source: inspect_ai 0.3.285, `log/_recorders/eval.py`.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, printable, sha256_bytes
from fp2.methods.recorded.form import Form
from fp2.methods.recorded.forms.tables import records

if TYPE_CHECKING:
    import pandas as pd

_KEPT = ("id", "epoch", "metadata")
_ATTACHMENT = "attachment://"
_SAMPLES = "samples/"
_LARGEST = 128 << 20
"""Bytes of a sample, unpacked; a log of images that are in the samples themselves has a few MiB each."""
_ALWAYS, _RATIO = 1 << 30, 200
"""Bytes that all samples may have in any case, and how many times the size of the file they may have beyond that."""
_FAULTS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, NotImplementedError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip
"""What a file that is no such log raises."""
_ZSTD = 93
"""The number of Zstandard among the compression methods of a zip (APPNOTE 6.3.8, section 4.4.5)."""
_LOCAL_HEADER = struct.Struct("<26xHH")
"""A member's local header: the lengths of its name and of its extra field, in 30 bytes (APPNOTE 4.3.7)."""


def _read(path: Path) -> pd.DataFrame:
    """Return one row a sample.

    Raises
    ------
    Fp2Error
        If the file is not such a log, or has no samples.
    """
    import pandas as pd

    fix = "Give a log that `inspect eval` wrote, .eval or .json"
    try:
        rows = [_row(sample) for sample in (_zipped(path) if zipfile.is_zipfile(path) else _plain(path))]
    except FileNotFoundError:
        raise Fp2Error("the log does not exist", where=str(path)) from None
    except _FAULTS as error:
        reason = printable(error, 300) or type(error).__name__
        raise Fp2Error(f"the log cannot be read: {reason}", where=str(path), fix=fix) from None
    if not rows:
        raise Fp2Error("the log has no samples", where=str(path), fix=fix)
    return pd.DataFrame(rows, dtype="object")


def _zipped(path: Path) -> Iterator[Mapping[str, Any]]:
    left = max(_ALWAYS, _RATIO * path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.startswith(_SAMPLES) and member.filename.endswith(".json"):
                body = _member(archive, member)
                left -= len(body)
                if left < 0:
                    raise ValueError(f"its samples have more than {_RATIO} times the size of the file")
                yield json.loads(body)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes, of which no more are unpacked than it says that it has.

    `zipfile` itself has no Zstandard before Python 3.14.

    Raises
    ------
    ValueError
        If these are more than `_LARGEST`, or the bytes are not those that were packed.
    """
    name = printable(member.filename, 80)
    if member.file_size > _LARGEST:
        raise ValueError(f"{name} has more than {_LARGEST >> 20} MiB")
    if member.compress_type != _ZSTD:
        return archive.read(member)
    import pyarrow as pa

    stream: Any = archive.fp
    stream.seek(member.header_offset)
    name_size, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    stream.seek(name_size + extra, 1)
    with pa.input_stream(pa.py_buffer(stream.read(member.compress_size)), compression="zstd") as opened:
        found: bytes = opened.read(member.file_size + 1)
    if len(found) != member.file_size or zlib.crc32(found) != member.CRC:
        raise ValueError(f"{name} is damaged")
    return found


def _plain(path: Path) -> list[Mapping[str, Any]]:
    log = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(log, dict) or "eval" not in log:
        raise ValueError("it has no key 'eval', as a log of Inspect, and is no object of an object for each image")
    return list(log.get("samples") or [])


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is needed of a sample: a log also has its events, which may be large."""
    attached = sample.get("attachments") or {}
    output = sample.get("output") or {}
    chosen = (output.get("choices") or [{}])[0].get("message") or {}
    text = output.get("completion")
    if text is None:
        text = _words(chosen.get("content"), attached)
    return {
        **{name: sample.get(name) for name in _KEPT},
        "input": _asked(sample.get("input"), attached),
        "text": _whole(text, attached),
        "status": "error" if sample.get("error") or not output.get("choices") else "answered",
    }


def _asked(given: Any, attached: Mapping[str, str]) -> str | None:
    """Return what the last message of the user asks."""
    if isinstance(given, list):
        said = [message.get("content") for message in given if message.get("role") == "user"]
        return _words(said[-1], attached) if said else None
    return _whole(given, attached)


def _words(content: Any, attached: Mapping[str, str]) -> str | None:
    """Return the text of a message, whose content may have several parts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        return "\n".join(str(_whole(part.get("text"), attached)) for part in parts)
    return _whole(content, attached)


def _whole(text: Any, attached: Mapping[str, str]) -> str | None:
    if isinstance(text, str) and text.startswith(_ATTACHMENT):
        return attached.get(text.removeprefix(_ATTACHMENT), text)
    return text if text is None else str(text)


def _write(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    """Write a log with one sample an answer, as `.json` or `.eval`."""
    from datetime import UTC, datetime

    samples = [_sample(row, about["model"]) for row in records(rows)]
    ids = [sample["id"] for sample in samples]
    created = datetime.fromtimestamp(about["created"], UTC).isoformat(timespec="seconds")
    run = str(about["run_id"])
    spec = {
        "run_id": run,
        "created": created,
        "task": "fp2",
        "task_id": run,
        "task_version": 0,
        "dataset": {"samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": about["model"],
        "config": {},
    }
    stats = {"started_at": created, "completed_at": created, "model_usage": {}}
    plan = {"name": "plan", "steps": [], "config": {}}
    results = {"total_samples": len(ids), "completed_samples": len(ids), "scores": []}
    header = {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": results, "stats": stats}
    if path.suffix.lower() != ".eval":
        path.write_text(json.dumps({**header, "samples": samples}, ensure_ascii=False, allow_nan=False), "utf-8")
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {name: header[name] for name in ("version", "eval", "plan")}
        archive.writestr("_journal/start.json", json.dumps(start, ensure_ascii=False))
        for sample in samples:
            name = f"{_SAMPLES}{sha256_bytes(sample['id'].encode())[:32]}_epoch_1.json"
            archive.writestr(name, json.dumps(sample, ensure_ascii=False, allow_nan=False))
        archive.writestr("header.json", json.dumps(header, ensure_ascii=False))


def _sample(row: Mapping[str, Any], model: str) -> dict[str, Any]:
    done = row.get("status", "answered") == "answered"
    text = row.get("text", "")
    message = {"role": "assistant", "content": text, "source": "generate", "model": model}
    output = {"model": model, "choices": [{"message": message, "stop_reason": "stop"}], "completion": text}
    why = str(row.get("error") or row.get("status"))
    return {
        "id": "|".join(str(row[name]) for name in ("image", "question", "variant")),
        "epoch": 1,
        "input": row.get("question_text", ""),
        "target": "",
        "messages": [],
        "output": output if done else {"model": model, "choices": []},
        "metadata": {name: value for name, value in row.items() if name not in ("text", "question_text", "error")},
        **({} if done else {"error": {"message": why, "traceback": "", "traceback_ansi": ""}}),
    }


INSPECT = Form(
    "inspect",
    (".eval", ".json"),
    {
        "id": ("id",),
        "image": ("metadata.image", "metadata.image_id", "id"),
        "question": ("metadata.question", "metadata.question_id", "input"),
        **{
            name: (f"metadata.{name}",)
            for name in ("variant", "trait", "template", "numbers", "planted_effects", "p_yes", "p_no", "mass",
                         "p_yes_norm", "p_yes_first_token", "p_no_first_token", "logit_difference")
        },
    },
    _read,
    _write,
)  # fmt: skip
