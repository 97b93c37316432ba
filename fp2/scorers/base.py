"""The interface of a scorer: a function from texts to one number each, NaN where a text does not state the dimension.

A scorer knows neither the model nor the subject nor the group. It does not decide which answers count: the caller
separates refusals and errors. A blank answer has no score on any dimension (refusal: 0, since nothing was declined).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.plugins import Strict
from fp2.scorers.labels import LabelScale
from fp2.stats.core.numeric import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.engines.base import Price
    from fp2.probes.battery import Battery
    from fp2.progress import Progress
    from fp2.store.rows import ResponseStore

Details = dict[str, npt.NDArray[Any]]
T = TypeVar("T", bound=np.generic)
Flag = Annotated[bool, Strict()]
"""An option that is true or false; a text such as `no` is refused."""
Number = Annotated[float, Strict()]
"""An option that is a number; true and texts are refused."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of `n` texts.

    Parameters
    ----------
    values : float64 array, shape (n,)
        The score in the scorer's own unit; NaN = missing.
    details : dict of arrays, each of shape (n,)
        What the score was computed from (counts, flags), by name.
    """

    values: FloatArray
    details: Details = field(default_factory=dict)


@runtime_checkable
class Scorer(Protocol):
    """One dimension. Any object with these members is a scorer; deriving from `BaseScorer` gives most of them."""

    @property
    def name(self) -> str:
        """The scorer's key in the config and in every table."""
        ...

    @property
    def version(self) -> str:
        """Version, to be raised whenever the same text could get another value."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values are better for the group that is described."""
        ...

    @property
    def value_range(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        ...

    @property
    def bins(self) -> tuple[float, ...]:
        """Bin edges of histograms (Jensen-Shannon divergence), fixed for the scorer."""
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
        """The probes that it applies to; None for all."""
        ...

    @property
    def lexicon(self) -> dict[str, str] | None:
        """Name, version and sha256 of its word lists; None if it has none."""
        ...

    @property
    def n_people(self) -> int:
        """The number of people in an image that one answer describes: 1 or 2.

        With 2, the value is that of the person on the left of the image that was shown; the other person's is 1 minus
        it.
        """
        ...

    @property
    def uses_subject_attributes(self) -> bool:
        """Whether the value is what was said, to be compared with the subject's own attribute before it is a score."""
        ...

    @property
    def label_scale(self) -> LabelScale | None:
        """The scale on which people label what it measures; None if labels are on its own scale."""
        ...

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score texts.

        Parameters
        ----------
        texts : sequence of str, length n
            Answers, refusals among them.
        probes : sequence of str, length n
            The id of the probe that each text answers.

        Returns
        -------
        Scored
            `n` values in the order of the texts; NaN where a text does not state the dimension.
        """
        ...


@dataclass(frozen=True)
class BaseScorer:
    """Settings that every built-in scorer shares; a subclass defines `score_unique` for distinct, non-blank texts.

    The fields of a subclass are its options: `build_scorer` checks their types. A field with another default has to
    repeat its type, `Flag` and `Number` included.

    Parameters
    ----------
    name : str
        The key in the config (several keys may use one class with different lexicons).
    higher_is_better : bool
        Whether higher values are better for the person described.
    value_range : (float, float)
        Stated in the YAML for the reader; has to be the scale of the class.
    smallest_effect : float
        Smallest effect of interest, in the scorer's unit; above 0.
    of : {"answer", "reasoning"}
        The text that is scored: the answer, or the model's reasoning before it, where it reasoned.
    """

    name: str
    higher_is_better: Flag
    value_range: tuple[float, float]
    smallest_effect: Number
    of: Literal["answer", "reasoning"] = field(default="answer", kw_only=True)

    version: ClassVar[str] = "1"
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    n_bins: ClassVar[int] = 10
    yes_no: ClassVar[bool] = False
    blank_value: ClassVar[float] = float("nan")
    n_people: ClassVar[int] = 1
    uses_subject_attributes: ClassVar[bool] = False
    label_scale: ClassVar[LabelScale | None] = None
    limitations: ClassVar[tuple[str, ...]] = ()
    """What a reader of its values has to know, in the results and the passport of every run with it."""

    def __post_init__(self) -> None:
        where = f"scorer.{self.name}"
        if tuple(self.value_range) != self.scale:
            raise Fp2Error(
                "value_range does not match the scale of this scorer", where=where, fix=f"Write {list(self.scale)}"
            )
        if not 0 < self.smallest_effect < self.scale[1] - self.scale[0]:
            raise Fp2Error("smallest_effect must be above 0 and below the width of the scale", where=where)

    @property
    def bins(self) -> tuple[float, ...]:
        """`n_bins` equal bins over the scale, as edges (statistics.md, A4)."""
        return equal_bins(*self.scale, self.n_bins)

    @property
    def probes(self) -> tuple[str, ...] | None:
        """None: a built-in scorer applies to every probe unless it says otherwise."""
        return None

    @property
    def lexicon(self) -> dict[str, str] | None:
        """Name, version and sha256 of the word lists; None without any."""
        return None

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score each distinct text once and copy the result to its duplicates.

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


class ReadsAnswers:
    """A scorer of a run's answers with what belongs to them, not of texts alone: `score_rows` instead of `score`."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of subjects that it reads."""
        return ()

    def check_battery(self, battery: Battery) -> None:
        """Raise Fp2Error for questions whose answers it cannot score."""

    def check_people(self, people: pd.DataFrame, battery: Battery | None) -> None:
        """Raise Fp2Error for people that lack what it reads."""

    def with_columns(self, answers: pd.DataFrame, people: pd.DataFrame, battery: Battery | None) -> pd.DataFrame:
        """Return the answers table with the further columns that it reads."""
        return answers

    def score_rows(self, rows: pd.DataFrame) -> Scored:
        """Score rows of the table of `with_columns`."""
        raise NotImplementedError


@dataclass(frozen=True)
class AsksModel(ReadsAnswers):
    """A scorer that asks a model about the text of an answer, a dataclass of its options: what asking takes and costs.

    What the model returns is kept in the response store like an answer.
    """

    name: str

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that can change a value besides question and text (JSON values, no paths)."""
        raise NotImplementedError

    @property
    def price(self) -> Price | None:
        """Price of a text, where it is known."""
        return None

    @property
    def most_tokens(self) -> int:
        """The most tokens that are generated for a text."""
        return 0

    def check(self) -> None:
        """Raise Fp2Error unless the model can be asked."""
        raise NotImplementedError

    def of_run(
        self, config: Config, store: ResponseStore, progress: Progress, battery: Battery | None, *, keyed: bool = False
    ) -> Self:
        """Return the checked scorer with what a run gives it; `keyed`: whether image ids are salted keys already."""
        raise NotImplementedError

    def left(self, rows: pd.DataFrame) -> Mapping[str, tuple[str, str]]:
        """Return what the store lacks for rows of an answers table: key -> question and text. Nothing is asked."""
        raise NotImplementedError

    def words(self, question: str, text: str) -> int:
        """Return the number of words that are sent for a text, for an estimate of cost."""
        return len(text.split())

    def note(self, details: Sequence[Mapping[str, Any]]) -> str:
        """Return what a reader of the results has to know; `details` are those of every score."""
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
    """Score the distinct non-blank texts with `score` and copy the result to `texts`.

    Most answers of a model are repeated, so that this saves most of the time. Blank texts get `blank_value`, and in the
    details False, 0, NaN or an empty string, by the column's type.
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


def _spread(
    column: npt.NDArray[T], order: npt.NDArray[np.int64], blank: npt.NDArray[np.bool_], fill: object
) -> npt.NDArray[T]:
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
    """Return the version as in the scores table: with the lexicon's name, version and digest if there is one."""
    lexicon = scorer.lexicon
    if lexicon is None:
        return scorer.version
    return f"{scorer.version}+{lexicon['name']}-{lexicon['version']}-{lexicon['sha256'][:12]}"


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
        **dict.fromkeys("*_", " "),  # Markdown emphasis
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),  # invisible characters
    }
)

