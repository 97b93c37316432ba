"""From a composed Hydra config, or a logged one, to a checked `Config`: types, ranges, and what has to fit together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import plugins
from fp2.ask.plan import Shard
from fp2.config import ASK, SWEEP_ID, Config, check_variant, variants_of
from fp2.cuts import check_publishable, resolve_cuts
from fp2.data.base import data_source
from fp2.data.image_size import check_image_size
from fp2.engines.build import engine_class, engine_options
from fp2.engines.pins import pinned_revision
from fp2.errors import Fp2Error, check_names, nearest
from fp2.plugins import SCORERS, as_user_error, checker, installed
from fp2.tables import DTYPES, IMAGE_BACKENDS, QUANTISATIONS, RESAMPLE

if TYPE_CHECKING:
    from fp2.protocols.base import Protocol


def build_protocol(config: Config) -> Protocol:
    """Return the protocol that a config names: `task.name`, or `probe.protocol` if a model is asked."""
    from fp2.protocols.base import Asks, Collects

    asks = config.task.name == ASK
    name, where = (config.probe.protocol, "probe.protocol") if asks else (config.task.name, "task")
    protocol_class = plugins.load(plugins.PROTOCOLS, name, where)
    if not (isinstance(protocol_class, type) and issubclass(protocol_class, (Asks, Collects))):
        fix = "Derive it from fp2.protocols.base.Asks, or from Collects for a task"
        raise Fp2Error(f"{protocol_class!r} is not a protocol", where=where, fix=fix)
    if issubclass(protocol_class, Asks) != asks:
        fix, kind = (f"Set task={name}", "is a task") if asks else (f"Set probe.protocol={name}", "asks a model")
        raise Fp2Error(f"{name!r} {kind}", where=where, fix=fix)
    return protocol_class.from_config(config)


CHOICES = {
    "analysis.correction": ("holm", "bh", "by", "bonferroni", "none"),
    "analysis.family": ("scorer", "run"),
    "model.dtype": DTYPES,
    "model.softmax_dtype": DTYPES,
    "model.quantisation": QUANTISATIONS,
    "model.image_backend": IMAGE_BACKENDS,
    "model.resample": RESAMPLE,
    "model.api": ("messages",),
}
"""Key -> its values. Not a `Literal` in `fp2.config`: schemas of OmegaConf 2.3 refuse that type."""


def validate(cfg: Any) -> Config:
    """Turn a composed Hydra config into a checked `Config`, in which a hub model has its pinned revision.

    A logged config (`from_plain`) keeps the revision that it was logged with.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise Fp2Error(str(error).splitlines()[0], where="config") from error
    config = from_plain(plain)
    if is_from_hub(config):
        config.model.revision = pinned_revision(asdict(config.model), Path(config.paths.pins))
    for spec in config.scorer.values():
        if spec.get("model") is not None and "revision" in spec:
            named = {"id": spec["model"], "revision": spec["revision"]}
            spec["revision"] = pinned_revision(named, Path(config.paths.pins))
    return config


def is_from_hub(config: Config) -> bool:
    """Return whether the engine takes models from the hub; a server's model has the same names and no commit."""
    return bool(engine_class(asdict(config.engine)).from_hub)


def typed(plain: object) -> Config:
    """Check the types of plain nested data, and import no class: `data` and `engine` remain mappings."""
    import pydantic

    try:
        config: Config = checker(Config).validate_python(plain)
    except pydantic.ValidationError as error:
        raise as_user_error(error, "", Config) from error
    return config


def from_plain(plain: object) -> Config:
    """Check plain nested data (a logged `config.yaml`, say); see `validate`."""
    config = typed(plain)
    config.data = data_source(config.data).options
    config.engine = engine_options(engine_class(config.engine), config.engine)
    _cross_check(config)
    build_protocol(config)
    return config


