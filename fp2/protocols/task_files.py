"""The user's files of a task (`task.files`): which keys there are, and which files are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fp2.errors import Fp2Error, nearest

WHERE = "task.files"


def given_files(files: Mapping[str, Any], known: Collection[str], several: Collection[str] = ()) -> dict[str, Any]:
    """Return the files that are given, by key.

    Parameters
    ----------
    files : mapping
        `task.files`; an empty text, list or table is no file.
    known : collection of str
        The keys that the task takes.
    several : collection of str
        Those of them whose value may also be a list of files, or a table of name -> file.

    Raises
    ------
    Fp2Error
        For an unknown key, or a value of another form.
    """
    given = {}
    for name, value in files.items():
        if name not in known:
            raise Fp2Error(f"unknown file {name!r}", where=WHERE, fix=nearest(name, known))
        if not value:
            continue
        named = list(value.values()) if isinstance(value, Mapping) else value
        if name in several and isinstance(named, list | tuple):
            if not all(isinstance(one, str) and one for one in named):
                fix = "Write a list [a.json, b.json], or a table {first: a.json, second: b.json}"
                raise Fp2Error("a file is not a path", where=f"{WHERE}.{name}", fix=fix)
        elif not isinstance(value, str):
            raise Fp2Error("it takes one file", where=f"{WHERE}.{name}", fix="Write one path")
        given[name] = value
    return given
