"""Rescore: score and compare the answers of a logged run with other scorers, cuts or settings; no model, no image.

The source run is not changed. The new run has its config, with the given scorers, cut, analysis and seed, and the same
answers with the same salted keys. It names its source in its results and its passport.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    ASK,
    LOOKED_AT,
    Asks,
    Block,
    Config,
    Evaluation,
    Fp2Error,
    Job,
    Progress,
    RowAnswers,
    RunOutcome,
    RunTables,
    Stage,
    WithdrawnImages,
    about_run,
    analyse,
    artifacts,
    as_notes,
    check_settings,
    check_typed,
    checked,
    config_hash,
    describe_scorers,
    digest,
    from_plain,
    how_to_repeat,
    is_own,
    logged,
    logged_config,
    logged_protocol,
    looked_notes,
    named_outside,
    nearest,
    parse_overrides,
    passport_part,
    read_notes,
    read_plain,
    read_results,
    read_tables,
    remember,
    scored,
    states_again,
    tracked,
    with_labels,
    with_scorers,
    write_config,
)

if TYPE_CHECKING:
    from fp2.extension import Cut, Scorer

OWN = ("scorer", "cut", "analysis", "seed")
"""Sections that may be changed; all others decide which answers there are."""
ELSEWHERE = ("paths", "tracking", "report")
"""Sections that say where files are, and are no part of a run."""
CAP = "answers.max_cost"
"""The most that scorers may cost, which is no part of a run either."""
WHOLE = {"scorer": {"scorer"}, "cut": {"cut", "cut.by", "cut.each"}, "analysis": {"analysis"}}
"""Keys that replace a whole section; any other key changes one setting of the source run."""


def composable(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that compose with the defaults: none that change a single setting of scorers or cut.

    Nor any that only state again what a run of somebody else names (`fp2.runs.origin`).
    """
    return [
        word
        for word in overrides
        if (_section(word) not in ("scorer", "cut") or _replaced(_section(word), overrides))
        and (_section(word) in (*OWN, *ELSEWHERE) or not states_again(word))
    ]


def rescored_config(logged: Config, given: Config, overrides: Sequence[str], again: Collection[str] = ()) -> Config:
    """Return the config of the source run with the scorers, cut, analysis and seed that `overrides` name.

    Parameters
    ----------
    logged : Config
        The source's.
    given : Config
        The config that `composable(overrides)` give with the defaults.
    overrides : sequence of str
        `scorer=NAME`, `cut=NAME`, `cut.by` or `cut.each` replaces the whole section; `scorer.valence.smallest_effect`,
        `cut.groups` or `analysis.severity.low` changes one setting of the source run.
    again : collection of str
        Keys that are stated again (`fp2.runs.origin`), and are in `logged` by now.
    """
    for word in overrides:
        if _section(word) not in (*OWN, *ELSEWHERE) and _key(word) not in (CAP, *again):
            fix = "Give scorer=, cut=, analysis= or seed=; for the rest start a run, which reuses stored answers"
            raise Fp2Error(f"rescoring asks no model and cannot change {_key(word)!r}", where="override", fix=fix)
    tracking = replace(given.tracking, experiment=logged.tracking.experiment)
    capped = given if any(_key(word) == CAP for word in overrides) else logged
    answers = replace(logged.answers, max_cost=capped.answers.max_cost)
    plain = asdict(replace(logged, paths=given.paths, report=given.report, tracking=tracking, answers=answers))
    for section in OWN:
        section_words = [word for word in overrides if _section(word) == section]
        if section_words and (section == "seed" or _replaced(section, overrides)):
            plain[section] = asdict(given)[section]
        elif section_words:
            plain[section] = _changed(section, plain[section], section_words)
    if "valence" not in plain["scorer"] and not any(_key(word) == "analysis.published" for word in overrides):
        plain["analysis"]["published"] = False  # the page's rule is about valence
    config = from_plain(plain)
    check_typed(overrides, [config])
    return config


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _section(word: str) -> str:
    return _key(word).split(".")[0]


