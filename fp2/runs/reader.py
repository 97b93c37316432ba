"""A finished run read back from its files, for comparing it with others: results, people, scores and cuts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.report.reading import model_name, primary_scorer, variant_name

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

_NEEDED = {
    "run_id": str, "created": str, "config_hash": str, "fp2_version": str, "dataset_digest": str, "model": dict,
    "dataset": dict, "variant": dict, "probes": list, "scorers": list, "cuts": list, "answers": dict, "balance": list,
    "composites": dict, "disparities": list, "analysis": dict, "limitations": list,
}  # fmt: skip
"""What is read of `results.json`, and what it is."""
_SCORE_COLUMNS = ["image_id", "subject_id", "probe", "scorer", "value", "refused"]


@dataclass(frozen=True)
class LoggedRun:
    """One run: what `results.json` holds, and its people and scores under salted keys."""

    results: Mapping[str, Any]
    people: pd.DataFrame
    scores: pd.DataFrame
    cuts: Mapping[str, Cut]
    _wide: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.results["run_id"])

    @property
    def name(self) -> str:
        """Model, and what was shown in place of the pictures."""
        variant = variant_name(self.results)
        return model_name(self.results) + (f" ({variant})" if variant else "")

    @property
    def primary(self) -> str:
        """The scorer that its composites are of."""
        return primary_scorer(self.results)

    @cached_property
    def probes(self) -> dict[str, str]:
        """Each probe's exact text by its id."""
        return {probe["id"]: probe["text"] for probe in self.results["probes"]}

    @cached_property
    def scorers(self) -> dict[str, str]:
        """What each scorer computes, by its name: version and lexicon, as one text to compare."""
        found = self.results["scorers"]
        return {s["name"]: json.dumps([s["version"], s["lexicon"]], sort_keys=True) for s in found}

    def wide(self, scorer: str) -> pd.DataFrame:
        """Return (image_id, subject_id) x probe of one scorer; missing where refused, failed or not scorable."""
        from fp2.protocols.fingerprint.outcomes import outcome_columns

        if scorer not in self._wide:
            found = outcome_columns(self.scores[self.scores["scorer"] == scorer])
            self._wide[scorer] = found.droplevel("scorer", axis=1) if len(found.columns) else found
        return self._wide[scorer]


def read_run(word: str, here: Config, scratch: Path) -> LoggedRun:
    """Return a run by its MLflow id, or from a folder with its files; what is fetched goes into `scratch`.

    Raises
    ------
    Fp2Error
        If there is no such run, or it keeps no table of scores per person.
    """
    folder = Path(word)
    if not (folder / artifacts.RESULTS).is_file():
        if folder.is_dir():
            raise Fp2Error("this folder holds no run", where=str(folder), fix=f"It lacks {artifacts.RESULTS}")
        folder = _fetch(word, here, scratch)
    results, config = read_results(folder), _config(folder)
    people, scores = _tables(folder, word, results)
    return LoggedRun(results, people, scores, _cuts(config, people, results, word))


def short_names(runs: Sequence[LoggedRun]) -> list[str]:
    """Return a name for each run; where several have the same one, the start of its id stands with it."""
    names = [run.name for run in runs]
    return [
        name if names.count(name) == 1 else f"{name} {run.run_id[:8]}" for name, run in zip(names, runs, strict=True)
    ]


def _fetch(run_id: str, here: Config, scratch: Path) -> Path:
    """Put a logged run's files into a folder of their own; a run without tables is told from one that is not there."""
    from fp2.tracking.client import download

    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # a bar per file; ours counts runs
    folder = scratch / run_id.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    download(here, run_id, (artifacts.RESULTS, artifacts.CONFIG), folder)
    try:
        download(here, run_id, (artifacts.PEOPLE, artifacts.SCORES), folder)
    except Fp2Error as error:
        raise _no_tables(run_id) from error
    return folder


def _no_tables(word: str) -> Fp2Error:
    return Fp2Error(
        "the run keeps no table with a score for each person and picture",
        where=word,
        fix="Only runs that score every answer can be compared; yes/no batteries asked in blocks, and runs that "
        "ask no model, cannot",
    )


def read_results(folder: Path) -> dict[str, Any]:
    """Return a run's `results.json`.

    Raises
    ------
    Fp2Error
        If it cannot be read, or holds something else.
    """
    try:
        results = json.loads((folder / artifacts.RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the run's files cannot be read: {' '.join(str(error).split())}", where=str(folder)) from error
    if not isinstance(results, dict) or any(not isinstance(results.get(name), kind) for name, kind in _NEEDED.items()):
        raise Fp2Error("this folder holds no run's results", where=str(folder), fix=f"See {artifacts.RESULTS} in it")
    return results


def _config(folder: Path) -> dict[str, Any]:
    import yaml

    try:
        config = yaml.safe_load((folder / artifacts.CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Fp2Error(f"the run's files cannot be read: {' '.join(str(error).split())}", where=str(folder)) from error
    return dict(config) if isinstance(config, dict) else {}


def _tables(folder: Path, word: str, results: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    import pandas as pd

    if not all((folder / name).is_file() for name in (artifacts.PEOPLE, artifacts.SCORES)):
        raise _no_tables(word)
    try:
        people = pd.read_parquet(folder / artifacts.PEOPLE)
        scores = pd.read_parquet(folder / artifacts.SCORES, columns=_SCORE_COLUMNS)
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {' '.join(str(error).split())}", where=word) from error
    if scores.empty or not results["cuts"]:
        raise _no_tables(word)
    if people["set_id"].notna().any():
        raise Fp2Error("counterfactual sets are compared within sets, not as groups of people", where=word)
    return people, scores


def _cuts(config: Mapping[str, Any], people: pd.DataFrame, results: Mapping[str, Any], word: str) -> dict[str, Cut]:
    """Return the cuts that the results are of, by name."""
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    try:
        found = {cut.name: cut for cut in resolve_cuts(config["cut"], attribute_columns(people))}
    except (KeyError, TypeError, AttributeError) as error:
        raise Fp2Error("the run's config names no cut", where=word) from error
    return {name: found[name] for name in results["cuts"] if name in found}