def _cross_check(c: Config) -> None:
    """Check what depends on more than one key, and choices."""
    for key, choices_of_key in CHOICES.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(c, section), name)
        if value is not None and value not in choices_of_key:
            raise Fp2Error(f"unknown value {value!r}", where=key, fix=nearest(value, choices_of_key))
    if c.model.image_size is not None:
        check_image_size(c.model.image_size)
    elif c.model.resample is not None:
        fix = "Give model.image_size too"
        raise Fp2Error("no size is given to which images are resized", where="model.resample", fix=fix)
    if not isinstance(c.scorer, Mapping):
        raise Fp2Error("scorer should be a table of names and their options", where="scorer")
    for name, spec in c.scorer.items():
        if not isinstance(spec, Mapping):
            raise Fp2Error(f"scorer {name!r} is not a mapping with a target", where="scorer")
    _check_keys(c)
    bounds = c.analysis.severity
    if set(bounds) != {"low", "moderate", "high"} or not 0 <= bounds["low"] < bounds["moderate"] < bounds["high"]:
        problem = f"severity bounds must be 0 <= low < moderate < high, not {dict(bounds)}"
        raise Fp2Error(problem, where="analysis.severity")
    if c.analysis.permutations is not None and c.analysis.permutations < 99:
        fix = "At least 99, or null"
        raise Fp2Error(f"{c.analysis.permutations} permutations are too few", where="analysis.permutations", fix=fix)
    if c.answers.error_budget > 1 and c.answers.error_budget != int(c.answers.error_budget):
        fix = "Give a whole number, or a share up to 1"
        raise Fp2Error("an error budget above 1 is a number of answers", where="answers.error_budget", fix=fix)
    if c.answers.against is not None and c.answers.stop is None:
        fix = "Set answers.stop=order, or leave it out"
        raise Fp2Error("no rule compares with finished runs", where="answers.against", fix=fix)
    if c.tracking.sweep_id is not None and not SWEEP_ID.fullmatch(c.tracking.sweep_id):
        fix = "Use letters, digits, dots, dashes and underscores"
        raise Fp2Error(f"invalid sweep id {c.tracking.sweep_id!r}", where="tracking.sweep_id", fix=fix)
    Shard.parse(c.shard)
    check_publishable(resolve_cuts(asdict(c.cut)))
    check_variant(c.variant)
    variants_of(c.probe)
    _check_probes(c)


_KEY_OPTION = "api_key_env"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KEY = re.compile(
    r"(Bearer )?(sk-[\w-]{16,}|hf_[A-Za-z0-9]{30,}|gsk_\w{20,}|gh[pousr]_\w{30,}|github_pat_\w{30,}|AIza[\w-]{30,}|"
    r"AKIA[A-Z0-9]{16}|xai-[\w-]{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{20,}|eyJ[\w-]+\.[\w-]+\.[\w-]+)"
)


def _check_keys(c: Config) -> None:
    """Refuse a key in place of the name of its variable: the config is logged and published. No message repeats it."""
    for section, options in (
        ("model", asdict(c.model)),
        *((f"scorer.{name}", spec) for name, spec in c.scorer.items()),
    ):
        fix = f"Put the key into an environment variable, and give its name: {section}.{_KEY_OPTION}=OPENAI_API_KEY"
        for key, value in options.items():
            if isinstance(value, str) and _KEY.fullmatch(value.strip()):
                raise Fp2Error("this looks like an API key", where=f"{section}.{key}", fix=fix)
        if (name := options.get(_KEY_OPTION)) is None:
            continue
        where = f"{section}.{_KEY_OPTION}"
        if not _VARIABLE.fullmatch(str(name)):
            raise Fp2Error("not the name of an environment variable", where=where, fix=fix)
        if looks_random(name):
            raise Fp2Error("this looks like an API key", where=where, fix=fix)


def looks_random(name: str) -> bool:
    """Whether a name is longer than those of variables are that have digits, or are one word."""
    one_word = "_" not in name
    if len(name) >= 20 and re.search("[0-9]", name):
        return one_word or re.search("[a-z]", name) is not None
    return len(name) > 30 and one_word


def _check_probes(c: Config) -> None:
    known_probes = c.probe.templates or c.probe.probes  # templates make a probe each, in place of the file's
    check_names(c.probe.select or (), known_probes, "unknown probe", "probe.select")
    scorer_names = {*c.scorer, *installed(SCORERS)}
    if c.analysis.primary not in scorer_names:
        fix = nearest(c.analysis.primary, scorer_names)
        raise Fp2Error(f"unknown scorer {c.analysis.primary!r}", where="analysis.primary", fix=fix)
