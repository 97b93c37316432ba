"""Direct error modelling: which features of a picture go with a low score, and in which direction.

The paper's steps: a random forest predicts the score from annotations, its importances (mean decrease in variance) are
ranked, an elbow takes the first few, and a decision tree on those shows the direction. Around them stands what makes
the answer safe to read:

* no person is on both sides: forests are judged by grouped cross-validation only. Their R² (or AUC) out of fold has an
  interval, and a model whose interval reaches 0 `explains` nothing, whatever its importances say;
* beside each impurity importance stands a permutation importance out of fold: how much of the score's variance is lost
  when the feature's columns are shuffled among the held-out pictures. An attribute's columns are shuffled together;
* 5,000 resamples of whole subjects. What is resampled are the held-out losses, summed by person: the forests are not
  fitted again. The intervals therefore hold for these forests on new people, and leave out what refitting would add;
* sensitive attributes are features like any other and marked, so a feature can be seen to take their place. `gaps` says
  how large each sensitive attribute's gap is before, and in what a forest without them leaves unexplained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.fhibe.scores.design import Design, make_design
from fp2.protocols.fhibe.scores.elbow import elbow
from fp2.protocols.fhibe.scores.resampling import FloatArray, per_subject, ratios, spread
from fp2.protocols.fhibe.scores.tree import grow

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.intp]
_FEW_COLUMNS, _MANY_ROWS, _MOST_THREADS = 10, 2000, 8


@dataclass(frozen=True)
class ErrorModelOptions:
    """Sizes of the forests (`trees`, `leaf` = least pictures in a leaf), of the cross-validation and of resampling.

    `least` and `most` features are taken wherever the elbow is; `repeats` is how often a feature is shuffled.
    """

    trees: int = 200
    leaf: int = 5
    folds: int = 5
    repeats: int = 3
    least: int = 3
    most: int = 10
    depth: int = 3
    resamples: int = 5000
    min_subjects: int = 10
    alpha: float = 0.05
    seed: int = 20260101


@dataclass(frozen=True)
class _Data:
    """y (n,), the design, each row's subject (0 .. S - 1) and weight (a person's rows weigh 1 together)."""

    y: FloatArray
    design: Design
    subjects: IntArray
    n_subjects: int
    weights: FloatArray
    yes_no: bool


def error_model(
    table: pd.DataFrame, numbers: Sequence[str], attributes: Sequence[str], sensitive: Sequence[str],
    options: ErrorModelOptions, *, yes_no: bool = False, tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:  # fmt: skip
    """Model the column `score` of `table` (one row per person and picture; rows without a score are left out).

    Parameters
    ----------
    table : DataFrame
        `subject_id, score`, the columns `numbers` and the attributes (`attr_...`).
    numbers, attributes, sensitive : sequences of str
        What may explain the score; `sensitive` are attributes, too.
    yes_no : bool
        The score is 0 or 1: the forest gives a probability, and its AUC stands beside the explained variance.
    tick : callable
        Told after each fold and step (2 * folds + 2 in all).

    Returns
    -------
    dict
        JSON-able. `status` is `ok`, `constant` (one score for all) or `too_few` (people or features); then the rest is
        missing. See docs/fhibe_methods.md for the keys.
    """
    known = table.dropna(subset=["score"]).reset_index(drop=True)
    design = make_design(known, numbers, [*attributes, *sensitive], options.min_subjects)
    y = known["score"].to_numpy(dtype=np.float64)
    names, subjects = np.unique(known["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)
    sizes = {"n_images": len(y), "n_subjects": len(names), "n_features": len(design.features)}
    if len(names) < max(2 * options.min_subjects, 2 * options.folds) or not design.columns:
        return {"status": "too_few", **sizes}
    if np.ptp(y) == 0:
        return {"status": "constant", **sizes}
    weights = 1.0 / np.bincount(subjects)[subjects]
    data = _Data(y, design, subjects.astype(np.intp), len(names), weights, yes_no)
    losses = _cross_validated(data, options, tick)
    fit = _fit_of(data, losses, options)
    importances = _importances(data, losses, sensitive, fit["explains"], options)
    tick()
    n_top = elbow([row["impurity"] for row in importances], options.most, options.least)
    top = [row["feature"] for row in importances[:n_top]]
    chosen = design.only(top)
    tree = grow(chosen, y, data.subjects, weights, depth=options.depth, min_subjects=options.min_subjects)
    found = {
        "status": "ok",
        **sizes,
        **fit,
        "importances": importances,
        "selected": top,
        "tree": tree,
        "directions": [_direction(data, feature, tree, options) for feature in top],
        "gaps": _gaps(known, data, sensitive, options, tick),
        "resamples": options.resamples,
    }
    tick()
    return found


@dataclass(frozen=True)
class _Losses:
    """Out of fold: predictions (n,), squared errors (n,), and the rise of them per feature (n, F), averaged."""

    predicted: FloatArray
    squared: FloatArray
    rises: FloatArray


def _forest(data: _Data, rows: IntArray, columns: IntArray, options: ErrorModelOptions, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    many = min(1.0, max(1 / 3, _FEW_COLUMNS / len(columns)))
    kind = RandomForestClassifier if data.yes_no else RandomForestRegressor
    forest = kind(
        n_estimators=options.trees, min_samples_leaf=options.leaf, max_features=many, random_state=seed,
        n_jobs=min(_MOST_THREADS, os.cpu_count() or 1) if len(rows) > _MANY_ROWS else 1,
    )  # fmt: skip
    return forest.fit(data.design.matrix[np.ix_(rows, columns)], data.y[rows], sample_weight=data.weights[rows])


def _predict(forest: Any, matrix: FloatArray) -> FloatArray:
    """Return the forest's mean (of a classifier: its probability of 1), without the threads that `predict` starts."""
    classes = forest.classes_.tolist() if hasattr(forest, "classes_") else [1.0]
    if 1.0 not in classes:
        return np.zeros(len(matrix))
    narrow = matrix.astype(np.float32)
    votes = sum(tree.tree_.predict(narrow).reshape(len(narrow), -1) for tree in forest.estimators_)
    return np.asarray(votes, dtype=np.float64)[:, classes.index(1.0)] / len(forest.estimators_)


