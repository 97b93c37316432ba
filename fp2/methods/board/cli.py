"""`fp2 board`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import READ_AND_COMPARE, CommandEntry, Json, Output, Progress, plural

SEED = 20260101


def board(
    folder: Annotated[Path, typer.Argument(help="Passports in folders, and the parties' public keys in keys/.")],
    key: Annotated[list[Path] | None, typer.Option(help="A further public key that is trusted.")] = None,
    to: Annotated[Path, typer.Option(help="The folder of the site.")] = Path("board"),
    resamples: Annotated[int, typer.Option(min=200, help="Resamples for ranks.")] = 2000,
    alpha: Annotated[float, typer.Option(min=0.001, max=0.5, help="Error of rank sets and intervals.")] = 0.05,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if a passport is refused.")] = False,
    json: Json = False,
) -> None:
    """Verify the passports of a folder, rank their models, and write a static site."""
    from fp2.methods.board.pages import standings, write_site
    from fp2.methods.board.submissions import passports_below, read_board

    progress = Progress()
    paths = passports_below(folder)
    with progress.steps("Verifying", len(paths)) as step:
        read = read_board(folder, key or [], step)
    with progress.steps("Ranking", len(read.questions)) as step:
        ranked = []
        for standing in standings(read, n_resamples=resamples, seed=SEED, alpha=alpha):
            ranked.append(standing)
            step()
    pages = write_site(read, ranked, to)
    with Output(json) as out:
        out.say(f"{plural(len(read.submissions), 'passport')} in {plural(len(read.questions), 'comparison')}")
        for path, reason in read.refused:
            out.say(f"refused: {path}: {reason}")
        out.say(refused=[each._asdict() for each in read.refused])
        out.say(
            comparisons=[
                {
                    "cut": each.question.cut,
                    "release": each.question.release,
                    "scorer": each.question.scorer,
                    "groups": list(each.question.groups),
                    "models": [
                        {
                            "model": each.names[row.name],
                            "difference": row.difference,
                            "interval": list(each.pooled[row.name].interval(alpha)),
                            "rank": [row.rank_low, row.rank_high],
                            "letters": row.letters,
                            "sites": each.pooled[row.name].n_sites,
                        }
                        for row in each.ranks.rows
                    ],
                }
                for each in ranked
                if each.ranks is not None
            ]
        )
        out.path("site", pages[0])
    if strict and read.refused:
        raise typer.Exit(1)


BOARD = CommandEntry(board, READ_AND_COMPARE, ("fp2 board submissions --to site", "fp2 board submissions --strict"))
