"""Outcomes in the results of a task: an outcome is one metric of one model, or of one task of a model.

Each is compared by `benchmark`, overall and within conditions. Here is what the tasks do with the benchmarks of all
their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.benchmark import BenchmarkOptions, benchmark

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

REMAINS, ONLY_WITHIN, NEITHER = "remains", "found only here", "found in neither"
DISAPPEARS, INCONCLUSIVE, NOT_COMPARED = "disappears", "inconclusive", "cannot be compared"


def disparity_rows(outcomes: Sequence[dict[str, Any]], cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """Return the subject-level rows of `cuts` as `results["disparities"]` has them.

    outcomes : each with `probe`, `metric` and `benchmark` (None: not compared).
    """
    wanted = {cut.name for cut in cuts}
    return [
        {
            "probe": one["probe"], "scorer": one["metric"], "cut": row["cut"],
            "family_size": len(one["benchmark"]["rows"]), **row["ours"], "bounds_low": None, "bounds_high": None,
            "bounds_ci_low": None, "bounds_ci_high": None, "holds_under_refusals": None,
        }
        for one in outcomes if one["benchmark"] is not None
        for row in one["benchmark"]["rows"] if row["cut"] in wanted
    ]  # fmt: skip


def highest_disparities(outcomes: Sequence[dict[str, Any]], top_k: int) -> list[dict[str, Any]]:
    """Return the `top_k` highest significant disparities of all outcomes."""
    top = [line for one in outcomes if one["benchmark"] is not None for line in one["benchmark"]["top"]]
    top.sort(key=lambda line: (-line["disparity"], line["outcome"], line["cut"]))
    return top[:top_k]


def within_condition(
    scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], options: BenchmarkOptions, condition: str,
    whole: dict[str, Any], tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:  # fmt: skip
    """Return each cut's disparity within a condition, beside that of the benchmark `whole` of all subjects.

    There are no rows where the condition leaves no subject with a score.
    """
    found = benchmark(scores, people, cuts, replace(options, within=condition), tick)
    overall = {row["cut"]: row for row in whole["rows"]}
    rows = [_beside(overall[row["cut"]], row) for row in found["rows"]]
    sizes = {name: found[name] for name in ("n_images", "n_subjects")}
    return {"condition": condition, **sizes, "rows": rows}


def _beside(overall: dict[str, Any], within: dict[str, Any]) -> dict[str, Any]:
    before, after = overall["ours"], within["ours"]
    return {
        "cut": within["cut"],
        "gap_all": before["raw"],
        "p_all": before["adjusted_p"],
        "gap": after["raw"],
        "ci_low": after["ci_low"],
        "ci_high": after["ci_high"],
        "chance": after["null_mean"],
        "p": after["adjusted_p"],
        "mde80": after["mde80"],
        "verdict": after["verdict"],
        "disparity_all": (overall["published"] or {}).get("disparity"),
        "disparity": (within["published"] or {}).get("disparity"),
        "change": change(before, after),
    }


def change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return whether a disparity remains within a condition: `before` and `after` are disparity rows.

    A disparity that is no longer significant `disappears` only if its interval excludes the former size: the interval
    has to end below the overall disparity (the smaller of the raw one, which is biased upwards, and the shrunken one)
    or below the smallest effect of interest. Otherwise the comparison is `inconclusive`.
    """
    if after["status"] != "ok" or before["status"] != "ok":
        return NOT_COMPARED
    if after["significant"]:
        return REMAINS if before["significant"] else ONLY_WITHIN
    if not before["significant"]:
        return NEITHER
    size = min(value for value in (before["raw"], before["shrunken"]) if value is not None)
    high = after["ci_high"]
    excluded = high is not None and (high < size or high < after["smallest_effect"])
    return DISAPPEARS if excluded else INCONCLUSIVE
