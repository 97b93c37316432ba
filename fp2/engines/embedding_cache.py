"""Embeddings kept in SQLite, so that a picture or a text is given to the same model once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fp2.errors import Fp2Error

_CREATE = "CREATE TABLE IF NOT EXISTS embeddings (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_QUERY = 500
_STORED = np.dtype("<f4")

Vector = NDArray[np.float32]


class EmbeddingCache:
    """Vectors by key, in the table `embeddings` of an open SQLite database (without one, nothing is kept).

    The connection is used only in the caller's thread.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection
        if connection is not None:
            with connection:
                connection.execute(_CREATE)

    def get(self, keys: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of those keys that are kept."""
        found: dict[str, Vector] = {}
        if self._connection is None:
            return found
        for start in range(0, len(keys), _QUERY):
            some = list(keys[start : start + _QUERY])
            query = f"SELECT key, vector FROM embeddings WHERE key IN ({','.join('?' * len(some))})"
            for key, blob in self._connection.execute(query, some):
                found[key] = np.frombuffer(blob, _STORED).astype(np.float32)
        return found

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors; a key that is there already stays as it is.

        Raises
        ------
        Fp2Error
            If the database cannot be written (a full disk, a read-only folder).
        """
        if self._connection is None or not vectors:
            return
        rows = [(key, np.ascontiguousarray(vector, _STORED).tobytes()) for key, vector in vectors.items()]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR IGNORE INTO embeddings VALUES (?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise Fp2Error(f"embeddings cannot be kept: {error}", fix="Is the disk full or read-only?") from None
