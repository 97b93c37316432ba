"""The terms of use of FHIBE: acknowledged once per state folder, and recorded with every run.

Sony's text is binding, and this module does not replace it. The date of the terms that this version knows is stored,
so that later terms have to be acknowledged again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fp2.errors import Fp2Error

TERMS = "2025-11-05"  # "last updated" of the terms of use that this version knows
RECORD = "fhibe_terms.json"
QUESTION = f"""FHIBE is Sony's data set of consenting people, under its own terms of use (known version: {TERMS}).
Among other things they permit measuring and mitigating bias, and forbid training other models, identifying people,
surveillance and redistribution. Data of people who are not in a newer release have to be deleted (fp2 purge).
Have you accepted these terms, and will you comply with them? [yes/no] """


def acknowledge(state: Path, accept: bool, ask: Callable[[], bool] | None = None) -> dict[str, str]:
    """Return the recorded acknowledgement, and record it first if `accept` is set or the user agrees.

    Parameters
    ----------
    state : Path
        The state folder, which is made readable for its owner only; the record is `fhibe_terms.json`.
    accept : bool
        `data.accept_terms=true`.
    ask : callable, optional
        Asks the user. By default the question is asked on a terminal, and is answered by no elsewhere.

    Returns
    -------
    dict
        `terms` (their date) and `acknowledged` (the time).

    Raises
    ------
    Fp2Error
        If these terms are not acknowledged, or the record cannot be written.
    """
    path = state / RECORD
    known = _read(path)
    if known is not None:
        return known
    if not accept and not (ask or _ask)():
        raise Fp2Error(
            f"the terms of use of FHIBE (as of {TERMS}) are not acknowledged",
            where=str(path),
            fix="Read them where you downloaded the data; if you accept them, run once with data.accept_terms=true",
        )
    record = {"terms": TERMS, "acknowledged": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o700)
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    except OSError as error:
        raise Fp2Error(f"the acknowledgement cannot be written: {error.strerror}", where=str(path)) from error
    return record


def _read(path: Path) -> dict[str, str] | None:
    """Return the record of these terms, or None; records of earlier terms and damaged records do not count."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["terms"] == TERMS:
            return {"terms": str(record["terms"]), "acknowledged": str(record["acknowledged"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _ask() -> bool:
    """Ask on the terminal; without one, the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(QUESTION, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
