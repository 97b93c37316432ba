"""Scores as arrays: one column per probe and scorer, one entry per (image, group)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error
from fp2.stats.rows import Outcome
from fp2.tables import question_of, sample_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats.core.numeric import FloatArray

REFUSAL = "refusal"
"""The scorer whose value is the refusal itself."""


def outcome_columns(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores as (image_id, subject_id) x (probe, scorer), missing where refused, failed or without a score.

    Samples of one answer are averaged, and then several questions of one probe about one image; where some were not
    answered, the effects of the questions are taken off (`question_adjusted_means`), so that unequal refusals of a
    question are no difference in score.
    """
    import numpy as np
    import pandas as pd

    value = scores["value"].where((scores["scorer"] == REFUSAL) | ~scores["refused"].astype(bool), np.nan)
    keyed = scores.assign(value=value)[["image_id", "subject_id", "probe", "scorer", "question_id", "value"]]
    keyed = samples_averaged(keyed, ["value"])
    means = keyed.groupby(["image_id", "subject_id", "probe", "scorer"], sort=False)["value"].mean()
    order = list(dict.fromkeys(zip(scores["probe"], scores["scorer"], strict=True)))
    if not order:
        return pd.DataFrame()
    wide = means.unstack(["probe", "scorer"])[order]
    questions = keyed.groupby(["probe", "scorer"], sort=False)["question_id"].nunique()
    for column in questions.index[questions > 1]:
        scores_of_column = keyed[(keyed["probe"] == column[0]) & (keyed["scorer"] == column[1])]
        if (adjusted := question_adjusted(scores_of_column, "value")) is not None:
            wide[column] = adjusted.reindex(wide.index)
    return wide


def samples_averaged(scores: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return the scores with one row per question, the mean of `columns` over the samples that have a value."""
    names = scores["question_id"].unique()
    if not any(sample_of(name) for name in names):
        return scores
    keyed = scores.assign(question_id=scores["question_id"].map({name: question_of(name) for name in names}))
    keys = [name for name in keyed.columns if name not in columns]
    return keyed.groupby(keys, sort=False, as_index=False)[columns].mean()


def question_adjusted(scores: pd.DataFrame, column: str) -> pd.Series[float] | None:
    """Return the mean of `column` over the questions of one probe and scorer, by (image_id, subject_id).

    Adjusted for the questions without a value; None where every image has all of them or none, or there is one.
    """
    import pandas as pd

    table = scores.groupby(["image_id", "subject_id", "question_id"], sort=False)[column].mean().unstack("question_id")
    if not (table.isna().any(axis=1) & table.notna().any(axis=1)).any():
        return None
    return pd.Series(question_adjusted_means(table.to_numpy(dtype="float64")), index=table.index)


def question_adjusted_means(values: ArrayLike) -> FloatArray:
    """Return the mean over questions of each image, as if every question had been answered, (n,); NaN without answers.

    Questions have different means: where one group's answers to a question are refused more often, the mean of what was
    answered differs between groups that agree on every question. Each answer is therefore taken less the effect of its
    question, from the additive model of images and questions, by least squares; group labels play no part. The result
    is the plain mean where all questions were answered. Questions that no image connects are centred at their means.

    Parameters
    ----------
    values : (n, Q)
        One line per image, one column per question; NaN = missing.
    """
    import numpy as np

    y = np.asarray(values, dtype=np.float64)
    is_known = np.isfinite(y)
    count = is_known.sum(axis=1)
    if not (is_known == is_known[:, :1])[:, 1:].all():
        mask = is_known.astype(np.float64)
        effect = np.where(is_known, y, 0.0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1.0)
        rest = np.where(is_known, y - effect, 0.0)
        share = mask / np.maximum(count, 1)[:, None]
        # normal equations of the questions' effects, the images' effects eliminated; of minimum norm
        system = np.diag(mask.sum(axis=0)) - mask.T @ share
        effect = effect + np.linalg.lstsq(system, rest.sum(axis=0) - share.T @ rest.sum(axis=1), rcond=1e-10)[0]
        answered = mask.any(axis=0)
        y = y - effect + effect[answered].mean()
    total = np.where(is_known, y, 0.0).sum(axis=1)
    mean: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return mean


@dataclass(frozen=True)
class OutcomeArrays:
    """Values (n, m) of m outcomes with group, subject and image, (n,) each: one entry per (image, group)."""

    values: np.ndarray
    groups: np.ndarray
    subjects: np.ndarray
    images: np.ndarray


def members(people: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return the memberships of a cut: one row per (image, group)."""
    from fp2.cuts import memberships

    table = memberships(people, cut)
    if table.empty:
        raise Fp2Error(f"no subject has a value for the cut {cut.name!r}", where="cut")
    return table


def entries_of(wide: pd.DataFrame, table: pd.DataFrame) -> OutcomeArrays:
    """Return the outcomes (as `outcome_columns` gives them) of each row of a cut's memberships."""
    values = wide.reindex(list(zip(table["image_id"], table["subject_id"], strict=True)))
    return OutcomeArrays(
        values.to_numpy(dtype="float64"),
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        table["image_id"].to_numpy(dtype=object),
    )


def yes_no_columns(values: np.ndarray, scorer_is: bool | Sequence[bool]) -> list[bool]:
    """Return which outcomes of `values` (n, m) are yes/no outcomes; `scorer_is`: whether their scorers are.

    The mean of several yes/no questions about one image is a share, and no longer a yes/no outcome.
    """
    import numpy as np

    is_binary = (np.isnan(values) | np.isin(values, (0.0, 1.0))).all(axis=0)
    return [
        bool(scorer_is_binary and ok)
        for scorer_is_binary, ok in zip(np.broadcast_to(scorer_is, is_binary.shape), is_binary, strict=True)
    ]


def value_ranges(values: np.ndarray, scales: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the scale of each outcome of `values` (n, m), widened where the adjustment for questions leaves it."""
    import numpy as np

    limits = [
        (np.nanmin(column), np.nanmax(column)) if np.isfinite(column).any() else scale
        for column, scale in zip(values.T, scales, strict=True)
    ]
    return [
        (min(low, float(lowest)), max(high, float(highest)))
        for (low, high), (lowest, highest) in zip(scales, limits, strict=True)
    ]


def outcomes_in(values: np.ndarray, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with the scale and the kind that their `values` (n, m) have (`value_ranges`)."""
    ranges = value_ranges(values, [outcome.value_range for outcome in outcomes])
    yes_no = yes_no_columns(values, [outcome.yes_no for outcome in outcomes])
    return [
        replace(outcome, value_range=scale, yes_no=is_binary)
        for outcome, scale, is_binary in zip(outcomes, ranges, yes_no, strict=True)
    ]


def outcome_of(scorer: Scorer) -> Outcome:
    """Return what the values of a scorer are."""
    return Outcome(
        higher_is_better=scorer.higher_is_better,
        value_range=scorer.value_range,
        bins=len(scorer.bins) - 1,
        yes_no=scorer.yes_no,
        smallest_effect=scorer.smallest_effect,
    )
