"""Scorers from the config: `target` is an import path, or the name of an entry point of the group `fp2.scorers`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

from fp2.errors import Fp2Error, nearest
from fp2.plugins import SCORERS, check_members, installed, load
from fp2.scorers.base import Scorer

MEMBERS = tuple(name for name in vars(Scorer) if not name.startswith("_"))


def build_scorers(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Scorer]:
    """Build every scorer of the config group `scorer`, in its order.

    Raises
    ------
    Fp2Error
        As `build_scorer`, or if there is none.
    """
    if not specs:
        raise Fp2Error("no scorer is selected", where="scorer", fix=f"Choose from: {', '.join(installed(SCORERS))}")
    return {name: build_scorer(name, spec) for name, spec in specs.items()}


def build_scorer(name: str, spec: Mapping[str, Any]) -> Scorer:
    """Build one scorer.

    Parameters
    ----------
    name : str
        Its key in the config; passed to the class if that takes a `name`.
    spec : mapping
        `target` (`package.module:Class`, or an entry point; `name` by default) and the arguments of the class.

    Raises
    ------
    Fp2Error
        If the target cannot be imported, an argument is unknown or refused, or the result lacks a member of `Scorer`.
    """
    where = f"scorer.{name}"
    if not isinstance(spec, Mapping):
        raise Fp2Error("a scorer is a mapping of its options", where=where, fix="Write target: package.module:Class")
    factory = load(SCORERS, str(spec.get("target", name)), where)
    arguments = {str(key): value for key, value in spec.items() if key != "target"}
    accepted = inspect.signature(factory).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        for key in arguments:
            if key not in accepted:
                raise Fp2Error(f"unknown option '{key}'", where=where, fix=nearest(key, accepted))
    if "name" in accepted:
        arguments.setdefault("name", name)
    try:
        scorer = factory(**arguments)
    except (TypeError, ValueError) as error:
        raise Fp2Error(f"the scorer cannot be built: {error}", where=where) from error
    check_members(scorer, MEMBERS, "a scorer", where)
    return cast(Scorer, scorer)
