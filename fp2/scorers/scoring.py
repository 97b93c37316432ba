"""From answers to scores: every scorer on every answered row, and the refusal flag on all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fp2.tables import SCORES

if TYPE_CHECKING:
    import pandas as pd

    from fp2.scorers.base import Scorer

KEYS = ["response_key", "image_id", "subject_id", "variant", "question_id", "probe"]


def flag_refusals(answers: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the answers with a `refused` flag from the refusal scorer, selected or not; a failure is no refusal."""
    import numpy as np

    from fp2.scorers.refusal import default_refusal

    answered = (answers["status"] == "answered").to_numpy()
    rows = answers.loc[answered]
    refused = np.zeros(len(answers), dtype=bool)
    scorer = scorers.get("refusal") or default_refusal()
    refused[answered] = scorer.score(rows["text"].tolist(), rows["probe"].tolist()).values == 1
    return answers.assign(refused=refused)


def score_answers(answers: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores table: one row per answered question and scorer that applies to its probe.

    `answers` carries the flag of `flag_refusals`. `details` is what a score was made of, as JSON. Failed answers have
    no row.
    """
    import pandas as pd

    answered = answers[answers["status"] == "answered"].reset_index(drop=True)
    parts = [_score(answered, name, scorer) for name, scorer in scorers.items()]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*SCORES.names, "details"])
    return SCORES.check(table)


def _score(answered: pd.DataFrame, name: str, scorer: Scorer) -> pd.DataFrame:
    from fp2.scorers.base import scorer_version

    chosen = answered["probe"].isin(scorer.probes).to_numpy() if scorer.probes else slice(None)
    rows = answered.loc[chosen]
    scored = scorer.score(rows["text"].tolist(), rows["probe"].tolist())
    columns = {key: values.tolist() for key, values in scored.details.items()}
    details = [json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    return rows[KEYS].assign(
        scorer=name,
        scorer_version=scorer_version(scorer),
        value=scored.values,
        refused=rows["refused"],
        details=details if columns else None,
    )
