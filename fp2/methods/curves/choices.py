"""The choices of an analysis, the specifications that they span, and the values of the outcomes under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from fp2.extension import REFUSAL, entries_of, outcome_columns, question_of, yes_no_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import ComparedRun, Cut, Scorer

MISSING, NEUTRAL, WORST = "missing", "neutral", "worst"
SUBJECTS, IMAGES = "subjects", "images"
ALL_QUESTIONS = 0
MOST = 400
"""Specifications of one cut; of more, as many are drawn at random."""
SIZES = (1, 2, 3, 5)
"""Least numbers of subjects of a group, in multiples of `analysis.min_subjects`."""
DIMENSIONS = ("scorer", "refusals", "question", "unit", "covariates", "min_subjects")


@dataclass(frozen=True)
class Specification:
    """One way to analyse the answers.

    Attributes
    ----------
    scorer : str
    refusals : {"missing", "neutral", "worst"}
        A refused answer has no score, the mean score of the answers to the same question, or the bad end of the scale.
    question : int
        The question of each probe that counts, from 1; 0: all of them, averaged.
    unit : {"subjects", "images"}
        What counts alike in the mean of a group.
    covariates : tuple of str
        What is held constant.
    min_subjects : int
        Groups of fewer subjects are left out.
    """

    scorer: str
    refusals: str
    question: int
    unit: str
    covariates: tuple[str, ...]
    min_subjects: int

    def to_dict(self) -> dict[str, Any]:
        """Return the choices as JSON values."""
        return {**asdict(self), "covariates": list(self.covariates)}


@dataclass(frozen=True)
class Choices:
    """The specifications of one cut, the run's own first; `n_possible`: how many there are without a limit."""

    specifications: tuple[Specification, ...]
    n_possible: int

    def levels(self) -> Mapping[str, list[Any]]:
        """Return the levels of every choice in which the specifications differ."""
        found = {name: list(dict.fromkeys(getattr(s, name) for s in self.specifications)) for name in DIMENSIONS}
        return {name: levels for name, levels in found.items() if len(levels) > 1}


def choices_of(run: ComparedRun, cut: Cut, table: pd.DataFrame) -> Choices:
    """Return the specifications of a cut, given its memberships; choices that change nothing are left out.

    Refusals are an outcome of their own, so that the scorer `refusal` is no choice. Covariates are those of
    `analysis.adjust`, or else the attributes of the run's other cuts; they are held constant between subjects only.
    """
    primary = run.comparison.primary
    scorers = [primary, *(name for name in run.scorers if name not in (primary, REFUSAL))]
    scored = set(run.scores["scorer"])
    scorers = [name for name in scorers if name in scored and run.scorers[name].smallest_effect > 0]
    answers = run.answers[run.answers["status"] == "answered"]
    refusals = [MISSING, NEUTRAL, WORST] if answers["refused"].any() else [MISSING]
    most = int(answers["question_id"].map(question_of).groupby(answers["probe"]).nunique().max()) if len(answers) else 1
    questions = [ALL_QUESTIONS, *(range(1, most + 1) if most > 1 else ())]
    covariates = covariates_of(run, cut)
    images = table.drop_duplicates(["image_id", "subject_id"])
    units: list[tuple[str, tuple[str, ...]]] = [(SUBJECTS, ()), *([(SUBJECTS, covariates)] if covariates else [])]
    if images["subject_id"].duplicated().any():
        units.append((IMAGES, ()))
    specifications = [
        Specification(scorer, refusal, question, unit, held, least)
        for scorer, refusal, question, (unit, held), least in product(
            scorers, refusals, questions, units, _sizes(table, run.comparison.min_subjects)
        )
    ]
    return Choices(_limited(specifications, run.comparison.seed), len(specifications))


def covariates_of(run: ComparedRun, cut: Cut) -> tuple[str, ...]:
    """Return what can be held constant in a cut."""
    named = list(run.config.analysis.adjust) or [name for other in run.cuts for name in other.by]
    return tuple(name for name in dict.fromkeys(named) if name not in cut.by)


