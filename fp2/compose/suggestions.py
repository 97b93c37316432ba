"""Which cuts and scorers a run could have, so that a suggestion for a misspelt one is not refused in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fp2.artifacts import read_yaml
from fp2.compose.validation import build_protocol, validate
from fp2.config import CONFIG_NAME, choices
from fp2.cuts import check_publishable, resolve_cuts
from fp2.data.base import data_source, required
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from omegaconf import DictConfig

Content = dict[str, Any]
"""What a choice of a config group holds."""

NOT_GIVEN = "not-given"
"""Stands for a folder of the user's that is not given."""


def usable(group: str, overrides: Sequence[str]) -> list[str] | None:
    """Return the choices of a config group that the run of the other `overrides` takes, as far as is known.

    Nothing is loaded. Returns None where it is not known: the other overrides are wrong as well, or the attributes of
    the data set are known only when it is loaded.
    """
    return _of_others(_USABLE[group], group, overrides)


def stated_attributes(overrides: Sequence[str]) -> list[str] | None:
    """Return the attributes that the data set of `overrides` states before it is loaded; None where not known."""
    return _of_others(_attributes, "cut", overrides)


def _of_others(
    read: Callable[[DictConfig], list[str] | None], group: str, overrides: Sequence[str]
) -> list[str] | None:
    """Return what is read from the config of the overrides of other groups; None if these are wrong as well."""
    from hydra import compose
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    other_overrides = [word for word in overrides if word.lstrip("+~").partition("=")[0].partition(".")[0] != group]
    try:
        return read(without_folders(compose(CONFIG_NAME, overrides=other_overrides)))
    except (Fp2Error, HydraException, OmegaConfBaseException, ValueError, TypeError):
        return None


def without_folders(composed: DictConfig) -> DictConfig:
    """Return a composed config in which `NOT_GIVEN` stands for the folder that its data set requires and lacks."""
    from omegaconf import OmegaConf

    for name, marker in required(composed.data).items():
        if composed.data.get(name) is None and marker.is_folder:
            OmegaConf.update(composed, f"data.{name}", NOT_GIVEN, force_add=True)
    return composed


def _attributes(composed: DictConfig) -> list[str] | None:
    from omegaconf import OmegaConf

    from fp2.data.derived import derivable

    composed_data: Any = OmegaConf.to_container(composed.data, resolve=True)
    stated = data_source(composed_data).attributes()
    return None if stated is None else [*stated, *derivable(stated)]


def _cuts(composed: DictConfig) -> list[str] | None:
    """Return the cuts by attributes that the data set states."""
    attributes = _attributes(composed)
    if attributes is None:
        return None

    def check(spec: Content) -> None:
        check_publishable(resolve_cuts(spec, attributes))

    return [name for name in choices("cut") if _passes(check, _content("cut", name))]


def _scorers(composed: DictConfig) -> list[str]:
    """Return the scorers that protocol and battery take; one that lacks an option is among them."""
    from fp2.probes.battery import load_battery
    from fp2.protocols.requirements import check_scorers, for_battery
    from fp2.scorers.registry import build_scorer

    config = validate(composed)
    protocol = build_protocol(config)
    if protocol.requires.scoring == "none":
        return list(choices("scorer"))
    battery = load_battery(asdict(config.probe), config.model.id)
    required = for_battery(protocol, battery).requires.scoring == "required"

    def check(specs: Content) -> None:
        if not specs and required:
            raise Fp2Error("no scorer is selected")
        built = {}
        for key, spec in specs.items():
            with suppress(Fp2Error):
                built[key] = build_scorer(key, spec)
        check_scorers(battery, built)

    return [name for name in choices("scorer") if _passes(check, _content("scorer", name))]


_USABLE: Mapping[str, Callable[[DictConfig], list[str] | None]] = {"cut": _cuts, "scorer": _scorers}
GROUPS = tuple(_USABLE)


def _passes(check: Callable[[Content], None], value: Content) -> bool:
    try:
        check(value)
    except Fp2Error:
        return False
    return True


def _content(group: str, name: str) -> Content:
    """Return the content of a choice, with the choices that its `defaults` name."""
    content = read_yaml(choices(group)[name])
    defaults = [entry for entry in content.pop("defaults", []) if isinstance(entry, str) and entry != "_self_"]
    return {**{key: value for entry in defaults for key, value in _content(group, entry).items()}, **content}
