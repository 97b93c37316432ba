"""A logged run: its config with this machine's paths, its protocol, cuts and report sections, its passport."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.compose import build_protocol, from_plain, typed
from fp2.config import Config
from fp2.errors import Fp2Error, nearest
from fp2.protocols.base import Job, Protocol
from fp2.protocols.requirements import check_scorers, for_battery, for_people, special_cases
from fp2.runs.local_paths import recall, with_places
from fp2.runs.origin import read_plain, state_again

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.report.section import Section


def logged_config(
    folder: Path, here: Config, run_id: str, words: Sequence[str] | None = None, used: Collection[str] = ()
) -> Config:
    """Return a run's config with this machine's paths; a path that is not stored here remains `local:NAME`.

    Parameters
    ----------
    words, used
        What is stated again of a run that this project did not write (`fp2.runs.origin.state_again`).
    """
    plain = read_plain(folder)
    state_again(folder, here, plain, words, used)
    return from_plain(_placed(folder, here, run_id, plain))


def logged_settings(folder: Path, here: Config, run_id: str) -> Config:
    """Return a run's config as `logged_config` does, for commands that only read the run: no class is imported.

    `data` and `engine` are mappings.
    """
    return typed(_placed(folder, here, run_id, read_plain(folder)))


def _placed(folder: Path, local_config: Config, run_id: str, plain: Any) -> Any:
    try:
        return {
            **with_places(plain, recall(Path(local_config.paths.state), run_id)),
            "paths": asdict(local_config.paths),
        }
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise Fp2Error(f"the run's config cannot be read: {error}", where=str(folder)) from error


def logged_protocol(config: Config, people: pd.DataFrame) -> tuple[Protocol, Job]:
    """Return the protocol of a logged run, and how its tables are analysed (without `facts`).

    Answers that are not scored need no battery, whose files may be gone by now: the job has none.
    """
    from fp2.probes.battery import load_battery
    from fp2.scorers.registry import build_scorers

    protocol = build_protocol(config)
    cuts = logged_cuts(config, people)
    if protocol.requires.scoring == "none":
        return protocol, Job(config, cuts)
    battery = load_battery(asdict(config.probe), config.model.id)
    protocol = for_people(for_battery(protocol, battery), people)
    scorers = build_scorers(config.scorer) if config.scorer else {}
    check_scorers(battery, scorers)
    return protocol, Job(config, cuts, battery, scorers)


def logged_cuts(config: Config, people: pd.DataFrame) -> tuple[Cut, ...]:
    """Return the cuts of a logged run."""
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    attributes = attribute_columns(people)
    wanted = {name for cut in resolve_cuts(asdict(config.cut)) for name in cut.by}
    for name in sorted(wanted - set(attributes)):
        fix = f"{nearest(name, attributes)}. Start a run with this cut: its answers come from the store"
        raise Fp2Error(f"the run's table of people has no attribute {name!r}", where="cut", fix=fix)
    return resolve_cuts(asdict(config.cut), attributes)


def passport_part(folder: Path, part: str) -> dict[str, Any]:
    """Return a part (`protocol`, `generator`) of what a run's passport states; empty where it has none."""
    path = folder / artifacts.PASSPORT
    return dict(passport_statement(path)["predicate"].get(part) or {}) if path.is_file() else {}


def passport_statement(path: Path) -> dict[str, Any]:
    """Return what a passport states, whoever signed it; a file that is none raises OSError, ValueError or KeyError."""
    return dict(json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"])))


def run_sections(folder: Path, here: Config, run_id: str) -> Sequence[Section]:
    """Return the report sections of a run's protocol; none if the protocol is not installed here."""
    try:
        return load_run_sections(folder, here, run_id)
    except Fp2Error:
        return ()


def load_run_sections(folder: Path, here: Config, run_id: str) -> Sequence[Section]:
    """Return the report sections of a run's protocol and of its special cases, one of which may have made the run."""
    from fp2.report.section import load_sections

    settings = logged_settings(folder, here, run_id)
    task_settings = {"probe": {"protocol": settings.probe.protocol, "options": settings.probe.options}}
    state_again(folder, here, {**task_settings, "task": asdict(settings.task)}, None)
    protocol = build_protocol(settings)
    protocols = [protocol, *special_cases(protocol)]
    of_protocols = [target for each in protocols for target in each.states.sections]  # first, as in a new run
    with_supplements = [target for each in protocols for target in each.section_targets()]
    return load_sections([*dict.fromkeys([*of_protocols, *with_supplements])])
