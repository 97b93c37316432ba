"""From what was typed to a checked config, its hash and its protocol."""

from fp2.compose.identity import config_hash, identity_of
from fp2.compose.overrides import (
    as_sweep,
    check_overrides,
    check_pins,
    check_typed,
    compose_config,
    config_of,
    hydra_overrides,
    jobs_of,
    load_config,
    parse_overrides,
    project_root,
)
from fp2.compose.validation import build_protocol, from_plain, is_from_hub, typed, validate
from fp2.config import CONFIG_NAME, conf_dir

__all__ = [
    "CONFIG_NAME",
    "as_sweep",
    "build_protocol",
    "check_overrides",
    "check_pins",
    "check_typed",
    "compose_config",
    "conf_dir",
    "config_hash",
    "config_of",
    "from_plain",
    "hydra_overrides",
    "identity_of",
    "is_from_hub",
    "jobs_of",
    "load_config",
    "parse_overrides",
    "project_root",
    "typed",
    "validate",
]
