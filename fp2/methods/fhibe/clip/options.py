"""The options of FHIBE's CLIP analysis: which label is right, which is neutral, which tables are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator

from fp2.extension import FORBID_EXTRA, Battery, ComparisonOptions, Fp2Error, Names, Range, check_may_leave, nearest

WHERE = "probe.options"


@dataclass(frozen=True)
class Truth:
    """The attribute that decides which label is right: its values (or their beginnings) -> label."""

    attribute: str
    labels: dict[str, str]

    __pydantic_config__ = FORBID_EXTRA

    def of(self, values: Sequence[str]) -> str | None:
        """Return the right label for a subject's values; None if they decide for none, or for several."""
        found = {label for value in values for start, label in self.labels.items() if value.startswith(start)}
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class LabelTable:
    """Shares of the labels of one question by the values of an attribute, or by the intersection of several."""

    question: str
    by: Names

    __pydantic_config__ = FORBID_EXTRA

    def __post_init__(self) -> None:
        check_may_leave(self.by, f"{WHERE}.tables")


def _tables(value: Any) -> Any:
    for spec in value or ():
        if not isinstance(spec, Mapping) or set(spec) != {"question", "by"} or not spec["by"]:
            raise ValueError("Input should be a list of tables {question: NAME, by: [ATTRIBUTE]}")
    return tuple(value or ())


def _not_null(value: Any) -> Any:
    return value or {}


Merge = dict[str, dict[str, Names]]


@dataclass(frozen=True, kw_only=True)
class ClipOptions(ComparisonOptions):
    """`probe.options`.

    Attributes
    ----------
    truths : mapping
        Question -> the attribute that decides which label is right.
    neutral : mapping
        Question -> the label that states nothing.
    merge : mapping
        Attribute -> group -> the values in it; a star at the end of a value stands for any further text.
    tables : tuple of LabelTable
    smallest_effect : float
        The smallest difference of shares of interest.
    """

    truths: Annotated[dict[str, Truth], BeforeValidator(_not_null)] = field(default_factory=dict)
    neutral: Annotated[dict[str, str], BeforeValidator(_not_null)] = field(default_factory=dict)
    merge: Annotated[Merge, BeforeValidator(_not_null)] = field(default_factory=dict)
    tables: Annotated[tuple[LabelTable, ...], BeforeValidator(_tables)] = ()
    smallest_effect: Annotated[float, Range(0, 1, inside=True)] = 0.05
    supplements: Names = ()

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes of the tables and of the right labels."""
        named = {name for table in self.tables for name in table.by}
        return frozenset(named | {truth.attribute for truth in self.truths.values()})

    def check(self, battery: Battery) -> None:
        """Refuse questions and labels that the battery does not have."""
        named: list[tuple[str, list[str]]] = [
            *((question, list(truth.labels.values())) for question, truth in self.truths.items()),
            *((question, [label]) for question, label in self.neutral.items()),
            *((table.question, []) for table in self.tables),
        ]
        for question, labels in named:
            if question not in battery.classes:
                fix = nearest(question, battery.classes)
                raise Fp2Error(f"no question {question!r} with labels", where=WHERE, fix=fix)
            for label in labels:
                if label not in battery.classes[question]:
                    fix = nearest(label, battery.classes[question])
                    raise Fp2Error(f"{question} has no label {label!r}", where=WHERE, fix=fix)
