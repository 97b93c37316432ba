"""The comparison of runs as a page, and the words that page and terminal share.

It shows what `fp2.runs.compare_many.compare_all` found, and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2 import __version__
from fp2.report.page import render
from fp2.report.reading import plain

READING = (
    "Distance: root mean square difference of the two runs' group means, each centred within its probe. It is above 0 "
    "by chance alone: compare it with its null mean. {level} %: interval of the distance. p: {test}, Holm-corrected "
    "over the {pairs}cuts of a scorer, for single probes over its {more}probes x cuts. corr.: correlation of the two "
    "runs' group means, 1 where the same groups are described better and worse."
)
TESTS = {
    "shared": "group labels are permuted across subjects, and the two runs exchanged within subjects (the larger p)",
    "independent": "subjects exchange the run within their groups, once the runs' mean difference is removed",
}


def render_comparison(every: Mapping[str, Any], alpha: float) -> str:
    """Return the HTML of a comparison; distances with an adjusted p of at most `alpha` are differences."""
    pairs = every["pairs"]
    rows = [(pair, row) for pair in pairs for row in pair["distances"]]
    primary = [(pair, row) for pair, row in rows if row["scorer"] == every["primary"]]
    first, second = pairs[0]["first"]["name"], pairs[0]["second"]["name"]
    two = len(every["runs"]) == 2
    runs = [pair[side] for pair in pairs for side in ("first", "second")]
    context = {
        "title": f"{plain(first)} against {plain(second)}" if two else f"{len(every['runs'])} runs compared",
        "version": __version__,
        "every": every,
        "alpha": alpha,
        "level": f"{100 * (1 - alpha):g}",
        "primary": primary,
        "others": [(pair, row) for pair, row in rows if row["scorer"] != every["primary"]],
        "probes": [(pair, row["cut"], probe) for pair, row in primary for probe in row["by_probe"]],
        "n_differ": sum(differs(row, alpha) for _, row in primary),
        "calibration": list(dict.fromkeys(
            run["name"] for run in runs if run["calibration"] and not run["without_effects"]
        )),
        "without_effects": list(dict.fromkeys(run["name"] for run in runs if run["without_effects"])),
        "reading": reading(every, alpha),
    }  # fmt: skip
    return render("comparison.html.j2", context, filters=(difference_words, sizes_words))


def reading(every: Mapping[str, Any], alpha: float) -> str:
    """Return how the columns are read."""
    tests = " or ".join(TESTS[name] for name in TESTS if any(pair["samples"] == name for pair in every["pairs"]))
    several = len(every["runs"]) > 2
    return READING.format(
        level=f"{100 * (1 - alpha):g}", test=tests, pairs="pairs of runs and the " if several else "",
        more="pairs x " if several else "",
    )  # fmt: skip


def differs(row: Mapping[str, Any], alpha: float) -> bool:
    """Whether a distance is significant after correction."""
    return row["adjusted_p"] is not None and row["adjusted_p"] <= alpha


def difference_words(row: Mapping[str, Any], alpha: float) -> str:
    """Return whether a difference was found, in words."""
    if row["distance"] is None:
        return "too few"
    return "significant" if differs(row, alpha) else "not significant"


def sizes_words(pair: Mapping[str, Any]) -> str:
    """Return the sizes of a pair's samples, in words."""
    shared = pair["shared"]
    if pair["samples"] == "independent":
        return f"{shared['n_subjects_first']:,} and {shared['n_subjects_second']:,} subjects, none shared"
    return f"{shared['n_subjects']:,} subjects and {shared['n_images']:,} images shared"
