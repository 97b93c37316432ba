"""What tasks share: scores per subject and image as the tables of a run, and how they are compared.

A task (a protocol that asks no model) analyses one score per subject, image and outcome: the user's own, or those of
models that it runs itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.hashing import digest
from fp2.tables import SCORES

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.config import Config

LONG = ["image_id", "subject_id", "probe", "scorer", "value"]
"""Columns of scores: `probe` names the outcome, `scorer` the metric."""
_KEY = LONG[:4]


@dataclass(frozen=True)
class ScoreComparison:
    """How groups are compared: the `analysis` config, and the seed."""

    alpha: float
    correction: str
    min_subjects: int
    n_permutations: int | None
    n_bootstrap: int
    seed: int


def comparison_of(config: Config) -> ScoreComparison:
    """Return the settings of the comparison."""
    a = config.analysis
    return ScoreComparison(a.alpha, a.correction, a.min_subjects, a.permutations, a.bootstrap, config.seed)


def score_settings(config: Config, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the comparison as reports read them; the primary metric is the first."""
    analysis = config.analysis
    return {
        "unit": "subject; image and subject in the published column",
        "alpha": analysis.alpha,
        "n_bootstrap": analysis.bootstrap,
        "min_subjects": analysis.min_subjects,
        "correction": analysis.correction,
        "family": "all cuts of one score",
        "primary": metrics[0] if metrics else "",
        "seed": config.seed,
    }


def score_tables(
    people: pd.DataFrame, scores: pd.DataFrame, others: Mapping[str, pd.DataFrame] | None = None
) -> RunTables:
    """Return the tables of a run that asked no model; `scores` has the columns `LONG`."""
    from fp2.ask.answers import RunTables
    from fp2.ask.row_answers import RowAnswers

    keys = [digest(list(map(str, line))) for line in zip(*(scores[name] for name in _KEY), strict=True)]
    full = scores.assign(
        response_key=keys, variant="original", question_id=scores["probe"], scorer_version="1", refused=False
    )
    return RunTables(people, RowAnswers.none(), full[SCORES.names].reset_index(drop=True), others or {})


def no_scores() -> pd.DataFrame:
    """Return an empty table with the columns `LONG`."""
    import pandas as pd

    text = {name: pd.Series([], dtype="str") for name in _KEY}
    return pd.DataFrame({**text, "value": pd.Series([], dtype="float64")})


def scores_digest(scores: pd.DataFrame) -> str:
    """Return the digest of scores in no particular order: the response set of a run that asked no model.

    It is the same for the same scores of the same subjects, whatever file they came from.
    """
    lines = zip(*(scores[name] for name in LONG), strict=True)
    return digest(sorted([*map(str, line[:4]), repr(float(line[4]))] for line in lines))
