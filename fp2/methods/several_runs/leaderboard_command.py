"""`fp2 leaderboard`: the finished runs of a sweep, or of the whole store, ranked."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import Config, Fp2Error, Terminal, artifacts, load_config, write_text

if TYPE_CHECKING:
    from fp2.extension import Block, LeaderboardRow
    from fp2.methods.several_runs.ranked import Ranking

NARROW = ("Composite", "Null mean", "Refused")
"""Columns that a terminal below `WIDE` columns leaves out; CSV, Markdown and JSON have all."""
WIDE = 120
MOST_RUNS = 40
NAME_A_SWEEP = "no rank intervals: name a sweep (fp2 leaderboard SWEEP_ID) whose runs have the same subjects"
LEGEND = (
    "Tables with ranks: ordered by difference (root mean square difference of two groups over probes, corrected for "
    "noise), smallest first. Ranks: simultaneous confidence intervals at {level}; models that share a letter cannot be "
    "distinguished."
)
PLAIN_LEGEND = (
    "Tables without ranks: ordered by magnitude, the composite corrected for noise (by composite minus null mean where "
    "a run has none); neighbours may not differ significantly."
)


@dataclass(frozen=True)
class Outputs:
    """Files that the leaderboard is also written to; `json`: it is printed as JSON in place of a table."""

    csv: Path | None = None
    markdown: Path | None = None
    figure: Path | None = None
    json: bool = False


def show(sweep_id: str | None, overrides: Sequence[str], outputs: Outputs | None = None) -> None:
    """Print one row per finished run and cut; for a sweep with rank intervals and ties where its runs allow them."""
    from fp2.extension import rank, recording, summaries
    from fp2.methods.several_runs.across import across_table
    from fp2.methods.several_runs.ranked import to_csv, to_markdown, with_places

    config = load_config(overrides)
    outputs = outputs or Outputs()
    logged_summaries = summaries(config, sweep_id)
    run_ids = list(dict.fromkeys(str(row["run_id"]) for row in logged_summaries)) or _finished(config, sweep_id)
    if not run_ids:
        raise _nothing_to_rank(config, sweep_id)
    ranked, across, notes = _rankings(run_ids, config) if sweep_id is not None else ([], [], [NAME_A_SWEEP])
    if not logged_summaries and not across:
        raise _nothing_to_rank(config, sweep_id)
    rows = with_places(rank(logged_summaries), ranked)
    if outputs.json:
        content = {"rows": [asdict(row) for row in rows], "notes": list(notes), "across": across}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print(rows, ranked, across, notes)
    with recording(Path(config.paths.state), run_ids, (outputs.csv, outputs.markdown, outputs.figure)):
        if outputs.csv is not None:
            write_text(outputs.csv, to_csv(rows))
            print(f"{'csv':<12} {outputs.csv}")
        if outputs.markdown is not None:
            write_text(outputs.markdown, to_markdown(rows, notes, list(map(across_table, across))))
            print(f"{'markdown':<12} {outputs.markdown}")
        if outputs.figure is not None:
            if not any(ranking.places for ranking in ranked):
                raise Fp2Error("no rank intervals to draw", where=str(outputs.figure))
            from fp2.methods.several_runs.charts import rank_figure

            with artifacts.as_user_error(outputs.figure.parent):
                rank_figure(rows, outputs.figure)
            print(f"{'figure':<12} {outputs.figure}")


def _print(
    rows: Sequence[LeaderboardRow], ranked: Sequence[Ranking], across: Sequence[Block], notes: Sequence[str]
) -> None:
    from fp2.extension import boards, terminal
    from fp2.methods.several_runs.across import across_table

    console = Terminal()
    left_out = NARROW if console.width < WIDE else ()
    for board in boards([replace(row, run_id=row.run_id[:8]) for row in rows]):
        columns = [
            replace(column, terminal=column.terminal and column.label not in left_out) for column in board.columns
        ]
        for table in terminal([replace(board, cut="", columns=columns)], 0):
            console.print(table)
    if rows:
        console.print(_legend(rows, ranked), style="dim", highlight=False)
    for table in terminal([replace(across_table(column), primary=True, cut="") for column in across], 0):
        console.print(table)
    for note in notes:
        console.print(note, style="yellow", highlight=False)


def _finished(config: Config, sweep_id: str | None) -> list[str]:
    """Return the finished runs of a sweep, with a composite or without."""
    from fp2.extension import runs_of_sweep

    runs = {} if sweep_id is None else runs_of_sweep(config, sweep_id)
    return [run for run, status in runs.items() if status == "FINISHED"]


def _nothing_to_rank(config: Config, sweep_id: str | None) -> Fp2Error:
    """Return the error where no finished run has a composite, as those of yes/no batteries and tasks."""
    if sweep_id is None:
        return Fp2Error("no finished run with a composite", where="the MLflow store")
    if _finished(config, sweep_id):
        problem = "no run has a composite, by which runs are ranked"
        return Fp2Error(problem, where=f"sweep {sweep_id}", fix=f"Its runs side by side: fp2 report {sweep_id}")
    return Fp2Error("no finished run", where=f"sweep {sweep_id}")


def _rankings(run_ids: Sequence[str], config: Config) -> tuple[list[Ranking], Sequence[Block], list[str]]:
    """Read the runs' tables and rank them.

    Return also the tables of their sections over the runs, and notes, such as why runs have no rank interval.
    """
    from fp2.extension import Progress
    from fp2.methods.several_runs.across import across_runs
    from fp2.methods.several_runs.panels import run_labels
    from fp2.methods.several_runs.ranking import n_rankings, rankings
    from fp2.methods.several_runs.sweep import SweepRun
    from fp2.methods.several_runs.sweep_report import read_runs

    if len(run_ids) > MOST_RUNS:
        return [], [], [f"no rank intervals: {len(run_ids)} runs, and at most {MOST_RUNS} can be ranked together"]
    runs: list[SweepRun] = []
    notes: list[str] = []
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="fp2-ranks-") as scratch:
        with progress.steps("Reading the runs' scores", len(run_ids)) as step:
            for run_id in run_ids:
                try:
                    runs += read_runs([run_id], config, Path(scratch), step)[0]
                except Fp2Error as error:
                    notes.append(f"no rank for {run_id}: {error.what}")
        notes += [f"no rank for {run.results['run_id']}: {run.reason}" for run in runs if run.reason is not None]
        tables = [run.tables for run in runs if run.tables is not None]
        with progress.steps("Ranking", n_rankings(tables)) as step:
            ranked = rankings(tables, step)
        results = [run.results for run in runs]
        sections = [section for run in runs for section in run.sections]
        labels = run_labels(results, [run.settings for run in runs])
        across = across_runs(results, labels, sections, config.report.suppress_below)
    for ranking in ranked:
        where = f"by {ranking.cut}" + (f" ({ranking.variant})" if ranking.variant else "")
        notes += [f"{where}: no rank intervals, {ranking.reason}"] if ranking.reason else ranking.notes
    return ranked, across, list(dict.fromkeys(notes))


def _legend(rows: Sequence[LeaderboardRow], ranked: Sequence[Ranking]) -> str:
    from fp2.extension import calibration_words

    boards = {(row.cut, row.variant) for row in rows if row.rank_low is not None}
    alphas = {r.alpha for r in ranked if (r.cut, r.variant) in boards and r.alpha is not None}
    levels = " or ".join(f"{100 * (1 - alpha):g} %" for alpha in sorted(alphas))
    legend = [LEGEND.format(level=levels)] if boards else []
    plain = [row for row in rows if (row.cut, row.variant) not in boards]
    legend += [PLAIN_LEGEND] if plain else []
    if any(len({row.n_subjects for row in plain if row.cut == cut}) > 1 for cut in {row.cut for row in plain}):
        legend.append("Magnitudes of different numbers of subjects cannot be compared.")
    calibration = calibration_words(map(asdict, rows))
    return "\n".join([*legend, *([calibration] if calibration else [])])
