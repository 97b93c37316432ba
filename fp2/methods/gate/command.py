"""`fp2 gate`: checks runs against conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import EXIT_FAILED, artifacts, load_config, print_json, run_files

if TYPE_CHECKING:
    from fp2.methods.gate.conditions import Limits


def gate(
    word: str, limits: Limits, overrides: Sequence[str], junit: Path | None, markdown: Path | None, as_json: bool
) -> int:
    """Check the runs that `word` names against conditions; return 0 if all are met, else 1.

    What is not met is printed, and reports are written. `word` is a run, or the folder or id of a sweep, of which every
    run is checked.
    """
    from fp2.extension import distinct_names, load_run_sections, model_name, read_results, recording, runs_named
    from fp2.methods.gate.conditions import Check, check, summary, to_junit, to_markdown

    local_config = load_config(overrides)
    runs, missing = runs_named([word], local_config)
    checks = [Check("finished", "every run finished", run["run"], False, run["reason"]) for run in missing]
    several, checked = len(runs) != 1 or bool(missing), list[tuple[dict[str, Any], list[Check]]]()
    for run in runs:
        with run_files(run, local_config) as folder:
            results = read_results(folder)
            checked.append(
                (results, check(results, limits, load_run_sections(folder, local_config, results["run_id"])))
            )
    run_ids = [str(results["run_id"]) for results, _ in checked]
    names = distinct_names([(model_name(results), str(results["run_id"])) for results, _ in checked])
    for run_name, (results, run_checks) in zip(names, checked, strict=True):
        name = f"{model_name(results)} on {results['dataset']['name']}, run {results['run_id'][:8]}"
        prefix = f"{run_name}: " if several else ""
        checks += [replace(outcome, name=prefix + outcome.name) for outcome in run_checks]
    if several:
        name = f"{len(runs)} of {len(runs) + len(missing)} runs of {word}"
    with recording(Path(local_config.paths.state), run_ids, (junit, markdown)):
        if junit is not None:
            artifacts.write_text(junit, to_junit(checks, name))
        if markdown is not None:
            artifacts.write_text(markdown, to_markdown(checks, name))
    failed = [outcome for outcome in checks if outcome.failed]
    if as_json:
        named = word if len(runs) != 1 else results["run_id"]
        print_json({"run_id": named, "passed": not failed, "checks": [asdict(outcome) for outcome in checks]})
    else:
        for condition in dict.fromkeys(outcome.condition for outcome in failed):
            print(f"not met: {condition}")
            print("\n".join(f"  {item.name}: {item.message}" for item in failed if item.condition == condition))
        print(f"{name}: {summary(checks)}")
    return EXIT_FAILED if failed else 0
