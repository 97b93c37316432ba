"""The protocol that a config names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fp2 import plugins
from fp2.config import ASK, Config
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.protocols.base import EvaluationProtocol


def build_protocol(config: Config) -> EvaluationProtocol[Any]:
    """Return the protocol that a config names, with its options: `task.name`, or `probe.protocol` if a model is asked.

    Raises
    ------
    Fp2Error
        If it is unknown or cannot be imported, is named in the wrong place, or an option is wrong.
    """
    asks = config.task.name == ASK
    name, where = (config.probe.protocol, "probe.protocol") if asks else (config.task.name, "task")
    found = plugins.load(plugins.PROTOCOLS, name, where)
    plugins.check_members(found, ("from_config", "analyse", "asks", "sections"), "a protocol", where)
    if found.asks != asks:
        fix = f"Set probe.protocol={name}" if found.asks else f"Set task={name}"
        kind = "asks a model" if found.asks else "is a task"
        raise Fp2Error(f"{name!r} {kind}", where=where, fix=fix)
    protocol: EvaluationProtocol[Any] = found.from_config(config)
    return protocol
