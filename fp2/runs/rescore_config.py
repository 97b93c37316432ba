"""The config of a rescoring: that of the logged run, with the given scorers, cut, analysis and seed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from fp2.compose import from_plain, parse_overrides
from fp2.config import Config
from fp2.errors import Fp2Error, nearest

OWN = ("scorer", "cut", "analysis", "seed")
"""Sections that may be changed; all others decide which answers there are."""
ELSEWHERE = ("paths", "tracking", "report")
"""Sections that say where files are, and are no part of a run."""
WHOLE = {"scorer": {"scorer"}, "cut": {"cut", "cut.by", "cut.each"}, "analysis": {"analysis"}}
"""Keys that replace a whole section; any other key changes one setting of the source run."""


def composable(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that compose with the defaults: none that change a single setting of scorers or cut."""
    return [
        word for word in overrides if _section(word) not in ("scorer", "cut") or _replaced(_section(word), overrides)
    ]


def rescored_config(logged: Config, given: Config, overrides: Sequence[str]) -> Config:
    """Return the config of the source run with the scorers, cut, analysis and seed that `overrides` name.

    Parameters
    ----------
    logged : Config
        The source's.
    given : Config
        The config that `composable(overrides)` give with the defaults.
    overrides : sequence of str
        `scorer=NAME`, `cut=NAME`, `cut.by` or `cut.each` replaces the whole section; `scorer.valence.smallest_effect`,
        `cut.groups` or `analysis.severity.low` changes one setting of the source run.

    Raises
    ------
    Fp2Error
        For an override that concerns the answers, and for a setting of something that the source run does not have.
    """
    for word in overrides:
        if _section(word) not in (*OWN, *ELSEWHERE):
            raise Fp2Error(
                f"rescoring asks no model and cannot change {_key(word)!r}",
                where="override",
                fix="Give scorer=, cut=, analysis= or seed=; for the rest start a run, which reuses stored answers",
            )
    tracking = replace(given.tracking, experiment=logged.tracking.experiment)
    plain = asdict(replace(logged, paths=given.paths, report=given.report, tracking=tracking))
    for section in OWN:
        words = [word for word in overrides if _section(word) == section]
        if words and (section == "seed" or _replaced(section, overrides)):
            plain[section] = asdict(given)[section]
        elif words:
            plain[section] = _changed(section, plain[section], words)
    return from_plain(plain)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _section(word: str) -> str:
    return _key(word).split(".")[0]


def _replaced(section: str, overrides: Sequence[str]) -> bool:
    return any(_key(word) in WHOLE[section] for word in overrides)


def _changed(section: str, old: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return `old` with the settings that `words` name; a mapping is merged by key."""
    plain = copy.deepcopy(dict(old))
    for override in parse_overrides(words):
        if override.is_sweep_override():
            raise Fp2Error(f"{override.input_line} is a sweep, and this is one run", where="override")
        *path, last = str(override.key_or_group).split(".")[1:]
        node = plain
        for part in path:
            if part in node and node[part] is None:
                node[part] = {}
            if not isinstance(node.get(part), dict):
                fix = nearest(part, [str(name) for name in node])
                raise Fp2Error(f"the run has no {section} {part!r}", where=str(override.key_or_group), fix=fix)
            node = node[part]
        if override.is_delete():
            node.pop(last, None)
            continue
        value = override.value()
        both = isinstance(value, dict) and isinstance(node.get(last), dict)
        node[last] = {**node[last], **value} if both else value
    return plain
