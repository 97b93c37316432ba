"""Missing answers as outcomes: who is refused, who gets no value for another reason, and what refusals could hide.

An answer that was refused is an outcome of its own (scorer `refusal`). What else is missing (failures, replies that
cannot be parsed, texts in which nothing matched) is tested by group here, among the answers that were not refused. The
two-part reading of a probe puts three things side by side: refusals by group, the score given an answer, and the range
of gaps that the refused answers could have led to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fp2.protocols.fingerprint import REFUSAL, entries_of, members, outcome_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.registry import Analysed
    from fp2.stats.posthoc import PairTest

PERMUTATIONS = 1_000
PER_TEST = 25
"""Permutations: at least this many times the family, so that the smallest p-value survives the correction."""
SMALLEST = 0.02
"""Smallest difference of two rates of missing values that matters."""


def block(run: Analysed) -> dict[str, Any] | None:
    """Return the `missing` part of the results, or None where no value is missing and nobody was refused."""
    if not run.disparities or run.battery.people != 1:
        return None
    columns = _columns(run)
    family = len(columns.columns) * len(run.cuts)
    n = min(max(PERMUTATIONS, PER_TEST * family), run.comparison.n_permutations)
    rows = [row for cut in run.cuts for row in _rows(run, columns, cut, n)] if family else []
    two_part = _two_part(run)
    if not rows and not two_part:
        return None
    _decide(rows, run.comparison.alpha)
    return {
        "meaning": "share of answers without a value among those that were not refused",
        "family": "all rows of this block, Holm",
        "n_permutations": n,
        "smallest_effect": SMALLEST,
        "rows": rows,
        "two_part": two_part,
    }


def _columns(run: Analysed) -> pd.DataFrame:
    """Return (image, subject) x (probe, scorer): 1 without a value, 0 with one, missing where the answer was refused.

    Outcomes that miss the same answers (a failed answer has no value for any scorer) are kept once, under the first.
    """
    wide = outcome_columns(run.scores)
    keys = run.answers.drop_duplicates(["image_id", "subject_id"])[["image_id", "subject_id"]]
    wide = wide.reindex(list(zip(keys["image_id"], keys["subject_id"], strict=True)))
    refused = run.answers.groupby(["image_id", "subject_id", "probe"])["refused"].all().unstack("probe")
    refused = refused.reindex(wide.index).fillna(False).astype(bool)
    kept: dict[tuple[str, str], Any] = {}
    known: set[tuple[str, bytes]] = set()
    for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns)):
        if scorer == REFUSAL:
            continue
        absent = wide[probe, scorer].isna() & ~refused[probe]
        pattern = (probe, absent.to_numpy().tobytes())
        if absent.any() and pattern not in known:
            known.add(pattern)
            kept[probe, scorer] = absent.astype("float64").mask(refused[probe])
    import pandas as pd

    return pd.DataFrame(kept, index=wide.index)


def _rows(run: Analysed, columns: pd.DataFrame, cut: Cut, n_permutations: int) -> list[dict[str, Any]]:
    import numpy as np

    from fp2.stats import pairwise_permutation_panel

    entries = entries_of(columns, members(run.people, cut))
    names = cast("list[tuple[str, str]]", list(columns.columns))
    found = pairwise_permutation_panel(
        entries.values, entries.groups, entries.subjects, images=entries.images, yes_no=[True] * len(names),
        n_permutations=n_permutations, seed=run.comparison.seed,
        min_subjects=run.comparison.min_subjects,
    )  # fmt: skip
    out = []
    for j, (probe, scorer) in enumerate(names):
        known = np.isfinite(entries.values[:, j])
        out.append(
            {
                "probe": str(probe),
                "scorer": str(scorer),
                "cut": cut.name,
                "n_missing": len(set(entries.images[entries.values[:, j] == 1])),
                "n_images": len(set(entries.images[known])),
                **_tested(found[j]),
                "groups": _rates(entries.values[known, j], entries.groups[known], entries.subjects[known]),
            }
        )
    return out


def _tested(pairs: Sequence[PairTest]) -> dict[str, Any]:
    """Return the largest difference of two rates, who has them, and the p-value of the largest |T| over pairs."""
    if not pairs:
        return {"raw": None, "p_value": None, "worst_group": None, "best_group": None}
    largest = max(pairs, key=lambda pair: abs(pair.difference))
    worst, best = (largest.first, largest.second) if largest.difference > 0 else (largest.second, largest.first)
    flat = abs(largest.difference) <= 1e-12
    return {
        "raw": abs(largest.difference),
        "p_value": min(pair.adjusted_p for pair in pairs if pair.adjusted_p is not None),
        "worst_group": None if flat else worst,
        "best_group": None if flat else best,
    }


def _rates(values: np.ndarray, groups: np.ndarray, subjects: np.ndarray) -> list[dict[str, Any]]:
    """Return each group's rate over people, each one's pictures averaged first."""
    import pandas as pd

    table = pd.DataFrame({"group": groups, "subject": subjects, "value": values})
    means = table.groupby(["group", "subject"])["value"].mean().groupby("group")
    return [
        {"group": str(group), "n_subjects": int(n), "rate": float(rate)}
        for group, n, rate in zip(means.size().index, means.size(), means.mean(), strict=True)
    ]


def _decide(rows: list[dict[str, Any]], alpha: float) -> None:
    from fp2.stats import adjust_p_values

    for row, p in zip(rows, adjust_p_values([row["p_value"] for row in rows]), strict=True):
        significant = p is not None and p <= alpha
        row.update(adjusted_p=p, significant=significant, family_size=len(rows))
        row["verdict"] = (
            "too_few_subjects" if p is None
            else "no_difference_found" if not significant
            else "biased" if row["raw"] >= SMALLEST
            else "significant_but_small"
        )  # fmt: skip


def _two_part(run: Analysed) -> list[dict[str, Any]]:
    """Return refusals and the primary score side by side, for probes in which somebody was refused."""
    primary = run.comparison.primary
    by_key = {(row["probe"], row["scorer"], row["cut"]): row for row in run.disparities}
    answered = run.answers[run.answers["status"] == "answered"]
    rates = answered.groupby("probe")["refused"].mean()
    out = []
    for (probe, scorer, cut), row in by_key.items():
        refusal = by_key.get((probe, REFUSAL, cut))
        if scorer != primary or refusal is None or not rates.get(probe, 0.0):
            continue
        out.append(
            {
                "probe": probe,
                "cut": cut,
                "refusal_rate": float(rates[probe]),
                "refusal": _part(refusal),
                "answered": _part(row),
                "bounds_low": row["bounds_low"],
                "bounds_high": row["bounds_high"],
            }
        )
    return out


def _part(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("raw", "adjusted_p", "verdict", "worst_group")}
