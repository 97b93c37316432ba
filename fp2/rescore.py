"""A logged run's answers scored and compared again: other scorers, cuts or analysis, no model and no picture.

The source run stays as it is. The new one has the same answers under the same salted keys, and names its source in its
results and its passport.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config, config_hash
from fp2.errors import Fp2Error, nearest
from fp2.finish import Outcome, log, tracked, write_report
from fp2.hashing import digest
from fp2.logged import read_results
from fp2.places import remember
from fp2.progress import Progress
from fp2.remake import PASSPORT, Tables, logged_config
from fp2.rescore_config import rescored_config

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut


def rescore(source: Path, given: Config, overrides: Sequence[str], folder: Path, progress: Progress) -> Outcome:
    """Score the answers of the run in `source` again, and write everything that follows into `folder`.

    Raises
    ------
    Fp2Error
        For a run whose answers are not kept one a row, a cut whose attribute its people table lacks or in which no
        counterfactual set varies, scorers that do not fit its battery, and files that cannot be read.
    """
    from fp2.analysis import compared, scored
    from fp2.prepare import check_people
    from fp2.probes.battery import load_battery
    from fp2.protocols.registry import attributes_of
    from fp2.scorers.registry import build_scorers

    before, people, answers = _read(source)
    config = rescored_config(logged_config(source, given, before["run_id"]), given, overrides)
    _check_kind(config, before)
    battery, scorers = load_battery(asdict(config.probe)), build_scorers(config.scorer)
    check_people(battery, scorers, config)
    cuts = _cuts(config, people)
    before, people, answers = _whole_sets(before, people, answers, cuts)
    with artifacts.told_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        places = artifacts.write_config(folder, config, overrides)
    tags = {
        "config_hash": config_hash(config),
        **{name: before[name] for name in ("response_set", "dataset_digest")},
        "variant": config.variant.name,
        "rescored_from": before["run_id"],
    }
    title = f"{config.model.name} · {'+'.join(cut.name for cut in cuts)} · rescored"
    with tracked(config, folder, tags, title) as tracker:
        with progress.steps("Scoring and comparing groups", 1 + len(cuts)) as step:
            answers, scores = scored(answers.drop(columns="refused", errors="ignore"), people, battery, scorers)
            step()
            found = compared(config, battery, answers, scores, people, cuts, scorers, step)
        run_id = tracker.run_id if tracker else uuid.uuid4().hex
        results = _results(config, before, source, people, answers, cuts, scorers, found, run_id)
        with artifacts.told_plainly(folder):
            remember(Path(config.paths.state), run_id, places)
            _kept(people, attributes_of(battery, cuts)).pipe(Tables, answers, scores).write(folder)
            artifacts.write_disparities(folder, results["disparities"])
            shown = artifacts.examples(answers, config.report.examples_per_probe)
            write_report(config, folder, results, shown, _protocol(source, config), progress)
        log(config, tracker, folder, results)
    return Outcome(results, folder, run_id, tracker.experiment_id if tracker else None, 0, None)


def _read(source: Path) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Return the source's results, people and answers."""
    import pandas as pd

    before = read_results(source)
    missing = [name for name in (artifacts.PEOPLE, artifacts.RESPONSES) if not (source / name).is_file()]
    if missing:
        raise Fp2Error(
            f"the run keeps no {' and no '.join(missing)}: there are no answers, one a row, to score again",
            where=str(before["run_id"]),
            fix="Batteries that are asked in blocks, and tasks that ask nobody, are run again instead (fp2 rerun)",
        )
    try:
        return before, pd.read_parquet(source / artifacts.PEOPLE), pd.read_parquet(source / artifacts.RESPONSES)
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {error}", where=str(source)) from error


def _check_kind(config: Config, before: Mapping[str, Any]) -> None:
    from fp2.jobs import job_of

    if job_of(config) != "ask" or config.probe.protocol != "fingerprint":
        raise Fp2Error(
            f"a run of probe={config.probe.name} has no answers that the scorers read",
            where=str(before["run_id"]),
            fix="Run it again with other settings: known answers come from the store",
        )


