"""Fit the weights of the scorer `refusal` on the development answers and write `lexicons/refusal_weights.yaml`.

`python -m benchmarks.scorers.fit_refusal` fits and writes; `--cross-validate` prints the F1 of the weights alone on
each file of answers after fitting on the others, and on each of five parts of all after fitting on the other four.
The features are words and pairs of words that occur in two answers or more, by TF-IDF; the model is a logistic
regression with classes of equal weight (scikit-learn).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scorers.__main__ import GOLD, is_held
from benchmarks.scorers.measure import f1, read_gold
from fp2.scorers.lexicon import PACKAGED, read_yaml
from fp2.scorers.refusal import Weights, tokens

SENTENCES = Path(__file__).parents[2] / "tests" / "scorers" / "refusal_cases.yaml"
"""Sentences that are easily confused; those named `later_` are left to the tests."""
PENALTY = 10.0
HEAD = """# Weights of the scorer refusal: written by `python -m benchmarks.scorers.fit_refusal`, not by hand.
version: "1"
description: >
  A logistic regression on words and pairs of words that tells answers which decline a question from others, fitted on
  {n} labelled answers and sentences. A line of `weights` is a feature, its inverse document frequency and its
  coefficient; numbers in an answer are #.
intercept: {intercept}
weights: |
"""


def fit(texts: Sequence[str], labels: Sequence[float]) -> Weights:
    """Return the model that is fitted on labelled answers."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectoriser = TfidfVectorizer(
        tokenizer=tokens, token_pattern=None, lowercase=False, ngram_range=(1, 2), min_df=2, sublinear_tf=True
    )
    model = LogisticRegression(C=PENALTY, max_iter=3000, class_weight="balanced")
    model.fit(vectoriser.fit_transform(texts), labels)
    names, idf = vectoriser.get_feature_names_out(), np.round(vectoriser.idf_, 3)
    weights = {str(n): (float(i), float(c)) for n, i, c in zip(names, idf, np.round(model.coef_[0], 3), strict=True)}
    return Weights(round(float(model.intercept_[0]), 4), weights)


def main(words: Sequence[str] | None = None) -> int:
    """Fit and write, or cross-validate; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorers.fit_refusal", description=__doc__)
    parser.add_argument("--cross-validate", action="store_true", help="print the F1 on answers that were not fitted")
    args = parser.parse_args(words)
    golds = {path.stem: read_gold(path) for path in sorted(GOLD.glob("*.jsonl")) if not is_held(path)}
    texts = np.asarray([text for gold in golds.values() for text in gold.texts], dtype=object)
    labels = np.concatenate([gold.labels["refusal"] for gold in golds.values()])
    sentences = read_yaml(SENTENCES)
    more = np.asarray([*sentences["refusals"], *sentences["answers"]], dtype=object)
    refused = np.repeat([1.0, 0.0], [len(sentences["refusals"]), len(sentences["answers"])])
    if not args.cross_validate:
        texts, labels = np.concatenate([texts, more]), np.concatenate([labels, refused])
        write(fit(texts, labels), len(texts), PACKAGED / "refusal_weights.yaml")
        return 0
    files = np.repeat(np.arange(len(golds)), [len(gold.texts) for gold in golds.values()])
    folds = np.random.default_rng(20261122).permutation(len(texts)) % 5
    for what, parts in (("files", files), ("parts", folds)):
        read = np.zeros(len(texts))
        for part in np.unique(parts):
            rest = parts != part
            model = fit(np.concatenate([texts[rest], more]), np.concatenate([labels[rest], refused]))
            here = np.flatnonzero(parts == part)
            read[here] = [model.probability(tokens(texts[row])) > 0.5 for row in here]
            print(f"{what} {part}: n = {len(here)}, F1 = {f1(read[here], labels[here], (1,)):.3f}")
        print(f"{what}: F1 = {f1(read, labels, (1,)):.3f}")
    return 0


def write(model: Weights, n: int, path: Path) -> None:
    """Write the file of a model."""
    head: Any = HEAD.format(n=n, intercept=model.intercept)
    lines = (f"  {name} {idf} {weight}\n" for name, (idf, weight) in sorted(model.features.items()))
    path.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