def _folds(data: _Data, options: ErrorModelOptions) -> list[tuple[IntArray, IntArray]]:
    """Return (train, test) rows; every person's rows are in one test fold."""
    from sklearn.model_selection import GroupKFold

    split = GroupKFold(options.folds, shuffle=True, random_state=options.seed)
    return list(split.split(data.design.matrix, groups=data.subjects))


def _cross_validated(
    data: _Data, options: ErrorModelOptions, tick: Callable[[], None], columns: IntArray | None = None,
    shuffled: bool = True,
) -> _Losses:  # fmt: skip
    """Return the held-out losses of a forest on `columns` (all without it), and their rises where `shuffled`."""
    used = np.arange(len(data.design.columns)) if columns is None else columns
    features = data.design.features if shuffled else ()
    predicted, rises = np.zeros(len(data.y)), np.zeros((len(data.y), len(features)))
    rng = np.random.default_rng([options.seed, 1])
    for k, (train, test) in enumerate(_folds(data, options)):
        forest = _forest(data, train, used, options, options.seed + k)
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
    return _Losses(predicted, (data.y - predicted) ** 2, rises)


def _centred(data: _Data) -> FloatArray:
    """Return each row's squared distance from the mean over people."""
    mean = float((data.y * data.weights).sum() / data.weights.sum())
    return (data.y - mean) ** 2


def _fit_of(data: _Data, losses: _Losses, options: ErrorModelOptions) -> dict[str, Any]:
    """Return R² out of fold (for yes/no: Brier's skill) and AUC with their intervals, and whether it explains."""
    total = per_subject(_centred(data), data.subjects, data.n_subjects)
    lost = per_subject(losses.squared, data.subjects, data.n_subjects)
    samples = 1.0 - ratios(lost, total, options.resamples, options.seed)[:, 0]
    error, low, high = spread(samples, options.alpha)
    found = {
        "r2": 1.0 - float(lost.sum() / total.sum()),
        "r2_se": error,
        "r2_low": low,
        "r2_high": high,
        "explains": bool(low is not None and low > 0),
        "auc": None,
    }
    if data.yes_no:
        from sklearn.metrics import roc_auc_score

        found["auc"] = float(roc_auc_score(data.y, losses.predicted, sample_weight=data.weights))
    return found


def _importances(
    data: _Data, losses: _Losses, sensitive: Sequence[str], explains: bool, options: ErrorModelOptions
) -> list[dict[str, Any]]:
    """Return the features by impurity importance, each with its permutation importance out of fold.

    `found`: the model explains something, and the importance lies above 0 by its standard error at the level alpha
    over the number of features (Bonferroni).
    """
    from scipy.special import ndtri

    every = np.arange(len(data.design.columns))
    impurity = _forest(data, np.arange(len(data.y)), every, options, options.seed).feature_importances_
    total = per_subject(_centred(data), data.subjects, data.n_subjects)
    rises = per_subject(losses.rises, data.subjects, data.n_subjects)
    samples = ratios(rises, np.broadcast_to(total, rises.shape), options.resamples, options.seed)
    beyond = float(ndtri(1 - options.alpha / (2 * rises.shape[1])))
    rows = []
    for f, feature in enumerate(data.design.features):
        error, low, high = spread(samples[:, f], options.alpha)
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
                "found": bool(explains and error is not None and share > beyond * error),
            }
        )
    return sorted(rows, key=lambda row: -row["impurity"])