def _replaced(section: str, overrides: Sequence[str]) -> bool:
    return any(_key(word) in WHOLE[section] for word in overrides)


def _changed(section: str, old: Mapping[str, Any], section_words: Sequence[str]) -> dict[str, Any]:
    """Return `old` with the settings that `section_words` name; a mapping is merged by key."""
    plain = copy.deepcopy(dict(old))
    for override in parse_overrides(section_words):
        if override.is_sweep_override():
            raise Fp2Error(f"{override.input_line} is a sweep, and this is one run", where="override")
        *path, last = str(override.key_or_group).split(".")[1:]
        node = plain
        for key_part in path:
            if key_part in node and node[key_part] is None:
                node[key_part] = {}
            if not isinstance(node.get(key_part), dict):
                fix = nearest(key_part, [str(name) for name in node])
                raise Fp2Error(f"the run has no {section} {key_part!r}", where=str(override.key_or_group), fix=fix)
            node = node[key_part]
        if override.is_delete():
            node.pop(last, None)
            continue
        value = override.value()
        if isinstance(value, dict) and isinstance(node.get(last), dict):
            value = {**node[last], **value}
        node[last] = value
    return plain


def rescore(source: Path, here: Config, overrides: Sequence[str], folder: Path, progress: Progress) -> RunOutcome:
    """Score the answers of the run in `source` again, and write a new run into `folder`.

    `here` is the config that `composable(overrides)` give with the defaults.
    """
    from fp2.extension import limitations_of

    before = read_results(source)
    run_id = before["run_id"]
    missing = [name for name in (artifacts.PEOPLE, artifacts.RESPONSES) if not (source / name).is_file()]
    if missing:
        problem = f"the run has no {' and no '.join(missing)}: there are no answers in rows to score again"
        raise Fp2Error(problem, where=str(run_id), fix="Repeat runs of yes/no batteries and of tasks with fp2 rerun")
    tables = read_tables(source, scored=False)
    named_keys = [".".join(key) for key in named_outside(source, here, read_plain(source))]
    old = logged_config(source, here, run_id, overrides, used=("scorer",))
    config = rescored_config(old, here, overrides, named_keys)
    protocol, job = logged_protocol(config, tables.people)
    if not isinstance(protocol, Asks) or protocol.requires.scoring != "required":
        kind = f"probe={config.probe.name}" if config.task.name == ASK else f"task={config.task.name}"
        fix = "Run it again with other settings: its answers come from the store"
        raise Fp2Error(f"a run of {kind} has no answers that the scorers read", where=str(run_id), fix=fix)
    check_settings(protocol, config, job.battery)
    with ExitStack() as stack:
        job = replace(job, scorers=_equipped(job, tables, progress, stack), progress=progress)
        new_labels = any(_key(word) in ("analysis", "analysis.labels") for word in overrides)
        tables = with_labels(tables, config, job.scorers, again=new_labels)
        before, tables = _whole_sets(before, tables, job.cuts)
        hidden = write_config(folder, config, overrides, own=is_own(source, here))
        tags = {
            "config_hash": config_hash(config),
            **{name: before[name] for name in ("response_set", "dataset_digest")},
            "variant": config.variant.name,
            "rescored_from": run_id,
        }
        cuts = [cut.name for cut in job.cuts]
        name = f"{config.model.name} · {'+'.join(cuts)} · rescored"
        with tracked(config, folder, tags, name, progress) as record:
            looks = record.earlier_looks()
            about = {
                **{key: value for key, value in before.items() if key != "earlier_looks"},
                **looks,
                **about_run(config.analysis.severity, record.run_id, config_hash(config), cuts),
                "scorers": describe_scorers(job.scorers),
                "rescored_from": _provenance(source, before),
            }
            notes = [note for note in read_notes(before) if note.code != LOOKED_AT.code]
            notes = [*with_scorers(notes, limitations_of(job.scorers)), *looked_notes(looks)]
            progress.stage("Scoring")
            tables = scored(protocol, tables, job)
            job = replace(job, facts=protocol.recall(before))
            attributes = {*config.analysis.adjust, *protocol.attributes(config)}
            evaluation = Evaluation(protocol, job, tables, about, notes, attributes)
            withdrawn = WithdrawnImages(Path(here.paths.state), tables.people, keyed=True)
            evaluation, results = analyse(evaluation, withdrawn, tables.keys_of, stack)
            extra: dict[str, Any] = {"seeds": {"analysis": config.seed, "data": config.data.seed}}
            extra |= {key: value for key, value in passport_part(source, "protocol").items() if key in _TAKEN_OVER}
            remember(Path(config.paths.state), record.run_id, hidden)
            outcome = record.finish(protocol, evaluation.published, results, extra)
            failures = checked(config, folder, progress, logged=record.logged)
    return outcome.checked(failures)


