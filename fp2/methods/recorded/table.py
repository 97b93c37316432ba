"""Supplied answers as one table with our names, whichever form and columns their files have; everything is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import YES_NO_NUMBERS, Fp2Error, nearest, normal_id
from fp2.methods.recorded.form import Form, form_of, place
from fp2.methods.recorded.forms.tables import JSONL
from fp2.methods.recorded.options import KEYS, NAMES, OF_CHOICES, WHERE, RecordedOptions, id_regex

if TYPE_CHECKING:
    import pandas as pd

_PROBABILITIES = tuple(name for name in YES_NO_NUMBERS if name != "logit_difference")
_ROUNDING = 1e-6
_ROUNDING_OF_SUMS = 0.01
"""Half precision: two probabilities that were rounded by themselves may sum to more than one."""
_SHOWN = 12  # columns that a message lists


@dataclass(frozen=True)
class Supplied:
    """The rows of all files, in their order.

    Attributes
    ----------
    frame : DataFrame
        Those of `NAMES` that are there: `YES_NO_NUMBERS` as float64, `numbers` as mappings, the others as text or None.
    forms : tuple of str
        The forms of the files.
    ends : tuple of (str, int)
        The name of each file, and the number of rows up to its end.
    """

    frame: pd.DataFrame
    forms: tuple[str, ...]
    ends: tuple[tuple[str, int], ...]

    def row(self, number: int) -> str:
        """Return how a message names a row."""
        start = 0
        for name, end in self.ends:
            if number < end:
                return f"row {number - start + 1} of {name}"
            start = end
        raise IndexError(number)

    def has(self, name: str) -> bool:
        """Return whether any row has a value of this name."""
        return name in self.frame.columns and bool(self.frame[name].notna().any())


def read_answers(options: RecordedOptions, tick: Callable[[int, int], None] = lambda done, total: None) -> Supplied:
    """Return the answers of all files.

    Parameters
    ----------
    tick : callable
        Called with (files read, files).

    Raises
    ------
    Fp2Error
        Naming the first thing that is wrong: a file, a column, or the value of a row.
    """
    tick(0, len(options.paths))
    read = []
    for number, path in enumerate(options.paths, 1):
        form = form_of(path, options.format)
        read.append((path.name, form, form.read(path)))
        tick(number, len(options.paths))
    return tidy(read, options)


def frame_answers(frame: pd.DataFrame, options: RecordedOptions) -> Supplied:
    """Return the answers of a DataFrame, as `read_answers` does."""
    return tidy([("the DataFrame", replace(JSONL, name="DataFrame"), frame)], options)


def tidy(read: Sequence[tuple[str, Form, pd.DataFrame]], options: RecordedOptions) -> Supplied:
    """Return the rows of what was read (name, form and table of each file), with our names and checked values."""
    import pandas as pd

    parts = [_named(table, form, name, options) for name, form, table in read]
    frame = pd.concat(parts, ignore_index=True).astype(object)
    frame = frame.where(frame.notna(), None)
    ends = tuple(zip((name for name, _, _ in read), accumulate(map(len, parts)), strict=True))
    supplied = Supplied(frame, tuple(dict.fromkeys(form.name for _, form, _ in read)), ends)
    columns = _columns(read[0][2])
    listed = ", ".join(columns[:_SHOWN]) + (", ..." if len(columns) > _SHOWN else "")
    where = supplied.ends[0][0] if supplied.ends else WHERE
    if frame.empty:
        raise Fp2Error("there are no answers in it", where=where)
    if not supplied.has("image"):
        fix = f"Set engine.columns={{image: COLUMN}}, engine.id_pattern or engine.index. Its columns are: {listed}"
        raise Fp2Error("the answers do not say which image they are about", where=where, fix=fix)
    if not any(supplied.has(name) for name in ("text", "numbers", *OF_CHOICES, *YES_NO_NUMBERS)):
        fix = f"Set engine.columns={{text: COLUMN}} or {{p_yes: COLUMN}}. Its columns are: {listed}"
        raise Fp2Error("there are no answers in it", where=where, fix=fix)
    for name in KEYS:
        if name in frame:
            _put(frame, name, [_key(value) for value in frame[name].tolist()])
    _put(frame, "image", [name if name is None else normal_id(name) for name in frame["image"].tolist()])
    if "text" in frame:
        _put(frame, "text", [_answer_text(one, row, supplied) for row, one in enumerate(frame["text"].tolist())])
    if "numbers" in frame:
        _put(frame, "numbers", _objects(supplied, "numbers"))
    for name in OF_CHOICES:
        if name in frame:
            _read_choices(supplied, name)
    if "numbers" in frame:
        _spread(supplied)
    for name in YES_NO_NUMBERS:
        if name in frame:
            frame[name] = _floats(supplied, name)
    _derive(supplied)
    return supplied


def _named(table: pd.DataFrame, form: Form, file: str, options: RecordedOptions) -> pd.DataFrame:
    """Return the columns of one file that have one of our names."""
    import pandas as pd

    found: dict[str, list[Any]] = {}
    for name in NAMES:
        given = options.columns.get(name)
        places = (given,) if given else form.fields.get(name, (name,))
        values = next((values for one in places if (values := place(table, one)) is not None), None)
        if values is not None:
            found[name] = values
        elif given:
            fix = nearest(given, _columns(table))
            raise Fp2Error(f"the answers have no column {given!r} (for {name})", where=file, fix=fix)
    if form.name == "csv":
        statuses = found.get("status") or []
        found = {name: [None if value == "" else value for value in values] for name, values in found.items()}
        if statuses and "text" in found:  # an empty cell is no answer, unless the row's status says so
            found["text"] = [
                "" if text is None and status == "answered" else text
                for text, status in zip(found["text"], statuses, strict=True)
            ]
    for name, values in _from_ids(found, file, options).items():
        if name not in options.columns:
            found[name] = values
    return pd.DataFrame(found, index=range(len(table)), dtype="object")


def _columns(table: pd.DataFrame) -> list[str]:
    return [str(name) for name in table.columns]


def _from_ids(found: Mapping[str, list[Any]], file: str, options: RecordedOptions) -> dict[str, list[Any]]:
    """Return what the pattern and the index say of each id."""
    if options.id_pattern is None and options.index is None:
        return {}
    if "id" not in found:
        raise Fp2Error("the answers have no id", where=file, fix="Set engine.columns={id: COLUMN}")
    ids = [_key(value) or "" for value in found["id"]]
    if options.index is not None:
        index = _index(options.index)
        names = next(iter(index.values()), {})
        return {name: [index.get(one, {}).get(name) for one in ids] for name in names}
    regex = id_regex(str(options.id_pattern))
    matches = [regex.fullmatch(one) for one in ids]
    if matches and not any(matches):
        what = f"no id has the form {options.id_pattern!r}; the first is {ids[0]!r}"
        raise Fp2Error(what, where=file, fix="Set engine.id_pattern, or engine.index=TABLE")
    return {name: [match[name] if match else None for match in matches] for name in regex.groupindex}


def _index(path: str) -> dict[str, dict[str, Any]]:
    """Return what an index says of each id."""
    from fp2.extension import read_table

    table = read_table(Path(path).expanduser())
    for name in ("id", "image"):
        if name not in table.columns:
            fix = f"It needs id and image, and may have {', '.join(KEYS[1:])}"
            raise Fp2Error(f"the index has no column {name!r}", where=path, fix=fix)
    names = [name for name in KEYS if name in table.columns]
    ids = [_key(one) or "" for one in table["id"].tolist()]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise Fp2Error(f"the id {twice!r} is in the index twice", where=path)
    rows = zip(*(table[name].tolist() for name in names), strict=True)
    return {one: dict(zip(names, row, strict=True)) for one, row in zip(ids, rows, strict=True)}


def _put(frame: pd.DataFrame, name: str, values: Sequence[Any]) -> None:
    """Set a column to values of any type, None among them."""
    import pandas as pd

    frame[name] = pd.Series(list(values), dtype="object", index=frame.index)


def _key(value: Any) -> str | None:
    """Return an id or a name as text: 34.0, as a table may hold 34, is 34."""
    if value is None:
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip() or None


def _answer_text(value: Any, row: int, supplied: Supplied) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping | Sequence | np.ndarray):
        fix = "Name what is inside it: engine.columns={text: COLUMN.0}"
        raise Fp2Error(f"the answer is a {type(value).__name__}, not a text", where=supplied.row(row), fix=fix)
    return _key(value)


def _objects(supplied: Supplied, name: str) -> list[Mapping[str, Any] | None]:
    import json

    read: list[Mapping[str, Any] | None] = []
    for row, value in enumerate(supplied.frame[name].tolist()):
        try:
            content = json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            raise Fp2Error(f"{name} is not JSON: {error}", where=supplied.row(row)) from None
        if content is not None and not isinstance(content, Mapping):
            raise Fp2Error(f"{name} is not a JSON object", where=supplied.row(row))
        read.append(content)
    return read


def _read_choices(supplied: Supplied, name: str) -> None:
    """Read a number for each choice (`probabilities` or `logits`) into `numbers`, under its name."""
    frame, of_choices = supplied.frame, _objects(supplied, name)
    for row, value in enumerate(of_choices):
        for choice, number in (value or {}).items():
            real = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
            if not real or (name == "probabilities" and not 0 <= number <= 1):
                what = f"{name} of {choice!r} is {number!r}"
                raise Fp2Error(what, where=supplied.row(row), fix="Set engine.columns={logits: COLUMN} for logits")
    numbers = frame["numbers"].tolist() if "numbers" in frame else [None] * len(frame)
    merged = [
        old if value is None else {**(old or {}), name: value} for old, value in zip(numbers, of_choices, strict=True)
    ]
    _put(frame, "numbers", merged)


def _spread(supplied: Supplied) -> None:
    """Fill the columns of a yes/no answer from `numbers`."""
    frame = supplied.frame
    read = frame["numbers"].tolist()
    for name in YES_NO_NUMBERS:
        values = [None if one is None else one.get(name) for one in read]
        own = frame[name].tolist() if name in frame else [None] * len(read)
        merged = [old if new is None else new for old, new in zip(own, values, strict=True)]
        if any(value is not None for value in merged):
            _put(frame, name, merged)


def _floats(supplied: Supplied, name: str) -> Any:
    """Return a column of numbers; a probability is from 0 to 1."""
    import pandas as pd

    given = supplied.frame[name]
    values = pd.to_numeric(given, errors="coerce").astype("float64")
    bad = given.notna() & (values.isna() | np.isinf(values))
    fix = ""
    if name in _PROBABILITIES:
        outside = (values < -_ROUNDING) | (values > 1 + _ROUNDING)
        bad |= outside
        fix = "Probabilities are from 0 to 1, without the percent sign"
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "a probability" if name in _PROBABILITIES else "a finite number"
        raise Fp2Error(f"{name} is {given.iloc[row]!r}, which is not {kind}", where=supplied.row(row), fix=fix)
    return values.clip(0, 1) if name in _PROBABILITIES else values


def _derive(supplied: Supplied) -> None:
    """Fill what follows from other numbers: mass, p_yes_norm and logit_difference (`fp2.tables.Answer`).

    The logarithm of p_yes / p_no is that of p_yes_norm / (1 - p_yes_norm).
    """
    frame = supplied.frame
    if not any(name in frame for name in YES_NO_NUMBERS):
        return
    if {"p_yes", "p_no"} <= set(frame.columns):
        total = frame["p_yes"] + frame["p_no"]
        if (total > 1 + _ROUNDING_OF_SUMS).any():
            row = int(np.flatnonzero(total > 1 + _ROUNDING_OF_SUMS)[0])
            fix = "Probabilities that were normalised separately are no p_yes and p_no of one token"
            raise Fp2Error(f"p_yes + p_no is {total.iloc[row]:.3g}, above 1", where=supplied.row(row), fix=fix)
        _fill(frame, "mass", total.clip(upper=1.0))
        _fill(frame, "p_yes_norm", (frame["p_yes"] / total).where(total > 0))
    if "p_yes_norm" in frame:
        p = frame["p_yes_norm"].where((frame["p_yes_norm"] > 0) & (frame["p_yes_norm"] < 1))
        _fill(frame, "logit_difference", np.log(p) - np.log1p(-p))


def _fill(frame: pd.DataFrame, name: str, values: pd.Series) -> None:
    frame[name] = frame[name].fillna(values) if name in frame else values
