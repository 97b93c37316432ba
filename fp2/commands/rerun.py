"""`fp2 rerun` and `fp2 rescore`: what can be done with a logged run.

`rerun` repeats it from its config and compares the numbers row by row. `rescore` scores its answers with other scorers,
cuts or analysis settings, without a model.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from fp2 import artifacts
from fp2.compose import config_hash, from_plain, load_config
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Terminal
from fp2.results import PROSE
from fp2.runs.local_paths import missing_places, recall, with_places

NUMBERS = ("raw", "null_mean", "p_value", "adjusted_p", "ci_low", "ci_high", "shrunken")
# Numbers come from the same seeds; only the order of floating-point sums may differ between machines.
TOLERANCE = 1e-9
EXIT_DIFFERENT = 1
FILES = (artifacts.CONFIG, artifacts.OVERRIDES, artifacts.RESULTS)
# Overrides that are allowed: where files are and how the run is executed, never what is asked.
MAY_CHANGE = (
    "paths.", "tracking.", "engine.device", "engine.batch_size", "engine.threads", "data.root", "data.path",
    "data.image_root", "model.id", "model.truth", "answers.", "report.", "verify_inputs", "scorer.",
    "task.files.",
)  # fmt: skip


def rerun(run_id: str, overrides: Sequence[str]) -> int:
    """Repeat `run_id` (an MLflow run, or a folder with its files); return 0 if every number is the same.

    `overrides` may change where files are (`paths.*`, `engine.device`, `data.root=`), not what is asked: the config
    hash must be the logged one.

    Raises
    ------
    Fp2Error
        If the run cannot be read, or its config has another hash than its results.
    """
    from fp2.runs.reader import run_folder

    for override in overrides:
        if not override.lstrip("+").startswith(MAY_CHANGE):
            raise Fp2Error(f"a rerun cannot change {override.partition('=')[0]!r}", where="override")
    here = load_config([o for o in overrides if o.startswith(("paths.", "tracking."))])
    console = Terminal()
    with tempfile.TemporaryDirectory(prefix="fp2-rerun-") as scratch:
        source = run_folder(run_id, here, Path(scratch), FILES)
        before, logged = _read(source)
        places = recall(Path(here.paths.state), before["run_id"])
        config = _logged_config(source, here, places, overrides)
    if config_hash(config) != before["config_hash"]:
        raise Fp2Error("the logged config has another config hash than the results", where=run_id)
    for line in _drift(logged, places, overrides, before):
        console.print(line, style="yellow", highlight=False)
    outcome = _run(config, [*logged, *overrides])
    same = _compare(before, outcome.results, console)
    if outcome.message:
        print(f"error: {outcome.message}", file=sys.stderr)
    print(f"rerun      {outcome.run_id}\nresults    {outcome.folder / artifacts.RESULTS}")
    return 0 if same and outcome.exit_status == 0 else outcome.exit_status or EXIT_DIFFERENT


def _read(source: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the logged results and overrides."""
    import yaml

    from fp2.runs.reader import read_results

    before = read_results(source)
    try:
        logged = yaml.safe_load((source / artifacts.OVERRIDES).read_text(encoding="utf-8")) or []
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Fp2Error(f"the run's files cannot be read: {' '.join(str(error).split())}", where=str(source)) from error
    return before, [str(item) for item in logged]


