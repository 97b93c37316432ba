"""Which planned answers are stored, for plans of millions: keys are compared as integers, and no answer is read.

The keys of the store are read in 256 ranges, one at a time, so that memory grows with the plan and not with the store.
A plan that is small beside the store is looked up key by key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fp2.store.database import as_user_error
from fp2.store.rows import ResponseStore, answered_keys

_ROW_BYTES = 400
"""Of a stored answer, at least about: to guess how many a file holds."""
_POINT_COST = 8
"""How many rows are scanned in the time that one key is looked up."""


def stored_keys(store: ResponseStore, wanted: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which of `wanted` have an answer; no answer is read.

    Parameters
    ----------
    wanted : array (n,), 32 bytes each
        Distinct response keys in ascending order.
    """
    with as_user_error(store.path):
        if len(wanted) * _POINT_COST < store.path.stat().st_size / _ROW_BYTES:
            keys = [key.hex() for key in wanted.tolist()]
            there = answered_keys(store.connection, keys)
            return np.fromiter((key in there for key in keys), dtype=bool, count=len(keys))
        found = np.zeros(len(wanted), dtype=bool)
        words = ordered_words(wanted)
        bounds = np.searchsorted((words[0] >> np.uint64(56)).astype(np.int64), np.arange(257)).tolist()
        for first, (low, high) in enumerate(pairwise(bounds)):
            if low < high:
                _mark(store.connection, first, [word[low:high] for word in words], found[low:high])
        return found


def distinct(keys: NDArray[np.uint8]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the distinct keys in ascending order (as `stored_keys` takes them), and the place of each key among them.

    Parameters
    ----------
    keys : array (n, 32)
        Response keys.
    """
    flat = np.ascontiguousarray(keys).view("V32").reshape(-1)
    words = ordered_words(flat)
    order = np.lexsort(words[::-1])
    new = np.ones(len(flat), dtype=bool)
    new[1:] = np.logical_or.reduce([np.diff(word[order]) != 0 for word in words])
    place = np.empty(len(flat), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return flat[order[new]], place


def ordered_words(keys: NDArray[np.void]) -> list[NDArray[np.uint64]]:
    """Return keys of 32 bytes as four integers each, the most significant first: (n,) arrays."""
    words = np.frombuffer(keys.tobytes(), dtype=">u8").reshape(-1, 4).astype(np.uint64)
    return [np.ascontiguousarray(words[:, place]) for place in range(4)]


def _mark(
    connection: sqlite3.Connection, first: int, wanted: Sequence[NDArray[np.uint64]], found: NDArray[np.bool_]
) -> None:
    """Set `found` where the store has the key; all keys begin with the byte `first`."""
    low, high = f"{first:02x}", f"{first + 1:02x}" if first < 255 else "g"
    query = "SELECT group_concat(key, '') FROM answers WHERE key >= ? AND key < ? AND length(key) = 64"
    (text,) = connection.execute(query, (low, high)).fetchone()
    if text is None:
        return
    stored = ordered_words(np.frombuffer(bytes.fromhex(text), dtype="V32"))
    order = np.argsort(stored[0], kind="stable")
    at = np.searchsorted(stored[0][order], wanted[0])
    inside = at < len(order)
    place = order[np.minimum(at, len(order) - 1)]
    same = np.logical_and.reduce([mine == theirs[place] for mine, theirs in zip(wanted, stored, strict=True)])
    found |= inside & same
    # Two keys may share their first 64 bits, of which the search finds one.
    for row in np.flatnonzero(inside & (stored[0][place] == wanted[0]) & ~same).tolist():
        key = b"".join(int(word[row]).to_bytes(8, "big") for word in wanted).hex()
        found[row] = bool(answered_keys(connection, [key]))
