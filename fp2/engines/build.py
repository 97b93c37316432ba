"""From the config groups `model` and `engine` to the engine that answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fp2.config import choices
from fp2.engines.base import Engine, EngineFactory, EngineOptions
from fp2.engines.worker_options import WorkerOptions
from fp2.errors import Fp2Error
from fp2.plugins import ENGINES, WORKERS, check_members, load, own_options, read_installed, read_options
from fp2.tables import Decoding

if TYPE_CHECKING:
    import sqlite3

    from fp2.store.rows import ResponseStore

DEFAULT = "hf"
OPTIONAL = ("adapter", "api", "options", "softmax_dtype", "yes_no")
"""Settings of a model that change its answers and that an engine has to name (`takes`) if it can follow them."""
_FACTORY = (*EngineFactory.__annotations__, "create", "family_sharing")
_MEMBERS = tuple(name for name in vars(Engine) if not name.startswith("_"))
E = TypeVar("E", bound=Engine)


def build_engine(
    model: Mapping[str, object],
    engine: Mapping[str, object],
    decoding: Decoding,
    store: ResponseStore | None = None,
    *,
    verify_files: bool = False,
) -> Engine:
    """Return the engine for a model. Nothing is loaded, and neither torch nor transformers is imported.

    The config group `engine` has `name` (an entry point of the group `fp2.engines`) or `target` (an import path), and
    the engine's options; `model.engine`, if given, is the engine's name or one that the engine `serves`. In `store` the
    engine remembers what it needs between runs. For the rest see `EngineFactory.create`.
    """
    name = str(engine.get("name") or model.get("engine") or DEFAULT)
    kind = engine_class({**engine, "name": name})
    wanted = str(model.get("engine") or name)
    if wanted not in (name, *kind.serves):
        message = f"the model {model.get('name')!r} is for engine={wanted}, not engine={name}"
        other = f", or choose its model: model={name} model.name=NAME" if name in choices("model") else ""
        raise Fp2Error(message, where="engine", fix=f"Set engine={wanted}{other}")
    connection = store.connection if store is not None else None
    built: Engine = create(kind, model, engine, decoding, connection=connection, verify_files=verify_files)
    options = engine_options(kind, engine)
    if isinstance(options, WorkerOptions) and options.workers is not None:
        in_workers = load(WORKERS, options.workers, f"engine.{options.workers}")
        built = in_workers(built, options, lambda more: partial(build_engine, model, {**engine, **more}, decoding))
    check_members(built, _MEMBERS, "an engine", "engine")
    return built


def create(
    kind: type[E],
    model: Mapping[str, object],
    engine: Mapping[str, object],
    decoding: Decoding,
    *,
    connection: sqlite3.Connection | None = None,
    verify_files: bool = False,
) -> E:
    """Return an engine of the class `kind` (an `EngineFactory`); parameters as in `build_engine`."""
    factory: Any = kind
    for key, fix in factory.needs.items():
        if not model.get(key):
            raise Fp2Error(f"the model has no {key}", where=f"model.{key}", fix=fix)
    for key in OPTIONAL:
        if model.get(key) not in (None, {}) and key not in factory.takes:
            message = f"engine={engine.get('name') or DEFAULT} does not take it"
            fix = f"Remove it, or choose an engine that takes it: {', '.join(_taking(key)) or 'none is installed'}"
            raise Fp2Error(message, where=f"model.{key}", fix=fix)
    options = engine_options(kind, engine)
    built: E = factory.create(model, options, decoding, connection=connection, verify_files=verify_files)
    return built


def engine_class(engine: Mapping[str, object]) -> type[Any]:
    """Return the class that `target` or else `name` of the config group `engine` names."""
    name = str(engine.get("target") or engine.get("name") or DEFAULT)
    kind: type[Any] = load(ENGINES, name, "engine")
    if not isinstance(kind, type):
        raise Fp2Error(f"{name} is not an engine", where="engine", fix="Derive it from BaseEngine")
    check_members(kind, _FACTORY, "an engine", "engine")
    return kind


def engine_options(kind: type[Any], engine: Mapping[str, object]) -> EngineOptions:
    """Return the config group `engine` as the options of the class `kind`; a key that is None is not given."""
    stated = {key: value for key, value in engine.items() if value is not None}
    options: EngineOptions = read_options(kind.Options, own_options(kind.Options, stated, _installed_options), "engine")
    return options


def _taking(key: str) -> list[str]:
    """Return the installed engines that take an optional setting of a model."""
    settings_of = read_installed(ENGINES, lambda name: engine_class({"name": name}).takes)
    return sorted(name for name, takes in settings_of.items() if key in takes)


def _installed_options() -> list[type[EngineOptions]]:
    return list(read_installed(ENGINES, lambda name: engine_class({"name": name}).Options).values())
