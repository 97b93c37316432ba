"""The choices of an analysis, and the specifications that they span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from fp2.scorers.outcomes import REFUSAL
from fp2.tables import question_of

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.fingerprint.settings import ComparedRun

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
    every = [
        Specification(scorer, refusal, question, unit, held, least)
        for scorer, refusal, question, (unit, held), least in product(
            scorers, refusals, questions, units, _sizes(table, run.comparison.min_subjects)
        )
    ]
    return Choices(_limited(every, run.comparison.seed), len(every))


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


def _limited(every: Sequence[Specification], seed: int) -> tuple[Specification, ...]:
    """Return all specifications, or the first and a random sample of the others, in the order given."""
    if len(every) <= MOST:
        return tuple(every)
    from fp2.stats.core.numeric import stream

    drawn = stream(seed, 9).choice(len(every) - 1, MOST - 1, replace=False) + 1
    return tuple(every[k] for k in sorted([0, *drawn.tolist()]))
