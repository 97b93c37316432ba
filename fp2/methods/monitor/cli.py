"""`fp2 monitor`: its arguments."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from fp2.extension import READ_AND_COMPARE, CommandEntry, Fp2Error, Json, RunWord

CHANGED = 1


def monitor(
    ctx: typer.Context,
    run: RunWord,
    answers: Annotated[int, typer.Option(min=1, help="Answers that are asked for at this look.")] = 60,
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Bound on false alarms over all looks.")] = 0.05,
    json: Json = False,
) -> None:
    """Ask a part of a run's questions again, and say whether its model has changed since; status 1 if it has."""
    from fp2.extension import Output, Progress, finish_purges, start_run
    from fp2.methods.monitor.looks import FOLDER, look, only_look, read_monitor
    from fp2.methods.monitor.page import summary, write
    from fp2.methods.reruns.again import OPTIONAL, run_again

    progress = Progress(quiet=json)
    with Output(json) as out, tempfile.TemporaryDirectory(prefix="fp2-monitor-") as scratch:
        _, results, config = run_again(run, ctx.args, Path(scratch), OPTIONAL)
        finish_purges(config, progress)
        folder = Path(config.paths.outputs) / FOLDER / results["run_id"]
        with only_look(folder):
            kept = read_monitor(folder, results["run_id"], alpha)
            done = look(kept, folder, config, results, answers, progress)
            kept.write(folder)
            page = write(kept, f"{results['model']['name']}, {results['run_id'][:8]}", folder)
        if config.tracking.enabled:
            try:
                tags = {"monitors": results["run_id"], "changed": kept.changed}
                tracker = start_run(config, tags, f"look {len(kept.looks)} at {results['run_id'][:8]}")
                metrics = {"log10_e": done.log10_e, "answers": done.answers, "equal": done.equal}
                tracker.stream({f"monitor/{name}": value for name, value in metrics.items()}, len(kept.looks))
                tracker.finish("FINISHED")
            except Fp2Error as error:
                progress.note(f"not logged: {error}")
        for sentence in summary(kept):
            out.say("".join(sentence.parts))
        facts: dict[str, Any] = {
            "answers": done.answers,
            "equal": done.equal,
            "failed": done.failed,
            "log10_e": done.log10_e,
        }
        rows = [row._asdict() for row in kept.changed_rows()]
        out.say(changed=kept.changed, look=len(kept.looks), rows=rows, **facts)
        out.path("page", page)
    if kept.changed:
        raise typer.Exit(CHANGED)


MONITOR = CommandEntry(
    monitor, READ_AND_COMPARE, ("fp2 monitor RUN", "fp2 monitor RUN --answers 120 answers.max_cost=1")
)
