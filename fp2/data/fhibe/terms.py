"""The terms of use that FHIBE comes under: acknowledged once per state folder, and recorded with every run.

Sony's own text binds, and this module does not replace it. It holds the date of the terms that this version knows of,
so that later terms are acknowledged anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fp2.errors import Fp2Error

TERMS = "2025-11-05"  # "last updated" of the terms of use that this version knows of
RECORD = "fhibe_terms.json"
QUESTION = f"""FHIBE is Sony's data set of consenting people, under its own terms of use (known here: {TERMS}).
Among other things they allow measuring and reducing bias; they forbid training other models, identifying anybody,
surveillance and passing the data on; what a newer release no longer has must be deleted here as well (fp2 purge).
Have you accepted these terms, and will you keep to them? [yes/no] """


def acknowledge(state: Path, accept: bool, ask: Callable[[], bool] | None = None) -> dict[str, str]:
    """Return the recorded acknowledgement, making it if `accept` is set or the user says yes.

    Parameters
    ----------
    state : Path
        The state folder; the record is `fhibe_terms.json` in it, and the folder becomes its owner's only.
    accept : bool
        `data.accept_terms=true`.
    ask : callable, optional
        Asks the user; on a terminal a question is asked, elsewhere nobody is.

    Returns
    -------
    dict
        `terms` (their date) and `acknowledged` (when).

    Raises
    ------
    Fp2Error
        If there is no acknowledgement of these terms, or it cannot be written.
    """
    path = state / RECORD
    known = _read(path)
    if known is not None:
        return known
    if not accept and not (ask or _ask)():
        raise Fp2Error(
            f"the terms of use of FHIBE (as of {TERMS}) are not acknowledged",
            where=str(path),
            fix="Read them where you got the data; if you accept them, run once with data.accept_terms=true",
        )
    record = {"terms": TERMS, "acknowledged": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o700)
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    except OSError as error:
        raise Fp2Error(f"the acknowledgement cannot be kept: {error.strerror}", where=str(path)) from error
    return record


def _read(path: Path) -> dict[str, str] | None:
    """Return the record of these terms; one of earlier terms, or one that is damaged, does not count."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["terms"] == TERMS:
            return {"terms": str(record["terms"]), "acknowledged": str(record["acknowledged"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _ask() -> bool:
    """Ask on the terminal; where nobody sits, nobody has said yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(QUESTION, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
