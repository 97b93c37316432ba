"""The pipeline: people -> questions -> answers -> scores -> results -> report, for every protocol.

    load_inputs      who is in the images, what is asked, who is asked; everything is checked
    ask              what the store lacks is asked; a task collects tables of its own instead
    score, collect   answers become scores
    analyse          the protocol compares groups, and results.json is assembled
    finish           tables, figures, dashboard, signed passport, MLflow
    checked          what was written is read again and compared

Protocols differ in the protocol object (`fp2.protocols.base`), not in the pipeline. A rescoring and a purge call the
stages after asking (`fp2.runs.stages`) with the tables of a logged run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.ask.loop import Asked, ask
from fp2.ask.plan import Shard
from fp2.ask.storage import Storage, Waves
from fp2.compose import config_hash
from fp2.config import Config
from fp2.engines.base import Engine, HasPrice, SuppliesAnswers, remote_code
from fp2.errors import EXIT_ERROR_BUDGET, EXIT_INTERRUPTED, Fp2Error
from fp2.notes import Stage, read_notes
from fp2.plugins import WITHDRAWAL, load
from fp2.progress import Progress
from fp2.protocols.base import Asks, Inputs
from fp2.results import Results, looked_notes
from fp2.runs.checks import checked
from fp2.runs.inputs import CallerObjects, check_machine, check_run_cost, load_inputs, open_storage, plan_answers
from fp2.runs.live import LiveRun, watched
from fp2.runs.local_paths import remember, write_config
from fp2.runs.outputs import Record, RunOutcome, name_with, run_name, tracked
from fp2.runs.stages import about_inputs, analyse, collect, passport_extra, score
from fp2.store.withdrawn import WithdrawnImages

if TYPE_CHECKING:
    from fp2.tables import Answer


def run(
    config: Config,
    folder: Path,
    overrides: Sequence[str],
    progress: Progress,
    objects: CallerObjects | None = None,
    settings: Sequence[str] = (),
) -> RunOutcome:
    """Run one evaluation and write its results into `folder`.

    `objects` are the caller's, in place of what the config would build; `settings` are the overrides by which the run
    differs from others of its sweep, for its name.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.report.keys import check_key
    from fp2.store.origins import delete_computed, register_origins
    from fp2.store.rows import ResponseStore
    from fp2.store.salted_keys import local_salt

    state = Path(config.paths.state)
    for target in (state, Path(config.paths.outputs)):  # a purge replaces the run's folder as a whole
        if target.expanduser().absolute().is_relative_to(folder.absolute()):
            fix = "Choose a folder of its own for the run"
            raise Fp2Error(f"the run's folder has {target} in it", where=f"hydra.run.dir={folder}", fix=fix)
    finish_purges(config, progress)
    check_key(Path(config.paths.keys))
    with (
        watched(folder, progress) as live,
        ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store,
        ExitStack() as stack,
    ):
        protocol, inputs = load_inputs(config, store, progress, objects)
        withdrawn = WithdrawnImages(state, inputs.people)
        stack.callback(delete_computed, store, inputs.people, withdrawn)
        for note in inputs.notes:
            progress.note(note)
        storage: Storage | None = None
        keys: Mapping[str, Sequence[str]] = {str(image): [] for image in inputs.people["image_id"]}
        if isinstance(protocol, Asks):
            storage = open_storage(protocol, inputs, plan_answers(protocol, inputs), withdrawn)
            keys = storage.keys_by_image()
            check_machine(storage, inputs)
            if config.answers.max_cost is not None:
                check_run_cost(storage, inputs, config.answers.max_cost)
        hidden = write_config(folder, config, overrides)
        with withdrawn.writing() as images:
            register_origins(config, inputs.dataset, keys, store, without=images)
        tags = {
            "config_hash": config_hash(config),
            "response_set": storage.response_set if storage else None,
            "dataset_digest": inputs.dataset_digest,
            "variant": config.variant.name,
            "remote_code": remote_code(inputs.engine.identity()) if inputs.engine else None,
        }
        with tracked(config, folder, tags, name_with(run_name(config, inputs.cuts), settings), progress) as record:
            live.names = {"run_id": record.run_id, "config_hash": config_hash(config)}
            about = {**about_inputs(protocol, inputs, record.run_id), **record.earlier_looks()}
            asking = _ask(storage, inputs, live, record) if storage else Asked()
            about["complete"] = asking.complete
            live.at("Scoring")
            if isinstance(protocol, Asks):
                assert storage is not None
                evaluation = score(protocol, inputs, storage, about)
            else:
                evaluation = collect(protocol, inputs, about)
            notes = [*evaluation.notes, *looked_notes(about)]
            evaluation = replace(evaluation, notes=notes, model_calls=asking.model_calls)

            def keys_of(images: Collection[str]) -> set[str]:
                return {key for image in images for key in keys[image]}

            evaluation, results = analyse(evaluation, withdrawn, keys_of, stack)
            for note in read_notes(results):
                if note.stage is Stage.TABLES and note not in inputs.notes:  # a task may have left out people
                    progress.note(note)
            remember(state, record.run_id, hidden)
            outcome = record.finish(
                protocol,
                evaluation.published.keyed(local_salt(state)),
                results,
                passport_extra(inputs, results),
                ended=_ended(asking, results),
                interrupted=asking.interrupted or bool(asking.left or asking.overspent),
            )
        notes_told = inputs.notes
        del evaluation, storage, inputs  # the check reads what was written, beside nothing else
        failures = checked(config, folder, progress, chain.from_iterable(keys.values()), logged=record.logged)
    return replace(outcome.checked(failures), told=notes_told)


