"""`fp2 plan` for runs in blocks: prompts, passes saved, operations, time and what it rests on, disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.config import Config, config_hash
from fp2.errors import Fp2Error
from fp2.forecast import BASIS, Size, Wording, computed_time, disk_words, duration, saved_words, sharing_of, sizes

if TYPE_CHECKING:
    from rich.console import Console

    from fp2.block_plan import BlockPlan
    from fp2.engines.base import Engine
    from fp2.run_blocks import PreparedBlocks
    from fp2.store.responses import ResponseStore

_PROBE_BYTES = 300e6  # weights that are loaded to time one picture


def print_sizes(configs: Sequence[Config], missing: str, console: Console) -> None:
    """Print what can be said of runs without the data.

    Raises
    ------
    Fp2Error
        If the options of the analysis are wrong, or nothing says how many pictures there are.
    """
    from fp2.commands.plan import print_rows
    from fp2.cuts import resolve_cuts
    from fp2.probes.battery import load_battery
    from fp2.run_blocks import options_of

    for config in configs:
        options_of(config)
    first, known = configs[0], sizes()
    wording = Wording(tuple(question.text for question in load_battery(asdict(first.probe)).questions))
    pictures = first.data.limit
    name = f"{first.experiment or first.probe.name} on {first.data.name}"
    if pictures is None:
        raise Fp2Error(f"{missing}, and data.limit does not say how many pictures there are", where=name)
    prompts = pictures * len(wording.texts)
    disk = disk_words(prompts * len(configs), prompts * len(configs))
    cuts = ", ".join(cut.name for cut in resolve_cuts(asdict(first.cut)))
    console.print(
        f"{name}: {pictures:,} pictures x {len(wording.texts)} questions = {prompts:,} prompts a model, "
        f"{prompts * len(configs):,} in all\ncuts: {cuts}\ndisk: {disk}",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    for config in configs:
        size = known.get(str(config.model.id))
        told, took = computed_time(size, wording, pictures, config.model.name)
        rows = {
            "passes over a picture saved": saved_words(prompts, pictures, sharing_of(size) if size else "auto"),
            "operations": told,
            "estimated time": took,
            "config hash": config_hash(config)[:16],
        }
        print_rows(config.model.name, rows, console)
    for line in (*BASIS, f"{missing}: these are the sizes that the config asks for"):
        console.print(line, soft_wrap=True, highlight=False)


def print_plan(config: Config, console: Console) -> None:
    """Print what one run would ask, what the store has of it, and what the rest will take."""
    from fp2.commands.plan import print_rows
    from fp2.progress import Progress
    from fp2.run_blocks import prepare_blocks
    from fp2.store.blocks import BlockStore, answered
    from fp2.store.responses import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare_blocks(config, store, Progress())
        plan, blocks = prepared.plan, BlockStore(store.connection, store.path)
        per_context = len(plan.question_set.questions)
        stored = sum(int(answered(numbers).sum()) for _, numbers in blocks.read(plan.contexts, plan.question_set))
        failed = len(blocks.failures(plan.contexts, plan.question_set))
        asked = len(plan.contexts) * per_context
        estimate = _time(prepared, asked - stored, store)
    size = sizes().get(str(config.model.id))
    sharing = _sharing(prepared.engine, size)
    rows = {
        "pictures": f"{prepared.people['image_id'].nunique():,} of {prepared.people['subject_id'].nunique():,} people",
        "shown": config.variant.name,
        "questions a picture": f"{len(plan.questions):,}",
        "prompts": f"{plan.n_planned:,}",
        "in the store": f"{stored:,}",
        "failed before": f"{failed:,}",
        "cannot be shown": f"{len(plan.errors):,}",
        "answers to ask": f"{asked - stored:,}",
        "forward passes saved": saved_words(asked, len(plan.contexts), sharing),
        "disk": disk_words(plan.n_planned, asked - stored),
        "estimated time": estimate,
        "cuts": ", ".join(cut.name for cut in prepared.cuts),
        "permutations": f"{prepared.options.permutations:,} and {prepared.options.bootstrap:,} resamples",
        "config hash": config_hash(config)[:16],
        "response set": plan.response_set[:16],
    }
    print_rows(f"{config.model.name} on {config.data.name}", rows, console)


def _sharing(engine: Engine, size: Size | None) -> str:
    """Return what the questions about a picture will share, as far as it is known without loading the model."""
    facts = getattr(engine, "facts", None)
    if facts is not None:
        return str(facts.sharing)
    return sharing_of(size) if size else "none"


def _time(prepared: PreparedBlocks, left: int, store: ResponseStore) -> str:
    """Return how long the rest takes and what that rests on: answers in the store, a picture timed now, or sums."""
    from fp2.store.blocks import seconds_of

    plan, config = prepared.plan, prepared.config
    if left == 0:
        return "nothing is left to ask"
    seconds, count = seconds_of(store.connection, plan.contexts)
    if count and seconds:
        return f"{duration(left * seconds / count)} (from the {count:,} answers of this model in the store)"
    if _is_small(prepared.engine):
        took = _timed(plan, prepared.engine)
        if took is not None:
            per_answer = took / len(plan.question_set.questions)
            return f"{duration(left * per_answer)} (one picture timed now: {took:.2g} s)"
    wording = Wording(tuple(question.text for question in plan.asked))
    size = sizes().get(str(config.model.id))
    pictures = left / len(plan.question_set.questions)
    operations, time_told = computed_time(size, wording, max(1, round(pictures)), config.model.name)
    return time_told if size is None else f"{time_told}; {operations} operations"


def _is_small(engine: Engine) -> bool:
    """Whether the model is on this disk and quickly loaded."""
    from fp2.engines.hf.engine import HfEngine

    if not isinstance(engine, HfEngine):
        return False
    checkpoint = engine.checkpoint
    weights = [path for end in ("*.safetensors", "*.bin") for path in checkpoint.path.glob(end)]
    return checkpoint.has_weights and sum(path.stat().st_size for path in weights) < _PROBE_BYTES


def _timed(plan: BlockPlan, engine: Engine) -> float | None:
    """Ask all questions about one picture twice, and return the seconds of the second time; nothing is kept."""
    task = replace(plan.tasks[0], questions=plan.asked)
    took = None
    for _ in range(2):
        started = time.perf_counter()
        answers = [answer for batch in engine.answer([task]) for answer in batch]
        if any(answer.error for answer in answers):
            return None
        took = time.perf_counter() - started
    return took
