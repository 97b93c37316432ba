"""The story of a run in blocks: people -> yes/no questions -> blocks of numbers -> bias scores -> report."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.finish import Outcome, extra_of, log, outcome_of, tags_of, tracked, write_report
from fp2.places import remember
from fp2.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from fp2.block_asking import BlocksAsked
    from fp2.block_plan import BlockPlan
    from fp2.block_tables import BlockTable
    from fp2.cuts import Cut
    from fp2.data.dataset import Dataset
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.protocols.gras.options import GrasOptions
    from fp2.store.responses import ResponseStore
    from fp2.tracking import Tracker

TITLE = "GRAS bias scores"
BLOCK = "gras"
NOTHING = "No question was answered: there is nothing to compare."


@dataclass(frozen=True)
class PreparedBlocks:
    """Everything that is known before anything is asked."""

    config: Config
    dataset: Dataset
    battery: Battery
    cuts: tuple[Cut, ...]
    engine: Engine
    plan: BlockPlan
    options: GrasOptions
    dataset_digest: str

    @property
    def people(self) -> pd.DataFrame:
        """The people that are asked about."""
        return self.dataset.people


def run(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Run one evaluation and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.store.responses import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        return run_prepared(prepare_blocks(config, store, progress), store, folder, overrides, progress)


def run_prepared(
    prepared: PreparedBlocks, store: ResponseStore, folder: Path, overrides: Sequence[str], progress: Progress
) -> Outcome:
    """Ask, analyse and report.

    Raises
    ------
    Fp2Error
        As `run`.
    """
    from fp2.block_tables import table_of
    from fp2.traces import register_origins

    config = prepared.config
    with artifacts.told_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        places = artifacts.write_config(folder, config, overrides)
    register_origins(config, prepared.dataset, prepared.plan.contexts_by_image(), store)
    with tracked(config, folder, *tags_of(prepared, prepared.battery.name)) as tracker:
        asked = _ask(prepared, store, progress)
        progress.note("Analysing" if asked.complete else "Analysing what there is (Ctrl-C stops at once)")
        table = table_of(prepared.plan, asked, prepared.people, config.variant.kind)
        results = _results(prepared, asked, table, tracker, progress)
        with artifacts.told_plainly(folder):
            remember(Path(config.paths.state), results["run_id"], places)
            _write(prepared, folder, results, table, progress)
        log(config, tracker, folder, results)
    return outcome_of(asked, results, folder, tracker)


def prepare_blocks(config: Config, store: ResponseStore, progress: Progress) -> PreparedBlocks:
    """Load people, battery and cuts, and plan the questions. No model is loaded.

    Raises
    ------
    Fp2Error
        For every mistake in the config or the data that can be seen without asking.
    """
    from fp2.block_plan import plan_blocks
    from fp2.prepare import look, show
    from fp2.probes.battery import load_battery

    battery = load_battery(asdict(config.probe))
    if battery.people != 1 or not battery.traits:
        what = "is about two people" if battery.people != 1 else "asks about no trait"
        fix = "Use probe=gras, with traits and templates of your own if you like"
        raise Fp2Error(f"the battery '{battery.name}' {what}", where="probe", fix=fix)
    if battery.variants:
        raise Fp2Error(
            "this battery shows every picture in one way only", where="probe.variants", fix="Set variant=NAME"
        )
    options = options_of(config)
    scene = look(config, battery, store, progress)
    _check_outcome(scene.engine, battery, options, progress)
    shown = show(config, scene.dataset.people, scene.pixels, progress)
    plan = plan_blocks(scene.dataset.people, battery.questions, scene.engine, shown, config.variant.kind)
    _check_groups(scene.dataset.people, scene.cuts, options)
    return PreparedBlocks(
        config, scene.dataset, battery, scene.cuts, scene.engine, plan, options, scene.dataset_digest
    )  # fmt: skip


def _check_groups(people: pd.DataFrame, cuts: Sequence[Cut], options: GrasOptions) -> None:
    """Refuse attributes that cannot be compared before anything is asked.

    Raises
    ------
    Fp2Error
        If an attribute has fewer than two groups that are large enough.
    """
    from fp2.protocols.gras.groups import make_design

    images, subjects = (people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id"))
    make_design(images, subjects, people, cuts, options.min_subjects)


def _check_outcome(engine: Engine, battery: Battery, options: GrasOptions, progress: Progress) -> None:
    """Refuse an outcome that this engine never gives, and say if it gives it for some answers only.

    Raises
    ------
    Fp2Error
        If the outcome never comes.
    """
    from fp2.engines.base import NEVER
    from fp2.protocols.gras.options import OUTCOMES

    tell = getattr(engine, "lacking", None)  # of servers only: every other engine gives every number
    question = next((question for question in battery.questions if question.kind == "yes_no"), None)
    lacking = tell(question) if tell and question else {}
    which = lacking.get(options.outcome)
    others = " or ".join(f"probe.options.outcome={name}" for name in OUTCOMES if name not in lacking)
    if which == NEVER:
        what = f"the way in which this server is asked never gives {options.outcome}"
        raise Fp2Error(what, where="probe.options.outcome", fix=f"Set {others}")
    if which:
        progress.note(f"This server gives {options.outcome} for some answers only; always with {others}")


def options_of(config: Config) -> GrasOptions:
    """Return the analysis' options: those of the battery, and the config's where it is silent.

    Raises
    ------
    Fp2Error
        For an unknown option, or one out of its range.
    """
    from fp2.probes.trait_battery import protocol_options
    from fp2.protocols.gras.options import GrasOptions

    own = protocol_options(config.probe.options)
    analysis = config.analysis
    others: dict[str, Any] = {"alpha": analysis.alpha, "min_subjects": analysis.min_subjects, "seed": config.seed}
    if analysis.permutations:
        others["permutations"] = analysis.permutations
    return GrasOptions.read(own, **others)


def _ask(prepared: PreparedBlocks, store: ResponseStore, progress: Progress) -> BlocksAsked:
    from fp2.block_asking import ask_blocks
    from fp2.store.blocks import BlockStore

    limits = prepared.config.answers
    with progress.answers(f"Asking {prepared.config.model.name}") as bar:
        return ask_blocks(
            prepared.plan,
            prepared.engine,
            BlockStore(store.connection, store.path),
            attempts=limits.attempts,
            error_budget=limits.error_budget,
            start=bar.start,
            tick=bar.tick,
        )


def _results(
    prepared: PreparedBlocks, asked: BlocksAsked, table: BlockTable, tracker: Tracker | None, progress: Progress
) -> dict[str, Any]:
    from fp2.probes.trait_battery import facts
    from fp2.results import bare_results, model_block

    config, dataset, cuts = prepared.config, prepared.dataset, prepared.cuts
    wording = facts(prepared.battery.wording) if prepared.battery.wording else {"notes": []}
    counts = table.counts(asked.model_calls)
    results = bare_results(
        config,
        title=TITLE,
        run_id=tracker.run_id if tracker else uuid.uuid4().hex,
        complete=asked.complete,
        response_set=prepared.plan.response_set,
        dataset_digest=prepared.dataset_digest,
        model=model_block(config, prepared.engine.identity()),
        dataset={"name": dataset.name, "release": dataset.release, "settings": dict(dataset.settings)},
        people=dataset.people,
        cuts=cuts,
        analysis=_analysis_block(prepared.options),
        answers=counts,
        probes=_probe_block(prepared.battery),
        notes=[*dataset.notes, *wording["notes"], *([] if counts["answered"] else [NOTHING])],
    )
    with progress.counter("Comparing groups") as count:
        return results | found_in(
            table, prepared.battery.traits, dataset.people, cuts, prepared.options, wording, count
        )


def found_in(
    table: BlockTable, traits: Sequence[Any], people: pd.DataFrame, cuts: Sequence[Cut], options: GrasOptions,
    wording: dict[str, Any], count: Any = lambda done, total: None,
) -> dict[str, Any]:  # fmt: skip
    """Return the part of the results that follows from the answers alone (ids may be salted keys)."""
    from fp2.protocols.gras.analysis import analyse

    steps = iter(range(1, 1_000_000))
    by_group = {"answers_by_group": table.counts_by_group(people, cuts)}
    if not (table.errors < 0).any():
        return by_group
    warnings = _missing_outcome(table, options.outcome)
    block = analyse(table.answers(traits), people, cuts, options, lambda: count(next(steps), STEPS))
    count(STEPS, STEPS)
    return {**by_group, BLOCK: {**block, "warnings": [*warnings, *block["warnings"]], "battery": wording}}


def _missing_outcome(table: BlockTable, outcome: str) -> list[str]:
    """Return a warning with the share of answers that lack the outcome though there is an answer; none if none do.

    Raises
    ------
    Fp2Error
        If all lack it.
    """
    import numpy as np

    from fp2.protocols.gras.options import OUTCOMES

    answered = table.errors < 0
    lacking = np.isnan(table.columns[outcome]) & answered
    n, n_answered = int(lacking.sum()), int(answered.sum())
    if n == n_answered:
        there = [name for name in OUTCOMES if not np.isnan(table.columns[name][answered]).all()]
        fix = f"Set probe.options.outcome={' or '.join(there)}: the answers are kept" if there else ""
        raise Fp2Error(f"no answer has the outcome {outcome!r}", where="probe.options.outcome", fix=fix)
    if not n:
        return []
    why = "a server that lists only the likeliest tokens leaves it out where Yes is unlikely, so groups may lack it"
    return [
        f"{n / n_answered:.1%} of the answers have no {outcome}: {why} unequally; p_yes and p_yes_norm may be there"
    ]


STEPS = 9  # that the analysis tells of, where people have several pictures


def _analysis_block(options: GrasOptions) -> dict[str, Any]:
    """Return the settings of the comparison as every report reads them."""
    return {
        "unit": "image, and subject beside it",
        "alpha": options.alpha,
        "n_permutations": options.permutations,
        "n_bootstrap": options.bootstrap,
        "min_subjects": options.min_subjects,
        "correction": "none (published); Holm and Benjamini-Hochberg beside it",
        "family": "all tests of the run",
        "primary": options.outcome,
        "seed": options.seed,
        "smallest_effects": {options.outcome: options.smallest_effect},
    }


def _probe_block(battery: Battery) -> list[dict[str, Any]]:
    """Return the framings with the wording of their templates; `questions.parquet` has every question."""
    templates = dict(battery.wording.templates) if battery.wording else {}
    instruction = battery.wording.instruction if battery.wording else ""
    rows = []
    for probe in battery.probes:
        used = dict.fromkeys(question.template for question in battery.questions if question.probe == probe.id)
        texts = [f"{templates.get(template, template)} {instruction}".strip() for template in used]
        rows.append({"id": probe.id, "label": probe.label, "text": " | ".join(texts)})
    return rows


def _write(
    prepared: PreparedBlocks, folder: Path, results: dict[str, Any], table: BlockTable, progress: Progress
) -> None:
    """Write people, shards, results, figures and dashboard, and sign them."""
    from fp2.block_tables import write_questions
    from fp2.data.identity import local_salt, shareable
    from fp2.protocols.registry import attributes_of
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    config, people = prepared.config, prepared.people
    salt = local_salt(Path(config.paths.state))
    used = attributes_of(prepared.battery, prepared.cuts)
    unused = [ATTRIBUTE_PREFIX + name for name in attribute_columns(people) if name not in used]
    artifacts.write_parquet(folder / artifacts.PEOPLE, shareable(people.drop(columns=unused), salt))
    table.keyed(salt).write(folder)
    write_questions(folder, prepared.plan, prepared.battery.traits)
    artifacts.write_table(folder, [])
    write_report(config, folder, results, [], extra_of(prepared, results), progress)
