"""Paths of this machine: left out of what a run publishes, and kept beside the store for `fp2 rerun`.

A logged config has `local:NAME` in place of an absolute path; the path itself is in `STATE/places/RUN_ID.json`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted, signed
from fp2.store.withdrawn import read_withdrawn
from fp2.text import normal_id

MARK = "local:"
PLACE_KEYS = {"model.base_url": "server", "data.ids": "ids"}
"""Keys that name a place, or images, without being a path; and what replaces them."""
_SCORER_SERVER = re.compile(r"scorer\.[^.]+\.base_url")
FILES = "task.files."
"""Below it are the user's files, relative or absolute."""
BATTERY_PATHS = ("probe.traits_file", "probe.published")
"""The paths in a battery."""
HIDDEN_SECTIONS = ("paths",)
HIDDEN_KEYS = ("tracking.uri", "tracking.artifacts", "tracking.sweep_id", "engine.ray.address", "preregistration")
"""Keys of addresses, which may carry a password, of a sweep, and of what is about one run only."""
PATH = re.compile(r"(file:)?(/|~|[A-Za-z]:[\\/]).+", re.DOTALL)


def write_config(folder: Path, config: Config, overrides: Sequence[str], *, own: bool = True) -> dict[str, str]:
    """Write the resolved config and its overrides without this machine's paths; return the paths.

    Both are signed as this project's, unless they are not its `own` (`fp2.runs.origin`).
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    plain, hidden = without_places(_plain(asdict(config)))
    portable = overrides_without_places(overrides)
    try:
        texts = {artifacts.CONFIG: OmegaConf.to_yaml(OmegaConf.create(plain))}
        texts[artifacts.OVERRIDES] = OmegaConf.to_yaml(OmegaConf.create(portable))
    except OmegaConfBaseException as error:  # half an interpolation
        raise Fp2Error(f"the config cannot be written: {' '.join(str(error).split())}", where="config") from error
    with artifacts.as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            text = signed(text, Path(config.paths.state)) if own else text
            (folder / name).write_text(text, encoding="utf-8")
    return hidden


def _plain(value: object) -> Any:
    """Return nested settings with text in place of paths."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def without_places(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a plain config without this machine's paths, and what was removed, by dotted key."""
    hidden: dict[str, str] = {}
    plain = {key: value for key, value in config.items() if key not in HIDDEN_SECTIONS}
    return {key: _cleaned(value, key, hidden) for key, value in plain.items()}, hidden


def overrides_without_places(overrides: Sequence[str]) -> list[str]:
    """Return `overrides` without those that only name places; other paths become `local:NAME`."""
    portable = []
    for override in overrides:
        key, separator, value = override.partition("=")
        name = key.lstrip("+~")
        if name.split(".")[0] in HIDDEN_SECTIONS or name in HIDDEN_KEYS:
            continue
        bare = value.strip("'\"")
        if mark := _place(name):
            portable.append(f"{key}={MARK}{mark}")
        elif value.lstrip()[:1] in ("{", "["):
            portable.append(f"{key}={_inline_without_places(override, name, value)}")
        else:
            is_path = bool(separator and bare) and (name.startswith(FILES) or PATH.fullmatch(bare) is not None)
            portable.append(f"{key}={value.replace(bare, MARK + _name(bare))}" if is_path else override)
    return portable


def overrides_without_ids(overrides: Iterable[str]) -> list[str]:
    """Return `overrides` without those of keys whose values may carry a password; lists of images become `local:ids`.

    The path of such a list stays: jobs of a sweep may differ by it.
    """
    remaining = [word for word in overrides if word.partition("=")[0].lstrip("+~") not in HIDDEN_KEYS]
    return [re.sub(r"^([+~]*data\.ids)=\s*\[.*", rf"\1={MARK}ids", word, flags=re.DOTALL) for word in remaining]


def _inline_without_places(override: str, name: str, value: str) -> str:
    """Return an inline mapping or list as it was typed, except for the paths; `local:...` if it cannot be parsed."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override).value()
    except HydraException:
        return f"{MARK}..."
    paths_hidden: dict[str, str] = {}
    cleaned = _cleaned(parsed, name, paths_hidden)
    if cleaned == parsed:
        return value
    hidden = {str(old): new for old, new in _changed(parsed, cleaned)}
    for old in sorted(hidden, key=len, reverse=True):  # one path may begin with another
        if old not in value:  # typed with escapes
            return f"{MARK}..."
        value = value.replace(old, hidden[old])
    return value


def _changed(before: Any, after: Any) -> Iterator[tuple[Any, str]]:
    """Yield (old, new) of everything that differs between nested mappings and lists."""
    if isinstance(before, Mapping):
        for key in before:
            yield from _changed(before[key], after[key])
    elif isinstance(before, list):
        for old, new in zip(before, after, strict=True):
            yield from _changed(old, new)
    elif before != after:
        yield before, "null" if after is None else after


def with_places(config: dict[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return the config with the stored paths inserted."""
    for dotted, path in places.items():
        node = config
        *parents, last = dotted.split(".")
        for parent in parents:
            node = node[_step(node, parent)]
        node[_step(node, last)] = path
    return config


def missing_places(config: Mapping[Any, object], prefix: str = "") -> list[str]:
    """Return the dotted keys that still have `local:NAME`."""
    matches: list[str] = []
    for key, value in config.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            matches += missing_places(value, f"{dotted}.")
        elif isinstance(value, str) and value.startswith(MARK):
            matches.append(dotted)
    return matches


def remember(state: Path, run_id: str, places: Mapping[str, object]) -> None:
    """Store a run's paths in the state folder, which is never published; of ids of images, none that is withdrawn."""
    if isinstance(ids := places.get("data.ids"), list) and (images := read_withdrawn(state).images):
        keys = salted([normal_id(name) for name in ids], local_salt(state), "image")
        places = {**places, "data.ids": [name for name, key in zip(ids, keys, strict=True) if key not in images]}
    if places:
        folder = state / "places"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{run_id}.json").write_text(json.dumps(places, indent=1), encoding="utf-8")


def recall(state: Path, run_id: str) -> dict[str, str]:
    """Return the stored paths of a run; none if it was made on another machine."""
    path = state / "places" / f"{run_id}.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    except (OSError, ValueError) as error:
        fix = "Delete the file, and give the paths again"
        raise Fp2Error(f"the run's paths cannot be read: {error}", where=str(path), fix=fix) from error


def _cleaned(value: Any, dotted: str, hidden: dict[str, str]) -> Any:
    if dotted in HIDDEN_KEYS:
        return None
    if (mark := _place(dotted)) and value is not None:
        hidden[dotted] = value
        return MARK + mark
    if isinstance(value, Mapping):
        return {key: _cleaned(item, f"{dotted}.{key}", hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, f"{dotted}.{mark}", hidden) for mark, item in enumerate(value)]
    if dotted.startswith(FILES) and value:
        hidden[dotted] = os.path.abspath(os.path.expanduser(value))
        return MARK + _name(value)
    is_text = dotted.startswith("probe.") and dotted not in BATTERY_PATHS  # a question may begin with a slash
    if isinstance(value, str) and not is_text and PATH.fullmatch(value):
        hidden[dotted] = value
        return MARK + _name(value)
    return value


def _place(dotted: str) -> str | None:
    """Return what replaces the value of a key that names a place or images, None for any other."""
    return "server" if _SCORER_SERVER.fullmatch(dotted) else PLACE_KEYS.get(dotted)


def _step(node: Any, name: str) -> Any:
    return int(name) if isinstance(node, list) else name


def _name(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]
