"""The distances between runs as a section of their page, and the words that page and terminal share.

It shows what `fp2.runs.compare_many.compare_all` found, and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def comparison_context(every: Mapping[str, Any], alpha: float, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what the section of a comparison reads; distances with an adjusted p of at most `alpha` are differences.

    `names`: what the page calls the runs, by run id.
    """
    pairs = [
        {**pair, **{side: names.get(pair[side]["run_id"], pair[side]["name"]) for side in ("first", "second")}}
        for pair in every["pairs"]
    ]
    rows = [(pair, row) for pair in pairs for row in pair["distances"]]
    primary = [(pair, row) for pair, row in rows if row["scorer"] == every["primary"]]
    return {
        "every": every,
        "pairs": pairs,
        "alpha": alpha,
        "level": f"{100 * (1 - alpha):g}",
        "primary": primary,
        "others": [(pair, row) for pair, row in rows if row["scorer"] != every["primary"]],
        "probes": [(pair, row["cut"], probe) for pair, row in primary for probe in row["by_probe"]],
        "n_differ": sum(differs(row, alpha) for _, row in primary),
        "reading": reading(every, alpha),
    }


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
