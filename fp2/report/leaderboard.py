"""The leaderboard: the runs of one cut in order, with confidence intervals of their ranks where these are known.

They are ordered by the composite's magnitude (by its excess over the null mean where a run has none), and differences
between neighbours may be due to chance; where the runs of one cut are on the same subjects, a package may have ordered
them by the difference between groups, with rank intervals and tie letters. Image variants (controls, crops) are ranked
separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fp2.config import FIRST_PRIMARY
from fp2.report.reading import (
    DASH,
    calibration_of,
    cut_label,
    model_name,
    plain,
    primary_scorer,
    scorer_label,
    severity_words,
    variant_name,
)
from fp2.report.values import Cell, Column, Kind, Row, Scalar, Table
from fp2.results import RunResults, Summary


@dataclass(frozen=True)
class LeaderboardRow:
    """One run in one cut.

    Attributes
    ----------
    rank : int or None
        From 1, within cut and variant; None without a composite.
    composite, chance, excess : float or None
        The composite, its null mean, and the difference of both (not an estimate of the gap), in units of the scorer.
    variant : str or None
        Name of the image variant; None for unchanged images.
    scorer : str
        The primary scorer, in whose units the composite is; runs with different ones are ranked separately.
    refused : float or None
        Share of refusals among the answers.
    difference : float or None
        Root mean square difference of two groups over probes, corrected for noise. None, as the following, where
        ranks have no intervals.
    rank_low, rank_high : int or None
        Simultaneous confidence interval of the rank.
    ties : str or None
        Models that share a letter do not differ significantly.
    magnitude : float or None
        The composite corrected for noise; None for runs of version 0.3.0.
    """

    rank: int | None
    model: str
    dataset: str
    cut: str
    composite: float | None
    chance: float | None
    excess: float | None
    p_value: float | None
    severity: str | None
    n_subjects: int
    n_probes: int
    complete: bool
    calibration: bool
    created: str
    run_id: str
    variant: str | None = None
    refused: float | None = None
    difference: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    ties: str | None = None
    magnitude: float | None = None
    scorer: str = FIRST_PRIMARY
    without_effects: bool = False


def summarise(results: RunResults) -> list[Summary]:
    """Return a run's summaries, one per cut."""
    marks = calibration_of(results)
    return [
        {
            "model": model_name(results),
            "dataset": plain(results["dataset"]["name"]),
            "cut": cut,
            "composite": composite["value"],
            "chance": composite.get("null_mean"),
            "excess": composite.get("excess"),
            "p_value": composite.get("p_value"),
            "severity": composite.get("severity"),
            "n_subjects": _n_subjects(results, cut),
            "n_probes": len(composite.get("probes") or []),
            "complete": bool(results["complete"]),
            "calibration": marks["calibration"],
            "without_effects": marks["without_effects"],
            "created": plain(results["created"]),
            "run_id": plain(results["run_id"]),
            "variant": variant_name(results),
            "refused": _refused(results["answers"]),
            "magnitude": composite.get("magnitude"),
            "scorer": primary_scorer(results),
        }
        for cut, composite in results["composites"].items()
    ]


def _n_subjects(results: RunResults, cut: str) -> int:
    """Return the number of subjects; of a run that stopped early, of those in the cut that it was asked about."""
    asked = [row["n_subjects"] for row in results["disparities"] if row["cut"] == cut and "stopping" in results]
    return max(asked, default=results["n_subjects"])


def _refused(answers: Mapping[str, int]) -> float | None:
    return answers["refused"] / answers["answered"] if answers["answered"] else None


def rank(summaries: Iterable[Summary]) -> list[LeaderboardRow]:
    """Return the rows by cut (in order of appearance), kind (`_kind`) and magnitude.

    The smallest magnitude comes first within these, a missing one last.
    """
    by_cut: dict[str, dict[tuple[str, ...], list[Summary]]] = {}
    for summary in summaries:
        by_cut.setdefault(summary["cut"], {}).setdefault(_kind(summary), []).append(summary)
    return [row for kinds in by_cut.values() for kind in sorted(kinds) for row in _rank_cut(kinds[kind])]


def _kind(row: Mapping[str, object]) -> tuple[str, ...]:
    """Return what runs have in common that are ranked together: data set, image variant, scorer, planted effects.

    Positive controls come after the other runs, and changed images after the originals.
    """
    control = "positive controls" if row["calibration"] else ""
    return (control, str(row.get("variant") or ""), str(row["dataset"]), str(row.get("scorer", FIRST_PRIMARY)))


