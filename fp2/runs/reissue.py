"""A logged run reissued after rows were removed from its tables: results, figures, dashboard, and a new passport.

The old passport is kept under another name, so that `fp2 verify` reports it as superseded.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.ask.answers import RunTables
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.results import assemble
from fp2.runs.outputs import write_rows
from fp2.runs.recompute import logged_config, logged_protocol, passport_protocol, recompute

if TYPE_CHECKING:
    import pandas as pd

    from fp2.report.section import Section

DERIVED = (
    artifacts.RESULTS, artifacts.DASHBOARD, artifacts.TABLE, artifacts.DISPARITIES, artifacts.PASSPORT,
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
    from fp2.report.section import load_sections

    config = logged_config(folder, here, before["run_id"])
    protocol, job = logged_protocol(config, tables.people)
    counts, analysis, lines = recompute(protocol, tables, job, before, before["answers"]["model_calls"])
    today = datetime.now(UTC).isoformat(timespec="seconds")
    line = f"{removed} person(s) were removed from this run afterwards ({today[:10]}); its numbers are without them."
    history = {"at": today, "people_removed": removed, "answers_left": tables.n_answers}
    about = {
        **before,
        "response_set": tables.response_set(before["response_set"], raw_keys),
        "dataset_digest": _data_digest(tables.people, before["dataset_digest"]),
        "limitations": [*lines, line],
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
    from fp2.report.figures import write_figures
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    had_figures, had_dashboard = (folder / artifacts.FIGURES).is_dir(), (folder / artifacts.DASHBOARD).is_file()
    extra = _retire_passport(folder)
    write_rows(folder, tables, results)
    artifacts.write_results(folder, results)
    if had_figures:
        shutil.rmtree(folder / artifacts.FIGURES)
        write_figures(results, folder / artifacts.FIGURES, sections, min_cell=config.report.suppress_below)
    if had_dashboard:
        _dashboard(folder, config, here, results, tables, sections)
    key, _ = load_or_create_key(Path(here.paths.keys))
    write_passport(folder, results, artifacts.files_of(folder), extra, key)


def _retire_passport(folder: Path) -> dict[str, Any]:
    """Rename the passport; return what the next one takes over from it."""
    from fp2.report.verify import payload_digest

    path = folder / artifacts.PASSPORT
    if not path.is_file():
        return {}
    old, protocol = payload_digest(path), passport_protocol(folder)
    shutil.copyfile(path, folder / f"passport.superseded-{old[:12]}.json")
    return {"supersedes": old, **{key: protocol.get(key) for key in _TAKEN_OVER}}


def _dashboard(
    folder: Path, config: Config, here: Config, results: dict[str, Any], tables: RunTables, sections: Sequence[Section]
) -> None:
    from fp2.report.dashboard import write_dashboard
    from fp2.report.leaderboard import summarise
    from fp2.tracking.client import summaries

    try:
        others = [row for row in summaries(here) if row["run_id"] != results["run_id"]]
    except Fp2Error:  # no MLflow store: the leaderboard has this run only
        others = []
    shown = tables.answers.examples(config.report.examples_per_probe)
    board = summarise(results) + others
    least, figures = config.report.suppress_below, folder / artifacts.FIGURES
    write_dashboard(results, shown, board, folder / artifacts.DASHBOARD, least, figures, sections)
