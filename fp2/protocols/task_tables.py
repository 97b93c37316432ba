"""What tasks share: the user's files, scores as the tables of a run, and the settings of their comparison.

A task (a protocol that asks no model) analyses one score per subject, image and outcome: the user's own, or those of
models that it runs itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.tables import SCORES

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.config import Config
    from fp2.results import Block, ScorerFacts

LONG = ["image_id", "subject_id", "probe", "scorer", "value"]
"""Columns of scores: `probe` names the outcome, `scorer` the metric."""
_KEY = LONG[:4]


@dataclass(frozen=True, kw_only=True)
class ScoreComparison:
    """How groups are compared: the `analysis` config, and the seed.

    `n_permutations`: None takes as many as the family of tests needs.
    """

    alpha: float = 0.05
    correction: str = "holm"
    min_subjects: int = 10
    n_permutations: int | None = None
    n_bootstrap: int = 2000
    seed: int = 20260101

    @classmethod
    def from_config(cls, config: Config) -> ScoreComparison:
        """Return the settings of a config."""
        a = config.analysis
        return cls(
            alpha=a.alpha,
            correction=a.correction,
            min_subjects=a.min_subjects,
            n_permutations=a.permutations,
            n_bootstrap=a.bootstrap,
            seed=config.seed,
        )


def score_settings(config: Config, smallest_effects: Mapping[str, float]) -> Block:
    """Return the settings of the comparison as reports read them.

    smallest_effects : metric -> smallest effect of interest; the first metric is the primary one.
    """
    analysis = config.analysis
    settings = {
        "unit": "subject; image and subject in the published column",
        "alpha": analysis.alpha,
        "n_bootstrap": analysis.bootstrap,
        "min_subjects": analysis.min_subjects,
        "correction": analysis.correction,
        "family": "all cuts of one score",
        "primary": next(iter(smallest_effects), ""),
        "seed": config.seed,
    }
    return {**settings, **({"smallest_effects": dict(smallest_effects)} if smallest_effects else {})}


def describe_metric(
    name: str, smallest_effect: float, *, higher_is_better: bool = True, value_range: tuple[float, float] = (0.0, 1.0)
) -> ScorerFacts:
    """Return a metric as reports describe scorers."""
    return {
        "name": name,
        "version": "1",
        "higher_is_better": higher_is_better,
        "value_range": list(value_range),
        "smallest_effect": smallest_effect,
        "lexicon": None,
    }


def score_tables(people: pd.DataFrame, scores: pd.DataFrame) -> RunTables:
    """Return the tables of a run that asked no model; `scores` has the columns `LONG`."""
    from fp2.ask.answers import RowAnswers, RunTables

    keys = [digest(list(map(str, cells))) for cells in zip(*(scores[name] for name in _KEY), strict=True)]
    full = scores.assign(
        response_key=keys, variant="original", question_id=scores["probe"], scorer_version="1", refused=False
    )
    return RunTables(people, RowAnswers.none(), full[SCORES.names].reset_index(drop=True), {})


def no_scores() -> pd.DataFrame:
    """Return an empty table with the columns `LONG`."""
    import pandas as pd

    text = {name: pd.Series([], dtype="str") for name in _KEY}
    return pd.DataFrame({**text, "value": pd.Series([], dtype="float64")})


def scores_digest(scores: pd.DataFrame) -> str:
    """Return the digest of scores in any order: the response set of a run that asked no model.

    Equal scores of the same subjects have one digest, whatever file they came from.
    """
    rows = zip(*(scores[name] for name in LONG), strict=True)
    return digest(sorted([*map(str, cells[:4]), repr(float(cells[4]))] for cells in rows))


WHERE = "task.files"


def given_files(files: Mapping[str, object], known: Collection[str], several: Collection[str] = ()) -> dict[str, Any]:
    """Return the files that are given, by key.

    Parameters
    ----------
    files : mapping
        `task.files`; an empty text, list or table is no file.
    known : collection of str
        The keys that the task takes.
    several : collection of str
        Those of them whose value may also be a list of files, or a table of name -> file.
    """
    paths_of = {}
    for name, value in files.items():
        if name not in known:
            raise Fp2Error(f"unknown file {name!r}", where=WHERE, fix=nearest(name, known))
        if not value:
            continue
        named = list(value.values()) if isinstance(value, Mapping) else value
        if name in several and isinstance(named, list | tuple):
            if not all(isinstance(column_name, str) and column_name for column_name in named):
                fix = "Write a list [a.json, b.json], or a table {first: a.json, second: b.json}"
                raise Fp2Error("a file is not a path", where=f"{WHERE}.{name}", fix=fix)
        elif not isinstance(value, str):
            raise Fp2Error("it takes one file", where=f"{WHERE}.{name}", fix="Write one path")
        paths_of[name] = value
    return paths_of
