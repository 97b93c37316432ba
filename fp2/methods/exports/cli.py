"""`fp2 export`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import PUBLISH, CommandEntry, Json, RunWord


def export(
    ctx: typer.Context,
    run: RunWord,
    csv: Annotated[Path | None, typer.Option(help="Write all results as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write all results as Parquet.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write LaTeX tables: disparities, other results.")] = None,
    model_card: Annotated[
        Path | None, typer.Option(help="Write composites and headline numbers as front matter of a model card.")
    ] = None,
    ml_bom: Annotated[
        Path | None, typer.Option(help="Write disparities, group means and headline numbers as a CycloneDX ML-BOM.")
    ] = None,
    every_eval_ever: Annotated[
        Path | None, typer.Option(help="Write disparities as a record of Every Eval Ever (.json).")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Write the answers: .csv, .tsv, .parquet, .jsonl, .eval or .json.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="Form of the answers, where .jsonl does not say: lmms_eval, openai_batch, every_eval_ever."),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Answers with salted keys in place of ids.")] = False,
    json: Json = False,
) -> None:
    """Write the results of a run in other formats, or its answers."""
    from fp2.methods.exports.command import Exports
    from fp2.methods.exports.command import export as write

    write(
        run,
        Exports(csv, parquet, latex, model_card, ml_bom, every_eval_ever, answers),
        ctx.args,
        form=format,
        keys=keys,
        as_json=json,
    )


EXPORT = CommandEntry(
    export,
    PUBLISH,
    ("fp2 export RUN --csv disparities.csv", "fp2 export RUN --answers answers.jsonl --keys"),
)
