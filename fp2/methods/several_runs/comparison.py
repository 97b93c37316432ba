"""The distances between runs as values, which page and terminal show.

It shows what `compare_many.compare_all` computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    Axis,
    Cell,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Kind,
    Name,
    Point,
    Row,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
    cut_label,
    scorer_label,
    sentence,
)

READING = (
    "Distance: root mean square difference of the two runs' group means, each centred within its probe. It is above 0 "
    "by chance alone: compare it with its null mean. {level} %: interval of the distance. Adjusted p: {test}, "
    "Holm-corrected over the {pairs}cuts of a scorer, for single probes over its {more}probes x cuts. Correlation: "
    "that of the two runs' group means, 1 where the same groups are described better and worse."
)
TESTS = {
    "shared": "group labels are permuted across subjects, and the two runs exchanged within subjects (the larger p)",
    "independent": "subjects exchange the run within their groups, once the runs' mean difference is removed",
}


def comparison_values(every: Mapping[str, Any], alpha: float, names: Mapping[str, str]) -> Iterator[Value]:
    """Yield the distances of all pairs of runs; those with an adjusted p of at most `alpha` are differences.

    `names`: what the page calls the runs, by run id.
    """
    labels = [
        [names.get(pair[side]["run_id"], pair[side]["name"]) for side in ("first", "second")] for pair in every["pairs"]
    ]
    titles = [" and ".join(pair) for pair in labels]
    rows = [(title, row) for title, pair in zip(titles, every["pairs"], strict=True) for row in pair["distances"]]
    primary = [(title, row) for title, row in rows if row["scorer"] == every["primary"]]
    differing, scorer = sum(differs(row, alpha) for _, row in primary), scorer_label(every["primary"])
    count = f"{differing} of {len(primary)} distances of {scorer} are significant"
    yield Sentence([Strong(count), " after correction."], Weight.LEAD)
    points = [
        Point(
            row["distance"],
            cut_label(row["cut"]) if len(titles) == 1 else f"{title}, {cut_label(row['cut'])}",
            low=row["ci_low"],
            high=row["ci_high"],
            null_mean=row["null_mean"],
            filled=differs(row, alpha),
        )
        for title, row in primary
    ]
    yield Chart(
        ChartKind.INTERVALS,
        "distances",
        "Distance of the fingerprints",
        [Series(points)],
        Axis(f"distance in {scorer}", 0.0),
        caption="Vertical line: its mean by chance. Filled: significant.",
    )
    paired = [Column("Runs", Kind.NAME)] if len(titles) > 1 else []  # of one pair, every row would name it
    for title, pair in zip(titles, every["pairs"], strict=True):
        yield Sentence([Name(title), f": {sizes_words(pair)}."])
    level = f"{100 * (1 - alpha):g} %"
    columns = (
        *paired,
        Column("Score"),
        Column("Groups by"),
        Column("Distance", Kind.NUMBER),
        Column(level, Kind.INTERVAL),
        Column("Null mean", Kind.NUMBER),
        Column("Adjusted p", Kind.P),
        Column("Correlation", Kind.NUMBER, terminal=False),
        Column("Difference"),
    )
    others = [(title, row) for title, row in rows if row["scorer"] != every["primary"]]
    for name, fold, chosen in (("distances", "", primary), ("others", "Other scores", others)):
        cells = [[title] * len(paired) + _distance(row, alpha) for title, row in chosen]
        shown = name == "distances" or (not paired and any(differs(row, alpha) for _, row in chosen))
        yield Table(name, columns, [Row(row) for row in cells], fold=fold, primary=shown)
    probes = [
        Row(
            [
                *[title] * len(paired),
                cut_label(row["cut"]),
                pair["probes"].get(probe["probe"], probe["probe"]),
                probe["distance"],
                probe["null_mean"],
                probe["adjusted_p"],
                difference_words(probe, alpha),
            ]
        )
        for title, pair in zip(titles, every["pairs"], strict=True)
        for row in pair["distances"]
        if row["scorer"] == every["primary"]
        for probe in row["by_probe"]
    ]
    of_probes = (
        *paired,
        Column("Groups by"),
        Column("Probe", Kind.NAME),
        Column("Distance", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column("Adjusted p", Kind.P),
        Column("Difference"),
    )
    yield Table("probes", of_probes, probes, fold=f"{sentence(scorer)} of single probes", primary=not paired)
    yield Sentence(reading(every, alpha), Weight.DETAIL)
    for entry in every["not_compared"]:
        yield Sentence(
            ["Not compared: ", Name(f"{entry['first']} and {entry['second']}"), ", since ", Name(entry["reason"])]
        )
    for note in every["notes"]:
        yield Sentence([Name(note)])


def _distance(row: Mapping[str, Any], alpha: float) -> list[Any]:
    interval = Estimate(None, row["ci_low"], row["ci_high"])
    numbers = [row["null_mean"], row["adjusted_p"], row["correlation"], difference_words(row, alpha)]
    distance = Cell(row["distance"], strong=differs(row, alpha))
    return [scorer_label(row["scorer"]), cut_label(row["cut"]), distance, interval, *numbers]


def reading(every: Mapping[str, Any], alpha: float) -> str:
    """Return how the columns are read."""
    tests = " or ".join(TESTS[name] for name in TESTS if any(pair["samples"] == name for pair in every["pairs"]))
    several = len(every["runs"]) > 2
    return READING.format(
        level=f"{100 * (1 - alpha):g}",
        test=tests,
        pairs="pairs of runs and the " if several else "",
        more="pairs x " if several else "",
    )


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
