"""The stages of a run after asking, each written once: a first run, a rescoring and a purge call those that they need.

    score, collect    the answers of a model become scores; a task collects tables of its own
    analyse           the protocol compares groups, and `results.json` is assembled

What is written and logged is in `fp2.runs.outputs`, what is checked at last in `fp2.runs.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.ask.answers import RowAnswers, RunTables
from fp2.ask.labels import with_labels
from fp2.ask.storage import Waves
from fp2.compose import config_hash
from fp2.config import variant_identity
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.notes import Note, NoteKind, Stage, as_notes, in_order, without
from fp2.protocols.base import Asks, Collects, Inputs, Job, Protocol
from fp2.results import Analysis, Block, Results, about_run, assemble, limitations
from fp2.runs.describe import (
    count_tables,
    describe_architecture,
    describe_model,
    describe_questions,
    describe_scorers,
    describe_serving,
)
from fp2.tables import IMAGE_DIGEST
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.storage import Storage
    from fp2.store.withdrawn import WithdrawnImages

MEANWHILE = NoteKind(
    "withdrawn_meanwhile", Stage.DATA,
    lambda n_images, n_subjects: (
        f"{plural(n_images, 'image')} and {plural(n_subjects, 'subject')} were withdrawn after they were asked about: "
        "they are left out."
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """A run whose answers are scored: what its results follow from.

    Attributes
    ----------
    protocol : Protocol
    job : Job
        With the facts that the analysis needs.
    tables : RunTables
    about : mapping
        What the run is: keys of `results.json` (`fp2.results.ABOUT`); of a run that is scored or analysed again, all
        of its earlier results.
    notes : sequence of Note
        What is stated of it so far.
    attributes : collection of str
        Attributes of the people that its tables keep, besides those of the cuts.
    model_calls : int
    """

    protocol: Protocol
    job: Job
    tables: RunTables
    about: Block
    notes: Sequence[Note]
    attributes: Collection[str] = ()
    model_calls: int = 0

    @property
    def published(self) -> RunTables:
        """The tables with the attributes that the run used, and no others."""
        return self.tables.keeping({*self.attributes, *(name for cut in self.job.cuts for name in cut.by)})


def about_inputs(protocol: Protocol, inputs: Inputs, run_id: str) -> Block:
    """Return what a first run is, as far as it is known before anything is asked."""
    config, dataset, title = inputs.config, inputs.dataset, protocol.states.title
    return {
        **about_run(config.analysis.severity, run_id, config_hash(config), [cut.name for cut in inputs.cuts]),
        **({"title": title} if title else {}),
        "dataset_digest": inputs.dataset_digest,
        "dataset": {
            "name": dataset.name,
            "release": dataset.release,
            "settings": dict(dataset.settings),
            "terms": dataset.terms,
            "caution": dataset.caution,
            "scales": dict(dataset.scales),
        },
        "variant": {"name": config.variant.name, **variant_identity(config.variant)},
    }


def score(protocol: Asks[Any], inputs: Inputs, storage: Storage, about: Block) -> Evaluation:
    """Score the answers of a run that asked a model."""
    from fp2.data.derived import with_image_facts
    from fp2.scorers.registry import attributes_read, limitations_of

    config, battery, engine = inputs.config, inputs.battery, inputs.engine
    assert engine is not None
    assert battery is not None
    digests = [_pixels_of(path, inputs) for path in inputs.people["image_path"]]
    people = with_image_facts(inputs.people, config.analysis.adjust).assign(**{IMAGE_DIGEST: digests})
    tables = with_labels(scored(protocol, RunTables(people, storage.answers(), None), inputs), config, inputs.scorers)
    model = describe_model(config, engine)
    about = {
        **about,
        "response_set": storage.response_set,
        "model": model,
        **describe_architecture(engine),
        **describe_serving(engine),
        "probes": describe_questions(battery),
        "scorers": describe_scorers(inputs.scorers),
    }
    notes = [*as_notes(inputs.dataset.notes, Stage.DATA), *as_notes(engine.limitations, Stage.QUESTIONS)]
    stated = [*as_notes(protocol.states.limitations, Stage.RUN), *limitations_of(inputs.scorers)]
    attributes = {*config.analysis.adjust, *protocol.attributes(config), *attributes_read(inputs.scorers)}
    if isinstance(storage, Waves):
        inputs = replace(inputs, facts=storage.facts)
    return Evaluation(protocol, inputs, tables, about, limitations(model, notes, stated), attributes)


def _pixels_of(path: str, inputs: Inputs) -> str:
    pixels = inputs.pixels.get(Path(path))
    return (pixels and pixels.sha256) or ""


def scored(protocol: Asks[Any], tables: RunTables, job: Job) -> RunTables:
    """Return the tables with refusals and scores; answers that are arrays are analysed as they are."""
    from fp2.scorers.base import ReadsAnswers
    from fp2.scorers.registry import flag_refusals, score_answers

    if not isinstance(tables.answers, RowAnswers):
        return tables
    read = tables.answers.frame
    for scorer in job.scorers.values():
        if isinstance(scorer, ReadsAnswers):
            read = scorer.with_columns(read, tables.people, job.battery)
    read = flag_refusals(read, job.scorers)
    answers = tables.answers.frame.assign(refused=read["refused"].to_numpy())
    scores = protocol.assign_scores(score_answers(read, job.scorers), tables.people, job.scorers)
    return replace(tables, answers=RowAnswers(answers), scores=scores)


def collect(protocol: Collects[Any], inputs: Inputs, about: Block) -> Evaluation:
    """Collect the tables of a task, which asks no model."""
    from fp2.protocols.task_tables import scores_digest

    collected = protocol.collect(inputs)
    response_set = collected.response_set
    if response_set is None:
        assert collected.tables.scores is not None
        response_set = scores_digest(collected.tables.scores)
    unknown = dict.fromkeys(("revision", "weights_digest", "dtype", "quantisation", "processor"))
    model = {**unknown, "id": collected.model["name"], "engine": "tables", "embedded": False, **collected.model}
    about = {
        **about,
        "response_set": response_set,
        "model": model,
        "probes": list(collected.probes),
        "scorers": list(collected.scorers),
    }
    notes = as_notes([*inputs.dataset.notes, *collected.notes], Stage.DATA)
    stated = limitations(model, notes, as_notes(protocol.states.limitations, Stage.RUN))
    job = replace(inputs, facts=collected.facts)
    return Evaluation(protocol, job, collected.tables, about, stated, collected.attributes)


def results_from(evaluation: Evaluation, analysis: Analysis) -> Results:
    """Count the tables, and return `results.json`.

    Notes that the evaluation has of the stages that are repeated are replaced. The balance of attributes that the
    tables of a logged run no longer hold is that of its earlier results.
    """
    from fp2.data.group_sizes import cut_notes
    from fp2.protocols.balance import balance_warnings, later_block
    from fp2.scorers.registry import notes_of

    protocol, job, tables, about = evaluation.protocol, evaluation.job, evaluation.tables, evaluation.about
    versions = {name: version for name, version, _ in protocol.all_methods()}
    analysis = replace(
        analysis,
        settings={**analysis.settings, "tests": dict(protocol.states.tests)},
        methods={**versions, **analysis.methods},
    )
    counts = count_tables(tables, job.cuts, [probe["id"] for probe in about["probes"]], evaluation.model_calls)
    if "balance" in about:
        counts = replace(counts, balance=later_block(counts.balance, job.cuts, about["balance"]))
    notes_before = without(evaluation.notes, Stage.TABLES, Stage.SCORES, Stage.ANALYSIS)
    stated = [
        *balance_warnings(counts.balance),
        *cut_notes(tables.people, job.cuts),
        *as_notes(analysis.notes, Stage.ANALYSIS),
        *notes_of(job.scorers, tables.scores),
    ]
    notes = in_order([*notes_before, *(note for note in stated if note not in notes_before)])
    return assemble({**about, "limitations": notes}, counts, analysis)


def analyse(
    evaluation: Evaluation, withdrawn: WithdrawnImages, keys_of: Callable[[Collection[str]], set[str]], stack: ExitStack
) -> tuple[Evaluation, Results]:
    """Compare the groups of a run without people who were withdrawn since it began, and return its results.

    The lock is then held on `stack`, so that nobody can be withdrawn until the run is written.

    Parameters
    ----------
    keys_of : callable
        Returns the keys under which the tables have the answers about some images.
    """
    results: Results | None = None
    while True:
        with ExitStack() as lock:
            images = lock.enter_context(withdrawn.writing())
            present = images and images & set(evaluation.tables.people["image_id"])
            if results is not None and not present:
                stack.push(lock.pop_all())
                return evaluation, results
        if present:
            evaluation = _without_images(evaluation, present, keys_of(present))
        analysis = evaluation.protocol.analyse(evaluation.tables, evaluation.job)
        results = results_from(evaluation, analysis)


def _without_images(evaluation: Evaluation, images: Collection[str], keys: Collection[str]) -> Evaluation:
    """Return the evaluation without everybody in `images`, whose answers are stored under `keys`."""
    from fp2.cuts import with_present_values

    before, about, job = evaluation.tables.people, evaluation.about, evaluation.job
    people = before[~before["image_id"].isin(images)]
    if people.empty:
        raise Fp2Error("everybody was withdrawn since they were asked about: nobody is left", where="fp2 purge")
    tables = evaluation.tables.without(people, images, keys)
    raw_keys = {key: key for key in tables.answers.stored_keys()} if "rescored_from" not in about else {}
    about = {
        **about,
        "response_set": tables.response_set(about["response_set"], raw_keys),
        "dataset_digest": digest_without(people, about["dataset_digest"]),
    }
    n_subjects = before["subject_id"].nunique() - people["subject_id"].nunique()
    note = MEANWHILE(n_images=len(images), n_subjects=n_subjects)
    job.progress.note(note)
    job = replace(job, cuts=tuple(with_present_values(people, cut) for cut in job.cuts))
    return replace(evaluation, job=job, tables=tables, about=about, notes=[*evaluation.notes, note])


def digest_without(people: pd.DataFrame, before: str) -> str:
    """Return a digest of the people that are left of a data set, from its digest and their ids: no image is read."""
    pairs = sorted(zip(people["image_id"], people["subject_id"], strict=True))
    return digest({"purged_from": before, "kept": [list(pair) for pair in pairs]})


def passport_extra(inputs: Inputs, results: Results) -> Block:
    """Return what the passport of a first run says beyond the results: the seeds, and how answers were generated.

    Of supplied answers it is not known here how they were generated.
    """
    seeds = {"analysis": inputs.config.seed, "data": inputs.config.data.seed}
    if inputs.battery is None or "supplied" in results["model"]:
        return {"seeds": seeds}
    return {
        "decoding": inputs.battery.decoding.stated(),
        "preprocessing": results["model"]["processor"],
        "seeds": seeds,
    }
