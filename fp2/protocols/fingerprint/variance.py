"""Variance components of the answers, and the comparison of repeated samples.

The disparities average samples and questions. This supplement says how much of the variation is due to each, and
whether another run would show the same differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import cut_label, number, probe_labels
from fp2.report.section import Block, Results, Section
from fp2.scorers.outcomes import entries_of, members, outcome_columns
from fp2.stats.rows import json_ready
from fp2.tables import question_of, sample_id, sample_of

if TYPE_CHECKING:
    import pandas as pd

NOTHING_SAMPLED = "all samples of every answer are equal: the engine ignores the temperature, and one sample is enough"
_MOST = 6
ONE_QUESTION = "one question: the variation between wordings cannot be estimated"


class Variance(Supplement):
    """Variance components of the probes with several questions, or several samples of each answer."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `variance`, or None where every probe is one question that is asked once."""
        from fp2.cuts import of_sets

        if not run.disparities or run.battery.people != 1 or of_sets(run.people):
            return None
        rows = list(_rows(run))
        if not rows:
            return None
        return {
            "scorer": run.comparison.primary,
            "alpha": run.comparison.alpha,
            "n_samples": run.battery.decoding.samples,
            "share_identical": _share_identical(run),
            "estimator": "method of moments from mean squares (Cornfield and Tukey 1956), negative estimates as 0; "
            "generalised confidence intervals (Weerahandi 1993)",
            "rows": rows,
        }

    def columns(self, block: Mapping[str, Any]) -> Mapping[tuple[str, str, str], Mapping[str, Any]]:
        """Return the interval of the gap for other subjects and other samples."""
        return {
            (row["probe"], block["scorer"], row["cut"]): {
                "samples_low": row["samples"]["others"]["gap_low"],
                "samples_high": row["samples"]["others"]["gap_high"],
            }
            for row in block["rows"]
            if row["samples"]
        }


def _share_identical(run: ComparedRun) -> float | None:
    """Return the share of answers whose samples have one text: 1 where an engine samples nothing; None without samples.

    Answers with one known sample do not count.
    """
    answers = run.answers[run.answers["status"] == "answered"]
    keys = [answers["image_id"], answers["subject_id"], answers["question_id"].map(question_of)]
    texts = answers["text"].groupby(keys).agg(["size", "nunique"])
    several = texts.loc[texts["size"] > 1, "nunique"]
    return float((several == 1).mean()) if len(several) else None


def _rows(run: ComparedRun) -> Iterator[dict[str, Any]]:
    """Yield one row per probe with several questions or samples, and cut, of the primary scorer."""
    from fp2.stats.components import variance_components
    from fp2.stats.random_factors import between_samples

    c = run.comparison
    scores = run.scores[run.scores["scorer"] == c.primary]
    for probe, part in scores.groupby("probe", sort=False):
        if part["question_id"].nunique() < 2:
            continue
        wide, shape = _wide(part)
        for cut in run.cuts:
            entries = entries_of(wide, members(run.people, cut))
            values = entries.values.reshape(-1, *shape)
            labels = (values, entries.groups, entries.subjects)
            options: dict[str, Any] = {"images": entries.images, "min_subjects": c.min_subjects, "alpha": c.alpha}
            components = variance_components(*labels, **options, seed=c.seed)
            if components is None:
                continue
            spread = between_samples(*labels, **options) if shape[1] > 1 else None
            yield {
                "probe": str(probe),
                "cut": cut.name,
                "n_questions": shape[0],
                "other_wordings": None if shape[0] > 1 else ONE_QUESTION,
                **json_ready(asdict(components)),
                "samples": None if spread is None else json_ready(asdict(spread)),
            }


def _wide(scores: pd.DataFrame) -> tuple[pd.DataFrame, tuple[int, int]]:
    """Return the scores of one probe and scorer with a column per question and sample, and their numbers."""
    wide = outcome_columns(scores.assign(probe=scores["question_id"]))
    names, (scorer,) = scores["question_id"].unique(), scores["scorer"].unique()
    questions, n_samples = list(dict.fromkeys(map(question_of, names))), 1 + max(map(sample_of, names))
    columns = [(sample_id(question, sample), scorer) for question in questions for sample in range(n_samples)]
    return wide.reindex(columns=columns), (len(questions), n_samples)


class VarianceSection(Section):
    """The shares of the components, and the differences in each sample, by cut."""

    name = "variance"
    title = "Sources of variation"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the rows by cut, with the names of all components; they hold no number of a single group."""
        labels = probe_labels(results)
        tables = []
        for cut in dict.fromkeys(row["cut"] for row in block["rows"]):
            rows = [
                {**row, "label": labels[row["probe"]], "parts": {part["name"]: part for part in row["components"]}}
                for row in block["rows"]
                if row["cut"] == cut
            ]
            names = list(dict.fromkeys(name for row in rows for name in row["parts"]))
            tables.append({"cut": cut, "rows": rows, "names": names})
        return {"block": block, "tables": tables, "warning": NOTHING_SAMPLED if block["share_identical"] == 1 else None}

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return how far the clearest difference of each probe varies between samples, or that none was drawn."""
        if block["share_identical"] == 1:
            return [Text(NOTHING_SAMPLED, style="yellow")]
        labels = probe_labels(results)
        found = [
            f"{labels[row['probe']]} by {cut_label(row['cut'])} {number(row['samples']['sd'])}"
            for row in block["rows"]
            if row["samples"]
        ]
        shown = "; ".join(found[:_MOST]) + (f"; and {len(found) - _MOST} more" if len(found) > _MOST else "")
        return [Text(f"SD of the clearest difference between samples: {shown}")] if found else []
