"""What `task=fhibe_scores` can be told: its options, checked, with the nearest name for a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fp2.cuts import check_may_leave
from fp2.errors import Fp2Error, nearest
from fp2.protocols.fhibe.scores.typed import typed

WHERE = "task.options"


@dataclass(frozen=True)
class Metric:
    """One score: `column` of the file (its own name without it), direction, scale, smallest effect of interest."""

    name: str
    higher_is_better: bool = True
    yes_no: bool = False
    range: tuple[float, float] | None = None
    smallest_effect: float = 0.05
    column: str | None = None

    def __post_init__(self) -> None:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise Fp2Error(f"the range of {self.name!r} is empty", where=f"{WHERE}.metrics.{self.name}.range")
        if not (self.higher_is_better or self.yes_no or self.range is not None):
            raise Fp2Error(
                f"less is better of {self.name!r}, and its range is not known",
                where=f"{WHERE}.metrics.{self.name}.range",
                fix="Give range: [0, 1] (LPIPS), say: scores are turned by its upper end, higher ones count as it",
            )


@dataclass(frozen=True)
class ScoresOptions:
    """The options of the task; see docs/fhibe_methods.md.

    `metrics` name -> settings; `columns` our name (image, subject, model, task) -> the file's column; `attributes` of
    the intersections (None: the sensitive ones that the data set has) and their `depth`; `within` conditions to look
    at as well, and `within_all` whether error model and patterns are made within each of them, too; `error_model`,
    `patterns`: False, True or settings; `pixels`: whether pictures are measured; `simulate` in place of a file.
    """

    metrics: tuple[Metric, ...] = ()
    name: str = "scores"
    columns: Mapping[str, str] = field(default_factory=dict)
    attributes: tuple[str, ...] | None = None
    depth: int | None = None
    within: tuple[str, ...] = ()
    within_all: bool = False
    top_k: int = 40
    error_model: Mapping[str, Any] | None = field(default_factory=dict)
    patterns: Mapping[str, Any] | None = field(default_factory=dict)
    sensitive: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    pixels: bool = True
    simulate: Mapping[str, Any] | None = None


COLUMNS = {"image": "image_id", "subject": "subject_id", "model": None, "task": None}


def read_options(given: Mapping[str, Any]) -> ScoresOptions:
    """Return the checked options.

    Raises
    ------
    Fp2Error
        For an unknown key or a value of another kind.
    """
    known = [f.name for f in fields(ScoresOptions)]
    for key in given:
        if key not in known:
            raise Fp2Error(f"unknown option {key!r}", where=WHERE, fix=nearest(key, known))
    plain = dict(given)
    metrics, columns = plain.pop("metrics", None) or {}, plain.pop("columns", None) or {}
    if not isinstance(metrics, Mapping):
        fix = "metrics={recall: {higher_is_better: true}}"
        raise Fp2Error("metrics is no table", where=f"{WHERE}.metrics", fix=fix)
    if not isinstance(columns, Mapping):
        raise Fp2Error("columns is no table", where=f"{WHERE}.columns", fix="columns={image: COLUMN}")
    for name in columns:
        if name not in COLUMNS:
            raise Fp2Error(f"unknown column {name!r}", where=f"{WHERE}.columns", fix=nearest(name, COLUMNS))
    for name in ("error_model", "patterns"):
        if name in plain:
            plain[name] = _switch(plain[name], name)
    if plain.get("within", ()) is None:
        del plain["within"]
    options = ScoresOptions(
        metrics=tuple(_metric(str(name), spec) for name, spec in metrics.items()),
        columns={str(k): str(v) for k, v in columns.items()},
        **typed(ScoresOptions, plain, WHERE),
    )
    _check_settings(options)
    return options


def _check_settings(options: ScoresOptions) -> None:
    """Raise for settings of the analyses that are mistaken, before anything runs, and for unreadable conditions."""
    from fp2.protocols.fhibe.scores.conditions import names_in
    from fp2.protocols.fhibe.scores.error_model import ErrorModelOptions
    from fp2.protocols.fhibe.scores.patterns import PatternOptions

    if options.error_model is not None:
        own = settings(ErrorModelOptions, options.error_model, "error_model")
        if own.least > own.most:
            raise Fp2Error(f"least is {own.least}, more than most ({own.most})", where=f"{WHERE}.error_model.least")
    if options.patterns is not None:
        settings(PatternOptions, options.patterns, "patterns")
    for condition in options.within:
        names_in(condition)
    for name in ("sensitive", "attributes", "features"):
        check_may_leave(getattr(options, name) or (), f"{WHERE}.{name}")


def _metric(name: str, spec: Any) -> Metric:
    where = f"{WHERE}.metrics.{name}"
    if isinstance(spec, bool):
        return Metric(name, higher_is_better=spec)
    if not isinstance(spec, Mapping):
        raise Fp2Error(f"the metric is {spec!r}", where=where, fix="Say {higher_is_better: true}, or true")
    known = [f.name for f in fields(Metric) if f.name != "name"]
    for key in spec:
        if key not in known:
            raise Fp2Error(f"unknown key {key!r}", where=where, fix=nearest(key, known))
    return Metric(name, **typed(Metric, spec, where))


def _switch(value: Any, name: str) -> Mapping[str, Any] | None:
    """Return settings from true (the usual ones), false (None: leave it out) or a table."""
    if isinstance(value, bool) or value is None:
        return {} if value else None
    if not isinstance(value, Mapping):
        raise Fp2Error(f"{name} is {value!r}", where=f"{WHERE}.{name}", fix="Give true, false or settings")
    return {str(key): item for key, item in value.items()}


def settings(kind: type[Any], given: Mapping[str, Any], where: str, **others: Any) -> Any:
    """Return a dataclass of settings from `others` and, over them, what was `given`; raise Fp2Error for a mistake."""
    known = [f.name for f in fields(kind)]
    usual = {name: value for name, value in others.items() if name in known}
    return kind(**{**usual, **typed(kind, given, f"{WHERE}.{where}")})
