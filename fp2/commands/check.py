"""`fp2 check`: whether a run's files, answers and records agree with each other."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fp2.commands.output import print_json
from fp2.compose import load_config
from fp2.text import printable

EXIT_FAILED = 1


def check(word: str, overrides: Sequence[str], public_keys: Sequence[Path], as_json: bool) -> int:
    """Print one line per check of the run that `word` names; return 0 if none fails, else 1.

    Raises
    ------
    Fp2Error
        If there is no such run.
    """
    from fp2.progress import Progress
    from fp2.runs.checks import CHECKS, check_run
    from fp2.runs.reader import run_folder

    here = load_config(overrides)
    with tempfile.TemporaryDirectory(prefix="fp2-check-") as scratch:
        folder = run_folder(word, here, Path(scratch), ("",))
        with Progress().steps("Checking the run", len(CHECKS)) as tick:
            found = check_run(folder, here, public_keys=public_keys, tick=tick)
    failed = [one for one in found if one.failures]
    if as_json:
        print_json({"sound": not failed, "checks": [asdict(one) for one in found]})
        return EXIT_FAILED if failed else 0
    for one in found:
        for line in one.failures:
            print(printable(f"failed: {one.check}: {line}"), file=sys.stderr)
        for line in one.notes:
            print(printable(f"note: {one.check}: {line}"))
    print(f"{len(found) - len(failed)} of {len(found)} checks passed")
    return EXIT_FAILED if failed else 0
