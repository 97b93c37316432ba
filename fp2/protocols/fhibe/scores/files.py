"""Scores per person and picture: the user's own file, matched to the people of a data set, or simulated ones.

A file is CSV, TSV, Parquet or JSON Lines with one row per person and picture: `image_id`, `subject_id` (may be left out
where every picture has one person) and one column per score; optional columns name the model and the task. In a long
table they are one row each. A run's own `scores.parquet` (long form, salted keys) is read as well: see `own_run`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.data.readers.table import read_table
from fp2.errors import Fp2Error, nearest
from fp2.protocols.fhibe.scores.conditions import holds
from fp2.protocols.fhibe.scores.options import COLUMNS, WHERE, Metric, ScoresOptions
from fp2.protocols.task_tables import LONG

if TYPE_CHECKING:
    import pandas as pd


def read_scores(
    path: Path, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the file's scores (columns `LONG`; an empty cell is no score) and lines on what was left out.

    `salt` is this machine's: with it, keys that a run wrote here in place of ids are matched to the people.

    Raises
    ------
    Fp2Error
        If the file cannot be read, lacks a column, holds words where a score should be, scores somebody twice, or has
        nobody of the data set.
    """
    import pandas as pd

    frame = read_table(path)
    if set(map(str, frame.columns)) >= LONG_FORM:
        long, notes = own_run(frame, people, options, salt, path)
        return _of_people(long, people, path, notes)
    names = {ours: options.columns.get(ours, usual) for ours, usual in COLUMNS.items()}
    present = [str(name) for name in frame.columns]
    metrics = _metrics(options, names, present, path)
    ids = _ids(frame, names, present, people, path)
    outcome = _outcomes(frame, names, present, options, path)
    parts = []
    for metric in metrics:
        column = metric.column or metric.name
        values = [_number(cell, column, row, path) for row, cell in enumerate(frame[column].tolist(), start=1)]
        parts.append(ids.assign(probe=outcome, scorer=metric.name, value=values))
    long = pd.concat(parts, ignore_index=True)[LONG]
    twice = long.duplicated(LONG[:4])
    if twice.any():
        first = long[twice].iloc[0]
        raise Fp2Error(
            f"{first['image_id']!r}, {first['subject_id']!r} has two scores of {first['scorer']!r}", where=str(path)
        )
    return _of_people(long, people, path, [], len(metrics))


