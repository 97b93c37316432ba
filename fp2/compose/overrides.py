"""From command-line overrides to a composed config, with a hint at the nearest valid name for every typing error."""

from __future__ import annotations

import copy
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.compose.suggestions import GROUPS, stated_attributes, usable, without_folders
from fp2.compose.validation import build_protocol, is_from_hub, validate
from fp2.config import (
    CONFIG_NAME,
    Config,
    choices,
    conf_dir,
    conf_folders,
    conf_packages,
    groups,
    register_schema,
    set_search_path,
)
from fp2.cuts import expand_overrides, in_quotes
from fp2.engines.pins import may_run_unpinned_code
from fp2.errors import Fp2Error, nearest
from fp2.tables import IN_WORDS

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

SEARCH_PATH = "hydra.searchpath="
OPEN = ("data.", "engine.", "model.options.", "probe.decoding.", "task.options.", "task.files.")
"""Keys below which any name may be added to what a YAML file has: the data set, engine, battery or task checks them."""
_CHOSEN = ("model", "data", "probe", "cut", "engine", "variant", "task", "analysis", "report", "tracking", "paths")
"""Groups of which every run has a choice."""
SHARED = {"engine": ("batch_size", "device", "threads"), "data": ()}
"""Options that every engine of version 0.3.0 had, some without effect: accepted with any engine, as in a sweep."""


ROOT: ContextVar[Path | None] = ContextVar("ROOT", default=None)
"""The project's folder that a caller in Python has given, in its own thread; the environment stays as it is."""


def project_root() -> Path:
    """Return the folder that runs, store and outputs live in (`ROOT`, `FP2_ROOT`, or the current folder)."""
    if (root := ROOT.get()) is not None:
        return root
    return Path(os.environ.setdefault("FP2_ROOT", str(Path.cwd()))).resolve()


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """Register the schema and the cuts that `overrides` spell out; return overrides that Hydra understands.

    The config groups of plug-ins are on its search path, which is that of `choices` too.
    """
    project_root()
    register_schema()
    # Hydra cannot set a group back to nothing; these two are nothing unless chosen.
    overrides = [word for word in overrides if word not in ("experiment=null", "sweep=null")]
    if any(word.lstrip("+").startswith("hydra.sweeper.params") for word in overrides):
        fix = "Write -m seed=1,2, or a file of the group sweep (sweep=NAME)"
        raise Fp2Error("Hydra takes it from a file only", where="hydra.sweeper.params", fix=fix)
    expanded, nodes = expand_overrides(overrides)
    _store_cuts(nodes)
    words = [f"++{word}" if word.startswith(OPEN) else word for word in expanded]
    search_paths = [word for word in words if word.startswith(SEARCH_PATH)]
    inner = [
        part.strip(" '\"") for word in search_paths for part in word.removeprefix(SEARCH_PATH).strip("[] ").split(",")
    ]
    shipped, installed = (
        [f"pkg://{name}" for name in conf_packages(shipped=is_shipped).values()] for is_shipped in (True, False)
    )
    entries = [entry for entry in inner if entry and entry not in (*shipped, *installed)]
    for entry in entries:
        _check_search_path(entry)
    set_search_path(entries)
    path = ",".join([*shipped, *entries, *installed])
    return [*([f"{SEARCH_PATH}[{path}]"] if path else []), *(word for word in words if word not in search_paths)]


def _check_search_path(entry: str) -> None:
    """Raise for a folder or package of config groups that does not exist: Hydra passes over it."""
    from importlib.util import find_spec

    kind, separator, target = entry.partition("://")
    kind, target = (kind, target) if separator else ("file", entry)
    if kind == "file" and not Path(target).expanduser().is_dir():
        raise Fp2Error("the folder does not exist", where=f"{SEARCH_PATH}{entry}", fix="Give the path of a folder")
    if kind == "pkg":
        try:
            spec = find_spec(target.replace("/", "."))
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            raise Fp2Error(f"there is no package {target!r}", where=f"{SEARCH_PATH}{entry}", fix="Install it")


def _store_cuts(nodes: Mapping[str, Mapping[str, object]]) -> None:
    from hydra.core.config_store import ConfigStore

    for name, node in nodes.items():
        ConfigStore.instance().store(group="cut", name=name, node=node)


