"""The scores that are analysed: read from the user's file and matched to the people of a data set, or simulated.

A file is CSV, TSV, Parquet or JSON Lines with one row per subject and image: `image_id`, `subject_id` (optional if
every image shows one person) and one column per score; optional columns name the model and the task, of which a long
table has a row each. The `scores.parquet` of a run (long form, salted keys) is read as well. Simulated scores have a
known truth (`task.options.simulate`), as a positive control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from fp2.extension import LONG, Fp2Error, Range, in_number, nearest, normal_id, read_options, read_table
from fp2.methods.fhibe.scores.conditions import holds
from fp2.methods.fhibe.scores.options import COLUMNS, WHERE, Metric, ScoresOptions

if TYPE_CHECKING:
    import pandas as pd

ScoresAndNotes = tuple["pd.DataFrame", list[str]]
"""Scores (columns `LONG`), and notes on what was left out."""


def read_scores(path: Path, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None = None) -> ScoresAndNotes:
    """Return the scores of a file (NaN: an empty cell), and notes on what was left out.

    Parameters
    ----------
    salt : bytes, optional
        This machine's: with it, salted keys of a run are matched to the people.
    """
    frame = read_table(path)
    frame.columns = frame.columns.map(str)
    notes: list[str] = []
    if of_run := {*frame.columns} >= set(LONG):
        long, notes = _of_run(frame, people, options, salt, path)
    else:
        long = _of_columns(frame, people, options, path)
    pairs = set(zip(people["image_id"], people["subject_id"], strict=True))
    inside = np.array([pair in pairs for pair in zip(long["image_id"], long["subject_id"], strict=True)], dtype=bool)
    if not inside.any():
        fix = f"The data set has {people['image_id'].iloc[0]!r}, {people['subject_id'].iloc[0]!r}, for example"
        raise Fp2Error("no row of the scores is of a subject of the data set", where=str(path), fix=fix)
    if n_outside := int((~inside).sum()) // (1 if of_run else len(options.metrics)):
        left_out = f"{n_outside} [row|rows] of the scores, of no subject in the data set, [was|were] left out"
        notes.append(in_number(n_outside, left_out))
    return long[inside].reset_index(drop=True), notes


def _of_columns(frame: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions, path: Path) -> pd.DataFrame:
    """Return the scores of a table with a column per score."""
    import pandas as pd

    names = {ours: options.columns.get(ours, usual) for ours, usual in COLUMNS.items()}
    if not options.metrics:
        raise _no_metrics([str(name) for name in frame if name not in names.values()], path)
    columns = {metric.name: (_column(frame, metric.source, path), metric.source) for metric in options.metrics}
    scores = {metric: _numbers(*column, path) for metric, column in columns.items()}
    ids = _ids(frame, str(names["image"]), str(names["subject"]), people, path)
    labels = [
        [str(cell).strip() for cell in _column(frame, str(names[ours]), path, f" (for {ours})").tolist()]
        for ours in ("task", "model")
        if names[ours] is not None
    ]
    outcome = [" / ".join(row) for row in zip(*labels, strict=True)] if labels else options.name
    parts = [ids.assign(probe=outcome, scorer=metric, value=values) for metric, values in scores.items()]
    long = pd.concat(parts, ignore_index=True)[LONG]
    twice = long.duplicated(LONG[:4])
    if twice.any():
        first = long[twice].iloc[0]
        what = f"{first['image_id']!r}, {first['subject_id']!r} has two scores of {first['scorer']!r}"
        raise Fp2Error(what, where=str(path))
    return long


def _no_metrics(names: Sequence[str], path: Path, what: str = "metric") -> Fp2Error:
    named = ", ".join(f"{name}: {{higher_is_better: true}}" for name in names[:3])
    fix = f"Add 'task.options.metrics={{{named}}}' with the direction of each score"
    return Fp2Error(f"no {what} is given with its direction", where=str(path), fix=fix)


def _column(frame: pd.DataFrame, name: str, path: Path, purpose: str = "") -> pd.Series[Any]:
    if name not in frame:
        raise Fp2Error(f"the file has no column {name!r}{purpose}", where=str(path), fix=nearest(name, [*frame]))
    column: pd.Series[Any] = frame[name]
    return column


def _ids(frame: pd.DataFrame, image: str, subject: str, people: pd.DataFrame, path: Path) -> pd.DataFrame:
    import pandas as pd

    if image not in frame:
        fix = f"Add task.options.columns.image=COLUMN ({nearest(image, [*frame])})"
        raise Fp2Error(f"the file has no column {image!r}", where=str(path), fix=fix)
    images = [normal_id(cell) for cell in frame[image].tolist()]
    if subject in frame:
        subjects = [normal_id(cell) for cell in frame[subject].tolist()]
        return pd.DataFrame({"image_id": images, "subject_id": subjects})
    if people["image_id"].duplicated().any():
        fix = f"Add the column {subject!r}, or name it: task.options.columns.subject=COLUMN"
        raise Fp2Error("some images show two people, and the file does not name the subject", where=str(path), fix=fix)
    of_image = dict(zip(people["image_id"], people["subject_id"], strict=True))
    return pd.DataFrame({"image_id": images, "subject_id": [of_image.get(name, "") for name in images]})


def _numbers(column: pd.Series[Any], name: str, path: Path) -> list[float]:
    """Return scores; NaN for an empty cell."""
    words, numbers = {"": math.nan, "true": 1.0, "false": 0.0}, []
    for row, cell in enumerate(column.tolist(), start=1):
        value = words.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell
        try:
            numbers.append(math.nan if value is None else float(value))
        except (TypeError, ValueError):
            raise Fp2Error(f"{cell!r} in row {row} of column {name!r} is not a number", where=str(path)) from None
    return numbers


def _of_run(
    frame: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None, path: Path
) -> ScoresAndNotes:
    """Return the scores of a run of this project, one per subject, image, probe and metric.

    Several answers to one probe about one image (templates, repeats) count as their mean. Image variants are left out
    if the run has original images too; a missing value (a refusal) is a missing score.
    """
    import pandas as pd

    scorers = [str(name) for name in frame["scorer"].unique()]
    if not options.metrics:
        raise _no_metrics(scorers, path, "scorer")
    notes = []
    if "variant" in frame and (original := frame["variant"] == "original").any():
        if n_others := int((~original).sum()):
            left_out = f"{n_others} [row|rows] of the scores, of image variants, [was|were] left out"
            notes.append(in_number(n_others, left_out))
        frame = frame.loc[original]
    parts = []
    for metric in options.metrics:
        if metric.source not in scorers:
            fix = nearest(metric.source, scorers)
            raise Fp2Error(f"the run has no scorer {metric.source!r}", where=str(path), fix=fix)
        of_metric = frame[frame["scorer"].astype(str) == metric.source]
        ids = {column: of_metric[column].astype(str).tolist() for column in ("image_id", "subject_id", "probe")}
        values = _numbers(of_metric["value"], "value", path)
        parts.append(pd.DataFrame({**ids, "scorer": metric.name, "value": values}))
    long = pd.concat(parts, ignore_index=True)[LONG]
    long = long.groupby(LONG[:4], sort=False)["value"].mean().reset_index()
    for column, kind in (("image_id", "image"), ("subject_id", "subject")):
        long[column] = _unsalted(long[column].tolist(), people[column].tolist(), salt, kind)
    return long[LONG], notes


def _unsalted(keys: list[str], known_ids: list[str], salt: bytes | None, kind: Any) -> list[str]:
    """Return the ids that salted keys stand for; a key of no known id is returned unchanged."""
    from fp2.extension import salted

    ids = list(dict.fromkeys(known_ids))
    if salt is None or set(keys) & set(ids):
        return keys
    of_key = dict(zip(salted(ids, salt, kind), ids, strict=True))
    return [of_key.get(key, key) for key in keys]


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
class SimulatedTruth:
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


def has_effects(truth: Mapping[str, Any]) -> bool:
    """Whether a checked truth (metric -> the keys of `SimulatedTruth`) adds anything where a condition holds."""
    return any(effect["add"] for own in truth.values() for effect in own.get("effects") or ())


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
        Metric -> the keys of `SimulatedTruth`.
    """
    import pandas as pd

    where = f"{WHERE}.simulate"
    if not metrics:
        raise Fp2Error("there is nothing to simulate", where=f"{WHERE}.metrics", fix="Name a metric")
    names = [metric.name for metric in metrics]
    for given in truth:
        if given not in names:
            raise Fp2Error(f"{given!r} is not a metric of {WHERE}.metrics", where=where, fix=nearest(given, names))
    parts = []
    for n, metric in enumerate(metrics):
        if not isinstance(settings := truth.get(metric.name), Mapping):
            fix = "Give base, between, within, effects"
            raise Fp2Error("the metric has no truth", where=f"{where}.{metric.name}", fix=fix)
        planted = read_options(SimulatedTruth, settings, f"{where}.{metric.name}")
        rng = np.random.default_rng([seed, 4, n])
        subjects = np.unique(people["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)[1]
        value = np.full(len(people), planted.base)
        for condition, amount in planted.effects:
            value += amount * holds(people, condition).fillna(False).to_numpy(dtype=bool)
        value += rng.normal(0.0, planted.between, subjects.max() + 1)[subjects]
        value += rng.normal(0.0, planted.within, len(people))
        value = value.clip(*(metric.range or (0.0, 1.0)))
        if metric.yes_no:
            value = (rng.random(len(people)) < value).astype(np.float64)
        value[rng.random(len(people)) < planted.missing] = np.nan
        ids = people[["image_id", "subject_id"]].reset_index(drop=True)
        parts.append(ids.assign(probe=name, scorer=metric.name, value=value))
    return pd.concat(parts, ignore_index=True)[LONG]
