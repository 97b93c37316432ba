"""Recompute the results of a logged run from its tables: to score it again, or after rows were removed.

No model is loaded and no image is read. Ids in the tables are salted keys. After a removal the run is issued again with
results, figures, dashboard and a new passport; the old passport is kept under another name, so that `fp2 verify`
reports it as superseded.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.ask.answers import RunTables
from fp2.compose import build_protocol, from_plain
from fp2.config import Config
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.notes import Note, NoteKind, Stage, as_notes, read_notes, without
from fp2.plugins import PROTOCOLS, load, names_with
from fp2.protocols.base import EvaluationProtocol, Job
from fp2.results import Analysis, Counts, assemble
from fp2.runs.local_paths import recall, with_places
from fp2.runs.outputs import write_rows

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.report.section import Section


def count_tables(tables: RunTables, cuts: Sequence[Cut], probes: Sequence[str], model_calls: int) -> Counts:
    """Return the parts of the results that follow from counting the tables."""
    from fp2.cuts import of_sets
    from fp2.data.group_sizes import group_sizes, without_value
    from fp2.protocols.balance import balance_block

    people, answers = tables.people, tables.answers
    asked = bool(answers.n_planned)
    return Counts(
        n_images=tables.n_images,
        n_subjects=tables.n_subjects,
        answers=answers.counts(model_calls),
        answers_by_group=answers.counts_by_group(people, cuts) if asked else [],
        refusal_rates=answers.refusal_rates() if asked else [],
        balance=[] if of_sets(people) else balance_block(people, cuts),
        diversity=answers.diversity(probes) if asked else [],
        groups=group_sizes(people, cuts),
        without_value=without_value(people, cuts),
    )


def logged_config(folder: Path, here: Config, run_id: str) -> Config:
    """Return a run's config with this machine's paths; a path that is not stored here remains `local:NAME`.

    Raises
    ------
    Fp2Error
        If it cannot be read or does not fit this version.
    """
    import yaml

    try:
        plain = yaml.safe_load((folder / artifacts.CONFIG).read_text(encoding="utf-8"))
        plain = with_places(plain, recall(Path(here.paths.state), run_id))
        plain["paths"] = asdict(here.paths)
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise Fp2Error(f"the run's config cannot be read: {error}", where=str(folder)) from error
    return from_plain(plain)


def logged_protocol(config: Config, people: pd.DataFrame) -> tuple[EvaluationProtocol[Any], Job]:
    """Return the protocol of a logged run, and how its tables are analysed (without `facts`).

    Answers that are not scored need no battery, whose files may be gone by now: the job has none.

    Raises
    ------
    Fp2Error
        If its protocol, battery or scorers are not there, or the tables lack the attribute of a cut.
    """
    from fp2.probes.battery import load_battery
    from fp2.scorers.registry import build_scorers

    protocol = build_protocol(config)
    cuts = logged_cuts(config, people)
    if not protocol.asks or protocol.scoring == "none":
        return protocol, Job(config, cuts)
    battery = load_battery(asdict(config.probe), config.model.id)
    protocol = protocol.for_battery(battery).for_people(people)
    scorers = build_scorers(config.scorer) if config.scorer else {}
    protocol.check_scorers(battery, scorers)
    return protocol, Job(config, cuts, battery, scorers)


def logged_cuts(config: Config, people: pd.DataFrame) -> tuple[Cut, ...]:
    """Return the cuts of a logged run.

    Raises
    ------
    Fp2Error
        If its people table lacks the attribute of one.
    """
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    kept = attribute_columns(people)
    wanted = {name for cut in resolve_cuts(asdict(config.cut)) for name in cut.by}
    for name in sorted(wanted - set(kept)):
        raise Fp2Error(
            f"the run's table of people has no attribute {name!r}",
            where="cut",
            fix=f"{nearest(name, kept)}. Start a run with this cut: its answers come from the store",
        )
    return resolve_cuts(asdict(config.cut), kept)


def recompute(
    protocol: EvaluationProtocol[Any], tables: RunTables, job: Job, before: Mapping[str, Any], model_calls: int
) -> tuple[Counts, Analysis, list[Note]]:
    """Analyse the tables of a logged run.

    Parameters
    ----------
    before : mapping
        The results of the run: the balance of attributes that the tables no longer hold is taken over from them.

    Returns
    -------
    (counts, analysis, notes)
        What `fp2.results.assemble` needs besides what the run is. Of the notes of `before`, those of the stages that
        are repeated are replaced.
    """
    from fp2.data.group_sizes import cut_notes
    from fp2.protocols.balance import balance_warnings, later_block

    analysis = protocol.analysed(tables, replace(job, facts=protocol.recall(before)))
    counts = count_tables(tables, job.cuts, [probe["id"] for probe in before["probes"]], model_calls)
    counts = replace(counts, balance=later_block(counts.balance, job.cuts, before["balance"]))
    notes = without(read_notes(before), Stage.TABLES, Stage.SCORES, Stage.ANALYSIS)
    groups = cut_notes(tables.people, job.cuts)
    stated = (*balance_warnings(counts.balance), *groups, *as_notes(analysis.notes, Stage.ANALYSIS))
    return counts, analysis, notes + [note for note in stated if note not in notes]


def passport_part(folder: Path, part: str) -> dict[str, Any]:
    """Return a part (`protocol`, `generator`) of what a run's passport states; empty where it has none."""
    path = folder / artifacts.PASSPORT
    if not path.is_file():
        return {}
    payload = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    return dict(payload["predicate"].get(part) or {})


