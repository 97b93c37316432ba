"""A logged run asked again: its config with this machine's paths, which has the same config hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fp2.extension import (
    BATTERY_PATHS,
    PLACE_KEYS,
    Config,
    Fp2Error,
    artifacts,
    config_hash,
    from_plain,
    load_config,
    missing_places,
    recall,
    with_places,
)
from fp2.extension import FILES as FILES_KEY

FILES = (artifacts.CONFIG, artifacts.OVERRIDES, artifacts.RESULTS)
OPTIONAL = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.PASSPORT, artifacts.OVERRIDES)
"""Files that runs without answers in rows lack."""
# Overrides that are allowed: where files are and how the run is executed, never what is asked. Options of the data set
# that hold for one machine only are added; the config hash has to be the logged one whatever is overridden.
SECTIONS = ("answers.", "engine.", "paths.", "report.", "scorer.", "tracking.", FILES_KEY)
KEYS = ("model.id", "model.truth", "model.api_key_env", "verify_inputs", *BATTERY_PATHS, *PLACE_KEYS)


def run_again(
    run_id: str, overrides: Sequence[str], scratch: Path, more: Sequence[str] = ()
) -> tuple[Path, dict[str, Any], Config]:
    """Return the folder of a run, its results, and the config that asks the same here: with this machine's paths.

    `more` are further files of the run that are wanted; what MLflow has is downloaded into `scratch`. The config hash
    of the config is that of the results.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from fp2.extension import (
        EVERY,
        local_options,
        lost_people,
        named_outside,
        read_plain,
        read_results,
        run_folder,
        state_again,
    )

    local_config = load_config([o for o in overrides if o.startswith(("paths.", "tracking."))])
    source = run_folder(run_id, local_config, scratch, FILES, more)
    before = read_results(source)
    paths_of_run = recall(Path(local_config.paths.state), before["run_id"])
    plain = read_plain(source)
    named_keys = {".".join(key) for key in named_outside(source, local_config, plain, EVERY)}
    state_again(source, local_config, plain, overrides, EVERY)
    try:
        allowed = {*KEYS, *named_keys, *(f"data.{name}" for name in local_options(plain["data"]))}
        for override in overrides:
            key = override.lstrip("+").partition("=")[0]
            if key not in allowed and not key.startswith(SECTIONS):
                allowed_words = sorted((*allowed, *(f"{section}*" for section in SECTIONS)))
                advice = f"It may change {', '.join(allowed_words)}"
                if f"{key}." in SECTIONS:  # the choice of a group
                    advice = f"Set its options: {key}.NAME=VALUE"
                raise Fp2Error(f"a rerun cannot change {key!r}", where="override", fix=advice)
        local: Any = {"paths": asdict(local_config.paths), "tracking": asdict(local_config.tracking)}
        stated = OmegaConf.from_dotlist([override.lstrip("+") for override in overrides])
        typed: Any = OmegaConf.to_container(OmegaConf.merge(local, stated), resolve=True)  # what is logged stays text
        if OmegaConf.select(stated, "tracking.experiment") is None:
            typed["tracking"]["experiment"] = plain["tracking"]["experiment"]
        final = merged(with_places({**plain, "paths": {}, "tracking": {}}, paths_of_run), typed)
    except (OmegaConfBaseException, KeyError, TypeError, IndexError, ValueError) as error:
        problem = f"the logged config cannot be read: {' '.join(str(error).split())}"
        raise Fp2Error(problem, where=str(source)) from error
    if missing := missing_places(final):
        advice = f"Give their paths on this machine: {' '.join(f'{key}=PATH' for key in missing)}"
        raise Fp2Error("the run used files of another machine", where=", ".join(missing), fix=advice)
    config = from_plain(final)
    if config_hash(config) != before["config_hash"]:
        lost = isinstance(config.data.ids, list) and lost_people(before)
        fix = "Its list of chosen images lost those of withdrawn people: start a run with the others" if lost else ""
        raise Fp2Error("the logged config has another config hash than the results", where=run_id, fix=fix)
    return source, before, config


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with those of `new` in place of the same ones of `old`."""
    both = [key for key in new if isinstance(new[key], dict) and isinstance(old.get(key), dict)]
    return {**old, **new, **{key: merged(old[key], new[key]) for key in both}}
