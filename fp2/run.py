"""The pipeline: people -> questions -> answers -> scores -> results -> report, for every protocol.

    load_inputs     who is in the images, what is asked, who is asked; everything is checked
    plan, ask       what the store lacks is asked; a task collects tables of its own instead
    score           answers become scores
    analyse         the protocol compares groups
    assemble        results.json
    write, log      tables, figures, dashboard, signed passport, MLflow
    check           what was written is read again and compared

Protocols differ in the protocol object (`fp2.protocols.base`), not in the pipeline. Each stage can be repeated from the
tables before it: `fp2.runs.recompute` does so for a purge and a rescoring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fp2.ask.answers import RunTables
from fp2.ask.labels import with_labels
from fp2.ask.loop import Asked, Storage, ask
from fp2.ask.plan import Shard
from fp2.compose import config_hash
from fp2.config import Config, variant_identity
from fp2.engines.base import Engine, SuppliesAnswers, remote_code
from fp2.errors import EXIT_ERROR_BUDGET, EXIT_INTERRUPTED
from fp2.notes import Note, Stage, as_notes
from fp2.progress import Progress
from fp2.protocols.base import EvaluationProtocol, Inputs, Job
from fp2.results import assemble, heading, limitations, looked_notes
from fp2.runs.checks import checked
from fp2.runs.describe import describe_architecture, describe_model, describe_scorers, describe_serving
from fp2.runs.inputs import Given, check_run_cost, group_notes, load_inputs, plan_answers
from fp2.runs.live import LiveRun, watched
from fp2.runs.local_paths import write_config
from fp2.runs.outputs import Record, RunOutcome, finish, name_with, tracked
from fp2.runs.recompute import count_tables


@dataclass(frozen=True)
class _Tables:
    """The tables of the run with what is known of where they came from."""

    tables: RunTables
    facts: Mapping[str, Any]
    about: Mapping[str, Any]
    attributes: set[str]
    notes: Sequence[Note]


def run(
    config: Config, folder: Path, overrides: Sequence[str], progress: Progress, given: Given | None = None,
    settings: Sequence[str] = (),
) -> RunOutcome:  # fmt: skip
    """Run one evaluation and write everything it found into `folder`.

    `given` are objects of the caller's, in place of what the config would build; `settings` are the overrides by which
    the run differs from others of its sweep, for its name.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.store.origins import register_origins
    from fp2.store.rows import ResponseStore

    with (
        watched(folder, progress) as live,
        ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store,
    ):
        protocol, inputs, pixels = load_inputs(config, store, progress, given)
        told = group_notes(inputs)
        for line in (*protocol.small_groups(inputs), *told):
            progress.note(line)
        storage = protocol.storage(plan_answers(protocol, inputs, pixels), inputs) if protocol.asks else None
        if storage is not None and config.answers.max_cost is not None:
            check_run_cost(storage, inputs, config.answers.max_cost)
        places = write_config(folder, config, overrides)
        register_origins(config, inputs.dataset, keys := _keys_by_image(storage, inputs), store)
        names = {"config_hash": config_hash(config)}
        tags = {
            **names,
            "response_set": storage.response_set if storage else None,
            "dataset_digest": inputs.dataset_digest,
            "variant": config.variant.name,
            "remote_code": remote_code(inputs.engine.identity()) if inputs.engine else None,
        }
        name = name_with(protocol.run_name(inputs), settings)
        with tracked(config, folder, tags, name, progress) as record:
            live.names = {"run_id": record.run_id, **names}
            looked = record.earlier_looks()
            asked = _ask(storage, inputs, live, record) if storage else Asked()
            live.at("Scoring")
            found = _score(protocol, inputs, storage) if storage else _collect(protocol, inputs)
            found = replace(found, about={**found.about, **looked})
            results = _results(protocol, inputs, found, asked, record.run_id, told)
            sections = finish(
                config, record, folder, places, protocol, _published(inputs, found), results,
                _passport_extra(inputs, results), progress, interrupted=asked.interrupted or bool(asked.left),
            )  # fmt: skip
        del found, storage  # the check reads what was written, beside nothing else
        failed = checked(config, folder, progress, chain.from_iterable(keys.values()), logged=record.logged)
    outcome = record.outcome(results, folder, _ended(asked, results), sections, protocol.all_methods(), failed)
    return replace(outcome, told=told)


