"""The answers behind a significant difference: those of its two groups side by side, without the groups' names.

A reader judges the answers first, and then sees which group is which. The page of a run quotes texts
(`answers_side_by_side`); `fp2 view` shows the images too.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from fp2.artifacts import SampledAnswer
from fp2.hashing import digest
from fp2.report.reading import (
    answers_anchor,
    cut_label,
    number,
    plain,
    primary_scorer,
    probe_labels,
    row_name,
    scorer_label,
    shorten,
    shown_interval,
)
from fp2.report.values import Cell, Code, Column, Kind, Name, Part, Row, Sentence, Strong, Table
from fp2.results import ComparedRow, RunResults

MOST_QUOTES = 3
"""Answers of a group."""


def blinded(row: ComparedRow) -> list[tuple[str, str]]:
    """Return (letter, group) of the worst and the best group, in an order that says nothing about which is which."""
    ends = [group for group in (row["worst_group"], row["best_group"]) if group is not None]
    groups = sorted(ends, key=lambda group: digest([row_name(row), group]))
    return list(zip("AB", groups, strict=True))


def striking_first(results: RunResults) -> list[ComparedRow]:
    """Return the significant disparities of all scorers, those with the largest standardised difference first."""
    rows = [row for row in results["disparities"] if row["significant"] and row["worst_group"]]
    return sorted(rows, key=lambda row: -abs(row.get("hedges_g") or 0.0))


def row_words(row: ComparedRow, results: RunResults) -> str:
    """Return a disparity in words that name no group."""
    low, high = shown_interval(row)
    interval = f" ({number(low)} to {number(high)})" if low is not None and high is not None else ""
    label = plain(probe_labels(results).get(row["probe"], row["probe"]))
    return (
        f"{label} by {cut_label(row['cut'])}: {scorer_label(row['scorer'])} differs by {number(row['raw'])}{interval}"
    )


def answers_side_by_side(results: RunResults, sample: Sequence[SampledAnswer]) -> Iterator[Part]:
    """Yield for each significant disparity answers of its two groups, folded, where the sample has some of both.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    sample : sequence of dicts
        Answers to read (`fp2.report.samples`).
    """
    for row in striking_first(results):
        quotes = [_quotes(row, group, results, sample) for _, group in blinded(row)]
        if all(quotes):
            columns = (Column("No."), Column("About group A", Kind.NAME), Column("About group B", Kind.NAME))
            rows = [Row([str(n), *cells]) for n, cells in enumerate(zip_longest(*quotes), start=1)]
            means = {entry["group"]: entry for entry in row["groups"]}
            sentences: list[str] = []
            for letter, group in blinded(row):
                mean, n = number(means[group]["mean"]), means[group]["n_subjects"]
                words = f": mean {scorer_label(row['scorer'])} {mean}, {n:,} subjects. "
                sentences += [Strong(f"{letter} "), Name(plain(group)), words]
            command = f"fp2 view {plain(results['run_id'])[:12]} --row {shlex.quote(plain(row_name(row)))}"
            yield Part(
                row_words(row, results),
                [
                    Table("compared", columns, rows),
                    Part("Which group is which?", [Sentence(sentences)], folded=True),
                    Sentence(["With the images, on your machine only: ", Code(command)]),
                ],
                folded=True,
                anchor=answers_anchor(row),
            )


def _quotes(row: ComparedRow, group: str, results: RunResults, sample: Sequence[SampledAnswer]) -> list[Cell]:
    """Return the first answers about a group to the probe of a row, in the order of the sample, which is random."""
    refusals = row["scorer"] == "refusal"
    mine = [
        answer
        for answer in sample
        if answer["probe"] == row["probe"]
        and (refusals or not answer["refused"])
        and group in (answer["groups"].get(row["cut"]) or "").split(", ")
    ]
    scored = row["scorer"] == primary_scorer(results)
    return [
        Cell(
            f"“{shorten(answer['text'])}”",
            detail=f"{scorer_label(row['scorer'])} {number(answer['value'], 2)}"
            if scored and answer["value"] is not None
            else "refusal" * answer["refused"],
        )
        for answer in mine[:MOST_QUOTES]
    ]
