"""Embeddings of images and texts that were computed before, in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fp2.store import checksums
from fp2.store.database import CHECKSUMS, add_table, as_user_error, file_of, transaction

_CREATE = "CREATE TABLE IF NOT EXISTS embeddings (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_PLACE = "embeddings"
_QUERY = 500
_STORED = np.dtype("<f4")

Vector = NDArray[np.float32]


class EmbeddingCache:
    """Vectors by key, in the table `embeddings` of an open SQLite database (nothing is kept without one).

    The connection is used in the caller's thread only.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection
        if connection is not None:
            with as_user_error(file_of(connection)):
                add_table(connection, "embeddings", _CREATE)
                add_table(connection, "checksums", CHECKSUMS)

    def get(self, keys: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors that are kept under `keys`, without those that do not match their checksums."""
        found: dict[str, Vector] = {}
        if self._connection is None:
            return found
        for start in range(0, len(keys), _QUERY):
            some = list(keys[start : start + _QUERY])
            query = f"SELECT key, vector FROM embeddings WHERE key IN ({','.join('?' * len(some))})"
            with as_user_error(file_of(self._connection)):
                rows = {key: (blob,) for key, blob in self._connection.execute(query, some)}
                kept = checksums.intact(self._connection, _PLACE, rows)
            found |= {key: np.frombuffer(rows[key][0], _STORED).astype(np.float32) for key in rows if key in kept}
        return found

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors, in place of damaged ones."""
        if self._connection is None or not vectors:
            return
        rows = [(key, np.ascontiguousarray(vector, _STORED).tobytes()) for key, vector in vectors.items()]
        with transaction(self._connection, file_of(self._connection)):
            self._connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)
            checksums.put(self._connection, _PLACE, {key: checksums.checksum(key, blob) for key, blob in rows})
