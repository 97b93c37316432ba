"""What `task=fhibe_narrow` can be told, checked, with the nearest name for a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fp2.errors import Fp2Error, nearest
from fp2.narrow.tasks import TASKS, narrow_task

WHERE = "task.options"
FILES = (*TASKS, "model", "lpips_network", "lpips_weights")
"""What `task.files` may name: predictions under their task's name, a model's YAML, the weights of LPIPS."""
_CHOICES = {
    "two_person": ("match", "leave_out"),
    "pck": ("paper", "api"),
    "similarity": ("auto", "cosine", "euclidean"),
    "identity": ("none", "dlib"),
}


@dataclass(frozen=True)
class NarrowOptions:
    """The options; see docs/narrow.md.

    `tasks` limits which are scored (None: all that there are predictions or models for). `measurable` is the share of
    people who have to be found before a task counts as measured.
    """

    tasks: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    two_person: str = "match"
    pck: str = "paper"
    mirrored: bool = False
    similarity: str = "auto"
    identity: str = "none"
    measurable: float = 0.5
    within: tuple[str, ...] = ()
    smallest_effect: float = 0.05
    top_k: int = 40
    depth: int = 1


def read_options(given: Mapping[str, Any]) -> NarrowOptions:
    """Return the checked options.

    Raises
    ------
    Fp2Error
        For an unknown key or choice, or a value of another kind.
    """
    known = [item.name for item in fields(NarrowOptions)]
    plain = dict(given)
    for key in plain:
        if key not in known:
            raise Fp2Error(f"unknown option {key!r}", where=WHERE, fix=nearest(key, known))
    for name in ("tasks", "models", "within"):
        value = plain.get(name)
        if value is None:
            plain.pop(name, None)
        else:
            plain[name] = (value,) if isinstance(value, str) else tuple(str(item) for item in value)
    for name, choices in _CHOICES.items():
        if name in plain and plain[name] not in choices:
            raise Fp2Error(
                f"{name} is {plain[name]!r}", where=f"{WHERE}.{name}", fix=nearest(str(plain[name]), choices)
            )
    options = NarrowOptions(**plain)
    for name in options.tasks or ():
        narrow_task(name)
    if not 0 <= options.measurable <= 1:
        raise Fp2Error("measurable is no share", where=f"{WHERE}.measurable", fix="Give a number from 0 to 1")
    return options


def check_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that are given.

    Raises
    ------
    Fp2Error
        For a name that means nothing here.
    """
    for name in files:
        if name not in FILES:
            raise Fp2Error(f"unknown file {name!r}", where="task.files", fix=nearest(name, FILES))
    given = {name: path for name, path in files.items() if path}
    if ("lpips_network" in given) != ("lpips_weights" in given):
        raise Fp2Error("LPIPS needs both of its files", where="task.files", fix="Give lpips_network and lpips_weights")
    return given
