"""`fp2 show`, `diff`, `check`, `multiverse` and `log`: commands on finished runs."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fp2 import artifacts
from fp2.commands.output import print_json
from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.plugins import WITHDRAWAL, load
from fp2.progress import Progress
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.config import Config

EXIT_FAILED = 1
DIGESTS = ("config_hash", "response_set", "dataset_digest", "fp2_version")


@contextmanager
def run_files(word: str, local_config: Config, more: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the folder of a run's files; those of the MLflow store are there until the end of the block.

    `more` are further files, which a run may lack.
    """
    from fp2.runs.reader import run_folder

    with tempfile.TemporaryDirectory(prefix="fp2-run-") as scratch:
        yield run_folder(word, local_config, Path(scratch), (artifacts.RESULTS, artifacts.CONFIG), more)


def show(word: str, overrides: Sequence[str], as_json: bool = False) -> None:
    """Print the results of a run as at its end, or as JSON."""
    from fp2.report.terminal import print_results
    from fp2.runs.logged import run_sections
    from fp2.runs.reader import read_results

    local_config = load_config(overrides)
    with run_files(word, local_config) as folder:
        results = read_results(folder)
        if as_json:
            print_json(results)
            return
        paths: dict[str, object] = {"run": results["run_id"], "config": results["config_hash"]}
        if str(folder) == word:
            paths["results"] = folder / artifacts.RESULTS
        print_results(results, Console(), paths, run_sections(folder, local_config, results["run_id"]))


def diff(first: str, second: str, overrides: Sequence[str], as_json: bool = False) -> int:
    """Print where the configs of two runs differ; return 0 if they are the same, else 1."""
    flat_configs = [_flat_config(word, overrides) for word in (first, second)]
    rows = [
        {"key": key, "first": flat_configs[0].get(key), "second": flat_configs[1].get(key)}
        for key in sorted({*flat_configs[0], *flat_configs[1]})
        if flat_configs[0].get(key) != flat_configs[1].get(key)
    ]
    if as_json:
        print_json(rows)
        return EXIT_FAILED if rows else 0
    if not rows:
        print("the runs have the same config, answers and data")
        return 0
    table = Table("key", first, second)
    for row in rows:
        cells = ("–" if value is None else _short(value) for value in (row["first"], row["second"]))
        table.add_row(*(Text(cell, overflow="fold") for cell in (str(row["key"]), *cells)))
    Console().print(table)
    return EXIT_FAILED


def _flat_config(word: str, overrides: Sequence[str]) -> dict[str, object]:
    from fp2.runs.origin import leaves, read_plain
    from fp2.runs.reader import read_results

    with run_files(word, load_config(overrides)) as folder:
        results, config = read_results(folder), read_plain(folder)
    return {name: results[name] for name in DIGESTS} | {".".join(key): value for key, value in leaves(config)}


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"


def check(word: str, overrides: Sequence[str], public_keys: Sequence[Path], as_json: bool) -> int:
    """Print one line per check of the run that `word` names; return 0 if none fails, else 1."""
    from fp2.runs.checks import CHECKS, check_run
    from fp2.runs.reader import run_folder

    local_config = load_config(overrides)
    with tempfile.TemporaryDirectory(prefix="fp2-check-") as scratch:
        folder = run_folder(word, local_config, Path(scratch), ("",))
        with Progress().steps("Checking the run", len(CHECKS)) as tick:
            findings = check_run(folder, local_config, public_keys=public_keys, tick=tick)
    failed = [finding for finding in findings if finding.failures]
    if as_json:
        print_json({"sound": not failed, "checks": [asdict(finding) for finding in findings]})
        return EXIT_FAILED if failed else 0
    for finding in findings:
        for failure in finding.failures:
            print(printable(f"failed: {finding.check}: {failure}"), file=sys.stderr)
        for failure in finding.notes:
            print(printable(f"note: {finding.check}: {failure}"))
    print(f"{len(findings) - len(failed)} of {len(findings)} checks passed")
    return EXIT_FAILED if failed else 0


def log_run(word: str, here: Config) -> tuple[str, str]:
    """Log a finished run, after a failure of MLflow; return the ids of the MLflow run and experiment.

    Parameters
    ----------
    word : str
        Its folder, or its id or config hash (the first characters will do) in the output folder.
    here : Config
    """
    from fp2.run import finish_purges
    from fp2.runs.folders import record_folder
    from fp2.runs.logged import logged_config, passport_part, run_sections
    from fp2.runs.outputs import code_tags, log_files
    from fp2.runs.reader import local_folder, read_results
    from fp2.store.withdrawn import writing
    from fp2.tracking import client

    finish_purges(here, Progress())
    folder = Path(word)
    if not folder.is_dir() and (logged_folder := local_folder(word, here)) is not None:
        folder = logged_folder
    run_id = str(read_results(folder)["run_id"])
    if not (folder / artifacts.PASSPORT).is_file():
        raise Fp2Error("the run has no passport: it did not end", where=str(folder), fix="Run the same command again")
    record_folder(Path(here.paths.state), run_id, folder)
    with writing(Path(here.paths.state)) as withdrawn:
        if withdrawn:
            load(WITHDRAWAL, "reissue", "fp2 log")(folder, here, withdrawn)
        results = read_results(folder)
        config = logged_config(folder, here, run_id)
        config = replace(config, tracking=replace(here.tracking, experiment=config.tracking.experiment))
        tags = {key: results[key] for key in ("config_hash", "response_set", "dataset_digest")}
        tags |= {"sweep_id": config.tracking.sweep_id, "variant": config.variant.name, "run_id": run_id}
        tags |= {"remote_code": results["model"].get("remote_code"), **code_tags(passport_part(folder, "generator"))}
        name = " · ".join([results["model"]["name"], "+".join(results["cuts"]), config.variant.name])
        tracker = client.resume(config, run_id) or client.start_run(config, tags, name)
        log_files(config, tracker, folder, results, run_sections(folder, here, run_id))
    return tracker.run_id, tracker.experiment_id
