"""What becomes of the gaps within a condition: each row of the analysis there beside that of everybody."""

from __future__ import annotations

from typing import Any

REMAINS, ONLY_HERE, NEITHER = "remains", "found only here", "found in neither"
DISAPPEARS, UNKNOWN, NOT_COMPARED = "disappears", "cannot be told", "cannot be compared"


def within_block(found: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the benchmark `found` within its condition, row by row beside that of `whole`; no rows without people."""
    before = {row["cut"]: row for row in whole["rows"]}
    lines = []
    for row in found["rows"]:
        was = before[row["cut"]]
        lines.append(
            {
                "cut": row["cut"],
                "gap_all": was["ours"]["raw"],
                "p_all": was["ours"]["adjusted_p"],
                "gap": row["ours"]["raw"],
                "ci_low": row["ours"]["ci_low"],
                "ci_high": row["ours"]["ci_high"],
                "chance": row["ours"]["null_mean"],
                "p": row["ours"]["adjusted_p"],
                "mde80": row["ours"]["mde80"],
                "verdict": row["ours"]["verdict"],
                "disparity_all": (was["published"] or {}).get("disparity"),
                "disparity": (row["published"] or {}).get("disparity"),
                "change": change(was["ours"], row["ours"]),
            }
        )
    return {
        "condition": found["within"],
        "n_images": found["n_images"],
        "n_subjects": found["n_subjects"],
        "rows": lines,
    }


def change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what became of a gap: it disappears only where its interval says so, for not significant is not gone.

    The interval of the gap within has to end below the gap of everybody (the smaller of the raw one, which chance
    makes larger, and the shrunken one), or below the smallest effect.
    """
    if after["status"] != "ok" or before["status"] != "ok":
        return NOT_COMPARED
    if after["significant"]:
        return REMAINS if before["significant"] else ONLY_HERE
    if not before["significant"]:
        return NEITHER
    old = min(gap for gap in (before["raw"], before["shrunken"]) if gap is not None)
    high = after["ci_high"]
    gone = high is not None and (high < old or high < after["smallest_effect"])
    return DISAPPEARS if gone else UNKNOWN
