"""`fp2 leaderboard`: the finished runs of a sweep, or of the whole store, ranked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from fp2.compose import load_config
from fp2.errors import Fp2Error

WIDTH = 150  # numbers and ids are never cut; a narrow terminal wraps the line
COLUMNS = ("rank", "model", "dataset", "cut", "composite", "chance", "excess", "p_value", "severity", "run_id")


def show(sweep_id: str | None, overrides: Sequence[str]) -> None:
    """Print one line per finished run and cut, ordered by the composite's excess over chance.

    Raises
    ------
    Fp2Error
        If there is no store, or no finished run in it (of that sweep).
    """
    from fp2.report.leaderboard import rank
    from fp2.tracking import summaries

    runs = summaries(load_config(overrides), sweep_id)
    if not runs:
        raise Fp2Error("no finished run", where=f"sweep {sweep_id}" if sweep_id else "the MLflow store")
    table = Table(title=f"sweep {sweep_id}" if sweep_id else "all finished runs")
    for name in COLUMNS:
        table.add_column(name)
    for row in rank(runs):
        values = [getattr(row, name) for name in COLUMNS]
        table.add_row(*("–" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in values))
    console = Console()
    Console(width=max(console.width, WIDTH)).print(table)
