"""Random forests judged out of fold: explained variance and feature importances, with intervals over subjects.

The published importances are the impurity-based ones of a forest that is fitted to all rows (mean decrease in
variance). What makes them safe to read:

* grouped cross-validation: all images of a subject are in one fold. A model explains something only if the lower end
  of the interval of its out-of-fold R² is above 0;
* permutation importances out of fold: the share of the score's variance that is lost when the feature's columns are
  shuffled among the held-out images. All columns of an attribute are shuffled together;
* a bootstrap over subjects. The held-out losses, summed per subject, are resampled and the forests are not refitted:
  intervals hold for these forests on new subjects, and leave out the variance that refitting would add.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import FloatArray, Fp2Error, Range, count_and_sum
from fp2.methods.fhibe.scores.design import FeatureMatrix

IntArray = NDArray[np.intp]
_FEW_COLUMNS, _MANY_ROWS, _MOST_THREADS = 10, 2000, 8
_CHUNK = 500  # resamples at once


@dataclass(frozen=True)
class ErrorModelOptions:
    """`task.options.error_model`; level, seed and smallest group are those of the analysis unless they are given.

    Attributes
    ----------
    trees, leaf : int
        Trees of a forest, and images in a leaf at least.
    folds, repeats : int
        Folds of the cross-validation, and how often a feature is shuffled in each.
    least, most : int
        Bounds of the number of features that are selected.
    depth : int
        Depth of the decision tree.
    resamples : int
        Bootstrap resamples of subjects.
    """

    trees: Annotated[int, Range(1)] = 200
    leaf: Annotated[int, Range(1)] = 5
    folds: Annotated[int, Range(2)] = 5
    repeats: Annotated[int, Range(1)] = 3
    least: Annotated[int, Range(1)] = 3
    most: Annotated[int, Range(1)] = 10
    depth: Annotated[int, Range(1)] = 3
    resamples: Annotated[int, Range(2)] = 5000
    min_subjects: Annotated[int, Range(2)] = 10
    alpha: Annotated[float, Range(1e-6, 0.5)] = 0.05
    seed: Annotated[int, Range(0)] = 20260101

    def __post_init__(self) -> None:
        if self.least > self.most:
            what = f"least is {self.least}, more than most ({self.most})"
            raise Fp2Error(what, where="task.options.error_model.least")


@dataclass(frozen=True)
class Data:
    """What is modelled.

    Attributes
    ----------
    y : array of shape (n,)
        The scores.
    design : FeatureMatrix
    subjects : array of shape (n,)
        Each row's subject, 0 to `n_subjects` - 1.
    weights : array of shape (n,)
        The rows of a subject have weight 1 together.
    yes_no : bool
        Whether the scores are 0 or 1.
    """

    y: FloatArray
    design: FeatureMatrix
    subjects: IntArray
    n_subjects: int
    weights: FloatArray
    yes_no: bool


@dataclass(frozen=True)
class Losses:
    """Out of fold: predictions (n,), squared errors (n,), and their mean rise per shuffled feature (n, F)."""

    predicted: FloatArray
    squared: FloatArray
    rises: FloatArray


def cross_validate(
    data: Data,
    options: ErrorModelOptions,
    tick: Callable[[], None],
    columns: IntArray | None = None,
    *,
    shuffled: bool = True,
) -> Losses:
    """Return the held-out losses of a forest on `columns` (None: all), and their rises if `shuffled`.

    All rows of a subject are in one fold. `tick` is called after each.
    """
    from sklearn.model_selection import GroupKFold

    used = np.arange(len(data.design.columns)) if columns is None else columns
    features = data.design.features if shuffled else ()
    predicted, rises = np.zeros(len(data.y)), np.zeros((len(data.y), len(features)))
    rng = np.random.default_rng([options.seed, 1])
    folds = GroupKFold(options.folds, shuffle=True, random_state=options.seed)
    for k, (train, test) in enumerate(folds.split(data.design.matrix, groups=data.subjects)):
        forest = _fit(data, train, used, options, options.seed + k)
        held = data.design.matrix[np.ix_(test, used)]
        predicted[test] = _predict(forest, held)
        squared = (data.y[test] - predicted[test]) ** 2
        for f, feature in enumerate(features):
            places = data.design.places(feature)
            for _ in range(options.repeats):
                moved = held.copy()
                moved[:, places] = held[rng.permutation(len(test))][:, places]
                rises[test, f] += ((data.y[test] - _predict(forest, moved)) ** 2 - squared) / options.repeats
        tick()
    return Losses(predicted, (data.y - predicted) ** 2, rises)


def _fit(data: Data, rows: IntArray, columns: IntArray, options: ErrorModelOptions, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    share = min(1.0, max(1 / 3, _FEW_COLUMNS / len(columns)))
    kind = RandomForestClassifier if data.yes_no else RandomForestRegressor
    forest = kind(
        n_estimators=options.trees,
        min_samples_leaf=options.leaf,
        max_features=share,
        random_state=seed,
        n_jobs=min(_MOST_THREADS, os.cpu_count() or 1) if len(rows) > _MANY_ROWS else 1,
    )
    return forest.fit(data.design.matrix[np.ix_(rows, columns)], data.y[rows], sample_weight=data.weights[rows])


def _predict(forest: Any, matrix: FloatArray) -> FloatArray:
    """Return the forest's mean (of a classifier: its probability of 1); its own `predict` starts threads each time."""
    classes = forest.classes_.tolist() if hasattr(forest, "classes_") else [1.0]
    if 1.0 not in classes:
        return np.zeros(len(matrix))
    narrow = matrix.astype(np.float32)
    votes = sum(tree.tree_.predict(narrow).reshape(len(narrow), -1) for tree in forest.estimators_)
    return np.asarray(votes, dtype=np.float64)[:, classes.index(1.0)] / len(forest.estimators_)


