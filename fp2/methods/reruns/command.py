"""`fp2 rerun`: repeat a logged run from its config, and compare the numbers row by row."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fp2.extension import (
    RERUN,
    Config,
    Fp2Error,
    Output,
    artifacts,
    changed_methods,
    columns_read_by,
    config_hash,
    differences,
    equal,
    first_few,
    load_config,
    owned,
    recall,
)
from fp2.methods.reruns.again import OPTIONAL, run_again

if TYPE_CHECKING:
    from fp2.methods.reruns.asked_again import AskedAgain

EXIT_DIFFERENT = 1


def rerun(run_id: str, overrides: Sequence[str], as_json: bool = False, fresh: float | None = None) -> int:
    """Repeat `run_id` (an MLflow run, or a folder with its files); return 0 if every number is the same.

    Answers come from the response store, as far as it has them; `fresh` is the share of the run's stored answers that
    are asked again, in a copy of the store, and compared.

    `overrides` may change where files are and how the run is executed (`paths.*`, `engine.*`, `data.root=`), not what
    is asked: the config hash must be the logged one.
    """
    from fp2.extension import local_salt, logged_overrides
    from fp2.methods.reruns.asked_again import compared, copy_without

    out = Output(as_json)
    with tempfile.TemporaryDirectory(prefix="fp2-rerun-") as scratch:
        source, before, config = run_again(run_id, overrides, Path(scratch), OPTIONAL if fresh is not None else ())
        logged = logged_overrides(source, config)
        paths_of_run = recall(Path(config.paths.state), before["run_id"])
        drift = _drift(logged, paths_of_run, overrides, before)
        store, copy, repeated = Path(config.paths.store), Path(scratch) / "store" / "responses.sqlite", None
        if fresh is None:
            outcome = _run(config, [*logged, *overrides])
        else:
            keys = copy_without(source, store, local_salt(Path(config.paths.state)), fresh, copy)
            paths = replace(config.paths, store=str(copy), seed_stores=[])
            outcome = _run(replace(config, paths=paths), [*logged, *overrides])
            repeated = compared(keys, store, copy, fresh)
    with out:
        for text in drift:
            out.show(text, style="yellow", highlight=False)
        same = _compare(before, outcome.results, changed_methods(before, outcome.methods), out)
        same &= _say_what_was_asked(outcome.results["answers"], repeated, out)
        if outcome.message:
            print(f"error: {outcome.message}", file=sys.stderr)
        out.say(equal=same, drift=drift, message=outcome.message)
        for name, target in (
            ("repeats", before["run_id"]),
            ("rerun", outcome.run_id),
            ("results", outcome.folder / artifacts.RESULTS),
        ):
            out.path(name, target)
    return 0 if same and outcome.exit_status == 0 else outcome.exit_status or EXIT_DIFFERENT


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
        return [f"drift: the logged overrides no longer compose ({error}); the logged config was run"]
    if composed == before["config_hash"]:
        return []
    return ["drift: the YAML files have changed since this run was logged; the logged config was run"]


def _run(config: Config, overrides: Sequence[str]) -> Any:
    from fp2.extension import Progress, fresh_folder, run

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
            old["probe"],
            old["scorer"],
            old["cut"],
            _show(old["raw"]),
            _show(new.get("raw")),
            "yes" if not differs else f"no: {', '.join(differs)}",
        )
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
