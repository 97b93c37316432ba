"""The interface of the core for method packages and packages of third parties: `from fp2.extension import NAME`.

The names are in `extension.pyi`, by subject; type checkers and editors read them there. Importing this module imports
nothing else: the module that defines a name is imported with the name.
"""

from __future__ import annotations

import ast
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from fp2.moved import MOVED_NAMES


def _names() -> dict[str, tuple[str, str]]:
    """Return name -> (module that defines it, its name there), as the stub file states them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: (statement.module or "", alias.name)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


_NAMES = _names()
__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    """Import what `name` stands for; nothing is stored here, so that what a test replaces is found."""
    if name in MOVED_NAMES:
        warnings.warn(f"{name} is now in {MOVED_NAMES[name]}", DeprecationWarning, stacklevel=2)
    elif name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, defined = (MOVED_NAMES[name], name) if name in MOVED_NAMES else _NAMES[name]
    value = getattr(import_module(module), defined, None)
    return import_module(f"{module}.{defined}") if value is None else value


def __dir__() -> list[str]:
    """Return the names of the interface."""
    return __all__