def explained(data: Data, losses: Losses, options: ErrorModelOptions) -> dict[str, Any]:
    """Return R² out of fold (of a binary score: Brier's skill score) and AUC, and whether the model explains anything.

    Returns
    -------
    dict
        `r2, r2_se, r2_low, r2_high`; `explains`: the interval lies above 0; `auc` of a binary score, else None.
    """
    total, lost = _total(data), per_subject(losses.squared, data.subjects, data.n_subjects)
    error, low, high = interval(1.0 - ratios(lost, total, options.resamples, options.seed)[:, 0], options.alpha)
    fit = {
        "r2": 1.0 - float(lost.sum() / total.sum()),
        "r2_se": error,
        "r2_low": low,
        "r2_high": high,
        "explains": bool(low is not None and low > 0),
        "auc": None,
    }
    if data.yes_no:
        from sklearn.metrics import roc_auc_score

        fit["auc"] = float(roc_auc_score(data.y, losses.predicted, sample_weight=data.weights))
    return fit


def importances(
    data: Data, losses: Losses, sensitive: Sequence[str], explains: bool, options: ErrorModelOptions
) -> list[dict[str, Any]]:
    """Return the features by impurity importance, each with its permutation importance out of fold.

    `found`: the model explains something, and the permutation importance is above 0 at the level alpha / number of
    features (Bonferroni, normal approximation with the bootstrap standard error).
    """
    from scipy.special import ndtri

    every = np.arange(len(data.design.columns))
    impurity = _fit(data, np.arange(len(data.y)), every, options, options.seed).feature_importances_
    total, rises = _total(data), per_subject(losses.rises, data.subjects, data.n_subjects)
    samples = ratios(rises, np.broadcast_to(total, rises.shape), options.resamples, options.seed)
    critical = float(ndtri(1 - options.alpha / (2 * rises.shape[1])))
    rows = []
    for f, feature in enumerate(data.design.features):
        error, low, high = interval(samples[:, f], options.alpha)
        share = float(rises[:, f].sum() / total.sum())
        rows.append(
            {
                "feature": feature,
                "sensitive": feature in sensitive,
                "impurity": float(impurity[data.design.places(feature)].sum()),
                "permutation": share,
                "se": error,
                "ci_low": low,
                "ci_high": high,
                "found": bool(explains and error is not None and share > critical * error),
            }
        )
    return sorted(rows, key=lambda row: -row["impurity"])


def _total(data: Data) -> FloatArray:
    """Return each subject's mean squared deviation from the mean over subjects, (n_subjects, 1)."""
    mean = float((data.y * data.weights).sum() / data.weights.sum())
    return per_subject((data.y - mean) ** 2, data.subjects, data.n_subjects)


def per_subject(values: FloatArray, subjects: IntArray, n_subjects: int) -> FloatArray:
    """Return the mean of `values` (n, k) over the rows of each subject, (n_subjects, k)."""
    count, total = count_and_sum(subjects, n_subjects, values.reshape(len(values), -1))
    return total / count


def ratios(above: FloatArray, below: FloatArray, n_resamples: int, seed: int) -> FloatArray:
    """Return sum(above) / sum(below) in each bootstrap resample of subjects.

    above, below : per-subject values (n_subjects, k). Returns (n_resamples, k), NaN where a denominator is 0.
    """
    top, bottom = above.reshape(len(above), -1), below.reshape(len(below), -1)
    blocks, rng = [], np.random.default_rng(seed)
    even = np.full(len(top), 1.0 / len(top))
    for start in range(0, n_resamples, _CHUNK):  # counts: how often each subject is in a resample with replacement
        counts = rng.multinomial(len(top), even, size=min(_CHUNK, n_resamples - start)).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks.append((counts @ top) / (counts @ bottom))
    quotients: FloatArray = np.concatenate(blocks)
    quotients[~np.isfinite(quotients)] = np.nan
    return quotients


def interval(samples: FloatArray, alpha: float = 0.05) -> tuple[float | None, float | None, float | None]:
    """Return the standard error and the percentile interval of resampled values; None if there are fewer than two."""
    present = samples[~np.isnan(samples)]
    if present.size < 2:
        return None, None, None
    low, high = np.quantile(present, [alpha / 2, 1 - alpha / 2])
    return float(present.std(ddof=1)), float(low), float(high)