def _logged_config(source: Path, here: Config, places: Mapping[str, str], overrides: Sequence[str]) -> Config:
    """Return the logged config with this machine's paths, and those that `overrides` name."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        logged = OmegaConf.load(source / artifacts.CONFIG)
        tracking = {**asdict(here.tracking), "experiment": OmegaConf.select(logged, "tracking.experiment")}
        local = OmegaConf.create({"paths": asdict(here.paths), "tracking": tracking})
        given = OmegaConf.from_dotlist([override.lstrip("+") for override in overrides])
        plain = OmegaConf.to_container(OmegaConf.merge(logged, local), resolve=True)
        placed = OmegaConf.create(with_places(plain, places))  # type: ignore[arg-type]
        final: Any = OmegaConf.to_container(OmegaConf.merge(placed, given), resolve=True)
    except (OmegaConfBaseException, OSError, KeyError, TypeError) as error:
        raise Fp2Error(
            f"the logged config cannot be read: {' '.join(str(error).split())}", where=str(source)
        ) from error
    if missing := missing_places(final):
        fix = f"Give their paths on this machine: {' '.join(f'{key}=PATH' for key in missing)}"
        raise Fp2Error("the run used files of another machine", where=", ".join(missing), fix=fix)
    return from_plain(final)


def _drift(
    logged: Sequence[str], places: Mapping[str, str], overrides: Sequence[str], before: Mapping[str, Any]
) -> list[str]:
    """Compose the logged overrides with the current YAML files; report if the config differs from the logged one."""
    named = {override.partition("=")[0] for override in overrides}
    pairs = [(override.partition("=")[0], override) for override in logged]
    again = [f"{key}='{places[key]}'" if key in places else full for key, full in pairs if key not in named]
    try:
        composed = config_hash(load_config([*again, *overrides]))
    except Fp2Error as error:
        return [f"drift: the logged overrides no longer compose ({error}); running the logged config"]
    if composed == before["config_hash"]:
        return []
    return ["drift: the YAML files have changed since this run was logged; running the logged config"]


def _run(config: Config, overrides: Sequence[str]) -> Any:
    from fp2.app import fresh_folder
    from fp2.progress import Progress
    from fp2.run import run

    return run(config, fresh_folder(Path(config.paths.outputs)), list(overrides), Progress())


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], console: Terminal) -> bool:
    """Print one line per disparity row and block of a protocol, and the three digests; return whether all agree."""
    table = Table(title="rerun and logged run")
    for name in ("probe", "scorer", "cut", "logged", "rerun", "same"):
        table.add_column(name)
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in after["disparities"]}
    all_same = len(rows) == len(before["disparities"])
    for old in before["disparities"]:
        new = rows.get((old["probe"], old["scorer"], old["cut"]), {})
        differs = [name for name in NUMBERS if not _equal(old.get(name), new.get(name))]
        all_same &= bool(new) and not differs
        table.add_row(
            old["probe"], old["scorer"], old["cut"], _show(old["raw"]), _show(new.get("raw")),
            "yes" if not differs else f"no: {', '.join(differs)}",
        )  # fmt: skip
    if before["disparities"]:
        console.print(table)
    all_same &= _compare_blocks(before, after, console)
    for name in ("config_hash", "response_set", "dataset_digest"):
        same = before[name] == after[name]
        all_same &= same
        console.print(f"{name:<15} {'same' if same else f'differs: {before[name][:12]} then, {after[name][:12]} now'}")
    same = _equal(before["composite"], after["composite"])
    console.print(f"{'composite':<15} {_show(before['composite'])} then, {_show(after['composite'])} now")
    console.print("all numbers are equal" if all_same and same else "the numbers differ")
    return all_same and same


def _compare_blocks(before: Mapping[str, Any], after: Mapping[str, Any], console: Terminal) -> bool:
    """Print one line per block of a protocol (with `metrics` or `headline`); return whether all agree."""
    same = True
    for name, old in before.items():
        if isinstance(old, Mapping) and {"metrics", "headline"} & set(old):
            places = list(differences(old, json.loads(json.dumps(after.get(name)))))
            same &= not places
            shown = ", ".join(places[:3]) + (f" and {len(places) - 3} places more" if len(places) > 3 else "")
            console.print(f"{name:<15} {f'differs: {shown}' if places else 'same'}")
    return same


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, as dotted places; numbers may differ by `TOLERANCE`.

    Sentences for the reader may be written better by a later version: values of `PROSE`, and definitions, which are
    mappings from names to sentences. They have to be in both; what they say is not compared.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        definitions = _are_definitions(old) and _are_definitions(new)
        for key in {**old, **new}:
            inside = f"{place}.{key}" if place else str(key)
            if key in old and key in new and (definitions or key in PROSE):
                continue
            yield from differences(old.get(key), new.get(key), inside)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{place}.{number}")
    elif _is_number(old) and _is_number(new):
        if not _equal(old, new):
            yield place
    elif type(old) is not type(new) or old != new:
        yield place


def _are_definitions(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(text, str) and " " in text for text in value.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


OPTIONAL = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.PASSPORT)
"""Files that runs without answers in rows lack."""


def rescore(run_id: str, overrides: Sequence[str]) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status.

    Raises
    ------
    Fp2Error
        If the run cannot be read or its answers cannot be scored again.
    """
    from fp2.app import fresh_folder, places_of
    from fp2.progress import Progress
    from fp2.report.terminal import print_results
    from fp2.runs.reader import run_folder
    from fp2.runs.rescore import composable
    from fp2.runs.rescore import rescore as again

    given = load_config(composable(overrides))
    with tempfile.TemporaryDirectory(prefix="fp2-rescore-") as scratch:
        source = run_folder(run_id, given, Path(scratch), (artifacts.CONFIG, artifacts.RESULTS), OPTIONAL)
        folder = fresh_folder(Path(given.paths.outputs))
        outcome = again(source, given, overrides, folder, Progress())
    print_results(outcome.results, Terminal(), places_of(given, outcome), outcome.sections)
    print(f"rescored from run {outcome.results['rescored_from']['run_id']}: no model was asked")
    if outcome.message:
        print(f"error: {outcome.message}", file=sys.stderr)
    return outcome.exit_status
