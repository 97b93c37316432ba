"""The loaded model that is kept for the next run of a sweep, and what to do when memory runs out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_cached: list[tuple[Any, Any]] = []


def cached_model(key: Any, load: Callable[[], T]) -> T:
    """Return the result of `load`, or of the last call if that had the same `key`.

    A model that was kept under another key is released first: two models at once may not fit into memory.
    """
    if _cached and _cached[0][0] == key:
        value: T = _cached[0][1]
        return value
    release()
    loaded = load()
    _cached.append((key, loaded))
    return loaded


def release() -> None:
    """Drop the model that is kept."""
    if not _cached:
        return
    _cached.clear()
    free_memory()


def free_memory() -> None:
    """Collect garbage, and return unused memory of the GPU."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that memory ran out, on the GPU or on the CPU."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