_TAKEN_OVER = ("decoding", "preprocessing")


def _equipped(job: Job, tables: RunTables, progress: Progress, stack: ExitStack) -> dict[str, Scorer]:
    """Return the scorers; those that ask a model use the store, and may cost no more than the cap."""
    from fp2.extension import AsksModel, ResponseStore, check_scoring_cost, equip

    if not any(isinstance(scorer, AsksModel) for scorer in job.scorers.values()):
        return dict(job.scorers)
    config = job.config
    store = stack.enter_context(ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores))
    scorers = equip(job.scorers, config, store, progress, job.battery, keyed=True)
    assert isinstance(tables.answers, RowAnswers)
    if config.answers.max_cost is not None:
        check_scoring_cost(scorers, tables.answers.answered, config.answers.max_cost)
    return scorers


def _whole_sets(before: dict[str, Any], tables: RunTables, cuts: Sequence[Cut]) -> tuple[dict[str, Any], RunTables]:
    """Return results and tables with only the counterfactual sets that vary in a cut, as a run selects them."""
    from fp2.extension import SETS_ALSO_VARY, of_sets, whole_sets

    people = tables.people
    if not of_sets(people):
        return before, tables
    remaining, notes = whole_sets(people, cuts)
    # the source's notes name every attribute that varies in the sets; its tables have those of its cuts only
    names = {cut.name for cut in cuts}
    stays = [n for n in read_notes(before) if n.code != SETS_ALSO_VARY.code or n.parameters["cut"] in names]
    stated = {note.parameters["cut"] for note in stays if note.code == SETS_ALSO_VARY.code}
    new = [n for n in as_notes(notes, Stage.DATA) if n not in stays and n.parameters.get("cut") not in stated]
    before = {**before, **logged([*stays, *new])}
    if len(remaining) < len(people):
        images = set(remaining["image_id"])
        tables = replace(tables, people=remaining, answers=tables.answers.without(set(people["image_id"]) - images, ()))
        digests = ("response_set", "dataset_digest")
        before |= {name: digest({"rescored_from": before[name], "kept": sorted(images)}) for name in digests}
        before["dataset"] = {**before["dataset"], "digest": before["dataset_digest"]}
    return before, tables


def _provenance(source: Path, before: dict[str, Any]) -> Block:
    """Return what the new run says of its source, with the commands that made it, where these are known."""
    from fp2.extension import payload_digest

    passport, repeat = source / artifacts.PASSPORT, how_to_repeat(source, before)
    commands = [*repeat["earlier"], repeat["command"]]
    return {
        **{key: before[key] for key in ("run_id", "created", "config_hash", "fp2_version")},
        "passport_sha256": payload_digest(passport) if passport.is_file() else None,
        **({} if None in commands else {"commands": commands}),
    }
