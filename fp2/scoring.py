"""From answers to scores: every scorer on every answered row, and the refusal flag on all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fp2.tables import SCORES

if TYPE_CHECKING:
    import pandas as pd

    from fp2.scorers.base import Scorer

KEYS = ["response_key", "image_id", "subject_id", "variant", "question_id", "probe"]


def score_answers(answers: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores table: one row per answered question and scorer that applies to its probe.

    `refused` comes from the refusal scorer, selected or not. `details` is what a score was made of, as JSON. Failed
    answers have no row.
    """
    import pandas as pd

    from fp2.scorers.refusal import default_refusal

    answered = answers[answers["status"] == "answered"].reset_index(drop=True)
    texts, probes = answered["text"].tolist(), answered["probe"].tolist()
    refusal = scorers.get("refusal") or default_refusal()
    refused = refusal.score(texts, probes).values == 1
    parts = [_score(answered, refused, name, scorer) for name, scorer in scorers.items()]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*SCORES.names, "details"])
    return SCORES.check(table)


def _score(answered: pd.DataFrame, refused: Any, name: str, scorer: Scorer) -> pd.DataFrame:
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
        refused=refused[chosen],
        details=details if columns else None,
    )