REMOVED = NoteKind(
    "removed", Stage.HISTORY, "{n} subject(s) were removed from this run on {day}; the results exclude them."
)
DERIVED = (
    artifacts.RESULTS, artifacts.DASHBOARD, *artifacts.UI_TABLES, artifacts.DISPARITIES, artifacts.PASSPORT,
)  # fmt: skip
_TAKEN_OVER = ("decoding", "preprocessing", "seeds")


def reissue(
    folder: Path, tables: RunTables, here: Config, before: Mapping[str, Any], raw_keys: Mapping[str, str], removed: int
) -> dict[str, Any]:
    """Compute and write everything that follows from `tables`, sign it, and return the results.

    Parameters
    ----------
    folder : Path
        The run's folder; `tables` are written there already.
    here : Config
        Where state, keys and the MLflow store are.
    before : mapping
        The results before the removal.
    raw_keys : mapping
        Salted response key -> response key, as far as the store has it.
    removed : int
        How many people were removed from the run.

    Raises
    ------
    Fp2Error
        If the run cannot be recomputed: its config, protocol or scorers are missing, or the tables lack a cut.
    """
    from fp2.cuts import with_present_values
    from fp2.report.section import load_sections

    config = logged_config(folder, here, before["run_id"])
    protocol, job = logged_protocol(config, tables.people)
    # the last person with a selected value may be gone
    job = replace(job, cuts=tuple(with_present_values(tables.people, cut) for cut in job.cuts))
    counts, analysis, notes = recompute(protocol, tables, job, before, before["answers"]["model_calls"])
    today = datetime.now(UTC).isoformat(timespec="seconds")
    history = {"at": today, "people_removed": removed, "answers_left": tables.n_answers}
    about = {
        **before,
        "response_set": tables.response_set(before["response_set"], raw_keys),
        "dataset_digest": _data_digest(tables.people, before["dataset_digest"]),
        "limitations": [*notes, REMOVED(n=removed, day=today[:10])],
        "purged": [*before.get("purged", []), history],
    }
    results = assemble(about, counts, analysis)
    sections = load_sections(protocol.section_targets())
    _write(folder, config, here, results, tables, sections)
    return results


