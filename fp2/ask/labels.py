"""Labels that people gave to some answers of a run (`analysis.labels`), as a table among the tables of the run.

What reads them is an entry point of the group `fp2.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from fp2.plugins import TABLES, load

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.config import Config
    from fp2.scorers.base import Scorer

LABELS = "labels.parquet"
"""The table in a run's folder: `image_id, subject_id, question_id, probe, scorer, labeller, label, probability`."""


class LabelReader(Protocol):
    """Reads the file that `analysis.labels` names; raises an `Fp2Error` for what it cannot be."""

    def check(self, config: Config, scorers: Mapping[str, Scorer]) -> None:
        """Check the file alone, before anything is asked."""
        ...

    def read(self, config: Config, scorers: Mapping[str, Scorer], answers: pd.DataFrame) -> pd.DataFrame:
        """Return the labels of the run's answers (see `LABELS`)."""
        ...


def check_labels(config: Config, scorers: Mapping[str, Scorer]) -> None:
    """Raise an `Fp2Error` for a file of labels that cannot be read."""
    if config.analysis.labels is not None:
        _reader().check(config, scorers)


def with_labels(tables: RunTables, config: Config, scorers: Mapping[str, Scorer], *, again: bool = True) -> RunTables:
    """Return the tables with the labels of `analysis.labels`; `again`: also if they have a table of labels.

    Raises
    ------
    Fp2Error
        If they cannot be read, or belong to no answer of the run.
    """
    from fp2.ask.answers import RowAnswers

    other_tables = dict(tables.others)
    if config.analysis.labels is None:
        other_tables.pop(LABELS, None)
    elif (again or LABELS not in other_tables) and isinstance(tables.answers, RowAnswers):
        other_tables[LABELS] = _reader().read(config, scorers, tables.answers.frame)
    return replace(tables, others=other_tables)


def _reader() -> LabelReader:
    reader: LabelReader = load(TABLES, "labels", "analysis.labels")
    return reader
