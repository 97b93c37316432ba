"""SHA-256 of big files, remembered by (path, size, mtime in ns) so that weights are read once and not at every run."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from fp2.hashing import sha256_file

_CREATE = """
CREATE TABLE IF NOT EXISTS file_digests (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL
) WITHOUT ROWID
"""


class FileDigests:
    """Digests of files, kept in the table `file_digests` of an open SQLite database (or only computed, without one).

    `verify` reads every file again, whatever is remembered.
    """

    def __init__(self, connection: sqlite3.Connection | None = None, *, verify: bool = False) -> None:
        self._connection, self._verify = connection, verify
        self.read = 0
        """Files read so far (the others were remembered)."""
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # what cannot be remembered is read again
                connection.execute(_CREATE)

    def sha256(self, path: Path) -> str:
        """Return the hex SHA-256 of a file.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        status, key = path.stat(), os.path.abspath(path)
        stamp = (status.st_size, status.st_mtime_ns)
        if self._connection is not None and not self._verify:
            query = "SELECT sha256 FROM file_digests WHERE path = ? AND size = ? AND mtime_ns = ?"
            row = None
            with contextlib.suppress(sqlite3.Error):
                row = self._connection.execute(query, (key, *stamp)).fetchone()
            if row is not None:
                return str(row[0])
        value = sha256_file(path)
        self.read += 1
        after = path.stat()
        if self._connection is not None and (after.st_size, after.st_mtime_ns) == stamp:
            with contextlib.suppress(sqlite3.Error):
                row = (key, *stamp, value)
                self._connection.execute("INSERT OR REPLACE INTO file_digests VALUES (?, ?, ?, ?)", row)
        return value