def strip(folder: Path) -> None:
    """Delete whatever was computed from a run's tables, the passport included."""
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / artifacts.FIGURES, ignore_errors=True)
    for path in folder.glob("passport.superseded-*.json"):
        path.unlink()


def _data_digest(people: pd.DataFrame, before: str) -> str:
    """Return a digest of the remaining data set from the old digest and the remaining keys: no image is read."""
    pairs = sorted(zip(people["image_id"], people["subject_id"], strict=True))
    return digest({"purged_from": before, "kept": [list(pair) for pair in pairs]})


def _write(
    folder: Path, config: Config, here: Config, results: dict[str, Any], tables: RunTables, sections: Sequence[Section]
) -> None:
    """Write the results, and figures and dashboard where the run had them; sign the folder."""
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport
    from fp2.report.section import write_figures

    had_figures, had_dashboard = (folder / artifacts.FIGURES).is_dir(), (folder / artifacts.DASHBOARD).is_file()
    extra = _retire_passport(folder)
    sample = write_rows(config, folder, tables, results)
    artifacts.write_results(folder, results)
    if had_figures:
        shutil.rmtree(folder / artifacts.FIGURES)
        write_figures(results, folder / artifacts.FIGURES, sections, min_cell=config.report.suppress_below)
    key, _ = load_or_create_key(Path(here.paths.keys))
    if had_dashboard:
        _dashboard(folder, config, here, results, tables, sections, sample, key.keyid)
    write_passport(folder, results, artifacts.files_of(folder), extra, key, config.report.suppress_below)


def _retire_passport(folder: Path) -> dict[str, Any]:
    """Rename the passport; return what the next one takes over from it."""
    from fp2.report.verify import payload_digest

    path = folder / artifacts.PASSPORT
    if not path.is_file():
        return {}
    old, protocol = payload_digest(path), passport_part(folder, "protocol")
    shutil.copyfile(path, folder / f"passport.superseded-{old[:12]}.json")
    return {"supersedes": old, **{key: protocol.get(key) for key in _TAKEN_OVER}}


def _dashboard(
    folder: Path, config: Config, here: Config, results: dict[str, Any], tables: RunTables,
    sections: Sequence[Section], sample: Sequence[Mapping[str, Any]], key_id: str,
) -> None:  # fmt: skip
    from fp2.report.dashboard import write_dashboard
    from fp2.report.leaderboard import summarise
    from fp2.report.passport import generator
    from fp2.report.reproduce import how_to_repeat
    from fp2.tracking.client import summaries

    try:
        others = [row for row in summaries(here) if row["run_id"] != results["run_id"]]
    except Fp2Error:  # no MLflow store: the leaderboard has this run only
        others = []
    shown = tables.answers.examples(config.report.examples_per_probe)
    board = summarise(results) + others
    least, page = config.report.suppress_below, folder / artifacts.DASHBOARD
    repeat = how_to_repeat(folder, results, generator())
    write_dashboard(results, shown, board, page, least, sections, sample, key_id, repeat)


def run_sections(folder: Path, here: Config, run_id: str) -> Sequence[Section]:
    """Return the report sections of a run's protocol; none if the protocol is not installed here."""
    try:
        return load_run_sections(folder, here, run_id)
    except Fp2Error:
        return ()


def load_run_sections(folder: Path, here: Config, run_id: str) -> Sequence[Section]:
    """Return the report sections of a run's protocol and of its special cases, one of which may have made the run.

    Raises
    ------
    Fp2Error
        If the protocol is not installed here, or the run's config cannot be read.
    """
    from fp2.report.section import load_sections

    protocol = build_protocol(logged_config(folder, here, run_id))
    special = names_with(PROTOCOLS, "special_case_of", protocol.name)
    protocols = [protocol, *(load(PROTOCOLS, name, "probe.protocol")(protocol.options) for name in sorted(special))]
    return load_sections([*dict.fromkeys(target for one in protocols for target in one.section_targets())])
