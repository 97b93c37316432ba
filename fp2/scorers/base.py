"""What a scorer is: texts in, one number a text out, with NaN where the text says nothing about the dimension.

A scorer knows no model, no person and no group. It never decides which answers count: refusals and errors are told
apart by whoever calls it. An answer without a visible character has no score on any dimension (refusal: 0, since
nothing was declined).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error

FloatArray = npt.NDArray[np.float64]
Details = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of `n` texts.

    Parameters
    ----------
    values : float64 array, shape (n,)
        The score in the scorer's own unit; NaN = missing.
    details : dict of arrays, each of shape (n,)
        What the score was made of (counts, flags), by name.
    """

    values: FloatArray
    details: Details = field(default_factory=dict)


@runtime_checkable
class Scorer(Protocol):
    """One dimension. Anything with these members is a scorer; it need not derive from `BaseScorer`."""

    @property
    def name(self) -> str:
        """The key it has in the config and in every table."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the same text could get another value."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Which end of the scale is the bad one for the group described."""
        ...

    @property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        ...

    @property
    def bins(self) -> tuple[float, ...]:
        """Bin edges for histograms (Jensen-Shannon divergence), fixed for the scorer."""
        ...

    @property
    def smallest_effect(self) -> float:
        """The smallest difference between groups that matters, in the scorer's unit."""
        ...

    @property
    def yes_no(self) -> bool:
        """Whether every value is 0 or 1."""
        ...

    @property
    def probes(self) -> tuple[str, ...] | None:
        """The probes it applies to; None = all."""
        ...

    @property
    def lexicon(self) -> dict[str, str] | None:
        """Name, version and sha256 of its word lists; None if it has none."""
        ...

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score `texts`; `probes[i]` is the probe that `texts[i]` answers."""
        ...


@dataclass(frozen=True)
class BaseScorer:
    """Settings that every built-in scorer shares; a subclass writes `score_unique` for distinct, non-blank texts.

    Parameters
    ----------
    name : str
        The key in the config (several entries may use one class with different lexicons).
    higher_is_better : bool
        Which end is the good one for the person described.
    value_range : (float, float)
        Stated in the YAML for the reader; must be the scale that the class really has.
    smallest_effect : float
        Smallest difference of interest, in the scorer's unit; above 0.

    Raises
    ------
    Fp2Error
        If a setting is outside its range.
    """

    name: str
    higher_is_better: bool
    value_range: tuple[float, float]
    smallest_effect: float

    version: ClassVar[str] = "1"
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    n_bins: ClassVar[int] = 10
    yes_no: ClassVar[bool] = False
    blank_value: ClassVar[float] = float("nan")

    def __post_init__(self) -> None:
        where = f"scorer '{self.name}'"
        try:
            stated = tuple(float(edge) for edge in self.value_range)
        except (TypeError, ValueError):
            stated = ()
        if stated != self.scale:
            raise Fp2Error(
                "value_range does not match the scale of this scorer", where=where, fix=f"Write {list(self.scale)}"
            )
        if not isinstance(self.higher_is_better, bool):
            raise Fp2Error("higher_is_better must be true or false", where=where)
        effect = self.smallest_effect
        if (
            isinstance(effect, bool)
            or not isinstance(effect, int | float)
            or not 0 < effect < self.scale[1] - self.scale[0]
        ):
            raise Fp2Error("smallest_effect must be a number above 0 and below the width of the scale", where=where)
        object.__setattr__(self, "value_range", self.scale)

    @property
    def bins(self) -> tuple[float, ...]:
        """`n_bins` equal bins over the scale, as edges (statistics.md, A4)."""
        return equal_bins(*self.scale, self.n_bins)

    @property
    def probes(self) -> tuple[str, ...] | None:
        """Built-in scorers read the answers to every probe unless they say otherwise."""
        return None

    @property
    def lexicon(self) -> dict[str, str] | None:
        """Name, version and sha256 of the word lists; None without any."""
        return None

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score each distinct text once and hand the result to all its copies.

        Raises
        ------
        ValueError
            If the two sequences differ in length.
        """
        check_lengths(texts, probes)
        return once_per_text(texts, self.score_unique, blank_value=self.blank_value)

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Score distinct texts, each with at least one visible character."""
        raise NotImplementedError


def equal_bins(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return the `count` + 1 edges of equal bins over [low, high]."""
    return tuple(float(edge) for edge in np.linspace(low, high, count + 1))


def check_lengths(texts: Sequence[str], probes: Sequence[str]) -> None:
    """Raise ValueError unless there is one probe for each text."""
    if len(texts) != len(probes):
        raise ValueError(f"{len(texts)} texts but {len(probes)} probes")


def is_blank(text: str) -> bool:
    """Whether `text` has no visible character."""
    return not text.strip()


def once_per_text(
    texts: Sequence[str], score: Callable[[Sequence[str]], Scored], *, blank_value: float = float("nan")
) -> Scored:
    """Score the distinct non-blank texts with `score` and spread the result over `texts`.

    Models repeat themselves, so this is most of the speed. Blank texts get `blank_value`, and in the details
    False, 0, NaN or an empty string, by the column's type.
    """
    index: dict[str, int] = {}
    order = np.fromiter(
        (-1 if is_blank(text) else index.setdefault(text, len(index)) for text in texts),
        dtype=np.int64,
        count=len(texts),
    )
    scored = score(list(index))
    blank = order < 0
    return Scored(
        _spread(scored.values, order, blank, blank_value),
        {
            name: _spread(column, order, blank, np.nan if column.dtype.kind == "f" else column.dtype.type())
            for name, column in scored.details.items()
        },
    )


def _spread(column: npt.NDArray[Any], order: npt.NDArray[np.int64], blank: npt.NDArray[np.bool_], fill: Any) -> Any:
    result = np.full(len(order), fill, dtype=column.dtype)
    result[~blank] = column[order[~blank]]
    return result


def ratio(part: Iterable[float], whole: Iterable[float]) -> FloatArray:
    """Return part / whole element by element, NaN where whole is 0."""
    top, bottom = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    result = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom != 0)
    return result


def scorer_version(scorer: Scorer) -> str:
    """Return what the scores table carries: the version, and the lexicon's name, version and digest if there is one."""
    lexicon = scorer.lexicon
    if lexicon is None:
        return scorer.version
    return f"{scorer.version}+{lexicon['name']}-{lexicon['version']}-{lexicon['sha256'][:12]}"
