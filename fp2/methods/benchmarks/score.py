"""A benchmark's published score beside our comparison: the block `benchmark` of the results, and its section.

A benchmark derives from `BenchmarkScore` and returns rows (`score_row`). Its battery names the class in
`options.supplements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fp2.extension import (
    TOO_FEW,
    UNINFORMATIVE,
    Block,
    Cell,
    Column,
    ComparedRun,
    ComparisonSettings,
    Estimate,
    Finding,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Verdict,
    Weight,
    adjust_p_values,
    number,
    plain,
    verdict_of,
    verdict_words,
)

if TYPE_CHECKING:
    import pandas as pd

OURS = ("raw", "ci_low", "ci_high", "null_mean", "adjusted_p", "verdict")
"""What a row repeats of the disparity that is beside a published number."""


class BenchmarkScore(Supplement):
    """The scores of a benchmark by its published rule.

    Attributes
    ----------
    title : str
        The benchmark.
    rule : str
        Its published rule, in a sentence or two.
    faults : str
        What the rule leaves open, in a sentence or two.
    """

    name: ClassVar[str] = "benchmark"
    section: ClassVar[str | None] = f"{__name__}:BenchmarkSection"
    title: ClassVar[str]
    rule: ClassVar[str]
    faults: ClassVar[str]

    def rows(self, run: ComparedRun) -> list[dict[str, Any]]:
        """Return the rows of `score_row`; none where the run lacks what the rule needs."""
        raise NotImplementedError

    def outcomes(self, run: ComparedRun) -> list[dict[str, Any]]:
        """Return the shares of answers by outcome: `part`, `n` and `shares` (name -> share of n); by default none."""
        return []

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `benchmark`, or None where the run lacks what the rule needs."""
        rows = self.rows(run)
        if not rows:
            return None
        known = {f"{row['part']}.{row['score']}": row["published"] for row in rows if row["published"] is not None}
        texts = {"title": self.title, "rule": self.rule, "faults": self.faults}
        return {**texts, "rows": rows, "outcomes": self.outcomes(run), "metrics": known}


