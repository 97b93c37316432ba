"""`fp2 rerun` and `fp2 rescore`: what can be done with a logged run.

`rerun` repeats it from its config and compares the numbers row by row. `rescore` scores its answers with other scorers,
cuts or analysis settings, without a model.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fp2 import artifacts
from fp2.commands.output import Output
from fp2.compose import compose_config, config_hash, from_plain, hydra_overrides, load_config, validate
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.results import Results, changed_methods, differences, equal, owned
from fp2.runs.local_paths import BATTERY_PATHS, PLACE_KEYS, missing_places, recall, with_places
from fp2.runs.local_paths import FILES as FILES_KEY
from fp2.stats.rows import RERUN, columns_read_by
from fp2.text import first_few

if TYPE_CHECKING:
    from fp2.runs.asked_again import AskedAgain

EXIT_DIFFERENT = 1
FILES = (artifacts.CONFIG, artifacts.OVERRIDES, artifacts.RESULTS)
# Overrides that are allowed: where files are and how the run is executed, never what is asked. Options of the data set
# that hold for one machine only are added; the config hash has to be the logged one whatever is overridden.
SECTIONS = ("answers.", "engine.", "paths.", "report.", "scorer.", "tracking.", FILES_KEY)
KEYS = ("model.id", "model.truth", "model.api_key_env", "verify_inputs", *BATTERY_PATHS, *PLACE_KEYS)


def rerun(run_id: str, overrides: Sequence[str], as_json: bool = False, fresh: float | None = None) -> int:
    """Repeat `run_id` (an MLflow run, or a folder with its files); return 0 if every number is the same.

    Answers come from the response store, as far as it has them; `fresh` is the share of the run's stored answers that
    are asked again, in a copy of the store, and compared.

    `overrides` may change where files are and how the run is executed (`paths.*`, `engine.*`, `data.root=`), not what
    is asked: the config hash must be the logged one.
    """
    from fp2.runs.asked_again import compared, copy_without
    from fp2.runs.origin import logged_overrides
    from fp2.store.salted_keys import local_salt

    out = Output(as_json)
    with tempfile.TemporaryDirectory(prefix="fp2-rerun-") as scratch:
        source, before, config = run_again(run_id, overrides, Path(scratch), OPTIONAL if fresh is not None else ())
        logged = logged_overrides(source, config)
        paths_of_run = recall(Path(config.paths.state), before["run_id"])
        drift = _drift(logged, paths_of_run, overrides, before)
        for text in drift:
            out.show(text, style="yellow", highlight=False)
        store, copy, repeated = Path(config.paths.store), Path(scratch) / "store" / "responses.sqlite", None
        if fresh is None:
            outcome = _run(config, [*logged, *overrides])
        else:
            keys = copy_without(source, store, local_salt(Path(config.paths.state)), fresh, copy)
            paths = replace(config.paths, store=str(copy), seed_stores=[])
            outcome = _run(replace(config, paths=paths), [*logged, *overrides])
            repeated = compared(keys, store, copy, fresh)
    with out:
        same = _compare(before, outcome.results, changed_methods(before, outcome.methods), out)
        same &= _say_what_was_asked(outcome.results["answers"], repeated, out)
        if outcome.message:
            print(f"error: {outcome.message}", file=sys.stderr)
        out.say(equal=same, drift=drift, message=outcome.message)
        for name, target in (
            ("repeats", before["run_id"]), ("rerun", outcome.run_id), ("results", outcome.folder / artifacts.RESULTS)
        ):  # fmt: skip
            out.path(name, target)
    return 0 if same and outcome.exit_status == 0 else outcome.exit_status or EXIT_DIFFERENT


def run_again(
    run_id: str, overrides: Sequence[str], scratch: Path, more: Sequence[str] = ()
) -> tuple[Path, Results, Config]:
    """Return the folder of a run, its results, and the config that asks the same here: with this machine's paths.

    `more` are further files of the run that are wanted; what MLflow has is downloaded into `scratch`. The config hash
    of the config is that of the results.
    """
    from fp2.runs.reader import lost_people, read_results, run_folder

    local_config = load_config([o for o in overrides if o.startswith(("paths.", "tracking."))])
    source = run_folder(run_id, local_config, scratch, FILES, more)
    before = read_results(source)
    paths_of_run = recall(Path(local_config.paths.state), before["run_id"])
    config = _logged_config(source, local_config, paths_of_run, overrides)
    if config_hash(config) != before["config_hash"]:
        lost = isinstance(config.data.ids, list) and lost_people(before)
        fix = "Its list of chosen images lost those of withdrawn people: start a run with the others" if lost else ""
        raise Fp2Error("the logged config has another config hash than the results", where=run_id, fix=fix)
    return source, before, config


def _say_what_was_asked(answers: Mapping[str, int], asked_again: AskedAgain | None, out: Output) -> bool:
    """Say which answers the model gave now; return whether all that were asked again are equal."""
    if asked_again is not None:
        out.say(f"{asked_again}; the others came from the store", asked_again=asdict(asked_again))
        return asked_again.equal == asked_again.n
    stored, new = answers["cached"], answers["answered"] - answers["cached"]
    if new:
        out.say(f"{new:,} answers were asked, {stored:,} came from the store")
    else:
        out.say("All answers came from the store: the model was not asked. --fresh 0.05 asks 5 % of them again")
    return True


def _logged_config(
    source: Path, local_config: Config, remembered: Mapping[str, str], overrides: Sequence[str]
) -> Config:
    """Return the logged config with this machine's paths, and those that `overrides` name."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from fp2.data.base import local_options
    from fp2.runs.origin import EVERY, named_outside, read_plain, state_again

    plain = read_plain(source)
    named_keys = {".".join(key) for key in named_outside(source, local_config, plain, EVERY)}
    state_again(source, local_config, plain, overrides, EVERY)
    try:
        allowed = {*KEYS, *named_keys, *(f"data.{name}" for name in local_options(plain["data"]))}
        for override in overrides:
            key = override.lstrip("+").partition("=")[0]
            if key not in allowed and not key.startswith(SECTIONS):
                allowed_words = sorted((*allowed, *(f"{section}*" for section in SECTIONS)))
                fix = f"It may change {', '.join(allowed_words)}"
                if f"{key}." in SECTIONS:  # the choice of a group
                    fix = f"Set its options: {key}.NAME=VALUE"
                raise Fp2Error(f"a rerun cannot change {key!r}", where="override", fix=fix)
        local: Any = {"paths": asdict(local_config.paths), "tracking": asdict(local_config.tracking)}
        stated = OmegaConf.from_dotlist([override.lstrip("+") for override in overrides])
        typed: Any = OmegaConf.to_container(OmegaConf.merge(local, stated), resolve=True)  # what is logged stays text
        if OmegaConf.select(stated, "tracking.experiment") is None:
            typed["tracking"]["experiment"] = plain["tracking"]["experiment"]
        final = merged(with_places({**plain, "paths": {}, "tracking": {}}, remembered), typed)
    except (OmegaConfBaseException, KeyError, TypeError, IndexError, ValueError) as error:
        problem = f"the logged config cannot be read: {' '.join(str(error).split())}"
        raise Fp2Error(problem, where=str(source)) from error
    if missing := missing_places(final):
        fix = f"Give their paths on this machine: {' '.join(f'{key}=PATH' for key in missing)}"
        raise Fp2Error("the run used files of another machine", where=", ".join(missing), fix=fix)
    return from_plain(final)


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with those of `new` in place of the same ones of `old`."""
    both = [key for key in new if isinstance(new[key], dict) and isinstance(old.get(key), dict)]
    return {**old, **new, **{key: merged(old[key], new[key]) for key in both}}


def _drift(
    logged: Sequence[str], remembered: Mapping[str, str], overrides: Sequence[str], before: Mapping[str, Any]
) -> list[str]:
    """Compose the logged overrides with the current YAML files; report if the config differs from the logged one."""
    named = {override.partition("=")[0] for override in overrides}
    pairs = [(override.partition("=")[0], override) for override in logged]
    repeated = [f"{key}='{remembered[key]}'" if key in remembered else full for key, full in pairs if key not in named]
    try:
        composed = config_hash(load_config([*repeated, *overrides]))
    except Fp2Error as error:
        return [f"drift: the logged overrides no longer compose ({error}); running the logged config"]
    if composed == before["config_hash"]:
        return []
    return ["drift: the YAML files have changed since this run was logged; running the logged config"]


def _run(config: Config, overrides: Sequence[str]) -> Any:
    from fp2.progress import Progress
    from fp2.run import run
    from fp2.runs.outputs import fresh_folder

    return run(config, fresh_folder(Path(config.paths.outputs)), list(overrides), Progress())


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], changed: Mapping[str, Sequence[str]], out: Output
) -> bool:
    """Print one line per disparity row and block of a protocol, and the three digests; return whether all agree.

    `changed`: methods of another version than that of the logged run, with the places that each owns: these are named,
    and not compared.
    """
    for name in changed:
        then = (before.get("methods") or {}).get(name, 1)
        message = f"method {name}: version {then} then, {after['methods'][name]} now; its numbers are not compared"
        out.show(message, style="yellow", highlight=False)
    table = Table(title="rerun and logged run")
    messages = []
    for name in ("probe", "scorer", "cut", "logged", "rerun", "same"):
        table.add_column(name)
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in after["disparities"]}
    all_same = len(rows) == len(before["disparities"])
    for old in before["disparities"]:
        new = rows.get((old["probe"], old["scorer"], old["cut"]), {})
        compared = [name for name in columns_read_by(RERUN) if not owned(f"disparities.0.{name}", changed)]
        differs = [name for name in compared if not equal(old.get(name), new.get(name))]
        all_same &= bool(new) and not differs
        table.add_row(
            old["probe"], old["scorer"], old["cut"], _show(old["raw"]), _show(new.get("raw")),
            "yes" if not differs else f"no: {', '.join(differs)}",
        )  # fmt: skip
        keys = {name: old[name] for name in ("probe", "scorer", "cut")}
        messages.append({**keys, "logged": old["raw"], "rerun": new.get("raw"), "differs": differs})
    if before["disparities"]:
        out.show(table)
    out.say(methods_changed=list(changed), rows=messages, blocks={}, digests={})
    all_same &= _compare_blocks(before, after, changed, out)
    for name in ("config_hash", "response_set", "dataset_digest"):
        same = before[name] == after[name]
        all_same &= same
        out.facts["digests"][name] = {"logged": before[name], "rerun": after[name]}
        out.say(f"{name:<15} {'same' if same else f'differs: {before[name][:12]} then, {after[name][:12]} now'}")
    same = owned("composite", changed) or equal(before["composite"], after["composite"])
    out.say(f"{'composite':<15} {_show(before['composite'])} then, {_show(after['composite'])} now")
    stored = after["answers"]["cached"] == after["answers"]["answered"] > 0
    source = ", from stored answers" if stored else ""
    out.say(f"all numbers are equal{source}" if all_same and same else "the numbers differ", from_stored_answers=stored)
    return all_same and same


def _compare_blocks(
    before: Mapping[str, Any], after: Mapping[str, Any], changed: Mapping[str, Sequence[str]], out: Output
) -> bool:
    """Print one line per block of a protocol (with `metrics` or `headline`); return whether all agree."""
    same = True
    for name, old in before.items():
        if isinstance(old, Mapping) and {"metrics", "headline"} & set(old):
            differing = differences(old, json.loads(json.dumps(after.get(name))))
            changed_places = [key for key in differing if not owned(f"{name}.{key}", changed)]
            same &= not changed_places
            out.facts["blocks"][name] = changed_places
            examples = first_few(changed_places, "places more")
            out.say(f"{name:<15} {f'differs: {examples}' if changed_places else 'same'}")
    return same


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


OPTIONAL = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.PASSPORT, artifacts.OVERRIDES)
"""Files that runs without answers in rows lack."""


def rescore(run_id: str, overrides: Sequence[str], as_json: bool = False) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status."""
    from fp2.app import places_of
    from fp2.progress import Progress
    from fp2.report.terminal import print_results
    from fp2.run import finish_purges
    from fp2.runs.outputs import fresh_folder
    from fp2.runs.reader import run_folder
    from fp2.runs.rescore import composable
    from fp2.runs.rescore import rescore as again

    config = validate(compose_config(hydra_overrides(composable(overrides))))
    finish_purges(config, Progress())
    with tempfile.TemporaryDirectory(prefix="fp2-rescore-") as scratch:
        source = run_folder(run_id, config, Path(scratch), (artifacts.CONFIG, artifacts.RESULTS), OPTIONAL)
        folder = fresh_folder(Path(config.paths.outputs))
        try:
            outcome = again(source, config, overrides, folder, Progress())
        except Fp2Error:
            with suppress(OSError):  # unless something is in it
                folder.rmdir()
                folder.parent.rmdir()
            raise
    paths, min_cell = places_of(config, outcome), config.report.suppress_below
    asked_by_scorers = any("model" in scorer for scorer in outcome.results["scorers"])
    message = "no model was asked, but by scorers" if asked_by_scorers else "no model was asked"
    with Output(as_json) as out:
        print_results(outcome.results, out.console, paths, outcome.sections, min_cell=min_cell)
        out.say(f"rescored from run {outcome.results['rescored_from']['run_id']}: {message}", **outcome.results)
    if outcome.message:
        print(f"error: {outcome.message}", file=sys.stderr)
    return outcome.exit_status
