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

from fp2.extension import LONG, Fp2Error, Range, nearest, read_options, read_table
from fp2.methods.fhibe.scores.conditions import holds
from fp2.methods.fhibe.scores.options import COLUMNS, WHERE, Metric, ScoresOptions

if TYPE_CHECKING:
    import pandas as pd

Found = tuple["pd.DataFrame", list[str]]
"""Scores (columns `LONG`), and notes on what was left out."""


def read_scores(path: Path, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None = None) -> Found:
    """Return the scores of a file (NaN: an empty cell), and notes on what was left out.

    Parameters
    ----------
    salt : bytes, optional
        This machine's: with it, salted keys of a run are matched to the people.

    Raises
    ------
    Fp2Error
        If the file cannot be read, lacks a column, has text in place of a score or two scores of one subject and
        image, or has no subject of the data set.
    """
    frame = read_table(path)
    if {str(name) for name in frame.columns} >= set(LONG):
        long, notes = _of_run(frame, people, options, salt, path)
        return _of_people(long, people, path, notes, 1)
    return _of_people(_of_columns(frame, people, options, path), people, path, [], len(options.metrics))


def _of_people(long: pd.DataFrame, people: pd.DataFrame, path: Path, notes: list[str], n_metrics: int) -> Found:
    """Return the rows of subjects in the data set, and a note of how many others there are."""
    known = set(zip(people["image_id"], people["subject_id"], strict=True))
    inside = [pair in known for pair in zip(long["image_id"], long["subject_id"], strict=True)]
    if not any(inside):
        fix = f"The data set has {people['image_id'].iloc[0]!r}, {people['subject_id'].iloc[0]!r}, for example"
        raise Fp2Error("no row of the scores is of a subject of the data set", where=str(path), fix=fix)
    if n_out := (len(inside) - sum(inside)) // n_metrics:
        notes = [*notes, f"{n_out} row(s) of the scores are of no subject in the data set and were left out"]
    return long[inside].reset_index(drop=True), notes


# -- a table with a column per score


def _of_columns(frame: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions, path: Path) -> pd.DataFrame:
    import pandas as pd

    names = {ours: options.columns.get(ours, usual) for ours, usual in COLUMNS.items()}
    present = [str(name) for name in frame.columns]
    _check_metrics(options, names, present, path)
    ids = _ids(frame, names, present, people, path)
    outcome = _outcomes(frame, names, present, options, path)
    parts = []
    for metric in options.metrics:
        cells = enumerate(frame[metric.source].tolist(), start=1)
        values = [_number(cell, metric.source, row, path) for row, cell in cells]
        parts.append(ids.assign(probe=outcome, scorer=metric.name, value=values))
    long = pd.concat(parts, ignore_index=True)[LONG]
    twice = long.duplicated(LONG[:4])
    if twice.any():
        first = long[twice].iloc[0]
        what = f"{first['image_id']!r}, {first['subject_id']!r} has two scores of {first['scorer']!r}"
        raise Fp2Error(what, where=str(path))
    return long


def _check_metrics(options: ScoresOptions, names: Mapping[str, str | None], present: list[str], path: Path) -> None:
    if not options.metrics:
        others = [name for name in present if name not in names.values()]
        raise Fp2Error("no metric is given with its direction", where=str(path), fix=_name_metrics(others))
    for metric in options.metrics:
        if metric.source not in present:
            fix = nearest(metric.source, present)
            raise Fp2Error(f"the file has no column {metric.source!r}", where=str(path), fix=fix)


def _name_metrics(names: list[str]) -> str:
    named = ", ".join(f"{name}: {{higher_is_better: true}}" for name in names[:3])
    return f"Add 'task.options.metrics={{{named}}}' with the direction of each score"


