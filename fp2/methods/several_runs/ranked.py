"""The leaderboard of runs whose ranks have confidence intervals, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from fp2.extension import LeaderboardRow, Name, Sentence, Table, Value, boards, csv_text, markdown

if TYPE_CHECKING:
    from fp2.methods.several_runs.profiles import Ranked


@dataclass(frozen=True)
class Ranking:
    """The ranks of the runs (named by their ids) of one cut and image variant, best first; none for a `reason`.

    `notes` are for the reader, such as runs that were excluded. The intervals have level 1 - `alpha`, that of the first
    run; None without ranks.
    """

    cut: str
    variant: str | None
    places: tuple[Ranked, ...]
    reason: str | None
    notes: tuple[str, ...]
    alpha: float | None = None


def with_places(rows: Sequence[LeaderboardRow], rankings: Iterable[Ranking]) -> list[LeaderboardRow]:
    """Return the rows of every ranked cut by difference, with rank intervals and tie letters.

    A run without a place in the ranking comes last in its cut and has no rank; cuts without a ranking are unchanged.
    """
    positions_of = {
        (r.cut, r.variant): {entry.name: (x, entry) for x, entry in enumerate(r.places, 1)} for r in rankings
    }
    boards: dict[tuple[str, str | None], list[LeaderboardRow]] = {}
    for row in rows:
        boards.setdefault((row.cut, row.variant), []).append(row)
    out: list[LeaderboardRow] = []
    for board, members in boards.items():
        positions = positions_of.get(board)
        if not positions:
            out += members
            continue
        known = [row for row in members if row.run_id in positions]
        for row in sorted(known, key=lambda row: positions[row.run_id][0]):
            rank, place = positions[row.run_id]
            low, high, ties = place.rank_low, place.rank_high, place.letters
            out.append(replace(row, rank=rank, rank_low=low, rank_high=high, difference=place.difference, ties=ties))
        out += [replace(row, rank=None) for row in members if row.run_id not in positions]
    return out


def to_csv(rows: Sequence[LeaderboardRow]) -> str:
    """Return the rows as CSV with a header; text that a spreadsheet would read as a formula is quoted with '."""
    return csv_text([field.name for field in fields(LeaderboardRow)], map(asdict, rows))


def to_markdown(rows: Sequence[LeaderboardRow], notes: Sequence[str] = (), more: Sequence[Table] = ()) -> str:
    """Return the tables, `more` after those of the leaderboard, and the notes as Markdown."""
    values: list[Value] = [*boards(rows), *more, *(Sentence([Name(note)]) for note in notes)]
    return "\n".join(markdown(values, 0))
