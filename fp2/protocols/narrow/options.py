"""What `task=fhibe_narrow` can be told, checked, with the nearest name for a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fp2.errors import Fp2Error, nearest
from fp2.protocols.narrow.tasks import TASKS, narrow_task

WHERE = "task.options"
FILES = (*TASKS, "model", "lpips_network", "lpips_weights")
"""What `task.files` may name: predictions under their task's name, a model's YAML, the weights of LPIPS."""
_CHOICES = {
    "two_person": ("match", "leave_out"),
    "pck": ("paper", "api"),
    "similarity": ("auto", "cosine", "euclidean"),
    "identity": ("none", "dlib"),
}
_NUMBERS = {
    "measurable": (0.0, 1.0, False),
    "smallest_effect": (0.0, 1.0, False),
    "top_k": (0, 1_000_000, True),
    "depth": (0, 5, True),
}
"""Option -> its range, and whether it is a whole number."""


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
            plain[name] = _names(value, name)
    for name, choices in _CHOICES.items():
        if name in plain and plain[name] not in choices:
            raise Fp2Error(
                f"{name} is {plain[name]!r}", where=f"{WHERE}.{name}", fix=nearest(str(plain[name]), choices)
            )
    for name, (low, high, whole) in _NUMBERS.items():
        if name in plain:
            plain[name] = _number(plain[name], name, low, high, whole=whole)
    if "mirrored" in plain and not isinstance(plain["mirrored"], bool):
        raise Fp2Error(f"mirrored is {plain['mirrored']!r}", where=f"{WHERE}.mirrored", fix="Give true or false")
    options = NarrowOptions(**plain)
    for name in options.tasks or ():
        narrow_task(name)
    return options


def _names(value: Any, name: str) -> tuple[str, ...]:
    """Return one text or a list of them as a tuple."""
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Sequence) or not all(isinstance(item, str) for item in several):
        raise Fp2Error(f"{name} is {value!r}", where=f"{WHERE}.{name}", fix=f"Give a list of texts: {name}=[...]")
    return tuple(several)


def _number(value: Any, name: str, low: float, high: float, *, whole: bool) -> float:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:  # NaN is in no range
        kind = "a whole number" if whole else "a number"
        raise Fp2Error(f"{name} is {value!r}", where=f"{WHERE}.{name}", fix=f"Give {kind} from {low:g} to {high:g}")
    return value


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