def _cuts(config: Config, people: pd.DataFrame) -> tuple[Cut, ...]:
    """Return the cuts, if the run kept the attributes that they need."""
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    kept = attribute_columns(people)
    wanted = {name for cut in resolve_cuts(asdict(config.cut)) for name in cut.by}
    for name in sorted(wanted - set(kept)):
        raise Fp2Error(
            f"the run's table of people did not keep {name!r}",
            where="cut",
            fix=f"{nearest(name, kept)}. Start a run with this cut: its answers come from the store",
        )
    return resolve_cuts(asdict(config.cut), kept)


def _whole_sets(
    before: dict[str, Any], people: pd.DataFrame, answers: pd.DataFrame, cuts: Sequence[Cut]
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Return what a run with these cuts would be about: of counterfactual sets only those that vary in one of them."""
    from fp2.cuts import of_sets
    from fp2.data.sets import ALSO, whole_sets

    if not of_sets(people):
        return before, people, answers
    left, notes = whole_sets(people, cuts)
    # the source's own notes know of every attribute that varies along, its tables of the cuts' only
    ours = {f"the sets that vary in {cut.name}" for cut in cuts}
    lines = [line for line in before["limitations"] if ALSO not in line or line.partition(ALSO)[0] in ours]
    told = {line.partition(ALSO)[0] for line in lines}
    lines += [note for note in notes if note not in lines and (ALSO not in note or note.partition(ALSO)[0] not in told)]
    before = {**before, "limitations": lines}
    if len(left) < len(people):
        kept = set(left["image_id"])
        answers = answers[answers["image_id"].isin(kept)].reset_index(drop=True)
        names = ("response_set", "dataset_digest")
        before |= {name: digest({"rescored_from": before[name], "kept": sorted(kept)}) for name in names}
        before["dataset"] = {**before["dataset"], "digest": before["dataset_digest"]}
    return before, left, answers


def _kept(people: pd.DataFrame, attributes: set[str]) -> pd.DataFrame:
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    unused = [ATTRIBUTE_PREFIX + name for name in attribute_columns(people) if name not in attributes]
    return people.drop(columns=unused)


def _results(
    config: Config, before: Mapping[str, Any], source: Path, people: pd.DataFrame, answers: pd.DataFrame,
    cuts: Sequence[Cut], scorers: Mapping[str, Any], found: Any, run_id: str,
) -> dict[str, Any]:  # fmt: skip
    """Return the new results: what is about the answers as it was, what is about the comparison new."""
    from fp2.protocols.balance import later_block
    from fp2.protocols.registry import BLOCKS
    from fp2.results import (
        TOO_FEW,
        analysis_block,
        base_block,
        group_sizes,
        later_limitations,
        measured,
        scorer_block,
        too_few_permutations,
    )

    probes = [probe["id"] for probe in before["probes"]]
    numbers = measured(people, answers, found.fingerprint, cuts, probes, 0)
    numbers["balance"] = later_block(numbers["balance"], cuts, before["balance"])
    gone = [line for line in before["limitations"] if TOO_FEW in line]
    lines = later_limitations(before, numbers["balance"], gone)
    lines += too_few_permutations(found.fingerprint, found.comparison, found.blocks)
    return {
        **{name: value for name, value in before.items() if name not in BLOCKS},
        **base_block(config),
        "run_id": run_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config_hash": config_hash(config),
        "dataset": {**before["dataset"], "groups": group_sizes(people, cuts)},
        "scorers": scorer_block(scorers),
        "cuts": [cut.name for cut in cuts],
        **numbers,
        "analysis": analysis_block(config, found.comparison, scorers),
        "limitations": lines,
        "rescored_from": {
            **{name: before[name] for name in ("run_id", "created", "config_hash", "fp2_version")},
            "passport_sha256": _payload_digest(source),
        },
        **found.blocks,
    }


def _payload_digest(source: Path) -> str | None:
    from fp2.report.verify import payload_digest

    return payload_digest(source / PASSPORT) if (source / PASSPORT).is_file() else None


def _protocol(source: Path, config: Config) -> dict[str, Any]:
    """Return what the passport says beyond the results: how was asked, from the source's passport if it is there."""
    extra: dict[str, Any] = {"seeds": {"analysis": config.seed, "data": config.data.seed}}
    if (source / PASSPORT).is_file():
        payload = json.loads(base64.b64decode(json.loads((source / PASSPORT).read_bytes())["payload"]))
        protocol = payload["predicate"]["protocol"]
        extra |= {name: protocol.get(name) for name in ("decoding", "preprocessing")}
    return extra
