"""Scores simulated from a known truth (`task.options.simulate`): calibration of the analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from fp2.errors import Fp2Error, nearest
from fp2.plugins import read_options
from fp2.protocols.fhibe.scores.conditions import holds
from fp2.protocols.fhibe.scores.options import WHERE, Metric
from fp2.protocols.option_types import FORBID_EXTRA, Range
from fp2.protocols.task_tables import LONG

if TYPE_CHECKING:
    import pandas as pd


def _effects(value: Any) -> tuple[tuple[str, float], ...]:
    """Return (condition, amount) of each effect."""
    form = "Input should be a list of effects, such as [{where: 'pronoun == X', add: -0.1}]"
    if not isinstance(value or [], list | tuple):
        raise ValueError(form)
    for effect in value or []:
        if not isinstance(effect, Mapping) or set(effect) != {"where", "add"} or not isinstance(effect["where"], str):
            raise ValueError(form)
    return tuple((effect["where"], Range().check(effect["add"], float)) for effect in value or [])


@dataclass(frozen=True)
class Truth:
    """How one metric is simulated: `simulate.METRIC`.

    Attributes
    ----------
    base : float
        The score without any effect.
    between, within : float
        Standard deviations of a subject's own deviation, and of an image's.
    effects : tuple of (str, float)
        What is added where a condition holds: `{where: CONDITION, add: AMOUNT}`.
    missing : float
        The share of subjects and images without a score.
    """

    base: Annotated[float, Range()] = 0.8
    between: Annotated[float, Range(0)] = 0.05
    within: Annotated[float, Range(0)] = 0.05
    effects: Annotated[tuple[tuple[str, float], ...], BeforeValidator(_effects)] = ()
    missing: Annotated[float, Range(0)] = 0.0

    __pydantic_config__ = FORBID_EXTRA


def simulated_scores(
    people: pd.DataFrame, metrics: Sequence[Metric], truth: Mapping[str, Any], name: str, seed: int
) -> pd.DataFrame:
    """Return scores (columns `LONG`) of the outcome `name`.

    Scores are clipped to the metric's range (0 to 1 without one); of a binary metric the sum is the probability of 1.

    Parameters
    ----------
    people : DataFrame
        The people table, with the columns that effects name.
    truth : mapping
        Metric -> the keys of `Truth`.

    Raises
    ------
    Fp2Error
        For an unknown key or metric, a metric without a truth, or an invalid condition.
    """
    import pandas as pd

    where = f"{WHERE}.simulate"
    if not metrics:
        raise Fp2Error("there is nothing to simulate", where=f"{WHERE}.metrics", fix="Name a metric")
    known = [metric.name for metric in metrics]
    for given in truth:
        if given not in known:
            raise Fp2Error(f"{given!r} is not a metric of {WHERE}.metrics", where=where, fix=nearest(given, known))
    parts = []
    for place, metric in enumerate(metrics):
        if not isinstance(own := truth.get(metric.name), Mapping):
            fix = "Give base, between, within, effects"
            raise Fp2Error("the metric has no truth", where=f"{where}.{metric.name}", fix=fix)
        values = _draw(people, metric, read_options(Truth, own, f"{where}.{metric.name}"), [seed, 4, place])
        ids = people[["image_id", "subject_id"]].reset_index(drop=True)
        parts.append(ids.assign(probe=name, scorer=metric.name, value=values))
    return pd.concat(parts, ignore_index=True)[LONG]


def _draw(people: pd.DataFrame, metric: Metric, truth: Truth, seed: list[int]) -> Any:
    rng = np.random.default_rng(seed)
    subjects = np.unique(people["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)[1]
    value = np.full(len(people), truth.base)
    for condition, amount in truth.effects:
        value += amount * holds(people, condition).fillna(False).to_numpy(dtype=bool)
    value += rng.normal(0.0, truth.between, subjects.max() + 1)[subjects]
    value += rng.normal(0.0, truth.within, len(people))
    value = value.clip(*(metric.range or (0.0, 1.0)))
    if metric.yes_no:
        value = (rng.random(len(people)) < value).astype(np.float64)
    value[rng.random(len(people)) < truth.missing] = np.nan
    return value
