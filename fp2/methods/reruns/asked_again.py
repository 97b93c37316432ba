"""Stored answers that are asked again: a random share of a run's, in a copy of the response store that lacks them.

A rerun whose answers come from the store repeats the scoring and the statistics, not the model. Answers that are asked
again show whether the model still gives them.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fp2.extension import Fp2Error, ResponseStore, as_user_error, has_table, origins, read_tables, salted


@dataclass(frozen=True)
class AskedAgain:
    """How many stored answers (arrays of answers, in dense storage) were asked again, and how many came out equal."""

    share: float
    n: int
    equal: int

    def __str__(self) -> str:
        return f"{self.n} stored answers ({self.share:.1%} of the run's, drawn at random) were asked again: " + (
            "all are equal" if self.equal == self.n else f"{self.n - self.equal} differ"
        )


def copy_without(folder: Path, store: Path, salt: bytes, share: float, copy: Path) -> list[str]:
    """Copy the response store without a random share of a run's answers; return the keys that the copy lacks.

    Parameters
    ----------
    folder : Path
        The run's folder, with its tables.
    store, copy : Path
        The response store, and the file of the copy.
    salt : bytes
        This machine's salt.
    share : float
        The share of the run's stored answers, above 0 and at most 1; at least one answer is drawn.
    """
    if not 0 < share <= 1:
        raise Fp2Error(f"{share} is not a share of the answers", where="--fresh", fix="Give a number such as 0.05")
    own_keys = set(read_tables(folder, scored=False).answers.stored_keys())
    copy.parent.mkdir(parents=True, exist_ok=True)
    with ResponseStore(store, read_only=True) as opened:
        all_keys = sorted(origins.all_keys(opened.connection, store))
        named = zip(all_keys, salted(all_keys, salt, "response"), strict=True)
        keys = list(_contents(opened.connection, [key for key, name in named if name in own_keys]))
        if not keys:
            raise Fp2Error("the store has no answer of this run", where=str(store), fix="Leave out --fresh")
        with as_user_error(copy), closing(sqlite3.connect(copy)) as target:
            opened.connection.backup(target)
    drawn = np.random.default_rng().choice(len(keys), size=math.ceil(share * len(keys)), replace=False)
    chosen = [keys[index] for index in sorted(drawn.tolist())]
    with ResponseStore(copy) as lacking:
        origins.delete(lacking.connection, copy, chosen, [], [])
    return chosen


def compared(keys: list[str], store: Path, copy: Path, share: float) -> AskedAgain:
    """Compare the answers under `keys` in the store with those that were asked again into the copy."""
    with ResponseStore(store, read_only=True) as original, ResponseStore(copy, read_only=True) as repeated:
        before, after = _contents(original.connection, keys), _contents(repeated.connection, keys)
    asked_keys = [key for key in keys if key in after]
    return AskedAgain(share, len(asked_keys), sum(after[key] == before[key] for key in asked_keys))


def _contents(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, tuple[object, ...]]:
    """Return text and numbers of the answers under `keys`, or the arrays of a context."""
    rows_found: dict[str, tuple[object, ...]] = {}
    has_arrays = has_table(connection, "blocks")
    for key in keys:
        row = connection.execute("SELECT text, numbers FROM answers WHERE key = ?", (key,)).fetchone()
        query = "SELECT question_set, numbers FROM blocks WHERE context = ? ORDER BY question_set"
        blocks = connection.execute(query, (bytes.fromhex(key),)).fetchall() if has_arrays else []
        if row is not None or blocks:
            rows_found[key] = (row, *blocks)
    return rows_found
