"""The specification curve of a logged run, computed from its tables into a folder of its own.

The run is not changed: its files are signed. The folder is `multiverse/RUN_ID` among the outputs; a purge finds it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    RUN_ID,
    Asks,
    Config,
    Fp2Error,
    NoteKind,
    Progress,
    Stage,
    __version__,
    artifacts,
    check_settings,
    logged,
    logged_config,
    logged_protocol,
    read_notes,
    read_tables,
)

if TYPE_CHECKING:
    from fp2.extension import Section

BLOCK = "multiverse"
FILE = "multiverse.json"
NEEDED = (artifacts.CONFIG, artifacts.RESULTS)
TABLES = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES)
AFTERWARDS = NoteKind(
    "curve_computed_afterwards",
    Stage.HISTORY,
    "The specification curve was computed afterwards, from the tables of the run; the run's passport does not cover "
    "it.",
)()


@dataclass(frozen=True)
class Computed:
    """The results of the run with the block, the block's section, and the folder of the files."""

    results: Mapping[str, Any]
    section: Section
    folder: Path

    @property
    def document(self) -> dict[str, Any]:
        """Return `multiverse.json`: the block, and which run it is of."""
        about = ("run_id", "created", "config_hash", "response_set", "dataset_digest")
        run = {name: self.results[name] for name in about} | {"fp2_version": self.results["fp2_version"]}
        return {"run": run, "fp2_version": __version__, **self.results[BLOCK]}


def folder_of(outputs: Path, run_id: str) -> Path:
    """Return the folder of the specification curve of a run."""
    if not RUN_ID.fullmatch(run_id):
        raise Fp2Error("the run's id is not valid", where=run_id[:80])
    return outputs.expanduser().resolve() / BLOCK / run_id


def forget(outputs: Path, run_id: str, kept: Collection[str] = ()) -> None:
    """Delete the specification curve of a run, if there is one: it follows from the answers about all its subjects."""
    if RUN_ID.fullmatch(run_id):
        shutil.rmtree(folder_of(outputs, run_id), ignore_errors=True)


def multiverse(source: Path, here: Config, progress: Progress, words: Sequence[str] = ()) -> Computed:
    """Compute the specification curve of the run in `source`, and write `multiverse.json`, figures and dashboard.

    `words` state again what a run of somebody else names (`fp2.runs.origin`).
    """
    from fp2.extension import load_sections, read_results, writing_about

    before = read_results(source)
    if missing := [name for name in TABLES if not (source / name).is_file()]:
        fix = "Only runs whose answers are scored have specifications: no yes/no batteries, and no tasks"
        raise Fp2Error(f"the run has no {' and no '.join(missing)}", where=str(before["run_id"]), fix=fix)
    config = logged_config(source, here, before["run_id"], words)
    config = replace(config, analysis=replace(config.analysis, multiverse=True))
    tables = read_tables(source)
    protocol, job = logged_protocol(config, tables.people)
    check_settings(protocol, config, job.battery)
    job = replace(job, progress=progress)
    block = protocol.later_block(BLOCK, tables, job, before["disparities"]) if isinstance(protocol, Asks) else None
    if block is None:
        raise Fp2Error("the run has no groups that are compared", where=str(before["run_id"]))
    results = {**before, **logged([*read_notes(before), AFTERWARDS]), BLOCK: block}
    section = next(
        section_class for section_class in load_sections(protocol.section_targets()) if section_class.name == BLOCK
    )
    computed = Computed(results, section, folder_of(Path(here.paths.outputs), str(before["run_id"])))
    with writing_about(here, [tables.people]):
        _write(computed, source, here, progress)
    return computed


def _write(computed: Computed, source: Path, local_config: Config, progress: Progress) -> None:
    """Write the block, its figures and a dashboard of the run's disparities with it."""
    from fp2.extension import charts, how_to_repeat, suppressed, write_charts, write_dashboard

    folder, min_cell, block = computed.folder, local_config.report.suppress_below, computed.results[BLOCK]
    n_steps = 1 + len(block["cuts"]) + 2 * len(block["rows"])
    with artifacts.as_user_error(folder), progress.steps("Writing the report", n_steps) as step:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        document = {"computed": datetime.now(UTC).isoformat(timespec="seconds"), **computed.document}
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")
        step()
        figures = folder / artifacts.FIGURES
        drawn = charts(suppressed(computed.section.values(block, computed.results), min_cell))
        vector = [replace(chart, file=f"{chart.file or chart.name}.svg") for chart in drawn if not chart.in_files]
        for _ in write_charts([*drawn, *vector], computed.results, figures):
            step()
        page = folder / artifacts.DASHBOARD
        repeat = how_to_repeat(source, computed.results)
        write_dashboard(computed.results, (), (), page, min_cell, [computed.section], repeat=repeat)
