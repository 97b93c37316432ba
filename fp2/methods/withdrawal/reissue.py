"""Issue a run again after rows of its tables were removed: results, figures, dashboard, and a new passport.

No model is loaded and no image is read. The old passport is kept under another name, so that `fp2 verify` reports it as
superseded.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import (
    Block,
    Config,
    Evaluation,
    NoteKind,
    Progress,
    Stage,
    artifacts,
    digest_without,
    load_sections,
    logged_config,
    logged_protocol,
    passport_part,
    payload_digest,
    plural,
    read_notes,
    read_results,
    read_tables,
    results_from,
    with_present_values,
    write_run,
)

if TYPE_CHECKING:
    from fp2.extension import RunTables, Withdrawn

REMOVED = NoteKind(
    "removed",
    Stage.HISTORY,
    lambda n, day: f"{plural(n, 'subject')} removed from this run on {day}: the results are without them.",
)
DERIVED = (
    artifacts.RESULTS, artifacts.DASHBOARD, *artifacts.UI_TABLES, artifacts.DISPARITIES, artifacts.PASSPORT,
)  # fmt: skip
_TAKEN_OVER = ("decoding", "preprocessing", "seeds")


def reissue(
    folder: Path, tables: RunTables, here: Config, before: Block, raw_keys: Mapping[str, str], removed: int
) -> Callable[[], None]:
    """Compute everything that follows from `tables`; return what writes and signs it.

    Parameters
    ----------
    folder : Path
        The run's folder.
    here : Config
        Where state, keys and the MLflow store are.
    before : mapping
        The results before the removal.
    raw_keys : mapping
        Salted response key -> response key, as far as the store has it.
    removed : int
        How many people were removed from the run.
    """
    config = logged_config(folder, here, before["run_id"])
    protocol, job = logged_protocol(config, tables.people)
    # the last person with a selected value may be gone
    cuts = tuple(with_present_values(tables.people, cut) for cut in job.cuts)
    job = replace(job, cuts=cuts, facts=protocol.recall(before))
    today = datetime.now(UTC).isoformat(timespec="seconds")
    history = {"at": today, "people_removed": removed, "answers_left": tables.n_answers}
    about = {
        **before,
        "response_set": tables.response_set(before["response_set"], raw_keys),
        "dataset_digest": digest_without(tables.people, before["dataset_digest"]),
        "purged": [*before.get("purged", []), history],
    }
    notes = [*read_notes(before), REMOVED(n=removed, day=today[:10])]
    calls = before["answers"]["model_calls"]
    evaluation = Evaluation(protocol, job, tables, about, notes, model_calls=calls)
    results = results_from(evaluation, protocol.analyse(tables, job))
    sections, figures = load_sections(protocol.section_targets()), folder / artifacts.FIGURES
    passport = folder / artifacts.PASSPORT
    report = replace(config.report, figures=figures.is_dir(), dashboard=(folder / artifacts.DASHBOARD).is_file())
    config = replace(config, report=report, tracking=here.tracking)

    def write() -> None:
        shutil.rmtree(figures, ignore_errors=True)
        for name in DERIVED:  # a table that is empty from now on is not written
            if name != artifacts.PASSPORT:
                (folder / name).unlink(missing_ok=True)
        extra: Block = {}
        if passport.is_file():
            old, protocol_stated = payload_digest(passport), passport_part(folder, "protocol")
            shutil.copyfile(passport, folder / f"passport.superseded-{old[:12]}.json")
            extra = {"supersedes": old, **{key: protocol_stated.get(key) for key in _TAKEN_OVER}}
        write_run(config, folder, tables, results, sections, extra, Progress(quiet=True))

    return write


def reissue_present(folder: Path, here: Config, withdrawn: Withdrawn) -> None:
    """Issue a run again without people who were withdrawn, if its tables have any: a purge did not reach it."""
    tables = read_tables(folder)
    present = tables.present(withdrawn)
    if len(present.people) < len(tables.people):
        reissue(folder, present, here, read_results(folder), {}, tables.n_subjects - present.n_subjects)()


def strip(folder: Path) -> None:
    """Delete whatever was computed from a run's tables, the passport included."""
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / artifacts.FIGURES, ignore_errors=True)
    for path in folder.glob("passport.superseded-*.json"):
        path.unlink()
