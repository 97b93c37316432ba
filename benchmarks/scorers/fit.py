"""Fit the scorers that have weights on the development answers, and write their files.

`python -m benchmarks.scorers.fit` fits and writes; `--leave-one-writer-out` prints the F1 on each of the files
after fitting on all others, and writes nothing. The model is a logistic regression
(scikit-learn) on the features of `fp2.scorers.fitted`; words and pairs count that occur in three answers or more.

`--sheet FILE.csv` draws answers for people to label, in the column `label`; `--answers FILE.csv --label NAME --to
FILE.yaml` fits on such a file, or with `--labels labels.csv` on the labels of `fp2 label`.

The vocabulary was written with these answers in view and has more of their words than of a new writer's. So half of the
weight of an answer is that of `COPIES` copies whose features come from a random half of the vocabulary: coefficients
then rest less on finding a term, and more on other words.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.scorers.__main__ import GOLD, is_held
from benchmarks.scorers.measure import LABELS, Gold, f1, read_gold
from fp2.errors import Fp2Error
from fp2.scorers.economic import Economic, standing
from fp2.scorers.fitted import features, features_by
from fp2.scorers.labels import ECONOMIC, VALENCE_CONTEXT, Labels
from fp2.scorers.lexicon import PACKAGED, Matcher, load_vocabulary, read_yaml
from fp2.scorers.refusal import THRESHOLD, load_refusals
from fp2.scorers.stereotype import Stereotype
from fp2.scorers.valence_context import ValenceContext

SENTENCES = Path(__file__).parents[2] / "tests" / "scorers" / "refusal_cases.yaml"
"""Sentences that decline or only seem to; those named `later_` are left to the tests."""
FEWEST, COPIES, SHARE, SEED = 3, 2, 0.5, 20261123


@dataclass(frozen=True)
class Fit:
    """What is fitted: the label, its file, the inverse penalty, and what is told.

    `shift` is added to the intercept of a class (of two: the second): F1 on natural writers that are left out is then
    largest, and the thresholds stay as they are.
    """

    label: str
    name: str
    version: str
    c: float
    text: str
    shift: tuple[float, float] = (1.0, 0.0)

    @property
    def path(self) -> Path:
        """The file of the weights."""
        return PACKAGED / (f"{self.name}_{self.version}.yaml" if self.version != "1" else f"{self.name}.yaml")


NONE = 9.0
"""Stands for no label, as classes have to be numbers."""
FITS = (
    Fit("valence", ValenceContext.name, "1", 1.0, "speaks well or ill of a person, or neither", (0.0, 0.3)),
    Fit("stereotype", Stereotype.name, "2", 3.0, "ascribes a stereotype to a person", (1.0, 0.25)),
    Fit("economic", Economic.name, "2", 2.0, "states or names a standing, high, middle or low", (NONE, -0.75)),
    Fit("refusal", "refusal_weights", "1", 3.0, "declines the question or says nothing of what was asked"),
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
    """Answers of which a label is known: features, those of each copy, labels (NaN: none) and the file of each."""

    found: Sequence[Mapping[str, float]]
    copies: Sequence[Sequence[Mapping[str, float]]]
    labels: np.ndarray[Any, np.dtype[np.float64]]
    files: np.ndarray[Any, np.dtype[np.str_]]


def half_vocabulary(seed: int) -> Matcher:
    """Return the vocabulary without a random half of the terms of each category."""
    draw = np.random.default_rng(seed)
    whole = load_vocabulary()
    lists = {
        name: replace(terms, entries=tuple(one for one in terms.entries if draw.random() < SHARE))
        for name, terms in whole.lists.items()
    }
    return Matcher(replace(whole, lists=lists))


def answers(fit: Fit, golds: Mapping[str, Gold]) -> Answers:
    """Return the answers that a scorer is fitted on: without refusals, unless these are what it tells."""
    refusal = fit.label == "refusal"
    rows = [
        (text, probe, label, name)
        for name, gold in golds.items()
        for text, probe, label, refused in zip(
            gold.texts, gold.probes, gold.labels[fit.label], gold.labels["refusal"], strict=True
        )
        if refusal or not refused
    ]
    if refusal:
        cases = read_yaml(SENTENCES)
        rows += [
            (text, "trust", float(kind == "refusals"), "") for kind in ("refusals", "answers") for text in cases[kind]
        ]
    read = load_refusals("refusal_2").features if refusal else features
    halves = [] if refusal else [half_vocabulary(SEED + copy) for copy in range(COPIES)]
    return Answers(
        [read(text, probe) for text, probe, *_ in rows],
        [[features_by(terms, text, probe) for text, probe, *_ in rows] for terms in halves],
        np.asarray([row[2] for row in rows], dtype=np.float64),
        np.asarray([row[3] for row in rows], dtype=np.str_),
    )


class Fitted:
    """The model that is fitted on some of the answers."""

    def __init__(self, fit: Fit, given: Answers, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        from scipy.sparse import vstack
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.linear_model import LogisticRegression

        chosen = list(compress(given.found, rows))
        known = Counter(name for one in chosen for name in one)
        self.vectoriser = DictVectorizer()
        self.label = fit.label
        left_out = () if self.label == "refusal" else tuple(read_yaml(PACKAGED / "vocabulary.yaml")["talk"])
        kept = [
            {name: value for name, value in one.items() if known[name] >= FEWEST and not name.endswith(left_out)}
            for one in chosen
        ]
        matrices = [self.vectoriser.fit_transform(kept)]
        matrices += [self.vectoriser.transform(list(compress(copy, rows))) for copy in given.copies]
        labels = np.nan_to_num(given.labels[rows], nan=NONE)
        shares = [0.5, *(0.5 / len(given.copies) for _ in given.copies)] if given.copies else [1.0]
        weights = np.repeat(shares, len(labels))
        self.model = LogisticRegression(C=fit.c, max_iter=2000)
        self.model.fit(vstack(matrices), np.tile(labels, len(matrices)), sample_weight=weights)
        shifted = list(self.model.classes_).index(fit.shift[0]) if len(self.model.classes_) > 2 else 0
        self.model.intercept_[shifted] += fit.shift[1]

    def read(self, found: Sequence[Mapping[str, float]]) -> Labels:
        """Return the label of each answer as its scorer reads it; NaN: none."""
        probabilities = self.model.predict_proba(self.vectoriser.transform(found)).T
        p = dict(zip(self.model.classes_.tolist(), probabilities, strict=True))
        if self.label == "valence":
            return VALENCE_CONTEXT.read(p[1.0] - p[-1.0])
        if self.label == "economic":
            return ECONOMIC.read(standing(p[1.0], p[0.0], p[-1.0], p[NONE]))
        return (p[1.0] > (THRESHOLD if self.label == "refusal" else 0.5)).astype(np.float64)

    def write(self, fit: Fit, n: int, path: Path | None) -> None:
        """Write the weights, without features whose coefficients round to 0, to their packaged file or `path`."""
        classes = ["null" if one == NONE else f"{one:g}" for one in self.model.classes_]
        intercept = [round(float(one), 3) for one in self.model.intercept_]
        head = HEAD.format(
            name=fit.name,
            version=fit.version,
            text=fit.text,
            n=n,
            label=fit.label,
            classes=f"[{', '.join(classes)}]",
            intercept=intercept,
        )
        columns = np.round(self.model.coef_, 2).T
        rows = zip(self.vectoriser.get_feature_names_out(), columns, strict=True)
        lines = (f"  {name} {' '.join(f'{one:g}' for one in row)}\n" for name, row in rows if np.abs(row).max() >= 0.03)
        (path or fit.path).write_text(head + "".join(lines), encoding="utf-8")


def write_sheet(path: Path, golds: Mapping[str, Gold], n: int) -> None:
    """Write `n` answers without their labels, equally many of each probe, and an empty column `label`."""
    frame = pd.concat(
        pd.DataFrame({"id": gold.ids, "probe": gold.probes, "text": gold.texts, "refusal": gold.labels["refusal"]})
        for gold in golds.values()
    )
    answered = frame[frame["refusal"] == 0].drop_duplicates("text")
    drawn = (
        answered.groupby("probe")
        .sample(n // answered["probe"].nunique(), random_state=SEED)
        .sample(frac=1, random_state=SEED)
    )
    drawn[["id", "probe", "text"]].assign(label="").to_csv(path, index=False)


def read_sheet(label: str, answers: Path, labels: Path | None) -> Gold:
    """Return labelled answers of a table with `probe, text, label`, or with the labels that `fp2 label` wrote.

    Without a label, an answer names no economic standing; of another label it is left out. So are answers on which
    labellers differ.
    """
    frame = pd.read_csv(answers)
    if labels is not None:
        key = ["image", "subject", "question"]
        given = pd.read_csv(labels).groupby(key)["label"]
        agreed = given.first()[given.nunique() == 1].reset_index()
        frame = frame.drop(columns="label", errors="ignore").merge(agreed, on=key)
    if missing := {"probe", "text", "label"} - set(frame):
        raise Fp2Error(f"the column {min(missing)!r} is missing", where=str(answers))
    if label != "economic":
        frame = frame[frame["label"].notna()]
    values = frame["label"].to_numpy(dtype=np.float64)
    if wrong := set(values[~np.isnan(values)]) ^ set(LABELS[label]):
        raise Fp2Error(f"labels of {label} are {LABELS[label]}, each at least once: {min(wrong):g}", where=str(answers))
    texts, probes = frame["text"].tolist(), frame["probe"].tolist()
    return Gold(list(map(str, frame.index)), texts, probes, {label: values, "refusal": np.zeros(len(frame))})


def main(words: Sequence[str] | None = None) -> int:
    """Fit and write, or leave one writer out; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorers.fit", description=__doc__)
    parser.add_argument("--leave-one-writer-out", action="store_true", help="print the F1 on answers of other writers")
    parser.add_argument("--label", choices=[fit.label for fit in FITS], help="this label only")
    parser.add_argument("--sheet", type=Path, help="write answers for people to label, a CSV file")
    parser.add_argument("--n", type=int, default=300, help="answers of the sheet")
    parser.add_argument("--answers", type=Path, help="fit on this CSV file (probe, text, label) only")
    parser.add_argument("--labels", type=Path, help="labels.csv of fp2 label, for the answers of fp2 export --keys")
    parser.add_argument("--to", type=Path, help="write the weights to this YAML file")
    args = parser.parse_args(words)
    golds = {path.stem: read_gold(path) for path in sorted(GOLD.glob("*.jsonl")) if not is_held(path)}
    if args.sheet:
        write_sheet(args.sheet, golds, args.n)
        return 0
    if args.answers:
        if args.label in (None, "refusal") or args.to is None:
            parser.error("--answers needs --to FILE.yaml and --label valence, stereotype or economic")
        golds = {args.answers.stem: read_sheet(args.label, args.answers, args.labels)}
    for fit in FITS:
        if args.label not in (None, fit.label):
            continue
        given = answers(fit, golds)
        if not args.leave_one_writer_out:
            Fitted(fit, given, np.ones(len(given.files), dtype=bool)).write(fit, len(given.files), args.to)
            continue
        classes = (1,) if len(LABELS[fit.label]) == 2 else LABELS[fit.label]
        for name in sorted({*given.files.tolist()} - {""}):
            rows = given.files == name
            read = Fitted(fit, given, ~rows).read(list(compress(given.found, rows)))
            print(f"{fit.label} {name}: n = {rows.sum()}, F1 = {f1(read, given.labels[rows], classes):.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
