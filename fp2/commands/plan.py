"""`fp2 plan`: what a run would ask, without loading a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fp2.compose import load_config


def plan_run(overrides: Sequence[str]) -> None:
    """Print the size of the run that `overrides` describe: answers, what the store has, batches, disk."""
    from fp2.config import config_hash
    from fp2.prepare import comparison_of, prepare
    from fp2.progress import Progress
    from fp2.respond import BYTES_PER_ANSWER
    from fp2.store.responses import ResponseStore, count_stored

    config = load_config(overrides)
    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare(config, store, Progress())
        stored = count_stored(store.path, {item.response_key for item in prepared.plan.planned})
    keys = {item.response_key for item in prepared.plan.planned}
    unreadable = sum(item.error is not None for item in prepared.plan.planned)
    left = len(keys) - stored.answered
    settings = comparison_of(config, len(prepared.battery.probes), len(prepared.cuts))
    table = Table(title=f"{config.model.name} on {config.data.name}", show_header=False)
    rows = {
        "pictures": f"{prepared.people['image_id'].nunique()} of {prepared.people['subject_id'].nunique()} people",
        "shown": config.variant.name,
        "questions a picture": str(len(prepared.battery.questions)),
        "answers planned": str(len(prepared.plan.planned)),
        "in the store": str(stored.answered),
        "failed before": str(stored.failed),
        "cannot be shown": str(unreadable // max(1, len(prepared.battery.questions))),
        "answers to ask": str(left),
        "batch size": str(config.engine.batch_size or "by the model's size"),
        "store grows by": f"about {left * BYTES_PER_ANSWER / 1e6:.1f} MB",
        "cuts": ", ".join(cut.name for cut in prepared.cuts),
        "permutations": f"{settings.n_permutations} and {settings.n_bootstrap} resamples a cut",
        "config hash": config_hash(config)[:16],
        "response set": prepared.plan.response_set[:16],
    }
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
