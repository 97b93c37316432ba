"""Scorers of the user's own on the gold set: a YAML file of scorers, as in a config, each with how its values are read.

`read_as: {label: valence, low: -0.3, high: 0.3}` in a scorer's options names the label of the gold set, and the values
below and above which a score stands for -1 and 1. Without bounds these are the thirds of the range, or its middle for
a label of two values; without `read_as` the label has the name of the rubric, or of the scorer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.scorers.measure import LABELS, MAPPED
from fp2.compose import load_config
from fp2.errors import Fp2Error, nearest
from fp2.methods.model_scorers.by_model import ModelScorer, Resources
from fp2.probes.battery import load_battery
from fp2.progress import Progress
from fp2.scorers.base import Scorer
from fp2.scorers.labels import LabelScale
from fp2.scorers.lexicon import read_yaml
from fp2.scorers.registry import build_scorer
from fp2.store.rows import ResponseStore

READ_AS = "read_as"


@contextmanager
def own_scorers(path: Path, store: Path | None) -> Iterator[dict[str, tuple[Scorer, LabelScale]]]:
    """Yield the scorers of a file, each with how its values are read.

    Parameters
    ----------
    path : Path
        A mapping of names to the options of a scorer.
    store : Path, optional
        A response store, where what a model returned is kept and looked up.

    Raises
    ------
    Fp2Error
        If the file or a scorer cannot be used, or the label is not one of the gold set.
    """
    if not path.is_file():
        raise Fp2Error("there is no such file", where=str(path), fix="Give a YAML file of scorers")
    specs: Mapping[str, Any] = read_yaml(path)
    if wrong := next((name for name, spec in specs.items() if not isinstance(spec, Mapping)), None):
        raise Fp2Error(f"scorer {wrong!r} is not a mapping with a target", where=str(path))
    options = {name: {key: one for key, one in spec.items() if key != READ_AS} for name, spec in specs.items()}
    built = {name: build_scorer(name, one) for name, one in options.items()}
    mapped = {name: _mapped(name, specs[name], one) for name, one in built.items()}
    with ExitStack() as stack:
        opened = stack.enter_context(ResponseStore(store)) if store is not None else None
        resources = Resources(opened, Progress(), questions())
        yield {
            name: (scorer.using(resources) if isinstance(scorer, ModelScorer) else scorer, mapped[name])
            for name, scorer in built.items()
        }


def questions() -> dict[str, str]:
    """Return the first question of each probe of the default battery, which the answers of the gold set answer."""
    asked: dict[str, str] = {}
    for question in load_battery(asdict(load_config([]).probe), None).questions:
        asked.setdefault(question.probe, question.text)
    return asked


def _mapped(name: str, spec: Mapping[str, Any], scorer: Scorer) -> LabelScale:
    where = f"{name}.{READ_AS}"
    given = dict(spec.get(READ_AS) or {"label": spec.get("rubric", name)})
    label = str(given.pop("label", ""))
    if label not in LABELS:
        fix = f"{nearest(label, LABELS)}: {READ_AS}: {{label: NAME}}"
        raise Fp2Error(f"the gold set has no label {label!r}", where=where, fix=fix)
    if unknown := set(given) - {"low", "high", "missing"}:
        raise Fp2Error(f"unknown key {min(unknown)!r}", where=where, fix="It takes label, low, high and missing")
    low, high = scorer.value_range
    if len(LABELS[label]) == 2:
        bounds = {"low": low - 1, "high": (low + high) / 2}
    else:
        bounds = {"low": low + (high - low) / 3, "high": high - (high - low) / 3}
    scale = next(one for one in MAPPED.values() if one.name == label)
    return replace(scale, **{**bounds, "missing": math.nan, **given})
