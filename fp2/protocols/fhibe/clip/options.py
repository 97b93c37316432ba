"""What the CLIP analysis reads besides the answers: which label is right, which is neutral, which tables to make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp2.cuts import check_may_leave
from fp2.errors import Fp2Error, nearest
from fp2.probes.battery import Battery
from fp2.protocols.fingerprint.comparison import ComparisonOptions

KEYS = ("truths", "neutral", "merge", "tables", "smallest_effect", "supplements")
WHERE = "probe.options"


@dataclass(frozen=True)
class Truth:
    """The attribute that tells which label is right: its values (or what they begin with) -> label."""

    attribute: str
    labels: Mapping[str, str]

    def of(self, values: Sequence[str]) -> str | None:
        """Return the right label for one person's values, None where they name none, or several."""
        found = {label for value in values for start, label in self.labels.items() if value.startswith(start)}
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class Table:
    """Shares of the labels of one question by the values of one attribute, or of several together."""

    question: str
    by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClipOptions(ComparisonOptions):
    """The options of `probe=fhibe_clip`.

    `merge`: attribute -> group -> the values that it holds, for attributes with many values.
    """

    truths: Mapping[str, Truth]
    neutral: Mapping[str, str]
    merge: Mapping[str, Mapping[str, tuple[str, ...]]]
    tables: tuple[Table, ...]
    smallest_effect: float

    @property
    def attributes(self) -> frozenset[str]:
        """Every attribute of the people that a table or a truth needs."""
        named = {name for table in self.tables for name in table.by}
        return frozenset(named | {truth.attribute for truth in self.truths.values()})


def read_options(battery: Battery) -> ClipOptions:
    """Return the battery's options, checked against its questions and labels.

    Raises
    ------
    Fp2Error
        Naming the first one that is wrong.
    """
    given = battery.options
    for key in given:
        if key not in KEYS:
            raise Fp2Error(f"unknown option {key!r}", where=WHERE, fix=nearest(str(key), KEYS))
    truths = {
        str(question): Truth(str(spec["attribute"]), {str(k): str(v) for k, v in spec["labels"].items()})
        for question, spec in dict(given.get("truths") or {}).items()
    }
    neutral = {str(question): str(label) for question, label in dict(given.get("neutral") or {}).items()}
    for question, labels in [
        *((q, t.labels.values()) for q, t in truths.items()),
        *((q, [n]) for q, n in neutral.items()),
    ]:
        _check(battery, question, labels)
    tables = tuple(_table(battery, spec) for spec in given.get("tables") or ())
    merge = {
        str(attribute): {str(group): tuple(str(v) for v in values) for group, values in groups.items()}
        for attribute, groups in dict(given.get("merge") or {}).items()
    }
    smallest = given.get("smallest_effect", 0.05)
    if isinstance(smallest, bool) or not isinstance(smallest, int | float) or not 0 < smallest < 1:
        raise Fp2Error(f"smallest_effect is {smallest!r}", where=WHERE, fix="Give a share between 0 and 1")
    return ClipOptions(
        truths=truths, neutral=neutral, merge=merge, tables=tables, smallest_effect=float(smallest),
        supplements=tuple(given.get("supplements") or ()),
    )  # fmt: skip


def _table(battery: Battery, spec: Any) -> Table:
    if not isinstance(spec, Mapping) or set(spec) != {"question", "by"} or not spec["by"]:
        raise Fp2Error(f"{spec!r} is no table", where=f"{WHERE}.tables", fix="Write {question: NAME, by: [ATTRIBUTE]}")
    _check(battery, str(spec["question"]), ())
    by = [spec["by"]] if isinstance(spec["by"], str) else list(spec["by"])
    check_may_leave(by, f"{WHERE}.tables")
    return Table(str(spec["question"]), tuple(str(name) for name in by))


def _check(battery: Battery, question: str, labels: Any) -> None:
    if question not in battery.classes:
        raise Fp2Error(f"no question {question!r} with labels", where=WHERE, fix=nearest(question, battery.classes))
    for label in labels:
        if label not in battery.classes[question]:
            known = battery.classes[question]
            raise Fp2Error(f"{question} has no label {label!r}", where=WHERE, fix=nearest(label, known))
