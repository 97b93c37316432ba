"""The config hash: the digest of everything in a config that decides a result, and of nothing else.

No path, device or batch size enters it: it is the same on another machine, in another folder, and for another order of
keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

from fp2.config import ASK, FIRST_PRIMARY, AnalysisConfig, Config, ProbeConfig, TaskConfig, variant_identity
from fp2.cuts import Cut, resolve_cuts
from fp2.data.base import Content, Local, Marker, OmitDefault, file_digest, identity, marked
from fp2.errors import Fp2Error
from fp2.hashing import digest, sha256_file
from fp2.moved import first_path
from fp2.plugins import PROTOCOLS, SCORERS, load
from fp2.probes.battery import is_trait_battery, trait_batteries
from fp2.tables import ORIGINAL, without_defaults

Plain = dict[str, Any]
"""Settings as nested data."""

CONFIG_SCHEMA = 1
LATER: tuple[tuple[str, object], ...] = (
    ("prompt", None), ("image_backend", "pil"), ("image_size", None), ("resample", None), ("adapter", None),
    ("yes_no", None), ("softmax_dtype", None), ("options", {}), ("api", None),
)  # fmt: skip
"""Settings of a model that came later: left out at their default, so that configs from before keep their hash."""


def identity_of(config: Config) -> Plain:
    """Return the allow-listed part of the config that decides a result, without paths and devices.

    A file of the user's own (a truth, a lexicon) is represented by the digest of its bytes. A model folder is
    represented by its name: its weights are in the response set.
    """
    model = asdict(config.model)
    for name in ("base_url", "api_key_env", "pickled_weights"):  # none of them changes an answer
        model.pop(name)
    if model["id"] and _is_path(model["id"]):
        model["id"] = Path(model["id"]).name
    if isinstance(model["truth"], str):
        model["truth"] = file_digest(model["truth"], "model.truth")
    elif isinstance(model["truth"], Mapping):
        yes_no = model["truth"].get("yes_no")
        if isinstance(yes_no, Mapping) and isinstance(yes_no.get("valences"), str):  # the path of a list of words
            words = file_digest(yes_no["valences"], "model.truth.yes_no.valences")
            model["truth"] = {**model["truth"], "yes_no": {**yes_no, "valences": words}}
    if model["adapter"] and _is_path(model["adapter"]):
        model["adapter"] = Path(model["adapter"]).name
    for name, usual in LATER:
        if model[name] == usual:
            del model[name]
    probe = _probe_identity(config.probe, config.model.id)
    cuts = resolve_cuts(asdict(config.cut))
    # Runs without an image variant keep the hash from before there were variants.
    changed = {} if config.variant.kind == ORIGINAL else {"variant": variant_identity(config.variant)}
    engine = config.engine.identity()
    return {
        "model": model,
        **({"engine": engine} if engine else {}),
        "probe": probe,
        **_task_identity(config.task),
        "cut": [_cut_identity(cut) for cut in cuts],
        "scorer": {name: _scorer_identity(name, spec) for name, spec in config.scorer.items()},
        "data": identity(config.data),
        **changed,
        "analysis": _analysis_identity(config.analysis, config.scorer),
        **({"stop": config.answers.stop} if config.answers.stop else {}),
        **({} if config.answers.against is None else {"against": [Path(run).name for run in config.answers.against]}),
        "seed": config.seed,
    }


def _cut_identity(cut: Cut) -> list[object]:
    """Return attributes, selected values and, where there are any, merged ones."""
    merged = [[name, [[group, list(values)] for group, values in members]] for name, members in cut.merged]
    return [list(cut.by), [[name, list(kept)] for name, kept in cut.groups], *([merged] if merged else [])]


_IN_EVERY_HASH = {"name", "version", "description", "decoding", "select", "probes"}
"""The keys of a battery in version 0.1."""


def _probe_identity(probe: ProbeConfig, model_id: str | None) -> Plain:
    """Return the battery; keys added after version 0.1 are left out at their default, so that hashes stay."""
    settings, usual = asdict(probe), asdict(ProbeConfig())
    for name in set(usual) - _IN_EVERY_HASH:
        if settings[name] == usual[name]:
            del settings[name]
    settings["decoding"] = without_defaults(settings["decoding"])
    if "options" in settings:
        _drop_defaults(settings["options"], _options_of(PROTOCOLS, probe.protocol, "probe.protocol"))
        if settings["options"] == usual["options"]:
            del settings["options"]
    if is_trait_battery(settings) or {"published", "traits_file"} & set(settings):
        return trait_batteries().identity(settings, model_id)
    return settings


def _analysis_identity(analysis: AnalysisConfig, scorers: Mapping[str, Plain]) -> Plain:
    """Return the analysis; keys added after version 0.3.0 are left out at their default, so that hashes stay.

    A primary scorer that is the default, and that the run lacks, is written as 0.3.0 wrote its own.
    `published` is left out: it shows a further column, and changes no other number.
    """
    settings, usual = asdict(analysis), asdict(AnalysisConfig())
    del settings["published"]
    for name in ("adjust", "looks", "multiverse"):
        if settings[name] == usual[name]:
            del settings[name]
    if settings["primary"] == usual["primary"] and settings["primary"] not in scorers:
        settings["primary"] = FIRST_PRIMARY
    if analysis.labels is None:
        del settings["labels"]
    else:
        settings["labels"] = file_digest(analysis.labels, "analysis.labels")
    return settings


def _task_identity(task: TaskConfig) -> Plain:
    if task.name == ASK:
        return {}
    files = {name: _digests(value, f"task.files.{name}") for name, value in task.files.items() if value}
    options = dict(task.options)
    _drop_defaults(options, _options_of(PROTOCOLS, task.name, "task"))
    return {"task": {"name": task.name, "options": options, "files": files}}


def _digests(value: Any, where: str) -> object:
    """Return the digest of a file, or those of a list or table of files; of a folder, that of its files.

    Files of a folder count with their names, down to two levels below it.
    """
    if isinstance(value, Mapping):
        return {str(name): _digests(path, where) for name, path in value.items()}
    if isinstance(value, (list, tuple)):
        return [_digests(path, where) for path in value]
    folder = Path(value).expanduser()
    if not folder.is_dir():
        return file_digest(value, where)
    files = sorted(path for depth in range(3) for path in folder.glob("*/" * depth + "*") if path.is_file())
    return digest([[path.relative_to(folder).as_posix(), sha256_file(path)] for path in files])


def _scorer_identity(name: str, spec: Plain) -> Plain:
    """Return a scorer's options, without those of this machine; its files by their digests, a folder by its name."""
    options = _options_of(SCORERS, str(spec.get("target", name)), f"scorer.{name}")
    local, content = _marks(options, Local), _marks(options, Content)
    portable = {str(key): value for key, value in spec.items() if key not in local}
    _drop_defaults(portable, options)
    if isinstance(portable.get("target"), str):
        portable["target"] = first_path(portable["target"])
    for key in ("model", "id"):
        if isinstance(portable.get(key), str) and _is_path(portable[key]):
            portable[key] = Path(portable[key]).name
    if portable.get("measures", name) == name:
        portable.pop("measures", None)
    for key in portable:
        if key in content and isinstance(portable[key], str):
            portable[key] = content[key].of(portable[key], f"scorer.{name}.{key}")
        elif isinstance(portable[key], str) and portable[key].endswith((".yaml", ".yml")):
            portable[key] = file_digest(portable[key], f"scorer.{name}.{key}")
    return portable


