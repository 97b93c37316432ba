"""A run made again from its tables, some rows of which were removed: results, figures, dashboard, and a new passport.

No model is loaded and no picture is read. The old passport stays beside the new one under another name, so that
whoever has it is told by `fp2 verify` that it was replaced.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fp2 import artifacts
from fp2.config import Config, from_plain
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.places import recall, with_places
from fp2.store.keys import response_set
from fp2.tables import CONTROLS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

PASSPORT = "passport.json"
DERIVED = (artifacts.RESULTS, artifacts.DASHBOARD, artifacts.TABLE, artifacts.DISPARITIES, PASSPORT)


class RunTables(Protocol):
    """What purging and remaking need of the tables of a run, whichever way its answers are kept."""

    @property
    def people(self) -> pd.DataFrame:
        """Who is in the pictures; ids are salted keys."""
        ...

    @property
    def n_answers(self) -> int:
        """How many answers were planned."""
        ...

    def write(self, folder: Path) -> None:
        """Write them over the ones in `folder`."""
        ...

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the salted keys of the answers that show these pictures (not of what was shown in their place)."""
        ...

    def without(self, left: pd.DataFrame, images: Collection[str], keys: Collection[str]) -> RunTables:
        """Return the tables of the people `left`, without the answers filed under `images` or kept under `keys`."""
        ...

    def findings(self, config: Config, cuts: Sequence[Cut], before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of the results follows from the tables."""
        ...

    def response_set(self, before: str, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the answers that are left, or one that stands on the old where keys are not known."""
        ...

    def examples(self, per_probe: int) -> list[dict[str, Any]]:
        """Return the most frequent answers of each probe."""
        ...

    def write_rows(self, folder: Path, results: Mapping[str, Any]) -> None:
        """Write the tables of the results' rows."""
        ...


@dataclass(frozen=True)
class Tables:
    """The tables of one run that hold a row per person or answer; ids are salted keys."""

    people: pd.DataFrame
    answers: pd.DataFrame
    scores: pd.DataFrame

    @property
    def n_answers(self) -> int:
        """How many answers were planned."""
        return len(self.answers)

    def write(self, folder: Path) -> None:
        """Write them over the ones in `folder`."""
        for name, table in (
            (artifacts.PEOPLE, self.people),
            (artifacts.RESPONSES, self.answers),
            (artifacts.SCORES, self.scores),
        ):
            artifacts.write_parquet(folder / name, table)

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the salted keys of the answers given to these pictures."""
        filed = self.answers["image_id"].isin(images) & ~self.answers["variant"].isin(CONTROLS)
        return set(self.answers.loc[filed, "response_key"])

    def without(self, left: pd.DataFrame, images: Collection[str], keys: Collection[str]) -> Tables:
        """Return the tables of the people `left`, without what is filed under `images` or kept under `keys`."""
        answers, scores = (
            table[~(table["image_id"].isin(images) | table["response_key"].isin(keys))]
            for table in (self.answers, self.scores)
        )
        return Tables(*(table.reset_index(drop=True) for table in (left, answers, scores)))

    def findings(self, config: Config, cuts: Sequence[Cut], before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of the results follows from the tables."""
        from fp2.analysis import compared
        from fp2.probes.battery import load_battery
        from fp2.results import analysis_block, measured
        from fp2.scorers.registry import build_scorers

        people, answers = self.people, self.answers
        probes = [probe["id"] for probe in before["probes"]]
        scorers = build_scorers(config.scorer) if config.scorer else {}
        found = compared(config, load_battery(asdict(config.probe)), answers, self.scores, people, cuts, scorers)
        return {
            **found.blocks,
            **measured(people, answers, found.fingerprint, cuts, probes, before["answers"]["model_calls"]),
            "analysis": analysis_block(config, found.comparison, scorers),
        }

    def response_set(self, before: str, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the response keys that are left, or one that stands on the old."""
        return _response_set(self.answers, before, raw_keys)

    def examples(self, per_probe: int) -> list[dict[str, Any]]:
        """Return the most frequent answers of each probe."""
        return artifacts.examples(self.answers, per_probe)

    def write_rows(self, folder: Path, results: Mapping[str, Any]) -> None:
        """Write the disparities."""
        artifacts.write_disparities(folder, results["disparities"])


def read_tables(folder: Path) -> RunTables:
    """Return a run's tables.

    Raises
    ------
    Fp2Error
        If one is missing or cannot be read.
    """
    from fp2.block_tables import in_blocks

    if in_blocks(folder):
        from fp2.remake_blocks import read_block_tables

        return read_block_tables(folder)
    import pandas as pd

    from fp2.remake_tables import of_task, read_score_tables

    names = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES)
    try:
        tables = Tables(*(pd.read_parquet(folder / name) for name in names))
        return read_score_tables(folder, tables) if of_task(folder) else tables
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {error}", where=str(folder)) from error


def remake(
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
        The results as they were.
    raw_keys : mapping
        Salted response key -> response key, as far as the store knows it.
    removed : int
        How many people were removed from the run.

    Raises
    ------
    Fp2Error
        If the run cannot be computed again: its config or scorers are not there, or the tables do not hold a cut.
    """
    config = logged_config(folder, here, before["run_id"])
    results = _results(config, tables, before, raw_keys, removed)
    had_figures, had_dashboard = (folder / artifacts.FIGURES).is_dir(), (folder / artifacts.DASHBOARD).is_file()
    extra = _retire_passport(folder)
    tables.write_rows(folder, results)
    artifacts.write_results(folder, results)
    if had_figures:
        from fp2.report.figures import write_figures

        shutil.rmtree(folder / artifacts.FIGURES)
        write_figures(results, folder / artifacts.FIGURES, lambda: None)
    if had_dashboard:
        _dashboard(folder, config, here, results, tables)
    _sign(folder, here, results, extra)
    return results


def strip(folder: Path) -> None:
    """Delete whatever was computed from a run's tables, the passport included."""
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / artifacts.FIGURES, ignore_errors=True)
    for path in folder.glob("passport.superseded-*.json"):
        path.unlink()


def logged_config(folder: Path, here: Config, run_id: str) -> Config:
    """Return a run's config with this machine's folders; a place that is not known here stays `local:NAME`.

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


def _results(
    config: Config, tables: RunTables, before: Mapping[str, Any], raw_keys: Mapping[str, str], removed: int
) -> dict[str, Any]:
    from fp2.cuts import resolve_cuts
    from fp2.protocols.balance import later_block
    from fp2.protocols.registry import BLOCKS
    from fp2.results import group_sizes, later_limitations
    from fp2.tables import attribute_columns

    people = tables.people
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(people))
    today = datetime.now(UTC).isoformat(timespec="seconds")
    line = f"{removed} person(s) were removed from this run afterwards ({today[:10]}); its numbers are without them."
    data_digest, n_answers = _data_digest(people, before["dataset_digest"]), tables.n_answers
    found = tables.findings(config, cuts, before)
    balance = later_block(found["balance"], cuts, before["balance"])
    return {
        **{name: value for name, value in before.items() if name not in BLOCKS},
        **found,
        "balance": balance,
        "response_set": tables.response_set(before["response_set"], raw_keys),
        "dataset_digest": data_digest,
        "dataset": {**before["dataset"], "digest": data_digest, "groups": group_sizes(people, cuts)},
        "limitations": [*later_limitations(before, balance), line],
        "purged": [*before.get("purged", []), {"at": today, "people_removed": removed, "answers_left": n_answers}],
    }


def _data_digest(people: pd.DataFrame, before: str) -> str:
    """Return a digest of who is left: the pictures are not at hand, so it stands on the old digest and the keys."""
    pairs = sorted(zip(people["image_id"], people["subject_id"], strict=True))
    return digest({"purged_from": before, "kept": [list(pair) for pair in pairs]})


def _response_set(answers: pd.DataFrame, before: str, raw_keys: Mapping[str, str]) -> str:
    """Return the digest of the response keys that are left, or one that stands on the old where keys are not known."""
    keys = answers["response_key"].tolist()
    if all(key in raw_keys for key in keys):
        return response_set(raw_keys[key] for key in keys)
    return digest({"purged_from": before, "kept": sorted(set(keys))})


def _retire_passport(folder: Path) -> dict[str, Any]:
    """Keep the passport under another name; return what the next one takes over from it."""
    from fp2.report.verify import payload_digest

    path = folder / PASSPORT
    if not path.is_file():
        return {}
    old = payload_digest(path)
    payload = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    shutil.copyfile(path, folder / f"passport.superseded-{old[:12]}.json")
    protocol = payload["predicate"]["protocol"]
    return {"supersedes": old, **{key: protocol.get(key) for key in ("decoding", "preprocessing", "seeds")}}


def _dashboard(folder: Path, config: Config, here: Config, results: dict[str, Any], tables: RunTables) -> None:
    from fp2.report.dashboard import write_dashboard
    from fp2.report.leaderboard import summarise
    from fp2.tracking import summaries

    try:
        others = [row for row in summaries(here) if row["run_id"] != results["run_id"]]
    except Fp2Error:  # no MLflow store: the run stands alone
        others = []
    shown = tables.examples(config.report.examples_per_probe)
    board = summarise(results) + others
    least, figures = config.report.suppress_below, folder / artifacts.FIGURES
    write_dashboard(results, shown, board, folder / artifacts.DASHBOARD, least, figures)


def _sign(folder: Path, here: Config, results: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    key, _ = load_or_create_key(Path(here.paths.keys))
    write_passport(folder, results, artifacts.files_of(folder), extra, key)