def _keys_by_image(storage: Storage | None, inputs: Inputs) -> Mapping[str, Sequence[str]]:
    """Return the keys under which anything derived from an image is stored; a task derives no answers."""
    return storage.keys_by_image() if storage else {str(image): [] for image in inputs.people["image_id"]}


def _ask(storage: Storage, inputs: Inputs, live: LiveRun, record: Record) -> Asked:
    from fp2.scorers.registry import count_refusals

    config, progress = inputs.config, inputs.progress
    assert inputs.engine is not None
    assert inputs.battery is not None
    probes = {question.question_id: question.probe for question in inputs.battery.asked}
    doing = "Answers of" if isinstance(inputs.engine, SuppliesAnswers) else "Asking"
    title = f"{doing} {config.model.name}"
    with (
        progress.answers(title) as bar,
        live.asking(title, bar.show, record.stream, lambda batch: count_refusals(batch, probes, inputs.scorers)),
    ):
        news = _News(inputs.engine, progress)

        def tick(done: int, failed: int) -> None:
            live.tick(done, failed)
            news.tell()

        try:
            asked = ask(
                storage, inputs.engine, attempts=config.answers.attempts, error_budget=config.answers.error_budget,
                shard=Shard.parse(config.shard), start=live.start, saw=live.saw, tick=tick,
            )  # fmt: skip
        finally:
            news.tell()
    if asked.left:
        left = f"{asked.left} questions are left to the other shards, and the results are partial"
        progress.note(f"Shard {config.shard}: {left}. Merge the stores of all shards: fp2 store merge")
    progress.note("Analysing" if asked.complete else "Analysing the answers so far (Ctrl-C stops at once)")
    return asked


class _News:
    """Says what an engine has to report since it was built (`Engine.notices`), each line once."""

    def __init__(self, engine: Engine, progress: Progress) -> None:
        self._engine, self._progress, self._told = engine, progress, len(engine.notices)

    def tell(self) -> None:
        lines = self._engine.notices
        for line in lines[self._told :]:
            self._progress.note(line)
        self._told = len(lines)


def _score(protocol: EvaluationProtocol[Any], inputs: Inputs, storage: Storage) -> _Tables:
    """Return the tables of a run that asked a model."""
    from fp2.data.derived import with_image_facts

    config, battery, dataset = inputs.config, inputs.battery, inputs.dataset
    assert inputs.engine is not None
    assert battery is not None
    people = with_image_facts(inputs.people, config.analysis.adjust)
    answers, scores = protocol.score(storage.answers(), people, inputs.scorers)
    about = {
        "response_set": storage.response_set,
        "model": describe_model(config, inputs.engine),
        **describe_architecture(inputs.engine),
        **describe_serving(inputs.engine),
        "probes": protocol.describe_questions(battery),
        "scorers": describe_scorers(inputs.scorers),
    }
    asked = [*protocol.notes(inputs), *inputs.engine.limitations]
    notes = [*as_notes(dataset.notes, Stage.DATA), *as_notes(asked, Stage.QUESTIONS)]
    tables = with_labels(RunTables(people, answers, scores), config, inputs.scorers)
    return _Tables(tables, protocol.facts(inputs), about, protocol.attributes(config), notes)


def _collect(protocol: EvaluationProtocol[Any], inputs: Inputs) -> _Tables:
    """Return the tables of a task, which asks no model."""
    from fp2.protocols.task_tables import scores_digest

    found = protocol.collect(inputs)
    answered = found.response_set
    if answered is None:
        assert found.tables.scores is not None
        answered = scores_digest(found.tables.scores)
    model = {"id": found.model["name"], "engine": "tables", "embedded": False, **found.model}
    unknown = dict.fromkeys(("revision", "weights_digest", "dtype", "quantisation", "processor"))
    about = {
        "response_set": answered,
        "model": {**unknown, **model},
        "probes": list(found.probes),
        "scorers": list(found.scorers),
    }
    notes = as_notes([*inputs.dataset.notes, *found.notes], Stage.DATA)
    return _Tables(found.tables, found.facts, about, set(found.attributes), notes)