def compose_config(overrides: Sequence[str], *, with_hydra: bool = False) -> DictConfig:
    """Compose `overrides` (already prepared) into an OmegaConf config, with a section `hydra` on demand."""
    from hydra import compose
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    with _hydra():
        with suppress(Fp2Error, HydraException, OmegaConfBaseException, ValueError, TypeError):  # explained below
            return _compose_settings(overrides, with_hydra)
        try:
            return compose(CONFIG_NAME, overrides=list(overrides), return_hydra_config=with_hydra)
        except HydraException as error:
            group, _, name = str(getattr(error, "missing_cfg_file", "")).rpartition("/")
            stated = stated_attributes(overrides) if group == "cut" else []
            if stated is None or name in stated:  # an attribute, or maybe one of data that are not loaded
                _store_cuts({name: {"name": name, "by": [name], "each": None, "groups": None}})
                return compose(CONFIG_NAME, overrides=list(overrides), return_hydra_config=with_hydra)
            raise _explained(error, overrides) from error
        except (OmegaConfBaseException, ValueError, TypeError) as error:  # for `model=null`, and `scorer=[[a]]`
            raise Fp2Error(_first_line(error), where="override") from error


_composed: dict[tuple[str, ...], DictConfig] = {}
"""The compositions of files since any of them changed, by overrides: Hydra takes 0.15 s for one."""
_files: set[tuple[Path, int]] = set()
"""The files of these compositions, with the times of their last change."""


def _compose_settings(overrides: Sequence[str], with_hydra: bool) -> DictConfig:
    """Return what `hydra.compose` does, from the composition of the same files; raise for what Hydra has to explain.

    Hydra, too, first composes files and then makes settings, which are overrides of keys that are no config group. Its
    section `hydra` lists all overrides, and this one only those that are no settings.
    """
    from hydra import compose
    from omegaconf import OmegaConf, open_dict

    parsed = parse_overrides(overrides)
    not_set = re.compile(rf"(?:{'|'.join(groups())})|hydra\b.*|.*/.*")
    settings = [override for override in parsed if not not_set.fullmatch(override.key_or_group)]
    chosen = tuple(str(override.input_line) for override in parsed if override not in settings)
    files = {(path, path.stat().st_mtime_ns) for top in conf_folders().values() for path in top.rglob("*.yaml")}
    if files != _files:
        _composed.clear()
        _files.clear()
        _files.update(files)
    if chosen not in _composed:
        _composed[chosen] = compose(CONFIG_NAME, overrides=list(chosen), return_hydra_config=True)
    config = copy.deepcopy(_composed[chosen])
    for override in settings:
        if override.is_add() or override.is_delete() or override.is_sweep_override() or override.package:
            raise Fp2Error(f"{override.input_line} is no setting")
        OmegaConf.update(config, override.key_or_group, override.value(), force_add=override.is_force_add())
    if not with_hydra:
        with open_dict(config):
            del config["hydra"]
    return config


def load_config(overrides: Sequence[str]) -> Config:
    """Prepare, compose and validate in one step."""
    prepared = hydra_overrides(overrides)
    config = validate(compose_config(prepared))
    check_typed(prepared, [config])
    return config


def config_of(job: Sequence[str]) -> tuple[Config, bool]:
    """Return one run's config, its data folder left open if not given; and whether its questions are missing too."""
    from omegaconf import OmegaConf

    composed = without_folders(compose_config(job))
    root = composed.data.get("root")
    is_missing = bool(root) and not Path(str(root)).expanduser().is_dir()
    # parts of the questions that are with the data, as in `experiment=gras_paper`
    lacking = [name for name in ("traits_file", "published") if is_missing and composed.probe[name] == root]
    for name in lacking:
        OmegaConf.update(composed, f"probe.{name}", None)
    return validate(composed), bool(lacking)


def check_overrides(overrides: Sequence[str], *, sweep: bool = True) -> list[Config]:
    """Compose and validate each choice of a sweep on its own, so that an error in typing is found before anything runs.

    Choices come from the command line and from a `sweep=` file. Returns the config of the first job, and of those that
    differ from it by one further choice.
    """
    variants, composed = _all_choices(overrides, sweep)
    first = [options[0] for options in variants]
    configs = [validate(compose_config(first) if composed is None else composed)]
    for index, options in enumerate(variants):
        for choice in options[1:]:
            configs.append(validate(compose_config([*first[:index], choice, *first[index + 1 :]])))
    check_typed([choice for options in variants for choice in options], configs)
    return configs


def as_sweep(overrides: Sequence[str], config: Config) -> list[str] | None:
    """Return the (prepared) overrides of a sweep where the protocol makes several runs of one command, else None."""
    from fp2.protocols.base import Collects

    protocol = build_protocol(config)
    if not isinstance(protocol, Collects) or (sweep := protocol.sweep(config)) is None:
        return None
    key, values = sweep
    remaining = [word for word in overrides if word.partition("=")[0].lstrip("+") != key]
    return [*remaining, f"++{key}={','.join(map(in_quotes, values))}"]


