"""Whose run it is: a run that this project wrote is trusted, a run that somebody else wrote is data.

The config of a run of this project is signed with the secret of `paths.state` (`fp2.store.salted_keys.signed`). Every
other one is foreign: another project's, without a signature, of a version that signed none. What a foreign config names
outside the project is not used unless the command line states it again: code that is neither an installed entry point
nor a class of `fp2`, an address, a path, the variable of a key, and permissions. No interpolation of a logged config is
resolved, whoever wrote it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from fp2 import artifacts
from fp2.compose import parse_overrides
from fp2.config import Config
from fp2.cuts import in_quotes
from fp2.errors import Fp2Error
from fp2.plugins import GROUPS, installed
from fp2.runs.local_paths import BATTERY_PATHS, HIDDEN_SECTIONS, MARK, PATH
from fp2.store.salted_keys import is_signed

Key = tuple[str, ...]
"""The names on the way to a setting."""
HERE = (*HIDDEN_SECTIONS, "tracking", "report")
"""Sections that commands take from this machine, not from a logged config."""
EVERY = ("answers", "data", "engine", "model", "probe", "scorer", "task")
MAX_DEPTH = 100
"""Levels of a config that is read; the reader recurses once for each."""
PERMISSIONS = ("address", "api_key_env", "base_url", "pickled_weights", "trust_remote_code")
"""Settings by which a run gets a key, connects to somebody or is permitted something."""
_IMPORTED = re.compile(
    r"data\.(kind|target)|engine\.(name|target|format)|model\.engine|scorer\.[^.]+\.target|probe\.protocol|task\.name"
    r"|probe\.options\.supplements"
)
"""Settings whose value is imported where it has a colon."""
_OPTION = re.compile(r"(data|engine)\.(?!columns\.).*|(scorer|task|model\.options|probe\.options)\..*")
"""Settings that a package of somebody's may import; it is code where it looks like an import path."""
_IMPORT_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


class ForeignRunError(Fp2Error):
    """A foreign run names something outside the project that was not stated again."""


