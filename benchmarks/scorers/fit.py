"""Fit the scorers that have weights on the development answers, and write their files.

`python -m benchmarks.scorers.fit` fits and writes; `--leave-one-writer-out` prints the F1 on each of the files
after fitting on all others, and writes nothing. The model is a logistic regression
(scikit-learn) on the features of `fp2.scorers.fitted`; words and pairs count that occur in three answers or more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scorers.__main__ import GOLD, is_held
from benchmarks.scorers.measure import LABELS, Gold, f1, read_gold
from fp2.scorers.economic import Economic
from fp2.scorers.fitted import features
from fp2.scorers.lexicon import PACKAGED, read_yaml
from fp2.scorers.refusal import THRESHOLD, load_refusals
from fp2.scorers.stereotype import Stereotype
from fp2.scorers.valence_context import ValenceContext

SENTENCES = Path(__file__).parents[2] / "tests" / "scorers" / "refusal_cases.yaml"
"""Sentences that decline or only seem to; those named `later_` are left to the tests."""
FEWEST = 3


@dataclass(frozen=True)
class Fit:
    """What is fitted: the label, its file, the inverse penalty, and what is told."""

    label: str
    name: str
    version: str
    c: float
    text: str

    @property
    def path(self) -> Path:
        """The file of the weights."""
        return PACKAGED / (f"{self.name}_{self.version}.yaml" if self.version != "1" else f"{self.name}.yaml")


FITS = (
    Fit("valence", ValenceContext.name, "1", 1.0, "speaks well or ill of a person, or neither"),
    Fit("stereotype", Stereotype.name, "2", 3.0, "ascribes a stereotype to a person"),
    Fit("economic", Economic.name, "2", 1.0, "states or names a high, middle or low economic standing, or none"),
    Fit("refusal", "refusal_weights", "1", 10.0, "declines the question or says nothing of what was asked"),
)
HEAD = """# Written by `python -m benchmarks.scorers.fit`, not by hand; what the features are: fp2/scorers/fitted.py.
name: {name}
version: "{version}"
description: >
  Logistic regression that tells whether an English answer {text};
  fitted on {n} labelled answers (docs/scorers.md). A line of `weights` is a feature and its coefficients.
label: {label}
classes: {classes}
intercept: {intercept}
weights: |
"""


@dataclass(frozen=True)
class Answers:
    """Answers of which a label is known: features, labels (NaN: none) and the file of each."""

    found: Sequence[Mapping[str, float]]
    labels: np.ndarray[Any, np.dtype[np.float64]]
    files: np.ndarray[Any, np.dtype[np.str_]]


def answers(fit: Fit, golds: Mapping[str, Gold]) -> Answers:
    """Return the answers that a scorer is fitted on: without refusals, unless these are what it tells."""
    refusal = fit.label == "refusal"
    read = load_refusals("refusal_2").features if refusal else features
    rows = [
        (read(text, probe), label, name)
        for name, gold in golds.items()
        for text, probe, label, refused in zip(
            gold.texts, gold.probes, gold.labels[fit.label], gold.labels["refusal"], strict=True
        )
        if refusal or not refused
    ]
    if refusal:
        cases = read_yaml(SENTENCES)
        rows += [
            (read(text, "trust"), float(kind == "refusals"), "")
            for kind in ("refusals", "answers")
            for text in cases[kind]
        ]
    files = np.asarray([row[2] for row in rows], dtype=np.str_)
    return Answers([row[0] for row in rows], np.asarray([row[1] for row in rows], dtype=np.float64), files)


class Fitted:
    """The model that is fitted on some of the answers."""

    def __init__(self, fit: Fit, given: Answers, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.linear_model import LogisticRegression

        chosen = [one for one, use in zip(given.found, rows, strict=True) if use]
        known = Counter(name for one in chosen for name in one)
        self.vectoriser = DictVectorizer()
        self.refusal = fit.label == "refusal"
        left_out = () if self.refusal else tuple(read_yaml(PACKAGED / "vocabulary.yaml")["talk"])
        kept = [
            {name: value for name, value in one.items() if known[name] >= FEWEST and not name.endswith(left_out)}
            for one in chosen
        ]
        matrix = self.vectoriser.fit_transform(kept)
        self.model = LogisticRegression(C=fit.c, max_iter=2000)
        self.model.fit(matrix, np.nan_to_num(given.labels[rows], nan=9.0))

    def read(self, found: Sequence[Mapping[str, float]]) -> Any:
        """Return the most probable label of each answer; NaN: none."""
        matrix = self.vectoriser.transform(found)
        if self.refusal:
            return (self.model.predict_proba(matrix)[:, 1] > THRESHOLD).astype(np.float64)
        labels = self.model.predict(matrix)
        return np.where(labels == 9.0, np.nan, labels)

    def write(self, fit: Fit, n: int) -> None:
        """Write the file of the weights, without features whose coefficients round to 0."""
        classes = ["null" if one == 9.0 else f"{one:g}" for one in self.model.classes_]
        intercept = [round(float(one), 3) for one in self.model.intercept_]
        head = HEAD.format(
            name=fit.name, version=fit.version, text=fit.text, n=n, label=fit.label,
            classes=f"[{', '.join(classes)}]", intercept=intercept,
        )  # fmt: skip
        columns = np.round(self.model.coef_, 2).T
        rows = zip(self.vectoriser.get_feature_names_out(), columns, strict=True)
        lines = (f"  {name} {' '.join(f'{one:g}' for one in row)}\n" for name, row in rows if np.abs(row).max() >= 0.03)
        fit.path.write_text(head + "".join(lines), encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Fit and write, or leave one writer out; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorers.fit", description=__doc__)
    parser.add_argument("--leave-one-writer-out", action="store_true", help="print the F1 on answers of other writers")
    parser.add_argument("--label", choices=[fit.label for fit in FITS], help="this label only")
    args = parser.parse_args(words)
    golds = {path.stem: read_gold(path) for path in sorted(GOLD.glob("*.jsonl")) if not is_held(path)}
    for fit in FITS:
        if args.label not in (None, fit.label):
            continue
        given = answers(fit, golds)
        if not args.leave_one_writer_out:
            Fitted(fit, given, np.ones(len(given.files), dtype=bool)).write(fit, len(given.files))
            continue
        classes = (1,) if len(LABELS[fit.label]) == 2 else LABELS[fit.label]
        for name in sorted({*given.files.tolist()} - {""}):
            rows = given.files == name
            read = Fitted(fit, given, ~rows).read([one for one, use in zip(given.found, rows, strict=True) if use])
            print(f"{fit.label} {name}: n = {rows.sum()}, F1 = {f1(read, given.labels[rows], classes):.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
