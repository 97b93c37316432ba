"""The forms of files of answers, which are entry points of the group `fp2.forms`: tables, logs of other harnesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import FORMS, Fp2Error, check_names, load, nearest, read_installed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Form:
    """One form of file.

    Attributes
    ----------
    name : str
        As in `engine.format`.
    suffixes : tuple of str
        Of its files; the first is the usual one.
    fields : mapping
        Our names (`fp2.methods.recorded.table.NAMES`) to the places where the form has them, the first one that is
        there; a place is a column, or `column.key.0` for what is inside. Other names are looked up under themselves.
    read : callable
        Returns the rows of a file, as a table of its top-level keys.
    write : callable
        Writes rows with our names to a path: `write(path, rows, about)`; `about` has `model`, `model_id`, `run_id` and
        `created`.
    recognises : callable, optional
        Whether an object, the first line of a JSON Lines file or the whole of a JSON file, is one of this form; None
        for a form that is that of every other file with its suffix.
    """

    name: str
    suffixes: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]]
    read: Callable[[Path], pd.DataFrame]
    write: Callable[[Path, pd.DataFrame, Mapping[str, object]], None]
    recognises: Callable[[Mapping[str, object]], bool] | None = None


@cache
def forms() -> dict[str, Form]:
    """Return every installed form by name."""
    return read_installed(FORMS, _installed)


def _installed(name: str) -> Form:
    """Return the form that an entry point stands for.

    Raises
    ------
    Fp2Error
        If it is no form, or has another name than its entry point.
    """
    form = load(FORMS, name, FORMS)
    if not isinstance(form, Form) or form.name != name:
        raise Fp2Error(f"{form!r} is not the form {name!r}", where=FORMS, fix=f"Name a Form(name={name!r}, ...)")
    return form


def form_of(path: Path, name: str | None = None, *, where: str = "engine.format", exists: bool = True) -> Form:
    """Return the form called `name`, or else that of a file by its suffix and, for JSON, its content.

    Parameters
    ----------
    exists : bool
        Whether the file is there, and can be looked into.

    Raises
    ------
    Fp2Error
        If there is no such form, or none has the suffix.
    """
    if name is not None:
        check_names([name], forms(), "unknown form", where)
        return forms()[name]
    fitting = [form for form in forms().values() if path.suffix.lower() in form.suffixes]
    if not fitting:
        suffixes = sorted({suffix for form in forms().values() for suffix in form.suffixes})
        fix = f"{nearest(path.suffix, suffixes)}, or set {where}"
        raise Fp2Error(f"answers cannot be in a file with the suffix {path.suffix!r}", where=str(path), fix=fix)
    first = _first_object(path) if exists and len(fitting) > 1 else {}
    recognised = (form for form in fitting if form.recognises is not None and form.recognises(first))
    return next(recognised, next((form for form in fitting if form.recognises is None), fitting[0]))


def _first_object(path: Path) -> Mapping[str, object]:
    """Return a JSON file, or the first line of a JSON Lines file that is not blank; nothing where it is no object."""
    import json

    try:
        with path.open(encoding="utf-8-sig") as handle:
            is_document = path.suffix.lower() == ".json"
            first_value = json.loads(
                handle.read() if is_document else next((text for text in handle if text.strip()), "{}")
            )
    except (OSError, ValueError):  # reported when the whole file is read
        return {}
    return first_value if isinstance(first_value, dict) else {}


def place(table: pd.DataFrame, path: str) -> list[Any] | None:
    """Return the values at a place (see `Form.fields`), None for each row without one; None if no row has it."""
    if path in table.columns:
        return [None if _is_missing(value) else value for value in table[path].tolist()]
    head, *inside = path.split(".")
    if not inside or head not in table.columns:
        return None
    items = [_inside(value, inside) for value in table[head].tolist()]
    return None if all(value is None for value in items) else items


def _inside(value: object, path: list[str]) -> object:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return None if _is_missing(value) else value


def _is_missing(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def evaluation_id(model: str, created: int) -> str:
    """Return what identifies the run of a model; `created` is in seconds since 1970."""
    return f"fp2/{model}/{created}"