def _sizes(table: pd.DataFrame, least: int) -> list[int]:
    """Return the least numbers of subjects that leave different groups, at least two of them."""
    sizes = table.groupby("group")["subject_id"].nunique()
    found: dict[int, int] = {}
    for size in (times * least for times in SIZES):
        kept = int((sizes >= size).sum())
        if kept >= 2 or size == least:
            found.setdefault(kept, size)
    return list(found.values())


def _limited(specifications: Sequence[Specification], seed: int) -> tuple[Specification, ...]:
    """Return all specifications, or the first and a random sample of the others, in the order given."""
    if len(specifications) <= MOST:
        return tuple(specifications)
    from fp2.extension import stream

    drawn = stream(seed, 9).choice(len(specifications) - 1, MOST - 1, replace=False) + 1
    return tuple(specifications[k] for k in sorted([0, *drawn.tolist()]))


Key = tuple[str, str, int, str]
"""Scorer, refusals, question, probe."""


@dataclass(frozen=True)
class Outcomes:
    """Every outcome as a column of (image, subject) rows, and its place by scorer, refusals, question and probe."""

    wide: pd.DataFrame
    places: Mapping[Key, int]
    scorers: tuple[str, ...]

    def place(self, specification: Specification, probe: str) -> int | None:
        """Return the column of a probe under a specification; None where the scorer does not score it."""
        s = specification
        return self.places.get((s.scorer, s.refusals, s.question, probe))

    def values(self, table: pd.DataFrame) -> np.ndarray:
        """Return the values of the rows of a cut's memberships, (n, m)."""
        return entries_of(self.wide, table).values

    def yes_no(self, run: ComparedRun, values: np.ndarray) -> list[bool]:
        """Return which columns are yes/no outcomes; a refusal in place of which a mean is taken makes it none."""
        return yes_no_columns(values, [run.scorers[name].yes_no for name in self.scorers])


def outcomes_of(run: ComparedRun, specifications: Sequence[Specification]) -> Outcomes:
    """Return the outcomes that the specifications need."""
    import pandas as pd

    scores = run.scores[run.scores["scorer"] != REFUSAL]
    seen: dict[str, int] = {}
    number = {}
    for asked in run.battery.questions:
        seen[asked.probe] = seen.get(asked.probe, 0) + 1
        number[asked.question_id] = seen[asked.probe]
    index = pd.MultiIndex.from_frame(run.answers[["image_id", "subject_id"]].drop_duplicates())
    wanted = dict.fromkeys((s.refusals, s.question) for s in specifications)
    columns: dict[tuple[str, bytes], pd.Series[float]] = {}
    places: dict[Key, int] = {}
    for refusals, question in wanted:
        wide = outcome_columns(_treated(_asked(scores, number, question), refusals, run.scorers))
        for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns)):
            # a choice that changes nothing (no refusal, one question) gives the same column
            column = wide[probe, scorer]
            own = (scorer, column.reindex(index).to_numpy(dtype="float64").tobytes())
            places[scorer, refusals, question, probe] = list(columns).index(own) if own in columns else len(columns)
            columns.setdefault(own, column)
    table = pd.concat(list(columns.values()), axis=1, keys=range(len(columns)))
    return Outcomes(table, places, tuple(scorer for scorer, _ in columns))


def _asked(scores: pd.DataFrame, number: Mapping[str, int], question: int) -> pd.DataFrame:
    """Return the scores of one question of each probe; of all where the probe has none of that number."""
    if question == ALL_QUESTIONS:
        return scores
    own = scores["question_id"].map(question_of).map(number)
    has = (own == question).groupby(scores["probe"]).transform("any")
    return scores[(own == question) | ~has]


def _treated(scores: pd.DataFrame, refusals: str, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores with a value for refused answers, except where they stay missing.

    Neither the mean of the answers to the question nor the bad end of the scale depends on groups, so that the
    permutation of group labels stays exact.
    """
    refused = scores["refused"].astype(bool)
    if refusals == NEUTRAL:
        known = scores["value"].where(~refused)
        instead = known.groupby([scores["scorer"], scores["question_id"]]).transform("mean")
    elif refusals == WORST:
        ends = {name: s.value_range[0] if s.higher_is_better else s.value_range[1] for name, s in scorers.items()}
        instead = scores["scorer"].map(ends)
    else:
        return scores
    return scores.assign(value=scores["value"].where(~refused, instead), refused=False)
