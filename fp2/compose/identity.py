"""The config hash: the digest of everything in a config that decides a result, and of nothing else.

No path, device or batch size enters it: it is the same on another machine, in another folder, and for another order of
keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fp2.config import ASK, AnalysisConfig, Config, ProbeConfig, TaskConfig, variant_identity
from fp2.cuts import resolve_cuts
from fp2.data.base import file_digest, identity
from fp2.hashing import digest
from fp2.probes.trait_battery import is_trait_battery
from fp2.probes.traits import own_traits, traits_path
from fp2.tables import ORIGINAL

CONFIG_SCHEMA = 1


def identity_of(config: Config) -> dict[str, Any]:
    """Return the allow-listed part of the config that decides a result, without paths and devices.

    A file of the user's own (a truth, a lexicon) is represented by the digest of its bytes. A model folder is
    represented by its name: its weights are in the response set.
    """
    model = asdict(config.model)
    for name in ("base_url", "api_key_env"):
        model.pop(name)
    if model["id"] and _is_path(model["id"]):
        model["id"] = Path(model["id"]).name
    if isinstance(model["truth"], str):
        model["truth"] = file_digest(model["truth"], "model.truth")
    elif isinstance(model["truth"], Mapping):
        model["truth"] = _truth_identity(model["truth"])
    for name, usual in (("prompt", None), ("image_backend", "pil")):
        if model[name] == usual:
            del model[name]  # so that configs from before this option keep their hash
    probe = _probe_identity(config.probe)
    cuts = resolve_cuts(asdict(config.cut))
    # Runs without an image variant keep the hash from before there were variants.
    changed = {} if config.variant.kind == ORIGINAL else {"variant": variant_identity(config.variant)}
    return {
        "model": model,
        "probe": probe,
        **_task_identity(config.task),
        "cut": [[list(cut.by), [[name, list(kept)] for name, kept in cut.groups]] for cut in cuts],
        "scorer": {name: _scorer_identity(name, spec) for name, spec in config.scorer.items()},
        "data": identity(config.data),
        **changed,
        "analysis": _analysis_identity(config.analysis),
        "seed": config.seed,
    }


def _truth_identity(truth: Mapping[str, Any]) -> dict[str, Any]:
    """Return a truth given as a mapping, with the digest of the list of words in place of its path."""
    yes_no = truth.get("yes_no")
    listed = yes_no.get("valences") if isinstance(yes_no, Mapping) else None
    if not isinstance(yes_no, Mapping) or not isinstance(listed, str):
        return dict(truth)
    return {**truth, "yes_no": {**yes_no, "valences": file_digest(listed, "model.truth.yes_no.valences")}}


def _probe_identity(probe: ProbeConfig) -> dict[str, Any]:
    """Return the battery; keys added after version 0.1 are left out at their default, so that hashes stay."""
    own, usual = asdict(probe), asdict(ProbeConfig())
    for name in ("people", "protocol", "templates", "traits", "traits_file", "variants", "options"):
        if own[name] == usual[name]:
            del own[name]
    if "traits_file" in own:
        own["traits_file"] = file_digest(str(traits_path(own["traits_file"])), "probe.traits_file")
    elif is_trait_battery(own) and "traits" not in own:
        own["traits"] = f"sha256:{own_traits().sha256}"
    return own


def _analysis_identity(analysis: AnalysisConfig) -> dict[str, Any]:
    """Return the analysis; keys added after version 0.3.0 are left out at their default, so that hashes stay."""
    own, usual = asdict(analysis), asdict(AnalysisConfig())
    for name in ("adjust", "looks"):
        if own[name] == usual[name]:
            del own[name]
    return own


def _task_identity(task: TaskConfig) -> dict[str, Any]:
    if task.name == ASK:
        return {}
    files = {name: file_digest(path, f"task.files.{name}") for name, path in task.files.items() if path}
    return {"task": {"name": task.name, "options": task.options, "files": files}}


def _scorer_identity(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    own = {str(key): value for key, value in spec.items()}
    for key in own:
        if isinstance(own[key], str) and own[key].endswith((".yaml", ".yml")):
            own[key] = file_digest(own[key], f"scorer.{name}.{key}")
        elif key == "lexicon_file" and isinstance(own[key], str):
            # Versions of a packaged lexicon count as one, as versions of the methods do: results name both, so that
            # shipped experiments keep their hash, and runs with different versions are not compared.
            own[key] = _VERSION.sub("", own[key])
    return own


_VERSION = re.compile(r"_\d+$")


def _is_path(model_id: str) -> bool:
    if model_id.startswith("pkg://"):
        return False
    return model_id.startswith((".", "/", "~")) or Path(model_id).expanduser().exists()


def config_hash(config: Config) -> str:
    """Return the hex SHA-256 of the config's identity: the same on another machine, folder, device or key order."""
    return digest({"schema": CONFIG_SCHEMA, "config": _one_number(identity_of(config))})


def _one_number(value: Any) -> Any:
    """Write whole floats as integers all the way down: YAML's `1` and `1.0` are one number."""
    if isinstance(value, Mapping):
        return {str(key): _one_number(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_one_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