def score_row(
    part: str,
    score: str,
    published: float | None,
    n: int,
    *,
    chance: float | None = None,
    ours: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a row of the block.

    Parameters
    ----------
    part, score : str
        The part of the benchmark, and the published name of the number.
    published : float or None
        By the published rule, rounded as there.
    n : int
        The number of units behind it.
    chance : float, optional
        What a model gets that guesses without bias; None where that depends on the noise.
    ours : mapping, optional
        The disparity that answers the same question, of which `OURS` is repeated, or a test of `tested_means`.
    """
    tested = [name for name in ("larger", "small") if ours and name in ours]
    beside = None if ours is None else {name: ours.get(name) for name in (*OURS, *tested)}
    return {"part": part, "score": score, "published": published, "n": n, "chance": chance, "ours": beside}


def scores_of(run: ComparedRun, scorer: str) -> pd.DataFrame:
    """Return image_id, question_id, probe and value of the scored answers of a scorer."""
    columns = ["image_id", "subject_id", "question_id", "probe", "value"]
    chosen: pd.DataFrame = run.scores.loc[run.scores["scorer"] == scorer, columns]
    return chosen


def tested_means(
    samples: Mapping[str, Sequence[Sequence[float]]], smallest: float, comparison: ComparisonSettings
) -> dict[str, dict[str, Any]]:
    """Return whether a mean over units differs from 0, or two means from each other: the keys of `OURS` by name.

    Parameters
    ----------
    samples : mapping
        Name -> one sample of unit means, or two, whose difference (first less second) is tested.
    smallest : float
        The smallest difference of interest.
    comparison : ComparisonSettings
        Level, correction over the names, least number of units.

    Notes
    -----
    Two-sided t test with its interval; of two samples Welch's. Where units do not vary, the test is exact: a unit's
    sign, or its sample, is exchanged.
    """
    from math import comb

    import numpy as np
    from scipy import stats

    out: dict[str, dict[str, Any]] = {}
    for name, arrays in samples.items():
        xs = [np.asarray(values, dtype=np.float64) for values in arrays]
        row = out[name] = dict.fromkeys((*OURS, "p_value", "larger", "small"))
        if min(map(len, xs)) < max(comparison.min_subjects, 2):
            row["verdict"] = TOO_FEW
            continue
        shares = [float(x.var(ddof=1)) / len(x) for x in xs]
        estimate, error = float(xs[0].mean() - sum(x.mean() for x in xs[1:])), sum(shares) ** 0.5
        if not error:
            if not estimate:
                row["verdict"] = UNINFORMATIVE
                continue
            least = 1 / (2 ** len(xs[0]) if len(xs) == 1 else comb(sum(map(len, xs)), len(xs[0])))
            row |= {"raw": estimate, "ci_low": estimate, "ci_high": estimate, "p_value": 2 * least}
            row |= {"larger": least, "small": 1.0} if abs(estimate) > smallest else {"larger": 1.0, "small": least}
            continue
        df = error**4 / sum(share**2 / (len(x) - 1) for share, x in zip(shares, xs, strict=True))
        half = error * float(stats.t.ppf(1 - comparison.alpha / 2, df))
        row |= {"raw": estimate, "ci_low": estimate - half, "ci_high": estimate + half}
        row["p_value"] = float(2 * stats.t.sf(abs(estimate) / error, df))
        row["larger"] = float(stats.t.sf((abs(estimate) - smallest) / error, df))
        row["small"] = float(stats.t.sf((smallest - abs(estimate)) / error, df))
    for key in ("p_value", "larger", "small"):
        adjusted = adjust_p_values(
            [row[key] for row in out.values()],
            comparison.correction if comparison.correction in ("bonferroni", "bh", "by", "none") else "holm",
        )
        for row, value in zip(out.values(), adjusted, strict=True):
            row[key] = value
    for row in out.values():
        if row["verdict"] is None:
            row["adjusted_p"] = row["p_value"]
            row["verdict"] = verdict_of(row["p_value"], row["larger"], row["small"], comparison.alpha)
    return out


def row_of(rows: Sequence[Mapping[str, Any]], **keys: str) -> Mapping[str, Any] | None:
    """Return the first disparity with these values; None without any."""
    return next((row for row in rows if all(row[key] == value for key, value in keys.items())), None)


class BenchmarkSection(Section):
    """The published score beside ours."""

    name = "benchmark"
    title = "The benchmark's own score"

    def subject(self, block: Block) -> str:
        """Return the name of the benchmark."""
        return str(block["title"])

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the scores, the rule, and what it leaves open."""
        yield Sentence(f"{block['title']}: the score by its published rule, and whether groups differ.")
        parts = list(dict.fromkeys(row["part"] for row in block["rows"]))
        rows = [_row(row) for row in sorted(block["rows"], key=lambda row: parts.index(row["part"]))]
        if not any(row["ours"] for row in block["rows"]):
            rows += _within_sets(results)
        filled = [number for number, _ in enumerate(COLUMNS) if any(_has_value(row.cells[number]) for row in rows)]
        columns = [COLUMNS[number] for number in filled]
        rows = [replace(row, cells=[row.cells[number] for number in filled]) for row in rows]
        yield Table("scores", columns, rows, f"{block['title']}: published score and ours", primary=True)
        if block["outcomes"]:
            names = list(block["outcomes"][0]["shares"])
            columns = [Column("Part"), *(Column(name, Kind.SHARE) for name in names), N]
            shares = [
                Row([plain(row["part"]), *(row["shares"][name] for name in names), row["n"]], row["n"])
                for row in block["outcomes"]
            ]
            yield Table("outcomes", columns, shares, f"{block['title']}: outcomes of all planned answers")
        for row in block["rows"]:
            if row["ours"] and "larger" in row["ours"]:  # a test of its own, and no disparity, which has a finding
                ours = row["ours"]
                differs = None if ours["raw"] is None else ours["verdict"] == Verdict.BIASED
                message = f"{verdict_words(ours['verdict'])}, {number(ours['raw'])}"
                yield Finding(f"{row['score']} of {plain(row['part'])}", differs, message)
        yield Sentence(f"Published rule: {block['rule']}", Weight.DETAIL)
        yield Sentence(block["faults"], Weight.DETAIL)


def _row(row: Mapping[str, Any]) -> Row:
    ours = row["ours"] or {}
    estimate = Estimate(ours["raw"], ours["ci_low"], ours["ci_high"]) if ours.get("raw") is not None else None
    cells = [plain(row["part"]), row["score"], row["published"], row["chance"], estimate, ours.get("null_mean")]
    return Row([*cells, Cell(ours.get("verdict")), row["n"]], row["n"])


def _within_sets(results: Results) -> Iterator[Row]:
    """Yield the differences within counterfactual sets of the primary scorer, each with that of its two versions."""
    matched = results.get("matched") or {"rows": []}
    for row in matched["rows"]:
        if row["scorer"] != matched["headline"]["scorer"] or row["raw"] is None:
            continue
        ends = {row["best_version"], row["worst_version"]}  # None of sets that do not vary
        pairs = [pair for pair in row["pairs"] if {pair["first"], pair["second"]} == ends] or row["pairs"]
        pair = max(pairs, key=lambda pair: abs(pair["difference"] or 0.0))
        sign = 1 if (pair["difference"] or 0.0) >= 0 else -1
        larger, smaller = (pair["first"], pair["second"])[::sign]
        low, high = sorted(sign * (pair[end] or pair["difference"] or 0.0) for end in ("ci_low", "ci_high"))
        cells = [
            plain(row["probe"]),
            f"{plain(larger)} less {plain(smaller)}",
            None,
            0.0,
            Estimate(row["raw"], low, high),
        ]
        yield Row([*cells, row["null_mean"], Cell(row["verdict"]), row["n_sets"]], row["n_sets"])


def _has_value(cell: Any) -> bool:
    return (cell.value if isinstance(cell, Cell) else cell) is not None


N = Column("n", Kind.COUNT, public=True)
COLUMNS = [
    Column("Part"),
    Column("Score"),
    Column("Published rule", Kind.NUMBER, compared=True),
    Column("Guessing", Kind.NUMBER, title="What a model gets that guesses without bias"),
    Column("Difference, ours", Kind.ESTIMATE),
    Column("Null mean", Kind.NUMBER),
    Column("Verdict, ours", Kind.VERDICT),
    N,
]
