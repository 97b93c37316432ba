"""`fp2 plan`: what a run or a sweep would ask, without loading a model, and even without the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fp2.ask.forecast import BASIS, QuestionTexts, computed_time, duration, saved_words, sharing_of, sizes
from fp2.compose import build_protocol, compose_config, jobs_of
from fp2.errors import Fp2Error
from fp2.runs.inputs import load_inputs, plan_answers

if TYPE_CHECKING:
    from fp2.ask.loop import Forecast
    from fp2.ask.plan import Plan
    from fp2.config import Config
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.protocols.base import EvaluationProtocol, Inputs

_NOT_GIVEN = "not-given"
_TRIAL_BYTES = 300e6
"""Models with smaller weights are loaded to time one image."""
TRAITS_MISSING = "The trait words are with the data: those that ship are counted here, and the config hash will differ"
UNKNOWN = "unknown without the data"


def plan_run(overrides: Sequence[str]) -> None:
    """Print the size of each run that `overrides` describe: answers, how many are stored, time, disk.

    Where the user's data are missing, the sizes follow from `data.limit`, and a line says so.

    Raises
    ------
    Fp2Error
        For every mistake that `fp2 run` would refuse, except that data are missing.
    """
    console = Console()
    jobs = jobs_of(overrides)
    configs, lacking = zip(*(config_of(job) for job in jobs), strict=True)
    if missing := _missing(configs[0]):
        _print_sizes(configs, missing, console)
        if lacking[0]:
            console.print(TRAITS_MISSING, soft_wrap=True)
        return
    for config in configs:
        try:
            _print_plan(config, console)
        except Fp2Error as error:
            if len(configs) == 1:
                raise
            console.print(f"{config.model.name}: {error}", soft_wrap=True, markup=False)


def config_of(job: Sequence[str]) -> tuple[Config, bool]:
    """Return one run's config, its data folder left open if not given; and whether its traits are with missing data."""
    from omegaconf import OmegaConf

    from fp2.compose import validate
    from fp2.data.base import required

    composed = compose_config(job)
    for name, marker in required(composed.data).items():
        if composed.data.get(name) is None and marker.is_folder:
            OmegaConf.update(composed, f"data.{name}", _NOT_GIVEN, force_add=True)
    lacks_traits = _lacks_traits(composed)
    if lacks_traits:
        OmegaConf.update(composed, "probe.traits_file", None)
    return validate(composed), lacks_traits


def _lacks_traits(composed: Any) -> bool:
    """Whether the trait words are with the data (`experiment=gras_paper`), and the data are missing."""
    root = composed.data.get("root")
    return bool(root) and composed.probe.traits_file == root and not Path(str(root)).expanduser().is_dir()


def _missing(config: Config) -> str | None:
    """Return which data of the user are missing, or None."""
    from fp2.data.base import required

    for name, marker in required(asdict(config.data)).items():
        value = getattr(config.data, name)
        if str(value) == _NOT_GIVEN:
            return f"data.{name} ({marker.what}) is not given"
        if isinstance(value, Path) and not value.expanduser().exists():
            return f"data.{name} ({marker.what}) does not exist on this machine"
    return None


def _print_sizes(configs: Sequence[Config], missing: str, console: Console) -> None:
    """Print what is known without the data."""
    from fp2.compose import config_hash
    from fp2.cuts import resolve_cuts
    from fp2.probes.battery import load_battery

    first = configs[0]
    protocols = [build_protocol(config) for config in configs]
    if not protocols[0].asks:
        raise Fp2Error(f"{missing}, and task={first.task.name} asks no model", where="fp2 plan")
    battery = load_battery(asdict(first.probe))
    protocol = protocols[0].for_battery(battery)
    images, per_image = first.data.limit, len(battery.questions) * protocol.n_variants(battery)
    answers = None if images is None else images * per_image
    by = f", in equal shares of {' x '.join(first.data.stratify)}" if first.data.stratify else ""
    rows = {
        "images": "all of the data set" if images is None else f"{images:,}{by}",
        "questions per image": f"{per_image:,}",
        "runs": f"{len(configs)}: {', '.join(config.model.name for config in configs)}",
        "answers per run": UNKNOWN if answers is None else f"{answers:,}",
        "answers in total": UNKNOWN if answers is None else f"{answers * len(configs):,}",
        "disk": UNKNOWN if answers is None else protocol.disk(answers * len(configs), answers * len(configs)),
        "cuts": ", ".join(cut.name for cut in resolve_cuts(asdict(first.cut))),
        "config hash": ", ".join(config_hash(config)[:16] for config in configs),
    }
    _print_rows(f"{first.experiment or first.probe.name} on {first.data.name}", rows, console)
    if images is not None and _is_scored(battery):
        _print_computed(configs, battery, images, console)
    console.print(f"{missing}: these are the sizes that the config asks for", soft_wrap=True, highlight=False)