def check_pins(configs: Sequence[Config]) -> None:
    """Refuse models whose own code would run at no pinned commit, all of them in one line."""
    models = {config.model.name: asdict(config.model) for config in configs if is_from_hub(config)}
    names = [name for name, model in models.items() if may_run_unpinned_code(model)]
    if names:
        problem = f"code of its own would run at no pinned commit: {', '.join(names)}"
        fix = f"Read that code in the local cache of the hub, then pin its commit: fp2 pin {' '.join(names)}"
        raise Fp2Error(problem, where="model.revision", fix=fix)


def check_typed(overrides: Sequence[str], configs: Sequence[Config]) -> None:
    """Refuse an option of the command line that no run has or uses, and a primary scorer that some run lacks.

    An experiment file may set options for its own choice beside another one, and a primary scorer that a run without
    it replaces; null takes any option away.
    """
    for word in overrides:
        key, _, value = word.partition("=")
        section, _, name = key.lstrip("+~").partition(".")
        if section == "analysis" and name == "primary":
            for config in configs:
                if config.analysis.primary not in config.scorer:
                    fix = f"Name it in scorer= too, or choose from: {', '.join(config.scorer)}"
                    raise Fp2Error(f"the run has no scorer {config.analysis.primary!r}", where=key.lstrip("+"), fix=fix)
        if name == "decoding.temperature" and value != "1" and not any(map(_uses_temperature, configs)):
            problem = "sampled answers estimate the probabilities at temperature 1, whatever this is"
            raise Fp2Error(problem, where=key.lstrip("+"), fix="Leave it out")
        if section not in SHARED or not name or value == "null":
            continue
        field_names = [field.name for config in configs for field in fields(getattr(config, section))]
        if name.split(".")[0] not in (*field_names, *SHARED[section]):
            chosen = getattr(configs[0], section).name
            fix = nearest(name, list(dict.fromkeys(field_names)))
            raise Fp2Error(f"{section}={chosen} has no option {name!r}", where=key.lstrip("+~"), fix=fix)


def _uses_temperature(config: Config) -> bool:
    """Return whether some answer is in words, or probabilities are not estimated from sampled answers."""
    from fp2.probes.battery import load_battery

    if getattr(config.engine, "scoring", None) != "sampled":
        return True
    no_files = {"traits_file": None, "published": None}  # they may be missing, and change no question's kind
    return any(question.kind in IN_WORDS for question in load_battery(asdict(config.probe) | no_files).questions)


def jobs_of(overrides: Sequence[str]) -> list[list[str]]:
    """Return the (prepared) overrides of every run that `overrides` stand for: one, or all of a sweep."""
    return [list(job) for job in itertools.product(*_all_choices(hydra_overrides(overrides), sweep=True)[0])]


def _all_choices(overrides: Sequence[str], sweep: bool) -> tuple[list[list[str]], DictConfig | None]:
    """Return the options of each override, and the config of the first of each, composed already.

    Options are those of the command line and of a file that says what to sweep over; with such a file, no config.
    """
    typed = [_variants(override) for override in parse_overrides(overrides)]
    params, multirun, composed = _sweep_of([options[0] for options in typed])
    several = next((options for options in typed if len(options) > 1), None)
    if several is not None and not (sweep or multirun):
        key = several[0].partition("=")[0]
        problem = f"{key} has several values, and this command makes one run"
        raise Fp2Error(problem, where="override", fix="Add -m for a sweep")
    keys = {options[0].partition("=")[0] for options in typed}
    filed = [f"{key}={options}" for key, options in params.items() if key not in keys]
    expanded, nodes = expand_overrides(filed)
    _store_cuts(nodes)
    return [*typed, *(_variants(override) for override in parse_overrides(expanded))], None if filed else composed


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Return overrides as Hydra reads them (its `Override`)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, parsed = OverridesParser.create(), []
    for word in overrides:
        is_open = word.startswith(tuple(f"++{name}" for name in OPEN))
        override = word.removeprefix("++") if is_open else word  # as it was typed: see `hydra_overrides`
        key, separator, value = override.partition("=")
        try:
            parsed.append(parser.parse_override(word))
        except HydraException as error:
            problem, fix = f"{override} cannot be read", "An override is written key=value"
            if separator and any(value.count(first) != value.count(last) for first, last in ("[]", "{}", "()")):
                problem, fix = f"{override} has a bracket without its partner", "An example is cut.by='[gender,region]'"
            elif separator and key:
                fix = f"Put a value with spaces, brackets or letters like ö in single quotes: \"{key}='a value'\""
                if value.startswith(("{", "[")):
                    fix += ", each one of a list or table by itself: \"{name: 'a value'}\""
            raise Fp2Error(problem, where="override", fix=fix) from error
        if not parsed[-1].key_or_group:
            raise Fp2Error(f"{word} has no key", where="override", fix="An override is written key=value")
        if parsed[-1].value() is None and key.lstrip("+") in _CHOSEN:
            raise Fp2Error(f"{word} chooses nothing", where="override", fix=nearest("", choices(key.lstrip("+"))))
    return parsed


