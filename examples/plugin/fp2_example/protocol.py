"""A protocol with a report section: does a subject get the same answer about each image?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge

from fp2.extension import (
    Analysis,
    Asks,
    Axis,
    Block,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Finding,
    Job,
    Kind,
    Point,
    Requirements,
    Results,
    Row,
    RowAnswers,
    Section,
    Sentence,
    Series,
    Statements,
    Table,
    Value,
    Weight,
    memberships,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, RunTables

NAME = "consistency"


@dataclass(frozen=True)
class ConsistencyOptions:
    """`probe.options`: how many images a subject needs to be counted."""

    least_images: Annotated[int, Ge(2)] = 2

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


class Consistency(Asks[ConsistencyOptions]):
    """The share of subjects whose images all get the same answer, by probe and group, with Wilson intervals."""

    name = NAME
    Options = ConsistencyOptions
    requires = Requirements(scoring="optional")
    states = Statements("Answer consistency", ("fp2_example.protocol:ConsistencySection",))

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the shares; runs again on the tables of a logged run after a purge."""
        assert isinstance(tables.answers, RowAnswers)
        same = consistent(tables.answers.answered, self.options.least_images)
        rows = []
        with job.progress.steps("Comparing groups", len(job.cuts)) as tick:
            for cut in job.cuts:
                rows += shares(same, tables.people, cut, job.config.analysis.min_subjects)
                tick()
        analysis = job.config.analysis
        return Analysis(
            settings={
                "unit": "subject",
                "alpha": analysis.alpha,
                "min_subjects": analysis.min_subjects,
                "correction": "none",
                "family": "none",
                "primary": NAME,
                "seed": job.config.seed,
            },
            blocks={
                NAME: {
                    "rows": rows,
                    "metrics": {f"{row['probe']}.{row['cut']}.{row['group']}": row["share"] for row in rows},
                    "headline": {"lowest": min((row["share"] for row in rows), default=None)},
                }
            },
        )


def consistent(answered: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return `subject_id, probe, same` for subjects with at least `least` images: 1 if all answers are the same."""
    grouped = answered.groupby(["subject_id", "probe"])["text"].agg(["size", "nunique"]).reset_index()
    grouped = grouped[grouped["size"] >= least]
    return grouped.assign(same=(grouped["nunique"] == 1).astype(float))[["subject_id", "probe", "same"]]


def shares(same: pd.DataFrame, people: pd.DataFrame, cut: Cut, min_subjects: int) -> list[dict[str, Any]]:
    """Return the share of consistent subjects per probe and group of at least `min_subjects` subjects.

    The 95 % interval is Wilson's (1927).
    """
    from statsmodels.stats.proportion import proportion_confint

    groups = memberships(people, cut)[["subject_id", "group"]].drop_duplicates()
    rows = []
    for (probe, group), part in same.merge(groups, on="subject_id").groupby(["probe", "group"]):
        if len(part) >= min_subjects:
            low, high = proportion_confint(part["same"].sum(), len(part), method="wilson")
            rows.append(
                {
                    "probe": str(probe),
                    "cut": cut.name,
                    "group": str(group),
                    "n_subjects": len(part),
                    "share": float(part["same"].mean()),
                    "ci_low": float(low),
                    "ci_high": float(high),
                }
            )
    return rows


class ConsistencySection(Section):
    """A table for page, terminal, comparison and CSV, a chart for page and files, and what the gate checks."""

    name = NAME
    title = "Do the images of a subject get the same answer?"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the shares by probe and group; renderers leave out groups that are too small."""
        how = (
            "A subject is consistent on a probe if all their images get the same answer. Intervals are Wilson's, 95 %."
        )
        yield Sentence(how, Weight.DETAIL)
        rows, points = [], []
        for row in block["rows"]:
            n, ends = row["n_subjects"], (row["share"], row["ci_low"], row["ci_high"])
            rows.append(Row([row["probe"], row["group"], n, Estimate(*ends)], subjects=n))
            low, high = ends[1:]
            points.append(Point(row["share"], f"{row['probe']}, {row['group']}", low=low, high=high, subjects=n))
        yield Table("shares", COLUMNS, rows, "Consistent subjects", primary=True)
        axis = Axis("share of subjects with identical answers (95 % interval)", 0, 1)
        title = "Share of consistent subjects by group"
        yield Chart(ChartKind.INTERVALS, "consistency_shares", title, [Series(points)], axis)
        for probe, cut in dict.fromkeys((row["probe"], row["cut"]) for row in block["rows"]):
            shares = [row["share"] for row in block["rows"] if (row["probe"], row["cut"]) == (probe, cut)]
            gap = max(shares) - min(shares)
            yield Finding(f"{probe} by {cut}", differs=None, message=f"shares differ by {gap:.0%}", size=gap)


COLUMNS = (
    Column("Probe"),
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Consistent", Kind.ESTIMATE, digits=2, compared=True),
)
