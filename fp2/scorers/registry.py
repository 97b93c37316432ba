"""From a scorer's YAML entry to the scorer: `target` is an import path, so a scorer may live in any package."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from fp2.errors import Fp2Error, nearest
from fp2.scorers.base import Scorer

BUILT_IN = ("valence", "stereotype", "confidence", "refusal", "economic", "trust_rating")
MEMBERS = (
    "name",
    "version",
    "higher_is_better",
    "value_range",
    "bins",
    "smallest_effect",
    "yes_no",
    "probes",
    "lexicon",
    "score",
)


def build_scorers(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Scorer]:
    """Build every scorer of the config group `scorer`, in its order.

    Raises
    ------
    Fp2Error
        As `build_scorer`, or if there is none.
    """
    if not specs:
        raise Fp2Error("no scorer is selected", fix=f"Choose from: {', '.join(BUILT_IN)}")
    return {name: build_scorer(name, spec) for name, spec in specs.items()}


def build_scorer(name: str, spec: Mapping[str, Any]) -> Scorer:
    """Build one scorer.

    Parameters
    ----------
    name : str
        Its key in the config; handed to the class if that takes a `name`.
    spec : mapping
        `target: package.module:Class`, and the arguments of the class.

    Raises
    ------
    Fp2Error
        If the target cannot be imported, an argument is unknown or refused, or the result is no scorer.
    """
    where = f"scorer '{name}'"
    if not isinstance(spec, Mapping) or "target" not in spec:
        fix = "" if name in BUILT_IN else f"{nearest(name, BUILT_IN)}, or write target: package.module:Class"
        raise Fp2Error(f"scorer '{name}' has no target", fix=fix)
    factory = _import(str(spec["target"]), where)
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
        raise Fp2Error(f"cannot be built: {error}", where=where) from error
    if missing := [member for member in MEMBERS if not hasattr(scorer, member)]:
        raise Fp2Error(f"{spec['target']} is no scorer: it lacks {', '.join(missing)}", where=where)
    return cast(Scorer, scorer)


def _import(target: str, where: str) -> Any:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise Fp2Error(f"'{target}' is no import path", where=where, fix="Write target: package.module:Class")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise Fp2Error(f"cannot import '{module_name}': {error}", where=where) from error
    if not hasattr(module, attribute):
        classes = [found for found, value in vars(module).items() if inspect.isclass(value)]
        raise Fp2Error(f"'{module_name}' has no '{attribute}'", where=where, fix=nearest(attribute, classes))
    return getattr(module, attribute)
