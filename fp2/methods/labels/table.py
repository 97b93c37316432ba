"""Labels that people gave to some answers of a run: the CSV file, and its table among the tables of the run.

The file has a line per answer and labeller, with the columns

    image, question   ids, or the salted keys of a run; `subject` too where an image is of several people
    label             a number; empty: the labeller skipped the answer
    scorer            whose scale the label is on (optional; the primary scorer)
    labeller          a name (optional); `resolver` decides where others differ
    probability       the probability with which the answer was drawn (optional; equal for all answers)

and any others, such as those of `fp2 export --answers`. The table has salted keys in a run's folder, so that a purge
removes the labels of whoever is removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, check_names, local_salt, normal_id, salted, unquoted

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Config, Scorer

RESOLVER = "resolver"
"""The labeller who decides the answers on which others differ."""
KEY = ["image_id", "subject_id", "question_id"]
_NEEDED = ("image", "question", "label")
_NAMED = ("image", "subject", "question", "scorer", "labeller")


def read_labels(
    path: str, answers: pd.DataFrame, salt: bytes, scorers: Mapping[str, Scorer], primary: str
) -> pd.DataFrame:
    """Return the labels in a CSV file, with the ids of the answers that they are of.

    Parameters
    ----------
    answers : DataFrame
        The answers of the run, with ids or with salted keys.
    salt : bytes
        Of this machine, to find salted keys from ids and the other way round.
    scorers, primary
        The run's scorers, and the one that labels are of where the file does not say.

    Returns
    -------
    DataFrame
        See `fp2.ask.labels.LABELS`. Labels of answers that the run does not have are left out.
    """
    given, rows = _read(path, scorers, primary)
    found = _found(given, answers, salt)
    table = found.join(rows.rename_axis("line"), on="line").drop(columns="line").dropna(subset="label")
    if table.empty:
        fix = "Give the images and questions of this run, as fp2 label and fp2 export --answers write them"
        raise Fp2Error("no label belongs to an answer of this run", where=path, fix=fix)
    if (again := table.duplicated([*KEY, "scorer", "labeller"])).any():
        who = str(table.loc[again, "labeller"].iloc[0])
        raise Fp2Error(f"an answer has two labels by one labeller {who!r}", where=path)
    return table.reset_index(drop=True)[[*KEY, "probe", "scorer", "labeller", "label", "probability"]]


class CsvLabels:
    """Reads the file of labels of a run (`fp2.ask.labels.LabelReader`)."""

    @staticmethod
    def check(config: Config, scorers: Mapping[str, Scorer]) -> None:
        """Raise what `read_labels` raises of the file alone."""
        _read(str(config.analysis.labels), scorers, config.primary_scorer)

    @staticmethod
    def read(config: Config, scorers: Mapping[str, Scorer], answers: pd.DataFrame) -> pd.DataFrame:
        """Return the labels of the run's answers; raises as `read_labels`."""
        salt = local_salt(Path(config.paths.state))
        return read_labels(str(config.analysis.labels), answers, salt, scorers, config.primary_scorer)


def _read(path: str, scorers: Mapping[str, Scorer], primary: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the lines of the file as text, and their checked numbers."""
    import pandas as pd

    from fp2.extension import read_table

    table = read_table(Path(path).expanduser())
    given = table.astype(object).where(table.notna(), "").astype(str)
    if missing := [name for name in _NEEDED if name not in given]:
        fix = f"It needs {', '.join(_NEEDED)}; it has {', '.join(map(str, given.columns))[:200]}"
        raise Fp2Error(f"the labels have no column {missing[0]!r}", where=path, fix=fix)
    for name in given.columns.intersection(list(_NAMED)):  # as fp2 label and fp2 export write them
        given[name] = given[name].map(unquoted)
    for name in given.columns.intersection(["image", "subject"]):
        given[name] = given[name].map(normal_id)
    rows = pd.DataFrame(
        {
            "scorer": given.get("scorer", primary),
            "labeller": given["labeller"].str.strip() if "labeller" in given else "",
            "label": list(_numbers(given["label"], path, "label")),
            "probability": list(_numbers(given["probability"], path, "probability")) if "probability" in given else 1.0,
        },
        index=given.index,
    )
    check_names(sorted(set(rows["scorer"])), scorers, "the run has no scorer", path)
    lines = zip(rows["scorer"].tolist(), rows["label"].tolist(), rows["probability"].tolist(), strict=True)
    for index, (name, label, probability) in enumerate(lines, start=2):
        scale = scorers[name].label_scale
        if not math.isnan(label) and scale is not None and label not in scale.values:
            fix = f"One of {', '.join(f'{value:g}' for value in scale.values)}"
            raise Fp2Error(f"{label:g} is not a label of {name}", where=f"{path}, line {index}", fix=fix)
        if not 0 < probability <= 1:
            fix = "Give a number above 0 and at most 1"
            raise Fp2Error("the probability is out of range", where=f"{path}, line {index}", fix=fix)
    return given, rows


def _numbers(cells: Any, path: str, what: str) -> Iterator[float]:
    for index, cell in enumerate(cells, start=2):
        try:
            value = float(cell) if cell.strip() else math.nan
        except ValueError:
            value = math.inf
        if math.isinf(value):
            raise Fp2Error(f"{cell[:40]!r} is not a number", where=f"{path}, line {index}, {what}")
        yield value


def _found(given: pd.DataFrame, answers: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return the answers that the lines name, with the `line`: by ids as they are, or one side salted."""
    import pandas as pd

    own = answers.loc[answers["status"] == "answered", [*KEY, "probe"]].drop_duplicates(KEY)
    names = {"image": "image_id", "question": "question_id"} | ({"subject": "subject_id"} if "subject" in given else {})
    asked = given[list(names)].rename(columns=names).assign(line=given.index)
    if not set(asked["image_id"]) & set(own["image_id"]):
        asked_salted, own_salted = _salted(asked, salt), _salted(own, salt)
        if set(asked_salted["image_id"]) & set(own["image_id"]):
            asked = asked_salted
        else:  # a first run has ids, and the file was written for a logged one
            merged = asked.merge(own_salted.assign(row=own.index), on=list(names.values()))
            return pd.DataFrame({**own.loc[merged["row"]].to_dict("list"), "line": merged["line"].tolist()})
    return asked.merge(own, on=list(names.values()))


def _salted(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return a table with salted keys in place of ids of images and subjects."""
    changed: dict[str, Any] = {"image_id": salted(table["image_id"], salt, "image")}
    if "subject_id" in table:
        changed["subject_id"] = salted(table["subject_id"], salt)
    return table.assign(**changed)


def agreed(labels: pd.DataFrame) -> pd.DataFrame:
    """Return one label an answer, indexed by `KEY`: the resolver's, else the mean; with `probability` and `differ`.

    `labels` are those of one scorer and probe.
    """
    grouped = labels.groupby(KEY, sort=False)
    out = grouped.agg(label=("label", "mean"), probability=("probability", "first"), n=("label", "nunique"))
    label = labels[labels["labeller"] == RESOLVER].set_index(KEY)["label"]
    out["differ"] = (out.pop("n") > 1) & ~out.index.isin(label.index)
    out.loc[label.index, "label"] = label
    return out
