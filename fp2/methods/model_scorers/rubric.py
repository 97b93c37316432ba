"""Rubrics: what a language model is asked to decide about an answer, and the number that each of its labels stands for.

A rubric is a YAML file: `name`, `version`, `higher_is_better`, `smallest_effect`, `instructions`, and `labels`, each
with what it `means` and its `value` (null: the answer does not state the dimension, and has no score).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fp2.extension import Fp2Error, check_names, digest, nearest, read_yaml

PACKAGED = Path(__file__).parent / "rubrics"
_KEYS = ("name", "version", "higher_is_better", "smallest_effect", "instructions", "labels")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,39}")


@dataclass(frozen=True)
class Rubric:
    """A rubric: `labels` maps a label to its value (None: no score), `meanings` to what it means."""

    name: str
    version: str
    sha256: str
    higher_is_better: bool
    smallest_effect: float
    instructions: str
    labels: Mapping[str, float | None]
    meanings: Mapping[str, str]

    @property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest value of a label."""
        values = [value for value in self.labels.values() if value is not None]
        return min(values), max(values)

    @property
    def yes_no(self) -> bool:
        """Whether every value is 0 or 1."""
        return {value for value in self.labels.values() if value is not None} == {0.0, 1.0}


@cache
def load_rubric(reference: str) -> Rubric:
    """Return a packaged rubric (`valence`), or that of the user's own file (`my/rubric.yaml`)."""
    is_own_file = reference.endswith((".yaml", ".yml"))
    path = Path(reference).expanduser() if is_own_file else PACKAGED / f"{reference}.yaml"
    if not path.is_file():
        packaged = [file.stem for file in PACKAGED.glob("*.yaml")]
        fix = "Check the path" if is_own_file else f"{nearest(reference, packaged)}, or give a file (my/rubric.yaml)"
        raise Fp2Error(f"there is no rubric {reference!r}", fix=fix)
    content = read_yaml(path)
    where = str(path)
    check_names(content, _KEYS, "unknown key", where)
    if missing := [key for key in _KEYS if key not in content]:
        raise Fp2Error(f"a rubric needs {', '.join(missing)}", where=where)
    found = content["labels"]
    if not isinstance(found, Mapping):
        raise Fp2Error("labels is no mapping of labels", where=where)
    labels: dict[str, tuple[float | None, str]] = {}
    for name, body in found.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise Fp2Error(f"{name!r} is no label", where=where, fix='Letters, digits, "_", "+" and "-"; quote numbers')
        if not isinstance(body, Mapping) or set(body) != {"value", "means"}:
            raise Fp2Error(f"the label {name} needs value and means, and nothing else", where=where)
        value = None if body["value"] is None else _number(body["value"], f"the value of {name}", where)
        labels[name] = (value, str(body["means"]))
    if len({name.casefold() for name in labels}) < len(labels):
        raise Fp2Error("two labels differ in upper and lower case only", where=where)
    if not isinstance(content["higher_is_better"], bool):
        raise Fp2Error("higher_is_better is true or false", where=where)
    rubric = Rubric(
        str(content["name"]),
        str(content["version"]),
        digest(content),
        content["higher_is_better"],
        _number(content["smallest_effect"], "smallest_effect", where),
        " ".join(str(content["instructions"]).split()),
        {name: value for name, (value, _) in labels.items()},
        {name: means for name, (_, means) in labels.items()},
    )
    if len({value for value in rubric.labels.values() if value is not None}) < 2:
        raise Fp2Error("a rubric needs labels with two different values", where=where)
    return rubric


def _number(value: Any, what: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Fp2Error(f"{what} is not a number: {value!r}", where=where)
    return float(value)
