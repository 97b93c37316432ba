"""Digests of large files, remembered so that weights are read once and not in every run."""

from __future__ import annotations

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
    """SHA-256 of files, remembered by (path, size, mtime in ns) in the table `file_digests` of an open SQLite database.

    Parameters
    ----------
    connection : sqlite3.Connection, optional
        Without one, or after it has failed (locked, full, damaged), digests are computed and not remembered: a problem
        with the database is reported when answers are stored.
    verify : bool
        Read every file again, whatever is remembered.
    """

    def __init__(self, connection: sqlite3.Connection | None = None, *, verify: bool = False) -> None:
        self._connection, self._verify = connection, verify
        self.files_read = 0
        """Files read so far; the digests of the others were remembered."""
        if not self._execute("SELECT 1 FROM sqlite_master WHERE name = 'file_digests'"):
            self._execute(_CREATE)

    def sha256(self, path: Path) -> str:
        """Return the hex SHA-256 of a file.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        status, key = path.stat(), os.path.abspath(path)
        stamp = (status.st_size, status.st_mtime_ns)
        if not self._verify:
            query = "SELECT sha256 FROM file_digests WHERE path = ? AND size = ? AND mtime_ns = ?"
            for (remembered,) in self._execute(query, key, *stamp):
                return str(remembered)
        value = sha256_file(path)
        self.files_read += 1
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) == stamp:
            self._execute("INSERT OR REPLACE INTO file_digests VALUES (?, ?, ?, ?)", key, *stamp, value)
        return value

    def _execute(self, statement: str, *values: str | int) -> list[tuple[str]]:
        """Return the rows; after an error the database is not used again, since each query may wait for a lock."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error:
            self._connection = None
            return []