def _print_computed(configs: Sequence[Config], battery: Battery, images: int, console: Console) -> None:
    """Print operations and time of each model, computed from its published size."""
    known, texts = sizes(), _texts(battery)
    for config in configs:
        size = known.get(str(config.model.id))
        operations, took = computed_time(size, texts, images, config.model.name)
        saved = saved_words(images * len(texts.texts), images, sharing_of(size) if size else "auto")
        rows = {"forward passes saved": saved, "operations": operations, "estimated time": took}
        _print_rows(config.model.name, rows, console)
    for line in BASIS:
        console.print(line, soft_wrap=True, highlight=False)


def _is_scored(battery: Battery) -> bool:
    """Whether every question is answered by probabilities of Yes and No, whose cost follows from the prompt alone."""
    return all(question.kind == "yes_no" for question in battery.questions)


def _texts(battery: Battery) -> QuestionTexts:
    return QuestionTexts(tuple(question.text for question in battery.questions))


def _print_rows(title: str, rows: dict[str, str], console: Console) -> None:
    """Print names and values as a table of two columns."""
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _print_plan(config: Config, console: Console) -> None:
    """Print what one run would ask, how much of it is stored, and what the rest will take."""
    from fp2.compose import config_hash
    from fp2.progress import Progress
    from fp2.store.rows import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        protocol, inputs, pixels = load_inputs(config, store, Progress())
        people = inputs.people
        rows = {"images": f"{people['image_id'].nunique():,} of {people['subject_id'].nunique():,} people"}
        if protocol.asks:
            plan = plan_answers(protocol, inputs, pixels)
            storage = protocol.storage(plan, inputs)
            rows |= _asking_rows(protocol, inputs, plan, storage.forecast())
            rows["response set"] = storage.response_set[:16]
        else:
            rows["answers planned"] = f"none: task={config.task.name} asks no model"
    rows |= {"cuts": ", ".join(cut.name for cut in inputs.cuts), "config hash": config_hash(config)[:16]}
    name = config.model.name if protocol.asks else config.task.name
    _print_rows(f"{name} on {config.data.name}", rows, console)


def _asking_rows(protocol: EvaluationProtocol[Any], inputs: Inputs, plan: Plan, forecast: Forecast) -> dict[str, str]:
    """Return the rows of a run that asks a model."""
    from fp2.protocols.base import Job

    config, battery = inputs.config, inputs.battery
    assert battery is not None
    n_variants = protocol.n_variants(battery)
    job = Job(config, inputs.cuts, battery, inputs.scorers)
    permutations, resamples = (UNKNOWN if n is None else f"{n:,}" for n in protocol.n_resamples(job))
    rows = {
        "shown as": ", ".join(dict.fromkeys(row.variant for row in plan.rows)),
        "questions per image": f"{len(plan.questions) * n_variants:,}",
        "answers planned": f"{plan.n_planned:,}",
        "in the store": f"{forecast.stored:,}",
        "failed before": f"{forecast.failed:,}",
        "cannot be shown": f"{plan.n_not_shown // n_variants:,}",
        "answers to ask": f"{forecast.left:,}",
        "batch size": str(getattr(config.engine, "batch_size", None) or "by the model's size"),
        "disk": forecast.disk,
        "estimated time": _time(inputs, plan, forecast),
        "permutations": f"{permutations} and {resamples} resamples",
    }
    if _is_scored(battery):
        rows["forward passes saved"] = saved_words(plan.n_planned, len(plan.tasks), _sharing(inputs))
    return rows


def _sharing(inputs: Inputs) -> str:
    """Return the prefix sharing of the questions about an image, as far as known without loading the model."""
    assert inputs.engine is not None
    if (sharing := inputs.engine.profile().sharing) is not None:
        return sharing
    size = sizes().get(str(inputs.config.model.id))
    return sharing_of(size) if size else "none"


def _time(inputs: Inputs, plan: Plan, forecast: Forecast) -> str:
    """Return the time that the rest takes and its basis: stored answers, an image timed now, or computation."""
    assert inputs.engine is not None
    assert inputs.battery is not None
    if forecast.left == 0:
        return "nothing is left to ask"
    if forecast.seconds:
        took = duration(forecast.left * forecast.seconds)
        return f"{took} (from the {forecast.stored:,} answers of this model in the store)"
    if not _is_scored(inputs.battery):
        return f"unknown: run a few images of {inputs.config.model.name} first, the plan then times them"
    weights = inputs.engine.profile().weight_bytes
    if weights is not None and weights < _TRIAL_BYTES and (seconds := _timed(plan, inputs.engine)) is not None:
        left = duration(forecast.left * seconds / len(plan.questions))
        return f"{left} (one image timed now: {seconds:.2g} s)"
    size = sizes().get(str(inputs.config.model.id))
    images = max(1, round(forecast.left / len(plan.questions)))
    operations, time_needed = computed_time(size, _texts(inputs.battery), images, inputs.config.model.name)
    return time_needed if size is None else f"{time_needed}; {operations} operations"


def _timed(plan: Plan, engine: Engine) -> float | None:
    """Ask all questions about one image twice and return the seconds of the second time; nothing is stored."""
    task = replace(plan.tasks[0], questions=plan.questions)
    took = None
    for _ in range(2):
        started = time.perf_counter()
        answers = [answer for batch in engine.answer([task]) for answer in batch]
        if any(answer.error for answer in answers):
            return None
        took = time.perf_counter() - started
    return took