PURGES = "purges"
"""In the state folder: the journal of each purge that has not ended, named by its time, and certificates."""


def finish_purges(config: Config, progress: Progress) -> None:
    """Finish every purge that was begun on this machine and was killed, before anything of people is read."""
    if any((Path(config.paths.state) / PURGES).glob("*[0-9].json*")):
        for line in load(WITHDRAWAL, "finish", "fp2 purge")(config, progress):
            progress.note(line)


def _ask(storage: Storage, inputs: Inputs, live: LiveRun, record: Record) -> Asked:
    """Ask what the store lacks, and show how that goes."""
    from fp2.scorers.registry import count_refusals

    config, progress = inputs.config, inputs.progress
    assert inputs.engine is not None
    assert inputs.battery is not None
    if isinstance(inputs.engine, HasPrice):
        inputs.engine.spend_at_most(config.answers.max_cost)
    probes = {question.question_id: question.probe for question in inputs.battery.questions}
    doing = "Answers of" if isinstance(inputs.engine, SuppliesAnswers) else "Asking"
    title = f"{doing} {config.model.name}"
    waves = storage if isinstance(storage, Waves) else None
    with ExitStack() as stack:
        bar, news = stack.enter_context(progress.answers(title)), _News(inputs.engine, progress)

        def show(done: int, planned: int, counts: str) -> None:
            bar.show(done, planned, f"{waves.progress}; {counts}" if waves else counts)

        def refusals(batch: Sequence[Answer]) -> int:
            return count_refusals(batch, probes, inputs.scorers)

        stack.enter_context(live.asking(title, show, record.stream, refusals))

        def tick(done: int, failed: int) -> None:
            live.tick(done, failed)
            news.tell()

        before = inputs.engine.model_calls
        try:
            while True:
                asking = ask(
                    storage,
                    inputs.engine,
                    attempts=config.answers.attempts,
                    error_budget=config.answers.error_budget,
                    shard=Shard.parse(config.shard),
                    start=live.start,
                    saw=live.saw,
                    tick=tick,
                )
                if not (waves and asking.complete and waves.next_wave()):
                    break
            asking.model_calls = inputs.engine.model_calls - before
        finally:
            news.tell()
    if asking.left:
        rest = f"{asking.left} questions are left to the other shards, and the results are partial"
        progress.note(f"Shard {config.shard}: {rest}. Merge the stores of all shards: fp2 store merge")
    progress.note("Analysing" if asking.complete else "Analysing the answers so far (Ctrl-C stops at once)")
    return asking


class _News:
    """Says what an engine has to report since it was built (`Engine.notices`), each line once."""

    def __init__(self, engine: Engine, progress: Progress) -> None:
        self._engine, self._progress, self._told = engine, progress, len(engine.notices)

    def tell(self) -> None:
        notices = self._engine.notices
        for notice in notices[self._told :]:
            self._progress.note(notice)
        self._told = len(notices)


def _ended(asking: Asked, results: Results) -> tuple[int, str | None]:
    """Return the exit status of a run, and the line that says why it ended early."""
    if asking.over_budget:
        hint = "What was answered is kept; fix the cause and run the same command again"
        return EXIT_ERROR_BUDGET, f"{asking.over_budget}. {hint}"
    if asking.overspent:
        return (
            EXIT_ERROR_BUDGET,
            f"answers.max_cost: {asking.overspent}. What was answered is kept; run again to continue",
        )
    if asking.interrupted:
        done, planned = results["answers"]["answered"], results["answers"]["planned"]
        return EXIT_INTERRUPTED, f"interrupted: {done} of {planned} answers are kept; run the same command to continue"
    return 0, None
