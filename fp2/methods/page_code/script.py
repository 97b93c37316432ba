"""The word lists of the page's code, read from the user's copy of it.

None of the lists is part of this project. They are assigned to names at the top of `run_fhibe_benchmark.py`, and one is
assigned in a function. All are read from the script's syntax tree; nothing of it is executed.
"""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from fp2.extension import Fp2Error, digest

SCRIPT = "run_fhibe_benchmark.py"


@dataclass(frozen=True)
class PageLists:
    """The lists, each in the order of the script; `keywords`, a set there, in that of the alphabet."""

    refusal: tuple[str, ...]
    hedged: tuple[str, ...]
    assertive: tuple[str, ...]
    high_status: tuple[str, ...]
    low_status: tuple[str, ...]
    keywords: tuple[str, ...]
    stereotypes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The digest of all lists."""
        return digest(asdict(self))


NAMES = {
    "refusal": "_REFUSAL_PHRASES",
    "hedged": "_HEDGE_PHRASES",
    "assertive": "_ASSERT_PHRASES",
    "high_status": "_ECON_POSITIVE",
    "low_status": "_ECON_NEGATIVE",
    "keywords": "_STEREOTYPE_KEYWORDS",
    "stereotypes": "stereotype_texts",
}
"""Field of `PageLists` -> the name that the script assigns the list to."""


@cache
def read_lists(path: str) -> PageLists:
    """Return the lists of a script, or of the one in a checkout of the page's repository."""
    place = Path(path).expanduser()
    script = place if place.is_file() else next(iter(sorted(place.glob(f"**/{SCRIPT}"))), place / SCRIPT)
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "msg", None) or "it is not text"
        fix = f"Give {SCRIPT} of the page's repository, or its checkout"
        raise Fp2Error(f"the page's script cannot be read: {reason}", where=path, fix=fix) from error
    assigned = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return PageLists(**{field: _texts(assigned, name, script) for field, name in NAMES.items()})


def _texts(assigned: dict[str, ast.expr], name: str, script: Path) -> tuple[str, ...]:
    try:
        texts = ast.literal_eval(assigned[name])
    except (KeyError, ValueError):
        texts = None
    if not isinstance(texts, list | set) or not texts or not all(isinstance(text, str) for text in texts):
        raise Fp2Error(f"the script has no list of texts {name}", where=str(script), fix=f"Is it the page's {SCRIPT}?")
    return tuple(sorted(texts) if isinstance(texts, set) else texts)
