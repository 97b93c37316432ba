"""The one model that stays loaded for the next run of a sweep; it goes before another one is loaded, never after."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_held: list[tuple[Any, Any]] = []


def kept(key: Any, load: Callable[[], T]) -> T:
    """Return what `load` gives, or what it gave the last time if that was for the same `key`.

    What was held for another key is let go first: two models at once may not fit into memory.
    """
    if _held and _held[0][0] == key:
        value: T = _held[0][1]
        return value
    drop()
    loaded = load()
    _held.append((key, loaded))
    return loaded


def drop() -> None:
    """Let the model go."""
    if not _held:
        return
    _held.clear()
    free_memory()


def free_memory() -> None:
    """Give back what nothing holds any more, on the GPU too."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
