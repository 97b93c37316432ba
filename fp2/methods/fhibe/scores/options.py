"""The options of `task=fhibe_scores` (docs/methods/fhibe.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator

from fp2.extension import (
    Flag,
    Fp2Error,
    Names,
    OptionTable,
    Range,
    ScoreComparison,
    check_may_leave,
    check_names,
    read_options,
)
from fp2.methods.fhibe.scores.conditions import names_in
from fp2.methods.fhibe.scores.importances import ErrorModelOptions
from fp2.methods.fhibe.scores.patterns import PatternOptions

WHERE = "task.options"
COLUMNS = {"image": "image_id", "subject": "subject_id", "model": None, "task": None}
"""What a column of the user's file may be -> its name there unless the options say otherwise."""


def _bounds(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("Input should be 2 numbers, such as [0, 1]")
    low, high = (Range().check(end, float) for end in value)
    return low, high


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """`metrics.NAME`.

    Attributes
    ----------
    higher_is_better, yes_no : bool
        Its direction, and whether it is 0 or 1.
    range : (float, float), optional
        Its scale; needed if lower values are better.
    smallest_effect : float
        The smallest effect of interest.
    column : str, optional
        The column of the file (or the scorer of a run); None: the metric's name.
    """

    higher_is_better: Flag = True
    yes_no: Flag = False
    range: Annotated[tuple[float, float], BeforeValidator(_bounds)] | None = None
    smallest_effect: Annotated[float, Range(0)] = 0.05
    column: str | None = None


@dataclass(frozen=True)
class Metric(MetricOptions):
    """A score, with its name."""

    name: str

    def __post_init__(self) -> None:
        where = f"{WHERE}.metrics.{self.name}.range"
        if self.range is not None and not self.range[0] < self.range[1]:
            raise Fp2Error(f"the range of {self.name!r} is empty", where=where)
        if not (self.higher_is_better or self.yes_no or self.range is not None):
            what = f"lower values of {self.name!r} are better, and its range is not known"
            fix = "Give it, such as range: [0, 1] for LPIPS: scores are reversed at its upper end"
            raise Fp2Error(what, where=where, fix=fix)

    @property
    def source(self) -> str:
        """The column of the file, or the scorer of a run."""
        return self.column or self.name


def _metrics(value: Any) -> tuple[Metric, ...]:
    """Return the metrics of a mapping name -> settings, or name -> whether higher values are better."""
    if value and not isinstance(value, Mapping):
        raise ValueError("Input should be a table, such as {recall: {higher_is_better: true}}")
    metrics = []
    for name, given in (value or {}).items():
        where = f"{WHERE}.metrics.{name}"
        settings = {"higher_is_better": given} if isinstance(given, bool) else given
        if not isinstance(settings, Mapping):
            raise Fp2Error(f"the metric is {given!r}", where=where, fix="Write {higher_is_better: true}, or true")
        metrics.append(Metric(str(name), **vars(read_options(MetricOptions, settings, where))))
    return tuple(metrics)


def _columns(value: Any) -> dict[str, str]:
    if value and not isinstance(value, Mapping):
        raise ValueError("Input should be a table, such as {image: COLUMN}")
    check_names(value or {}, COLUMNS, "unknown column", f"{WHERE}.columns")
    return {str(name): str(column) for name, column in (value or {}).items()}


def _switch(value: Any) -> dict[str, Any] | None:
    """Return settings: none of true (all defaults), None of false or null (the analysis is left out)."""
    if isinstance(value, bool | None):
        return {} if value else None
    if not isinstance(value, Mapping):
        raise ValueError("Input should be true, false or a table of settings")
    return {str(name): item for name, item in value.items()}


Switch = Annotated[dict[str, Any] | None, BeforeValidator(_switch)]


@dataclass(frozen=True)
class ScoresOptions:
    """`task.options`.

    Attributes
    ----------
    metrics : tuple of Metric
    name : str
        The outcome where no column names one.
    columns : mapping
        `image, subject, model, task` -> column of the file.
    attributes : tuple of str, optional
        Attributes of the intersections; None: the sensitive ones of the data set.
    depth : int, optional
        Attributes of an intersection at most; None: any number.
    within : tuple of str
        Conditions.
    within_all : bool
        Whether the error model and the patterns are repeated within each condition.
    top_k : int
        Rows of the table of highest disparities.
    error_model, patterns : mapping, optional
        Settings of the analyses (`ErrorModelOptions`, `PatternOptions`); None leaves an analysis out.
    sensitive : tuple of str, optional
        The sensitive attributes; None: the paper's.
    features : tuple of str, optional
        The predictors of error model and patterns; None: all.
    pixels : bool
        Whether images are opened to measure features.
    simulate : mapping, optional
        Metric -> parameters of simulated scores, in place of a file (`simulation`).
    """

    metrics: Annotated[tuple[Metric, ...], BeforeValidator(_metrics)] = ()
    name: str = "scores"
    columns: Annotated[dict[str, str], BeforeValidator(_columns)] = field(default_factory=dict)
    attributes: Names | None = None
    depth: Annotated[int, Range(1)] | None = None
    within: Names = ()
    within_all: Flag = False
    top_k: Annotated[int, Range(0)] = 40
    error_model: Switch = field(default_factory=dict)
    patterns: Switch = field(default_factory=dict)
    sensitive: Names | None = None
    features: Names | None = None
    pixels: Flag = True
    simulate: OptionTable | None = None

    def __post_init__(self) -> None:
        for condition in self.within:
            names_in(condition)
        for name in ("sensitive", "attributes", "features"):
            check_may_leave(getattr(self, name) or (), f"{WHERE}.{name}")
        self.error_model_settings(ScoreComparison())
        self.pattern_settings(ScoreComparison())

    def error_model_settings(self, analysis: ScoreComparison) -> ErrorModelOptions | None:
        """Return the settings of the error model, None if it is left out."""
        return _settings(ErrorModelOptions, self.error_model, "error_model", analysis)

    def pattern_settings(self, analysis: ScoreComparison) -> PatternOptions | None:
        """Return the settings of the error patterns, None if they are left out."""
        return _settings(PatternOptions, self.patterns, "patterns", analysis)

    @property
    def predicts(self) -> bool:
        """Whether an analysis that needs predictors is enabled."""
        return self.error_model is not None or self.patterns is not None


Settings = TypeVar("Settings")


def _settings(
    kind: type[Settings], given: Mapping[str, Any] | None, name: str, analysis: ScoreComparison
) -> Settings | None:
    usual = {"min_subjects": analysis.min_subjects, "alpha": analysis.alpha, "seed": analysis.seed}
    return None if given is None else read_options(kind, {**usual, **given}, f"{WHERE}.{name}")
