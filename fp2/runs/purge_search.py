"""The search for what is left of purged people: their keys, ids and texts in everything that is reachable."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.config import Config
from fp2.runs.folders import recorded_folders
from fp2.runs.purge_journal import scratch
from fp2.tracking.files import files_of, free_texts, logged_runs

if TYPE_CHECKING:
    from fp2.runs.purge_journal import Journal

_KEY = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_TEXT = (".json", ".jsonl", ".html", ".svg", ".txt", ".yaml", ".yml", ".csv", ".md", ".log")


def remaining(here: Config, journal: Journal) -> list[str]:
    """Return where a key, an id (as a whole word) or a long answer of the people still is; tables are planned again."""
    keys = journal.selection.subjects | journal.selection.images
    forms = {form for text in journal.texts for form in (text, json.dumps(text, ensure_ascii=False)[1:-1])}
    forms |= {html.escape(text) for text in journal.texts}
    changed = {step.target for step in journal.steps if step.run_id}

    def what(text: str, texts: bool) -> str | None:
        if keys.intersection(_KEY.findall(text)):
            return "a key"
        if journal.selection.names_in(text):
            return "an id"
        return "an answer" if texts and any(form in text for form in forms) else None

    state, lines, logged = Path(here.paths.state), [], logged_runs(here)
    with scratch(state) as downloads:
        runs = {files_of(run, here, downloads): run.run_id for run in logged}
        roots = [Path(here.paths.outputs).expanduser(), *recorded_folders(state).values(), state / "places"]
        for path in dict.fromkeys(path for root in (*roots, *runs) for path in _files(root)):
            # another run's people may have been given the same words
            texts = any(str(folder) in changed or runs.get(folder) in changed for folder in path.parents)
            if found := what(_readable(path), texts):
                lines.append(f"{path}: {found}")
    for run in logged:
        values = [*run.tags.items(), *run.params.items()]
        lines += [f"MLflow run {run.run_id}, {name}: {found}" for name, text in values if (found := what(text, True))]
    lines += [f"{tag}: {found}" for tag, text, _ in free_texts(here, ()) if (found := what(text, True))]
    return lines


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.suffix in _TEXT and path.is_file())


def _readable(path: Path) -> str:
    """Return what a file says; of a signed envelope, its payload."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return base64.b64decode(json.loads(text)["payload"]).decode() if '"payload"' in text[:4096] else text
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