def _ids(
    frame: pd.DataFrame, names: Mapping[str, str | None], present: list[str], people: pd.DataFrame, path: Path
) -> pd.DataFrame:
    import pandas as pd

    image, subject = str(names["image"]), str(names["subject"])
    if image not in present:
        fix = f"Add task.options.columns.image=COLUMN ({nearest(image, present)})"
        raise Fp2Error(f"the file has no column {image!r}", where=str(path), fix=fix)
    images = [str(cell).strip() for cell in frame[image].tolist()]
    if subject in present:
        return pd.DataFrame({"image_id": images, "subject_id": [str(cell).strip() for cell in frame[subject].tolist()]})
    if people["image_id"].duplicated().any():
        fix = f"Add the column {subject!r}, or name it: task.options.columns.subject=COLUMN"
        raise Fp2Error("some images show two people, and the file does not name the subject", where=str(path), fix=fix)
    of_image = dict(zip(people["image_id"], people["subject_id"], strict=True))
    return pd.DataFrame({"image_id": images, "subject_id": [of_image.get(name, "") for name in images]})


def _outcomes(
    frame: pd.DataFrame, names: Mapping[str, str | None], present: list[str], options: ScoresOptions, path: Path
) -> list[str]:
    """Return each row's outcome: `task / model`, one of the two, or the option `name`."""
    parts = []
    for ours in ("task", "model"):
        column = names[ours]
        if column is None:
            continue
        if column not in present:
            fix = nearest(column, present)
            raise Fp2Error(f"the file has no column {column!r} (for {ours})", where=str(path), fix=fix)
        parts.append([str(cell).strip() for cell in frame[column].tolist()])
    return [" / ".join(row) for row in zip(*parts, strict=True)] if parts else [options.name] * len(frame)


def _number(cell: Any, column: str, row: int, path: Path) -> float:
    """Return a score; NaN for an empty cell."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    if isinstance(cell, str) and cell.strip().lower() in ("true", "false"):
        return float(cell.strip().lower() == "true")
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise Fp2Error(f"{cell!r} in row {row} of column {column!r} is not a number", where=str(path)) from None


# -- the scores of a run


def _of_run(frame: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None, path: Path) -> Found:
    """Return the scores of a run of this project, one per subject, image, probe and metric.

    Several answers to one probe about one image (templates, repeats) count as their mean. Image variants are left out
    if the run has original images too; a missing value (a refusal) is a missing score.
    """
    import pandas as pd

    scorers = [str(name) for name in frame["scorer"].unique()]
    if not options.metrics:
        raise Fp2Error("no scorer is given with its direction", where=str(path), fix=_name_metrics(scorers))
    notes = []
    if "variant" in frame and (original := frame["variant"] == "original").any():
        if n_others := int((~original).sum()):
            notes.append(f"{n_others} row(s) of the scores are of image variants and were left out")
        frame = frame.loc[original]
    parts = []
    for metric in options.metrics:
        if metric.source not in scorers:
            fix = nearest(metric.source, scorers)
            raise Fp2Error(f"the run has no scorer {metric.source!r}", where=str(path), fix=fix)
        own = frame[frame["scorer"].astype(str) == metric.source]
        values = [_number(cell, "value", row, path) for row, cell in enumerate(own["value"].tolist(), start=1)]
        ids = {column: own[column].astype(str).tolist() for column in ("image_id", "subject_id", "probe")}
        parts.append(pd.DataFrame({**ids, "scorer": metric.name, "value": values}))
    long = pd.concat(parts, ignore_index=True)[LONG]
    long = long.groupby(LONG[:4], sort=False)["value"].mean().reset_index()
    for column, kind in (("image_id", "image"), ("subject_id", "subject")):
        long[column] = _unsalted(long[column].tolist(), people[column].tolist(), salt, kind)
    return long[LONG], notes


def _unsalted(given: list[str], known: list[str], salt: bytes | None, kind: Any) -> list[str]:
    """Return the ids that salted keys stand for; a key of no known id is returned unchanged."""
    from fp2.extension import salted

    ids = list(dict.fromkeys(known))
    if salt is None or set(given) & set(ids):
        return given
    of_key = dict(zip(salted(ids, salt, kind), ids, strict=True))
    return [of_key.get(key, key) for key in given]


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
        values = _draw(people, metric, read_options(SimulatedTruth, own, f"{where}.{metric.name}"), [seed, 4, place])
        ids = people[["image_id", "subject_id"]].reset_index(drop=True)
        parts.append(ids.assign(probe=name, scorer=metric.name, value=values))
    return pd.concat(parts, ignore_index=True)[LONG]


def _draw(people: pd.DataFrame, metric: Metric, truth: SimulatedTruth, seed: list[int]) -> Any:
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