_OVERLONG = re.compile(r"(?:(?<!\S)(\S{1000})\S+|(?<!\s)(\s{100})\s+)")
"""A word of over 1,000 characters and over 100 characters of white space: no English text has them. Only their
beginning is read, so that a regular expression that begins anew at each character takes time in proportion to the text.
"""
LONGEST_SENTENCE = 4000
"""Characters; what is longer without a full stop is read as several sentences, for the same reason."""


def cut_long(sentence: str) -> Iterator[str]:
    """Yield a sentence, or its parts of at most about `LONGEST_SENTENCE` characters, cut between words."""
    while len(sentence) > LONGEST_SENTENCE:
        end = sentence.rfind(" ", 1, LONGEST_SENTENCE)
        end = LONGEST_SENTENCE if end < 0 else end
        yield sentence[:end]
        sentence = sentence[end:]
    yield sentence


def fold(text: str) -> str:
    """Return `text` in Unicode form NFKC, case-folded, with plain quotes and dashes; line breaks are kept."""
    text = _OVERLONG.sub(r"\1\2", text)
    plain = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold()
    return unicodedata.normalize("NFKC", plain).translate(_SIGNS)


def normalise(text: str) -> str:
    """Return `text` folded (see `fold`), with white space collapsed to single blanks and stripped."""
    return " ".join(fold(text).split())
