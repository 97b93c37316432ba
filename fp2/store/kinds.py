"""What another way of storing answers than a row per answer keeps in a response store (entry points `fp2.storages`).

A column `context` of its tables has the keys under which origins are recorded (`fp2.store.origins`), 32 bytes each: a
purge deletes the rows of a key from every such table, whether what wrote them is installed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from fp2.plugins import STORAGES, load, read_installed

if TYPE_CHECKING:
    from fp2.store.rows import ResponseStore


class StoredTables(Protocol):
    """The tables of a storage in a response store.

    Attributes
    ----------
    tables : sequence of str
        Their names, as far as a merge counts their rows.
    checks : mapping
        Table -> what yields for each of its rows what is wrong with it, None where nothing is.
    merges : sequence of callable
        Each copies rows of one store into another and returns the keys of answers that differ; called for every
        source, before the next one is.
    """

    tables: Sequence[str]
    checks: Mapping[str, Callable[[ResponseStore], Iterator[str | None]]]
    merges: Sequence[Callable[[ResponseStore, ResponseStore, Callable[[int], None]], Iterable[str] | None]]


def stored_kinds() -> list[StoredTables]:
    """Return what the installed storages keep in a response store."""
    return [*read_installed(STORAGES, lambda name: load(STORAGES, name, "paths.store")).values()]
