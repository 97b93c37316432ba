"""The values of the outcomes under the choices that concern them: scorer, refusals and question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fp2.protocols.fingerprint.multiverse.choices import ALL_QUESTIONS, NEUTRAL, WORST, Specification
from fp2.scorers.outcomes import REFUSAL, entries_of, outcome_columns, yes_no_columns
from fp2.tables import question_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.protocols.fingerprint.settings import ComparedRun
    from fp2.scorers.base import Scorer

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
    number = _question_numbers(run)
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


def _question_numbers(run: ComparedRun) -> dict[str, int]:
    """Return the place of each question among those of its probe, from 1."""
    seen: dict[str, int] = {}
    out = {}
    for question in run.battery.questions:
        seen[question.probe] = seen.get(question.probe, 0) + 1
        out[question.question_id] = seen[question.probe]
    return out


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
