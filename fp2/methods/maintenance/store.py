"""`fp2 store merge` and `fp2 store check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fp2.extension import (
    Fp2Error,
    Output,
    Progress,
    count_checked,
    count_rows,
    damaged_rows,
    finish_purges,
    load_config,
    merge_stores,
    printable,
    writing,
)

EXIT_FAILED = 1
_SHOWN = 20  # damaged rows that are named


def merge(sources: Sequence[Path], target: Path, overrides: Sequence[str], as_json: bool = False) -> None:
    """Merge response stores in a new one without withdrawn people, and print what it has."""
    if len({path.resolve() for path in sources}) < 2:
        raise Fp2Error("two or more different stores are needed", where="fp2 store merge")
    total = sum(sum(count_rows(path).values()) for path in sources)
    config = load_config(overrides)
    finish_purges(config, Progress())
    with writing(Path(config.paths.state)) as withdrawn, Progress().count_up("Merging", total) as tick:
        counts = merge_stores(sources, target, tick, withdrawn)
    with Output(as_json) as out:
        summary = ", ".join(f"{number} {table}" for table, number in counts.items() if number)
        out.say(f"{target}: {summary or 'empty'}", store=str(target), rows=counts)


def check(path: Path, as_json: bool = False) -> int:
    """Check every row of a response store; print one line for each that is damaged; return 0 if none is, else 1."""
    n_rows = count_checked(path)
    with Progress().count_up("Checking the store", n_rows) as tick:
        damaged = list(damaged_rows(path, tick))
    for damaged_row in damaged[:_SHOWN]:
        print(printable(f"failed: {damaged_row}"), file=sys.stderr)
    with Output(as_json) as out:
        out.say(f"{path}: {n_rows} rows, {len(damaged)} damaged", store=str(path), rows=n_rows, damaged=damaged)
    return EXIT_FAILED if damaged else 0
