"""Fingerprint² Bench: groups that a vision-language model describes differently, by how much, with what uncertainty.

`evaluate`, `load_run`, `compare`, `score` and `disparity` are the Python interface (`fp2.api`); they are imported on
first use, so that `import fp2` stays light.
"""

from typing import TYPE_CHECKING, Any

from fp2.moved import install

__version__ = "0.5.0.dev0"
__all__ = ["FunctionModel", "Scorer", "compare", "disparity", "evaluate", "load_run", "score"]

if TYPE_CHECKING:
    from fp2.api import FunctionModel, Scorer, compare, disparity, evaluate, load_run, score


install()


def __getattr__(name: str) -> Any:
    """Return a name of the Python interface."""
    if name not in __all__:
        raise AttributeError(f"module 'fp2' has no attribute {name!r}")
    import random
    from importlib import import_module

    state = random.getstate()
    try:
        return getattr(import_module("fp2.api"), name)
    finally:
        random.setstate(state)  # Rich draws from the global generator when it is imported


def __dir__() -> list[str]:
    """Return the names of the module, those of the Python interface included."""
    return sorted({*globals(), *__all__})