def _variants(override: Override) -> list[str]:
    """Return the overrides that one word of the command line stands for: several if it is a sweep."""
    from hydra.core.override_parser.types import Glob

    text = str(override.input_line)
    key = text.partition("=")[0]
    if isinstance(value := override.value(), Glob):
        names = value.filter(list(choices(key.lstrip("+"))))
        if not names:
            raise Fp2Error(f"nothing matches {text}", where="override", fix=f"There are: {', '.join(choices(key))}")
        return [f"{key}={name}" for name in names]
    if override.is_interval_sweep():
        raise Fp2Error(f"{text} names no values", where="override", fix=f"Name them: {key}=A,B or {key}=range(A,B)")
    if override.is_sweep_override():
        return [f"{key}={choice}" for choice in override.sweep_string_iterator()]
    return [text]


def _sweep_of(overrides: Sequence[str]) -> tuple[dict[str, str], bool, DictConfig]:
    """Return what a chosen `sweep=` file sweeps over, whether it asks for a sweep, and the composed config."""
    from omegaconf import OmegaConf, open_dict

    composed = compose_config(overrides, with_hydra=True)
    params = OmegaConf.select(composed.hydra, "sweeper.params") or {}
    several = {str(key): str(value) for key, value in params.items()}, str(composed.hydra.mode).endswith("MULTIRUN")
    with open_dict(composed):
        del composed["hydra"]  # what `hydra.compose` does where it is not asked for
    return *several, composed


@contextmanager
def _hydra() -> Iterator[None]:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        yield


def _first_line(error: BaseException) -> str:
    return next((text.strip() for text in str(error).splitlines() if text.strip()), type(error).__name__)


def _explained(error: Exception, overrides: Sequence[str]) -> Fp2Error:
    """Turn Hydra's error into one line with the nearest valid name, of cuts and scorers the nearest usable one."""
    from hydra.errors import MissingConfigException

    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        names = usable(group, overrides) if group in GROUPS else error.options or choices(group)
        if group == "cut" and not names:
            names = stated_attributes(overrides)
        hint = nearest(name, names) if names else f"See what there is: fp2 list {group}s"
        if group == "hydra/launcher":
            hint = "pip install 'fp2[slurm]' for slurm, 'fp2[sweep]' for joblib"
        if group == "cut":
            hint += ". Any attribute of the data set: cut=NAME; an intersection: cut=A_x_B"
        return Fp2Error(f"unknown {group or 'config'} {name!r}", fix=hint)
    text = str(error)
    cause = error.__cause__
    match = re.search(r"Could not override '([^']+)'", text)
    if match:
        key = match.group(1)
        from hydra import compose
        from omegaconf import DictConfig, OmegaConf

        head = key.split(".")[0].split("@")[0]
        sections = {*groups(), *Config.__dataclass_fields__}
        if head not in sections:
            return Fp2Error(f"unknown key {key!r}", where="override", fix=nearest(head, sections))
        section, _, last = key.rpartition(".")
        path = [word for word in overrides if word.startswith(SEARCH_PATH)]
        node = OmegaConf.select(compose(CONFIG_NAME, overrides=path), section) if section else None
        keys = [str(key) for key in node] if isinstance(node, DictConfig) else []
        if last and keys and last not in keys:
            return Fp2Error(f"unknown key {key!r}", where="override", fix=nearest(last, keys))
        return Fp2Error(_first_line(cause or Exception(text)), where=key)
    if cause is not None and (wrong := _wrong_type(cause)):
        return wrong
    return Fp2Error(_first_line(error), where="override")


def _wrong_type(cause: BaseException) -> Fp2Error | None:
    """Return the error of a value that has not the type of its key, as OmegaConf states it; None of any other."""
    while cause.__cause__ is not None:
        cause = cause.__cause__
    key = re.search(r"full_key: (\S+)", str(cause))
    found = re.search(r"Value '(.*?)' .*(?:converted to|is not a valid) (\w+)", _first_line(cause))
    if key is None:
        return None
    if found is None or (expected := TYPES.get(found.group(2).lower())) is None:
        return Fp2Error(_first_line(cause), where=key.group(1))
    return Fp2Error(f"{found.group(1)!r} is not {expected}", where=key.group(1))


TYPES = {"float": "a number", "integer": "a whole number", "int": "a whole number", "bool": "true or false"}
"""OmegaConf's names of types in words."""
