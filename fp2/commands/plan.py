"""`fp2 plan`: what a run or a sweep would ask, without loading a model, and even without the data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fp2.commands import plan_blocks
from fp2.compose import compose_config, jobs_of
from fp2.errors import Fp2Error
from fp2.jobs import job_of

if TYPE_CHECKING:
    from fp2.config import Config

_NOT_GIVEN = "not-given"
WORDS = "The words are with the data: those that ship are counted here, and the config hash will be another"


def plan_run(overrides: Sequence[str]) -> None:
    """Print the size of each run that `overrides` stand for: answers, what the store has, batches, disk.

    Where the user's data are not there, the sizes follow from `data.limit`, and a line says so.

    Raises
    ------
    Fp2Error
        For every mistake that `fp2 run` would refuse, except that data are missing.
    """
    console = Console()
    jobs = jobs_of(overrides)
    configs, lacking = zip(*(_config(job) for job in jobs), strict=True)
    in_blocks = job_of(configs[0]) == "blocks"
    if missing := _missing(configs[0]):
        (plan_blocks.print_sizes if in_blocks else _print_size)(configs, missing, console)
        if lacking[0]:
            console.print(WORDS, soft_wrap=True)
        return
    for config in configs:
        try:
            (plan_blocks.print_plan if in_blocks else _print_plan)(config, console)
        except Fp2Error as error:
            if len(configs) == 1:
                raise
            console.print(f"{config.model.name}: {error}", soft_wrap=True, markup=False)


def _config(job: Sequence[str]) -> tuple[Config, bool]:
    """Return one run's config, a folder of data that is not named left open, and whether its words are there too."""
    from omegaconf import OmegaConf

    from fp2.config import ROOTED, validate

    composed = compose_config(job)
    if composed.data.kind in ROOTED and not composed.data.root:
        OmegaConf.update(composed, "data.root", _NOT_GIVEN)
    lacks_words = _lacks_words(composed)
    if lacks_words:
        OmegaConf.update(composed, "probe.traits_file", None)
    return validate(composed), lacks_words


def _lacks_words(composed: Any) -> bool:
    """Whether the trait words are with the data (`experiment=gras_paper`), and the data are not there."""
    root = composed.data.root
    return bool(root) and composed.probe.traits_file == root and not Path(str(root)).expanduser().is_dir()


def _missing(config: Config) -> str | None:
    """Return what is missing of the user's data, or None."""
    from fp2.config import ROOTED

    root = config.data.root
    if config.data.kind not in ROOTED or (root != _NOT_GIVEN and Path(str(root)).expanduser().is_dir()):
        return None
    told = "is not given" if root == _NOT_GIVEN else "does not exist on this machine"
    return f"data.root ({ROOTED[config.data.kind]}) {told}"


def _print_size(configs: Sequence[Config], missing: str, console: Console) -> None:
    """Print what can be said without the data."""
    from dataclasses import asdict

    from fp2.config import config_hash
    from fp2.cuts import resolve_cuts
    from fp2.probes.battery import load_battery
    from fp2.respond import BYTES_PER_ANSWER

    first = configs[0]
    limit, known = first.data.limit, first.data.limit is not None
    battery = load_battery(asdict(first.probe))
    copies = battery.people  # two people are asked about twice, once mirrored
    per_run = (limit or 0) * copies * len(battery.questions)
    by = f", in equal shares of {' x '.join(first.data.stratify)}" if first.data.stratify else ""
    rows = {
        "pictures": f"{limit:,}{by}" if known else "all of the data set",
        "questions a picture": f"{len(battery.questions) * copies}",
        "runs": f"{len(configs)}: {', '.join(config.model.name for config in configs)}",
        "answers a run": f"{per_run:,}" if known else "unknown without the data",
        "answers in all": f"{per_run * len(configs):,}" if known else "unknown without the data",
        "store grows by": f"about {per_run * len(configs) * BYTES_PER_ANSWER / 1e6:.1f} MB" if known else "unknown",
        "cuts": ", ".join(cut.name for cut in resolve_cuts(asdict(first.cut))),
        "config hash": ", ".join(config_hash(config)[:16] for config in configs),
    }
    print_rows(f"{first.experiment or first.probe.name} on {first.data.name}", rows, console)
    console.print(f"{missing}: these are the sizes that the config asks for", soft_wrap=True)


def print_rows(title: str, rows: dict[str, str], console: Console) -> None:
    """Print names and values as a table of two columns."""
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _print_plan(config: Config, console: Console) -> None:
    from fp2.config import config_hash
    from fp2.cuts import of_sets
    from fp2.prepare import comparison_of, prepare
    from fp2.progress import Progress
    from fp2.respond import BYTES_PER_ANSWER
    from fp2.store.rows import ResponseStore, count_stored

    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare(config, store, Progress())
        stored = count_stored(store.path, {item.response_key for item in prepared.plan.planned})
    keys = {item.response_key for item in prepared.plan.planned}
    unreadable = sum(item.error is not None for item in prepared.plan.planned)
    left = len(keys) - stored.answered
    copies = prepared.battery.people  # two people are asked about twice, once mirrored
    settings = comparison_of(config, len(prepared.battery.probes), len(prepared.cuts), of_sets(prepared.people))
    rows = {
        "pictures": f"{prepared.people['image_id'].nunique()} of {prepared.people['subject_id'].nunique()} people",
        "shown": f"{config.variant.name}{' and mirrored' if copies == 2 else ''}",
        "questions a picture": str(len(prepared.battery.questions) * copies),
        "answers planned": str(len(prepared.plan.planned)),
        "in the store": str(stored.answered),
        "failed before": str(stored.failed),
        "cannot be shown": str(unreadable // max(1, len(prepared.battery.questions) * copies)),
        "answers to ask": str(left),
        "batch size": str(config.engine.batch_size or "by the model's size"),
        "store grows by": f"about {left * BYTES_PER_ANSWER / 1e6:.1f} MB",
        "cuts": ", ".join(cut.name for cut in prepared.cuts),
        "permutations": f"{settings.n_permutations} and {settings.n_bootstrap} resamples a cut",
        "config hash": config_hash(config)[:16],
        "response set": prepared.plan.response_set[:16],
    }
    print_rows(f"{config.model.name} on {config.data.name}", rows, console)