def _options_of(group: str, target: str, where: str) -> type[Any] | None:
    """Return the dataclass of a scorer's or task's options; None where it has none, or is not installed here."""
    try:
        scorer_class = load(group, target, where)
    except Fp2Error:  # of a logged run whose package is not installed here
        return None
    options: Any = scorer_class if group == SCORERS else scorer_class.Options
    return options if isinstance(options, type) and is_dataclass(options) else None


def _marks(options: type[Any] | None, marker: type[Marker]) -> dict[str, Marker]:
    return dict(marked(options, marker)) if options else {}


def _drop_defaults(stated: Plain, options: type[Any] | None) -> None:
    """Remove the options marked `OmitDefault` that have their default, which None and [] stand for."""
    usual = {field.name: field.default for field in fields(options)} if options else {}
    for name in _marks(options, OmitDefault):
        if name in stated and stated[name] in (usual[name], None, []):
            del stated[name]


def _is_path(model_id: str) -> bool:
    if model_id.startswith("pkg://"):
        return False
    return model_id.startswith((".", "/", "~")) or Path(model_id).expanduser().exists()


def config_hash(config: Config) -> str:
    """Return the hex SHA-256 of the config's identity: the same on another machine, folder, device or key order."""
    return digest({"schema": CONFIG_SCHEMA, "config": _one_number(identity_of(config))})


def _one_number(value: object) -> object:
    """Write whole floats as integers all the way down: YAML's `1` and `1.0` are one number."""
    if isinstance(value, Mapping):
        return {str(key): _one_number(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_one_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