def _of_people(
    long: pd.DataFrame, people: pd.DataFrame, path: Path, notes: list[str], n_metrics: int = 1
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that are of somebody in the data set, and the notes with how many are not."""
    known = set(zip(people["image_id"], people["subject_id"], strict=True))
    ours = [pair in known for pair in zip(long["image_id"], long["subject_id"], strict=True)]
    if not any(ours):
        fix = f"The data set has {people['image_id'].iloc[0]!r}, {people['subject_id'].iloc[0]!r}, for one"
        raise Fp2Error("no row of the scores is a person of the data set", where=str(path), fix=fix)
    if n_out := (len(ours) - sum(ours)) // n_metrics:
        notes = [*notes, f"{n_out} row(s) of the scores are of nobody in the data set and were left out"]
    return long[ours].reset_index(drop=True), notes


LONG_FORM = {"image_id", "subject_id", "probe", "scorer", "value"}
"""Columns by which a run's own `scores.parquet` is known."""


def own_run(
    frame: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions, salt: bytes | None, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Return the scores (columns `LONG`) of a run of this project, one per person, picture, probe and metric.

    A metric's scorer is its `column`, else its name. Several answers to one probe about one picture (wordings, repeats)
    count as their mean. Answers to changed pictures (variants) are left out where the run also has originals; a missing
    value (a refusal) is no score.

    Raises
    ------
    Fp2Error
        For a metric that no scorer of the run is called by, or none at all.
    """
    import pandas as pd

    scorers = [str(name) for name in frame["scorer"].unique()]
    if not options.metrics:
        said = ", ".join(f"{name}: {{higher_is_better: true}}" for name in scorers[:3])
        fix = f"Add 'task.options.metrics={{{said}}}' with the direction of each"
        raise Fp2Error("which scorers, and which way is better?", where=str(path), fix=fix)
    notes = []
    if "variant" in frame and (original := frame["variant"] == "original").any():
        if n_changed := int((~original).sum()):
            notes.append(f"{n_changed} row(s) of the scores are of changed pictures and were left out")
        frame = frame.loc[original]
    parts = []
    for metric in options.metrics:
        name = metric.column or metric.name
        if name not in scorers:
            raise Fp2Error(f"the run has no scorer {name!r}", where=str(path), fix=nearest(name, scorers))
        own = frame[frame["scorer"].astype(str) == name]
        values = [_number(cell, "value", row, path) for row, cell in enumerate(own["value"].tolist(), start=1)]
        ids = {column: own[column].astype(str).tolist() for column in ("image_id", "subject_id", "probe")}
        parts.append(pd.DataFrame({**ids, "scorer": metric.name, "value": values}))
    long = pd.concat(parts, ignore_index=True)[LONG]
    long = long.groupby(LONG[:4], sort=False)["value"].mean().reset_index()
    for column, kind in (("image_id", "image"), ("subject_id", "subject")):
        long[column] = _without_salt(long[column].tolist(), people[column].tolist(), salt, kind)
    return long[LONG], notes


def _without_salt(given: list[str], known: list[str], salt: bytes | None, kind: Any) -> list[str]:
    """Return the ids that keys stand for; what is no key of somebody in `known` stays as it is."""
    from fp2.store.salted_keys import salted

    ids = list(dict.fromkeys(known))
    if salt is None or set(given) & set(ids):
        return given
    of_key = dict(zip(salted(ids, salt, kind), ids, strict=True))
    return [of_key.get(key, key) for key in given]


def _metrics(options: ScoresOptions, names: Mapping[str, str | None], present: list[str], path: Path) -> list[Metric]:
    if not options.metrics:
        others = [name for name in present if name not in names.values()]
        said = ", ".join(f"{name}: {{higher_is_better: true}}" for name in others[:3])
        fix = f"Add 'task.options.metrics={{{said}}}' with the direction of each"
        raise Fp2Error("which columns are scores, and which way is better?", where=str(path), fix=fix)
    for metric in options.metrics:
        if (metric.column or metric.name) not in present:
            fix = nearest(metric.column or metric.name, present)
            raise Fp2Error(f"the file has no column {metric.column or metric.name!r}", where=str(path), fix=fix)
    return list(options.metrics)


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
        raise Fp2Error("some pictures have two people, and the file does not say whose score it is", fix=fix)
    of_image = dict(zip(people["image_id"], people["subject_id"], strict=True))
    return pd.DataFrame({"image_id": images, "subject_id": [of_image.get(name, "") for name in images]})


def _outcomes(
    frame: pd.DataFrame, names: Mapping[str, str | None], present: list[str], options: ScoresOptions, path: Path
) -> list[str]:
    """Return each row's outcome: `task / model`, one of them, or the option `name`."""
    parts = []
    for ours in ("task", "model"):
        column = names[ours]
        if column is None:
            continue
        if column not in present:
            fix = nearest(column, present)
            raise Fp2Error(f"the file has no column {column!r} (for {ours})", where=str(path), fix=fix)
        parts.append([str(cell).strip() for cell in frame[column].tolist()])
    if not parts:
        return [options.name] * len(frame)
    return [" / ".join(row) for row in zip(*parts, strict=True)]


def _number(cell: Any, column: str, row: int, path: Path) -> float:
    """Return a score; an empty cell, None or NaN is none."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    if isinstance(cell, str) and cell.strip().lower() in ("true", "false"):
        return float(cell.strip().lower() == "true")
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise Fp2Error(f"column {column!r} holds {cell!r} in row {row}, which is no number", where=str(path)) from None


SIMULATED = ("base", "between", "within", "effects", "missing")


def simulated_scores(
    people: pd.DataFrame, metrics: Sequence[Metric], truth: Mapping[str, Any], name: str, seed: int
) -> pd.DataFrame:
    """Return scores (columns `LONG`) drawn from a stated truth.

    truth : metric -> {base, between, within, effects, missing}: `base` for everybody, a person's own deviation (SD
    `between`), a picture's (SD `within`), and `effects`, each `{where: condition, add: amount}`; `missing` is the share
    of people and pictures without a score. Scores are clipped to the metric's range (0 to 1 without one); of a
    yes/no metric the sum is the probability of 1.

    Raises
    ------
    Fp2Error
        For unknown keys or metrics, or a condition that cannot be read.
    """
    import pandas as pd

    parts = []
    for place, metric in enumerate(metrics):
        own = truth.get(metric.name)
        where = f"{WHERE}.simulate.{metric.name}"
        if not isinstance(own, Mapping):
            raise Fp2Error("the metric has no truth", where=where, fix="Give base, between, within, effects")
        for key in own:
            if key not in SIMULATED:
                raise Fp2Error(f"unknown key {key!r}", where=where, fix=nearest(key, SIMULATED))
        rng = np.random.default_rng([seed, 4, place])
        subjects = np.unique(people["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)[1]
        value = np.full(len(people), _amount(own, "base", 0.8, where))
        for add, condition in _effects(own.get("effects"), where):
            value += add * holds(people, condition).fillna(False).to_numpy(dtype=bool)
        value += rng.normal(0.0, _amount(own, "between", 0.05, where, least=0), subjects.max() + 1)[subjects]
        value += rng.normal(0.0, _amount(own, "within", 0.05, where, least=0), len(people))
        low, high = metric.range or (0.0, 1.0)
        value = value.clip(low, high)
        if metric.yes_no:
            value = (rng.random(len(people)) < value).astype(np.float64)
        value[rng.random(len(people)) < _amount(own, "missing", 0.0, where, least=0)] = np.nan
        ids = people[["image_id", "subject_id"]].reset_index(drop=True)
        parts.append(ids.assign(probe=name, scorer=metric.name, value=value))
    return pd.concat(parts, ignore_index=True)[LONG]


def _effects(given: Any, where: str) -> list[tuple[float, str]]:
    """Return (amount, condition) of each effect; raise Fp2Error for one that lacks either."""
    fix = "Write effects: [{where: 'pronoun == X', add: -0.1}]"
    if not isinstance(given or [], (list, tuple)):
        raise Fp2Error(f"effects is {given!r}", where=f"{where}.effects", fix=fix)
    found = []
    for effect in given or []:
        if not isinstance(effect, Mapping) or set(effect) != {"where", "add"} or not isinstance(effect["where"], str):
            raise Fp2Error(f"an effect is {effect!r}, and needs 'where' and 'add'", where=f"{where}.effects", fix=fix)
        found.append((_amount(effect, "add", 0.0, f"{where}.effects"), effect["where"]))
    return found


def _amount(given: Mapping[str, Any], name: str, usual: float, where: str, least: float = -math.inf) -> float:
    value = given.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
        raise Fp2Error(f"{name} is {value!r}", where=where, fix="Give a number" + (", 0 or more" if least == 0 else ""))
    return float(value)