def _results(
    protocol: EvaluationProtocol[Any], inputs: Inputs, found: _Tables, asked: Asked, run_id: str, told: Sequence[str]
) -> dict[str, Any]:
    """Analyse the tables and put the results together; warnings that were `told` are not repeated."""
    from fp2.data.group_sizes import cut_notes
    from fp2.protocols.balance import balance_warnings
    from fp2.scorers.registry import limitations_of

    config, dataset, progress = inputs.config, inputs.dataset, inputs.progress
    job = Job(config, inputs.cuts, inputs.battery, inputs.scorers, found.facts)
    with progress.steps("Comparing groups", protocol.n_steps(job, found.tables)) as tick:
        analysis = protocol.analysed(found.tables, replace(job, tick=tick))
    counts = count_tables(
        found.tables, inputs.cuts, [probe["id"] for probe in found.about["probes"]], asked.model_calls
    )
    warnings = balance_warnings(counts.balance)
    for line in warnings:
        if line not in told:  # a task may have left out people
            progress.note(line)
    groups = cut_notes(found.tables.people, inputs.cuts)
    analysed = as_notes(analysis.notes, Stage.ANALYSIS)
    notes = [*warnings, *groups, *found.notes, *analysed, *looked_notes(found.about)]
    stated = [*as_notes(protocol.limitations, Stage.RUN), *limitations_of(inputs.scorers)]
    title = protocol.title(inputs)
    about = {
        **heading(config.analysis.severity, run_id, config_hash(config), [cut.name for cut in inputs.cuts]),
        **({"title": title} if title else {}),
        "complete": asked.complete,
        "dataset_digest": inputs.dataset_digest,
        "dataset": {
            "name": dataset.name, "release": dataset.release, "settings": dict(dataset.settings),
            "terms": dataset.terms, "caution": dataset.caution, "scales": dict(dataset.scales),
        },
        "variant": {"name": config.variant.name, **variant_identity(config.variant)},
        **found.about,
        "limitations": limitations(found.about["model"], notes, stated),
    }  # fmt: skip
    return assemble(about, counts, analysis)


def _published(inputs: Inputs, found: _Tables) -> RunTables:
    """Return the tables as they leave: salted keys, and no attributes but those that the run used."""
    from fp2.store.salted_keys import local_salt

    used = found.attributes | {attribute for cut in inputs.cuts for attribute in cut.by}
    return found.tables.keeping(used).keyed(local_salt(Path(inputs.config.paths.state)))


def _passport_extra(inputs: Inputs, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the passport says beyond the results."""
    extra: dict[str, Any] = {"seeds": {"analysis": inputs.config.seed, "data": inputs.config.data.seed}}
    if inputs.battery is None:
        return extra
    if "supplied" in results["model"]:
        return extra  # how the answers were generated is not known here
    decoding = {
        name: value for name, value in asdict(inputs.battery.decoding).items() if (name, value) != ("samples", 1)
    }
    return {"decoding": decoding, "preprocessing": results["model"]["processor"], **extra}


def _ended(asked: Asked, results: Mapping[str, Any]) -> tuple[int, str | None]:
    """Return the exit status of a run, and the line that says why it ended early."""
    if asked.over_budget:
        hint = "What was answered is kept; fix the cause and run the same command again"
        return EXIT_ERROR_BUDGET, f"{asked.over_budget}. {hint}"
    if asked.interrupted:
        done, planned = results["answers"]["answered"], results["answers"]["planned"]
        return EXIT_INTERRUPTED, f"interrupted: {done} of {planned} answers are kept; run the same command to continue"
    return 0, None
