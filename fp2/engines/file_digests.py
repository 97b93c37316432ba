"""SHA-256 of big files, remembered by (path, size, mtime in ns) so that weights are read once and not at every run."""

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
    """Digests of files, kept in the table `file_digests` of an open SQLite database (or only computed, without one).

    `verify` reads every file again, whatever is remembered. Where the database fails (locked, full, damaged), files are
    read and nothing is remembered: what the answers' store cannot do is told when answers are stored.
    """

    def __init__(self, connection: sqlite3.Connection | None = None, *, verify: bool = False) -> None:
        self._connection, self._verify = connection, verify
        self.read = 0
        """Files read so far (the others were remembered)."""
        if not self._ask("SELECT 1 FROM sqlite_master WHERE name = 'file_digests'"):
            self._ask(_CREATE)

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
            for (remembered,) in self._ask(query, key, *stamp):
                return str(remembered)
        value = sha256_file(path)
        self.read += 1
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) == stamp:
            self._ask("INSERT OR REPLACE INTO file_digests VALUES (?, ?, ?, ?)", key, *stamp, value)
        return value

    def _ask(self, statement: str, *values: str | int) -> list[tuple[str]]:
        """Return the rows; after a failure the database is left alone, since each further one may wait for a lock."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error:
            self._connection = None
            return []
