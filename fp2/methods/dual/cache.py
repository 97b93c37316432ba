"""Embeddings of images and texts that were computed before, in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fp2.extension import CachedTable

_STORED = np.dtype("<f4")

Vector = NDArray[np.float32]


class EmbeddingCache:
    """Vectors by key, in the table `embeddings` of an open SQLite database (nothing is kept without one).

    The connection is used in the caller's thread only.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._table = CachedTable(connection, "embeddings", ["key"], "vector BLOB NOT NULL")

    def get(self, keys: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors that are kept under `keys`, without those that do not match their checksums."""
        rows = self._table.get((key,) for key in keys)
        return {key: np.frombuffer(blob, _STORED).astype(np.float32) for key, (blob,) in rows.items()}

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors, in place of damaged ones."""
        self._table.put([(key, np.ascontiguousarray(vector, _STORED).tobytes()) for key, vector in vectors.items()])