def _direction(data: _Data, feature: str, tree: dict[str, Any], options: ErrorModelOptions) -> dict[str, Any]:
    """Return mean scores on both sides of a feature's split: the tree's first on it, else the median or the value.

    Means are over people; the difference's standard error and interval are from resampled people.
    """
    splits = [node for node in tree["nodes"] if node["feature"] == feature]
    if splits:
        column, threshold = splits[0]["column"], splits[0]["threshold"]
        place = next(k for k, c in enumerate(data.design.columns) if c.name == column)
    else:
        place = max(data.design.places(feature).tolist(), key=lambda k: _gap(data, k))
        threshold = _middle(data.design.matrix[:, place])
    values = data.design.matrix[:, place]
    sums = []
    for side in (values <= threshold, values > threshold):
        rows = np.flatnonzero(side)
        mean, there = np.zeros(data.n_subjects), np.zeros(data.n_subjects)
        np.add.at(mean, data.subjects[rows], data.y[rows])
        np.add.at(there, data.subjects[rows], 1.0)
        sums.append((np.divide(mean, there, out=np.zeros_like(mean), where=there > 0), (there > 0).astype(np.float64)))
    (low_means, low_there), (high_means, high_there) = sums
    means = ratios(
        np.column_stack([low_means, high_means]), np.column_stack([low_there, high_there]), options.resamples,
        options.seed,
    )  # fmt: skip
    error, low, high = spread(means[:, 1] - means[:, 0], options.alpha)
    below, above = low_means.sum() / max(1.0, low_there.sum()), high_means.sum() / max(1.0, high_there.sum())
    return {
        "feature": feature,
        "column": data.design.columns[place].name,
        "threshold": None if data.design.columns[place].value is not None else float(threshold),
        "mean_low": float(below),
        "mean_high": float(above),
        "n_subjects_low": int(low_there.sum()),
        "n_subjects_high": int(high_there.sum()),
        "difference": float(above - below),
        "se": error,
        "ci_low": low,
        "ci_high": high,
    }


def _gap(data: _Data, place: int) -> float:
    values = data.design.matrix[:, place]
    side = values > _middle(values)
    known = ~np.isnan(values)
    if not (side & known).any() or not (~side & known).any():
        return 0.0
    return abs(float(data.y[side & known].mean() - data.y[~side & known].mean()))


def _middle(values: FloatArray) -> float:
    """Return what splits a column: 0.5 for 0/1, else the median (of a column whose median is its top: below that)."""
    known = values[~np.isnan(values)]
    if np.isin(known, (0.0, 1.0)).all():
        return 0.5
    middle = float(np.median(known))
    return middle if middle < known.max() else float(known[known < middle].max())


def _gaps(
    table: pd.DataFrame, data: _Data, sensitive: Sequence[str], options: ErrorModelOptions, tick: Callable[[], None]
) -> list[dict[str, Any]]:
    """Return each sensitive attribute's gap in the score, and in what is left by a forest without such attributes."""
    from fp2.cuts import Cut, memberships
    from fp2.stats.adjustment import adjust
    from fp2.stats.disparities import disparity

    if not sensitive:
        return []
    columns = np.flatnonzero([column.feature not in sensitive for column in data.design.columns])
    if not columns.size:
        return []
    left = data.y - _cross_validated(data, options, tick, columns, shuffled=False).predicted
    room = float(np.abs(data.y).max() + np.ptp(data.y)) + 1.0
    rows = []
    for outcome in (data.y, left):
        own = table[["image_id", "subject_id"]].assign(value=outcome)
        found = []
        for name in sensitive:
            merged = memberships(table, Cut(name, (name,))).merge(own, on=["image_id", "subject_id"])
            found.append(
                disparity(
                    merged["value"], merged["group"], merged["subject_id"], images=merged["image_id"],
                    value_range=(-room, room), n_permutations=10_000, n_bootstrap=0, seed=options.seed,
                    alpha=options.alpha, min_subjects=options.min_subjects,
                )
            )  # fmt: skip
        rows.append(adjust(found, "holm", options.alpha))
    return [
        {
            "attribute": name,
            "gap": before.raw,
            "chance": before.null_mean,
            "p": before.adjusted_p,
            "left": after.raw,
            "left_chance": after.null_mean,
            "left_p": after.adjusted_p,
            "worst": before.worst_group,
            "best": before.best_group,
        }
        for name, before, after in zip(sensitive, *rows, strict=True)
    ]