def read_plain(folder: Path, name: str = artifacts.CONFIG) -> Any:
    """Return a run's config (or its overrides) as plain data: no tag, alias or interpolation is resolved.

    Raises
    ------
    Fp2Error
        If the file cannot be read, has an alias, or nests values more than `MAX_DEPTH` levels deep.
    """
    import yaml

    loader = artifacts.yaml_loader()
    try:
        text, depth = (folder / name).read_text(encoding="utf-8"), 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):  # a few lines of them stand for gigabytes, or contain themselves
                raise yaml.YAMLError("it has an alias")
            if depth > MAX_DEPTH:
                raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep")
        return yaml.load(text, loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        problem = f"the run's {Path(name).stem} cannot be read: {' '.join(str(error).split())}"
        raise Fp2Error(problem, where=str(folder)) from error


def is_own(folder: Path, here: Config, name: str = artifacts.CONFIG) -> bool:
    """Return whether this project wrote a run's config (or its overrides)."""
    try:
        return is_signed((folder / name).read_text(encoding="utf-8"), Path(here.paths.state))
    except (OSError, ValueError, TypeError):  # TypeError: a signature that is not ASCII
        return False


def named_outside(folder: Path, here: Config, plain: object, used: Collection[str] = ()) -> dict[Key, object]:
    """Return what a foreign config names outside the project, by key; nothing of an own one.

    Code, addresses and paths count wherever they are, permissions in the sections `used`.
    """
    if is_own(folder, here) or not isinstance(plain, Mapping):
        return {}
    scorers = plain.get("scorer")
    by_key = scorers if isinstance(scorers, Mapping) else {}  # a scorer without a target is named by its key
    settings = [*((("scorer", str(name), "target"), str(name)) for name in by_key), *leaves(plain)]
    return {key: value for key, value in settings if _is_outside(key, value, Path(here.paths.root), used)}


def state_again(
    folder: Path, here: Config, plain: Any, words: Sequence[str] | None, used: Collection[str] = ()
) -> None:
    """Put what `words` state again into a logged config that is plain data; nobody accepts terms of use in it.

    Parameters
    ----------
    words : sequence of str or None
        The overrides of the command line; None of a command that takes none for the run.

    Raises
    ------
    ForeignRunError
        If a foreign config names more than that outside the project, with the words to type.
    """
    if is_own(folder, here):
        return
    if isinstance(plain, Mapping) and isinstance(data := plain.get("data"), dict) and "accept_terms" in data:
        data["accept_terms"] = False
    named = named_outside(folder, here, plain, used)
    stated = {".".join(key): value for word in words or () for key, value in _leaves_of(word)}
    missing = {key: value for key, value in named.items() if not {".".join(key), key[0]} & set(stated)}
    if missing:
        options = " ".join(shlex.quote(f"{'.'.join(key)}={_typed(value)}") for key, value in missing.items())
        fix = f"Run it again here: fp2 rerun RUN {options}" if words is None else f"If you trust it, add: {options}"
        problem = f"the run was not written by this project, and names {', '.join('.'.join(key) for key in missing)}"
        raise ForeignRunError(problem, where=str(folder), fix=fix)
    for key in named:
        if (dotted := ".".join(key)) in stated:
            node = plain
            for name in key[:-1]:
                node = node[name]
            node[key[-1]] = stated[dotted]


def states_again(word: str, root: Path = Path()) -> bool:
    """Return whether an override may state again what a foreign run names: it names something outside by itself."""
    return any(_is_outside(key, value, root, EVERY) for key, value in _leaves_of(word))


def logged_overrides(folder: Path, here: Config) -> list[str]:
    """Return a run's overrides; of a foreign run only those that can be composed again and name nothing outside."""
    logged = read_plain(folder, artifacts.OVERRIDES) or []
    if not isinstance(logged, list):
        raise Fp2Error("the run's overrides are not a list", where=str(folder))
    logged_words = [str(word) for word in logged]
    if is_own(folder, here, artifacts.OVERRIDES):
        return logged_words
    root = Path(here.paths.root)
    return [
        word
        for word in logged_words
        if "${" not in word
        and not word.lstrip("+~").startswith("hydra")
        and _is_override(word)
        and not states_again(word, root)
    ]


def _is_override(word: str) -> bool:
    try:
        return bool(parse_overrides([word]))
    except Fp2Error:
        return False


def _is_outside(key: Key, value: object, root: Path, allowed: Collection[str]) -> bool:
    if key[0] in HERE:
        return False
    if key[-1] in PERMISSIONS and key[0] in allowed and value and not str(value).startswith(MARK):
        return True
    if not isinstance(value, str | int | float | list | dict | date | None):  # a function or sweep of Hydra's
        return True
    return any(_names_outside(".".join(key), text, root) for text in _texts(value))


def _names_outside(dotted: str, text: str, root: Path) -> bool:
    """Return whether a text names code, an address or a path outside the project."""
    if _IMPORTED.fullmatch(dotted):
        return ":" in text and not _is_installed(text)
    is_text = dotted.startswith("probe.") and not dotted.startswith((*BATTERY_PATHS, "probe.options."))
    if is_text or text.startswith((MARK, "pkg://")):
        return False
    if _OPTION.fullmatch(dotted) and not dotted.endswith((".id", ".name")) and _IMPORT_PATH.fullmatch(text):
        return not _is_installed(text)
    return "://" in text or _is_path_outside(text, root)


def _is_installed(target: str) -> bool:
    """Return whether an import path is an installed entry point, or in `fp2`."""
    package = target.partition(":")[0].partition(".")[0]
    return package == "fp2" or any(target == point.value for group in GROUPS for point in installed(group).values())


def _is_path_outside(text: str, root: Path) -> bool:
    if not PATH.fullmatch(text) and ".." not in re.split(r"[\\/]", text):
        return False
    try:
        target = Path(os.path.expanduser(text.removeprefix("file:"))).resolve()
    except (OSError, ValueError, RuntimeError):  # no path on any machine
        return True
    return not target.is_relative_to(root.expanduser().resolve())


def leaves(value: object, key: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield (key, value) of everything that is not a mapping."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*key, str(name)))
    else:
        yield key, value


def _leaves_of(word: str) -> list[tuple[Key, object]]:
    """Return the settings of an override, as `fp2 rerun` reads it and as Hydra does; none of one that deletes."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, assigned, value = word.lstrip("+").partition("=")
    if not assigned or word.startswith("~"):
        return []
    readings: list[object] = []
    with suppress(OmegaConfBaseException, ValueError, yaml.YAMLError):
        readings += OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"])).values()  # type: ignore[union-attr]
    with suppress(Fp2Error):
        readings.append(parse_overrides([word])[0].value())
    return [leaf for read in readings for leaf in leaves(read, tuple(key.split(".")))]


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a setting, which may be a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(list(inner.values()) if isinstance(inner, Mapping) else inner)


def _typed(value: object) -> str:
    """Return a setting as it is typed on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(_typed, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = str(value)
    return text if re.fullmatch(r"[\w.:/@%+-]+", text) else in_quotes(text)
