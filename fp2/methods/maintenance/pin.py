"""`fp2 pin`: write down which commit of each hub model this project uses, as it lies in the local cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fp2.extension import (
    Checkpoint,
    Fp2Error,
    Output,
    cached_checkpoint,
    config_of,
    hydra_overrides,
    is_from_hub,
    is_repository,
    jobs_of,
    read_pins,
    write_pins,
)

EXIT_MISSING = 1


def pin(models: Sequence[str], overrides: Sequence[str], as_json: bool = False) -> int:
    """Pin the models, print a line on each, and return 0 if none is missing, else 1.

    Parameters
    ----------
    models : sequence of str
        Names of the config group `model`, or repositories of the hub.
    overrides : sequence of str
        Further settings; without `models`, the models of the run or sweep that they stand for.
    """
    if not models and not overrides:
        fix = "Give the names of models, or an experiment: fp2 pin experiment=page"
        raise Fp2Error("no model is named", where="fp2 pin", fix=fix)
    named = dict(_named(models, overrides))
    lock = Path(config_of(hydra_overrides([word for word in overrides if word.startswith("paths.")]))[0].paths.pins)
    pins, missing, out = read_pins(lock), False, Output(as_json)
    said_of: dict[str, dict[str, Any]] = {}
    for repository in dict.fromkeys(repository for repository, _ in named.values() if repository is not None):
        names = [name for name, (its_repository, _) in named.items() if its_repository == repository]
        pinned, message = _look_up(repository)
        missing |= pinned is None
        before = pins.get(repository)
        if pinned is not None:
            pins[repository] = str(pinned.revision)
            if before not in (None, pinned.revision):
                message += f"; was {before}"
        out.say(message if names == [repository] else f"{', '.join(names)}: {message}")
        commit = None if pinned is None else pinned.revision
        said_of |= {name: {"repository": repository, "commit": commit, "message": message} for name in names}
    for name, reason in ((name, reason) for name, (repository, reason) in named.items() if repository is None):
        out.say(f"{name}: {reason}")
        said_of[name] = {"repository": None, "commit": None, "message": reason}
    if pins:
        write_pins(lock, pins)
        out.path("pins", lock)
    with out:
        out.say(models=said_of)
    return EXIT_MISSING if missing else 0


def _named(models: Sequence[str], overrides: Sequence[str]) -> Iterator[tuple[str, tuple[str | None, str]]]:
    """Yield each model's name with its repository, or with None and the reason why it has none."""
    jobs = [[*overrides, f"model={name}"] for name in models if "/" not in name] or ([] if models else [[]])
    for words in jobs:
        for job in jobs_of(words or overrides):
            config = config_of(job)[0]
            model_id = str(config.model.id or "")
            if not is_from_hub(config):
                yield config.model.name, (None, f"engine={config.engine.name} takes no commit of the hub")
            elif not is_repository(model_id):
                yield config.model.name, (None, "a folder is pinned by the digests of its files")
            else:
                yield config.model.name, (model_id, "")
    for name in models:
        if "/" in name:
            if not is_repository(name):
                raise Fp2Error(f"{name!r} is not the name of a repository (owner/name)", where="fp2 pin")
            yield name, (name, "")


def _look_up(repository: str) -> tuple[Checkpoint | None, str]:
    """Return a repository's checkpoint in the local cache, None without one, and the line on it."""
    try:
        checkpoint = cached_checkpoint(repository)
    except Fp2Error as error:  # several commits: the other models are pinned all the same
        return None, str(error)
    if checkpoint is None:
        return None, f"{repository} is not in the local cache; get it with: hf download {repository}"
    message = f"{repository} at {checkpoint.revision}"
    if not checkpoint.has_weights:
        message += f", without its weights (hf download {repository} --revision {checkpoint.revision})"
    if checkpoint.code:
        message += f", runs code of its own: read it in {checkpoint.path}"
    return checkpoint, message
