"""A protocol with a report section: does a subject get the same answer about each image?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge
from rich.text import Text

from fp2.extension import (
    Analysis,
    Block,
    EvaluationProtocol,
    Finding,
    Inputs,
    Job,
    Results,
    RowAnswers,
    Section,
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


class Consistency(EvaluationProtocol[ConsistencyOptions]):
    """The share of subjects whose images all get the same answer, by probe and group, with Wilson intervals."""

    name = NAME
    Options = ConsistencyOptions
    scoring = "optional"
    sections = ("fp2_example.protocol:ConsistencySection",)

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "Answer consistency"

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the shares; runs again on the tables of a logged run after a purge."""
        assert isinstance(tables.answers, RowAnswers)
        same = consistent(tables.answers.answered, self.options.least_images)
        rows = []
        for cut in job.cuts:
            rows += shares(same, tables.people, cut, job.config.analysis.min_subjects)
            job.tick()
        analysis = job.config.analysis
        return Analysis(
            settings={"unit": "subject", "alpha": analysis.alpha, "min_subjects": analysis.min_subjects,
                      "correction": "none", "family": "none", "primary": NAME, "seed": job.config.seed},
            blocks={
                NAME: {
                    "rows": rows,
                    "metrics": {f"{row['probe']}.{row['cut']}.{row['group']}": row["share"] for row in rows},
                    "headline": {"lowest": min((row["share"] for row in rows), default=None)},
                }
            },
        )  # fmt: skip


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
                {"probe": str(probe), "cut": cut.name, "group": str(group), "n_subjects": len(part),
                 "share": float(part["same"].mean()), "ci_low": float(low), "ci_high": float(high)}
            )  # fmt: skip
    return rows


class ConsistencySection(Section):
    """A table in the dashboard, a figure, and a line in the terminal."""

    name = NAME
    title = "Do the images of a subject get the same answer?"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the rows that may be shown, and the figure."""
        shown = [row for row in block["rows"] if row["n_subjects"] >= min_cell]
        return {"rows": shown, "alts": {"consistency_shares.png": "Share of consistent subjects by group"}}

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the shares with their intervals."""
        from matplotlib.figure import Figure

        rows = [row for row in block["rows"] if row["n_subjects"] >= min_cell]
        figure = Figure(figsize=(6, 1 + 0.4 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            axes.plot([row["ci_low"], row["ci_high"]], [place, place], color="tab:blue")
            axes.plot(row["share"], place, "o", color="tab:blue")
        axes.set_yticks(range(len(rows)), [f"{row['probe']}, {row['group']}" for row in rows])
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of subjects with identical answers (95 % interval)")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "consistency_shares.png"
        figure.savefig(path, dpi=120)
        yield path

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per probe and group that may be shown."""
        return [
            Text(f"consistency {row['probe']}, {row['group']}: {row['share']:.0%} of {row['n_subjects']} subjects")
            for row in block["rows"]
            if row["n_subjects"] >= min_cell
        ]

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield what `fp2 gate` checks: `--max-disparity` limits the difference of shares, which no test compares."""
        for probe, cut in dict.fromkeys((row["probe"], row["cut"]) for row in block["rows"]):
            own = [row["share"] for row in block["rows"] if (row["probe"], row["cut"]) == (probe, cut)]
            gap = max(own) - min(own)
            yield Finding(f"{probe} by {cut}", differs=None, message=f"shares differ by {gap:.0%}", size=gap)
