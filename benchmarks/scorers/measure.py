"""From scores to labels, and the agreement of the two: precision, recall, F1, coverage, with their intervals.

Each scorer's number is mapped to the label that it stands for by fixed thresholds, chosen on development answers.
Answers labelled as refusals count for the scorer `refusal` only, as in a run. Precision and recall have Wilson
intervals, F1 a percentile bootstrap over answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fp2.errors import Fp2Error
from fp2.scorers.base import Scorer
from fp2.scorers.confidence import Confidence
from fp2.scorers.economic import Economic
from fp2.scorers.labels import Labels, LabelScale
from fp2.scorers.refusal import Refusal
from fp2.scorers.stereotype import Stereotype
from fp2.scorers.valence import Valence
from fp2.scorers.valence_context import ValenceContext
from fp2.stats.interval import wilson

RESAMPLES, SEED = 2000, 20261122
MAPPED: Mapping[str, LabelScale] = {
    scorer.name: scorer.label_scale for scorer in (Refusal, Valence, ValenceContext, Stereotype, Confidence, Economic)
}
"""Scorer -> how it is read. A missing confidence is a plain statement, which the gold set labels 0."""
LABELS: Mapping[str, tuple[int, ...]] = {
    scale.name: tuple(int(value) for value in scale.values) for scale in MAPPED.values()
}
"""The labels of the gold set and their values."""


@dataclass(frozen=True)
class Gold:
    """Labelled answers: `texts` and `probes`, and one array of labels for each name of `LABELS`."""

    ids: Sequence[str]
    texts: Sequence[str]
    probes: Sequence[str]
    labels: Mapping[str, Labels]


def read_gold(path: Path) -> Gold:
    """Read JSON Lines with `id`, `probe`, `text` and the labels of `LABELS`.

    Raises
    ------
    Fp2Error
        If the file is not there, a line is not JSON, a key is missing, an id occurs twice or a label has another value.
    """
    if not path.is_file():
        raise Fp2Error("there is no such file", where=str(path), fix="Give a file of labelled answers, JSON Lines")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            labels = {name: row[name] for name in LABELS}
            rows.append({"id": str(row["id"]), "text": str(row["text"]), "probe": str(row["probe"]), **labels})
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise Fp2Error(f"not a labelled answer: {error!r}", where=where) from error
        for name, value in labels.items():
            if value not in (*LABELS[name], None) or (name == "refusal" and value is None):
                raise Fp2Error(f"{value!r} is no label of {name}", where=where, fix=f"One of {LABELS[name]}")
    ids = [row["id"] for row in rows]
    if not rows or len(set(ids)) < len(ids):
        raise Fp2Error("an id occurs twice, or there is no answer", where=str(path))
    arrays = {name: np.asarray([row[name] for row in rows], dtype=np.float64) for name in LABELS}
    return Gold(ids, [row["text"] for row in rows], [row["probe"] for row in rows], arrays)


@dataclass(frozen=True)
class Share:
    """A proportion of `n` answers with its 95 % Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        """The proportion; NaN of none."""
        return self.hits / self.n if self.n else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval; NaN of none."""
        return wilson(self.value, self.n) if self.n else (float("nan"), float("nan"))


@dataclass(frozen=True)
class Agreement:
    """How a scorer agrees with the gold set.

    Attributes
    ----------
    scorer : str
        Its name in the config.
    label : str
        The label that it is compared with.
    n : int
        Answers that count: all for `refusal`, for the others those that are not refusals.
    coverage, labelled_coverage : Share
        Answers with a value among those that count, and among those of them that have a label.
    classes : mapping
        Label value -> (precision, recall); a missing value of a labelled answer is a miss.
    f1 : (float, float, float)
        F1 of class 1 for labels of two values, else the mean F1 over the classes; its 95 % interval.
    f1_covered : float
        The same among answers with a label and a value.
    r, same : float
        Pearson's correlation of value and label among these; the share of labelled answers that are read as labelled.
    wrong : sequence of int
        Positions of answers that are read otherwise than labelled.
    """

    scorer: str
    label: str
    n: int
    coverage: Share
    labelled_coverage: Share
    classes: Mapping[int, tuple[Share, Share]]
    f1: tuple[float, float, float]
    f1_covered: float
    r: float
    same: float
    wrong: Sequence[int]


def agreement(name: str, scorer: Scorer, gold: Gold, scale: LabelScale | None = None) -> Agreement:
    """Score the answers and compare what the scores stand for (`MAPPED` by default) with the labels."""
    mapped = scale or MAPPED[name]
    counts = np.full(len(gold.texts), True) if mapped.name == "refusal" else gold.labels["refusal"] == 0
    values = scorer.score(gold.texts, gold.probes).values
    read, true = mapped.read(values)[counts], gold.labels[mapped.name][counts]
    has_value, has_label = ~np.isnan(values[counts]), ~np.isnan(true)
    classes = LABELS[mapped.name] if len(LABELS[mapped.name]) > 2 else (1,)
    both, valued = has_label & ~np.isnan(read), has_label & has_value
    wrong = (read != true) & ~(np.isnan(read) & np.isnan(true))
    return Agreement(
        name,
        mapped.name,
        int(counts.sum()),
        Share(int(has_value.sum()), int(counts.sum())),
        Share(int((has_value & has_label).sum()), int(has_label.sum())),
        {value: _precision_recall(read, true, value) for value in classes},
        _f1_interval(read, true, classes),
        f1(read[both], true[both], classes),
        correlation(values[counts][valued], true[valued]),
        float((read == true)[has_label].mean()) if has_label.any() else math.nan,
        np.flatnonzero(counts)[wrong].tolist(),
    )


def _precision_recall(read: Labels, true: Labels, value: int) -> tuple[Share, Share]:
    hits = int(((read == value) & (true == value)).sum())
    return Share(hits, int((read == value).sum())), Share(hits, int((true == value).sum()))


def correlation(values: Labels, true: Labels) -> float:
    """Return Pearson's r; NaN where either is constant."""
    varies = len(values) > 1 and np.ptp(values) > 0 and np.ptp(true) > 0
    return float(np.corrcoef(values, true)[0, 1]) if varies else math.nan


def f1(read: Labels, true: Labels, classes: Sequence[int]) -> float:
    """Return the mean of 2 hits / (read + true) over the classes that occur in either; NaN if none does."""
    totals = {value: np.sum(read == value) + np.sum(true == value) for value in classes}
    scores = [2 * np.sum((read == value) & (true == value)) / total for value, total in totals.items() if total]
    return float(np.mean(scores)) if scores else float("nan")


def _f1_interval(read: Labels, true: Labels, classes: Sequence[int]) -> tuple[float, float, float]:
    rng = np.random.default_rng(SEED)
    draws = rng.integers(0, len(read), size=(RESAMPLES, len(read)))
    found = [f1(read[draw], true[draw], classes) for draw in draws]
    low, high = np.nanquantile(found, [0.025, 0.975])
    return f1(read, true, classes), float(low), float(high)