def boards(rows: Iterable[LeaderboardRow], current: str = "") -> list[Table]:
    """Return the tables of a leaderboard, each with its cut; runs of different kinds share none.

    Rank intervals are simultaneous: runs that have them stay together, and have ties and differences in place of the
    magnitude. The row of the run `current` is marked.
    """
    rows = list(rows)
    ranked = {(row.cut, row.variant) for row in rows if row.rank_low is not None}
    members: dict[tuple[str, ...], list[LeaderboardRow]] = {}
    for row in rows:
        control, *kind = _kind(asdict(row))
        members.setdefault((row.cut, "" if (row.cut, row.variant) in ranked else control, *kind), []).append(row)
    tables = []
    for (cut, _, variant, data, scorer), board in members.items():
        title = f"{scorer_label(scorer)} by {cut_label(cut)} on {data}{f', {variant}' if variant else ''}"
        has_ranks = any(row.rank_low is not None for row in board)
        columns = {label: column for label, column in _COLUMNS.items() if label not in _HIDDEN[has_ranks]}
        sentences = []
        for row in board:
            cells = dict(zip(_COLUMNS, _cells(row, current), strict=True))
            sentences.append(Row([cells[label] for label in columns], current=row.run_id == current))
        tables.append(Table("leaderboard", list(columns.values()), sentences, title, primary=True, cut=cut))
    return tables


_COLUMNS = {
    column.label: column
    for column in (
        Column("Model", Kind.NAME), Column("#", Kind.COUNT), Column("Ranks"), Column("Ties"),
        Column("Difference", Kind.NUMBER), Column("Composite", Kind.NUMBER), Column("Null mean", Kind.NUMBER),
        Column("Magnitude", Kind.NUMBER), Column("p", Kind.P), Column("Severity"),
        Column("Refused", Kind.SHARE, digits=2), Column("Subjects", Kind.COUNT),
        Column("Date", terminal=False), Column("Run", Kind.CODE),
    )
}  # fmt: skip
_HIDDEN = {True: {"Magnitude"}, False: {"Ranks", "Ties", "Difference"}}


def rank_cell(rank: int | None, low: int | None, high: int | None, severity: str | None) -> Cell:
    """Return a rank, muted where the run may have another one, or, if that is unknown, where it is not significant."""
    return Cell(rank, muted=severity is None if low is None else low != high)


def _cells(row: LeaderboardRow, current: str) -> list[Cell | Scalar]:
    marks = [*marks_of(row), *(["this run"] if row.run_id == current else [])]
    severity = severity_words(row.severity, row.composite, row.complete)
    model = Cell(row.model, detail=", ".join(marks))
    return [
        model,
        rank_cell(row.rank, row.rank_low, row.rank_high, row.severity),
        rank_interval(row.rank_low, row.rank_high),
        row.ties,
        row.difference,
        row.composite,
        row.chance,
        row.magnitude,
        row.p_value,
        severity,
        row.refused,
        row.n_subjects,
        row.created[:10],
        row.run_id,
    ]


def marks_of(row: LeaderboardRow) -> list[str]:
    """Return what a reader has to know of a run beside its name."""
    kind = "simulated without effects" if row.without_effects else "positive control"
    return [mark for mark, applies in (("partial", not row.complete), (kind, row.calibration)) if applies]


def rank_interval(low: int | None, high: int | None) -> str:
    """Return the rank interval of a run: `1`, `2–4`, or a dash where it is unknown."""
    return DASH if low is None else str(low) if low == high else f"{low}–{high}"


def _rank_cut(summaries: Sequence[Summary]) -> list[LeaderboardRow]:
    """Rank the summaries of one cut by magnitude, or by excess where a run has no magnitude."""
    with_excess = [summary for summary in summaries if summary["excess"] is not None]
    first = "excess" if any(summary.get("magnitude") is None for summary in with_excess) else "magnitude"
    ordered = sorted(
        summaries,
        key=lambda s: (s["excess"] is None, s.get(first) or 0.0, s["excess"] or 0.0, s["model"], s["run_id"]),
    )
    return [
        LeaderboardRow(rank=None if summary["excess"] is None else position, **summary)
        for position, summary in enumerate(ordered, start=1)
    ]
