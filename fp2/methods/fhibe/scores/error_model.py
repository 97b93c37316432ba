"""Direct error modelling: which features of an image are associated with a low score, and in which direction.

Xiang et al. 2025, Methods, "Direct error modelling": a random forest predicts the score from annotations, the elbow of
its ranked importances selects a few features, and a decision tree on these shows the direction. The importances are
those of `importances`, with what makes them safe to read. Sensitive attributes are features like any other and are
marked; `gaps` compares the disparity of each in the score with its disparity in the residuals of a forest without
sensitive attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import FloatArray, count_and_sum
from fp2.methods.fhibe.scores.design import FeatureMatrix, make_design
from fp2.methods.fhibe.scores.importances import (
    Data,
    ErrorModelOptions,
    IntArray,
    cross_validate,
    explained,
    importances,
    interval,
    ratios,
)

if TYPE_CHECKING:
    import pandas as pd


def error_model(
    table: pd.DataFrame,
    numbers: Sequence[str],
    attributes: Sequence[str],
    sensitive: Sequence[str],
    options: ErrorModelOptions,
    *,
    yes_no: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Model the column `score` of `table` (one row per subject and image; rows without a score are dropped).

    Parameters
    ----------
    table : DataFrame
        `subject_id, score`, the columns `numbers` and the attributes (`attr_...`).
    numbers, attributes, sensitive : sequences of str
        The predictors; `sensitive` are attributes, too.
    yes_no : bool
        The score is 0 or 1: the forest predicts a probability, and its AUC is reported beside R².
    tick : callable
        Called after each fold and step (2 * folds + 2 times).

    Returns
    -------
    dict
        JSON values. `status` is `ok`, `constant` (all scores are equal) or `too_few` (subjects or features); only `ok`
        has the rest. See docs/methods/fhibe.md for the keys.
    """
    scored = table.dropna(subset=["score"]).reset_index(drop=True)
    design = make_design(scored, numbers, [*attributes, *sensitive], options.min_subjects)
    y = scored["score"].to_numpy(dtype=np.float64)
    names, subjects = np.unique(scored["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)
    sizes = {"n_images": len(y), "n_subjects": len(names), "n_features": len(design.features)}
    if len(names) < max(2 * options.min_subjects, 2 * options.folds) or not design.columns:
        return {"status": "too_few", **sizes}
    if np.ptp(y) == 0:
        return {"status": "constant", **sizes}
    data = Data(y, design, subjects.astype(np.intp), len(names), 1.0 / np.bincount(subjects)[subjects], yes_no)
    losses = cross_validate(data, options, tick)
    fit = explained(data, losses, options)
    ranked = importances(data, losses, sensitive, fit["explains"], options)
    tick()
    selected = [row["feature"] for row in ranked[: elbow([r["impurity"] for r in ranked], options.most, options.least)]]
    tree = grow(data, design.only(selected), depth=options.depth, min_subjects=options.min_subjects)
    found = {
        "status": "ok",
        **sizes,
        **fit,
        "importances": ranked,
        "selected": selected,
        "tree": tree,
        "directions": [_direction(data, feature, tree, options) for feature in selected],
        "gaps": _gaps(scored, data, sensitive, options, tick),
        "resamples": options.resamples,
    }
    tick()
    return found


def elbow(ranked: Sequence[float], most: int = 10, least: int = 1) -> int:
    """Return how many of the ranked importances (largest first) come before the curve flattens.

    The elbow is the point farthest below the straight line from the first to the last importance, both axes scaled to
    [0, 1] (Satopää et al. 2011, "Kneedle"); the features before it are taken, at least `least` and at most `most`.
    Fewer than three are all taken; of equal importances, `least`.
    """
    values = np.asarray(ranked, dtype=np.float64)
    if len(values) < 3:
        return len(values)
    if np.any(np.diff(values) > 0):
        raise ValueError("importances must be ranked, largest first")
    width = values[0] - values[-1]
    if width <= 0:
        return min(least, len(values))
    x = np.linspace(0.0, 1.0, len(values))
    below = (1.0 - x) - (values - values[-1]) / width
    return int(np.clip(below.argmax(), min(least, len(values)), most))


def grow(data: Data, design: FeatureMatrix, *, depth: int, min_subjects: int) -> dict[str, Any]:
    """Return scikit-learn's regression tree of the scores on the predictors `design`, the root first.

    A subject has weight 1 in all, and a leaf has at least `min_subjects` of the weight, so at least as many subjects.
    A node has `id, depth, mean` (over the weights), `n_subjects, n_images`, and a split `feature, column, value,
    threshold, low, high`: rows at or below the threshold go to `low` (missing values: to the side that the tree
    learned). `r2` is in-sample: a description, not a prediction.
    """
    from sklearn.tree import DecisionTreeRegressor

    y, weights, subjects = data.y, data.weights, data.subjects
    share = min(0.5, max(0.02, min_subjects / float(weights.sum())))
    tree = DecisionTreeRegressor(max_depth=depth, min_weight_fraction_leaf=share, random_state=0)
    tree.fit(design.matrix, y, sample_weight=weights)
    inner, inside = tree.tree_, tree.decision_path(design.matrix).tocsc()
    nodes, levels = [], {0: 0}
    for node in range(inner.node_count):
        rows = inside.indices[inside.indptr[node] : inside.indptr[node + 1]]
        low, high = int(inner.children_left[node]), int(inner.children_right[node])
        entry: dict[str, Any] = {
            "id": node,
            "depth": levels[node],
            "mean": float(np.average(y[rows], weights=weights[rows])),
            "n_subjects": len(np.unique(subjects[rows])),
            "n_images": len(rows),
            "feature": None,
        }
        if low >= 0:
            column = design.columns[int(inner.feature[node])]
            levels[low] = levels[high] = levels[node] + 1
            entry |= {
                "feature": column.feature,
                "column": column.name,
                "value": column.value,
                "threshold": float(inner.threshold[node]),
                "low": low,
                "high": high,
            }
        nodes.append(entry)
    return {"nodes": nodes, "r2": float(tree.score(design.matrix, y, sample_weight=weights)), "depth": depth}


def _direction(data: Data, feature: str, tree: dict[str, Any], options: ErrorModelOptions) -> dict[str, Any]:
    """Return the mean scores on both sides of a feature's split, over subjects, and their difference.

    The split is the tree's first on the feature; without one, the median or the value of largest difference. Standard
    error and interval are from a bootstrap over subjects.
    """
    column_index, threshold = _split(data, feature, tree)
    values = data.design.matrix[:, column_index]
    (low_means, in_low), (high_means, in_high) = (
        _subject_means(data, np.flatnonzero(side)) for side in (values <= threshold, values > threshold)
    )
    means = ratios(
        np.column_stack([low_means, high_means]), np.column_stack([in_low, in_high]), options.resamples, options.seed
    )
    error, low, high = interval(means[:, 1] - means[:, 0], options.alpha)
    below, above = low_means.sum() / max(1.0, in_low.sum()), high_means.sum() / max(1.0, in_high.sum())
    column = data.design.columns[column_index]
    return {
        "feature": feature,
        "column": column.name,
        "threshold": None if column.value is not None else float(threshold),
        "mean_low": float(below),
        "mean_high": float(above),
        "n_subjects_low": int(in_low.sum()),
        "n_subjects_high": int(in_high.sum()),
        "difference": float(above - below),
        "se": error,
        "ci_low": low,
        "ci_high": high,
    }


def _split(data: Data, feature: str, tree: dict[str, Any]) -> tuple[int, float]:
    """Return the column of a feature that shows its direction, and where it is split."""
    for node in tree["nodes"]:
        if node["feature"] == feature:
            column_index = next(k for k, column in enumerate(data.design.columns) if column.name == node["column"])
            return column_index, node["threshold"]
    column_index = max(data.design.places(feature).tolist(), key=lambda k: _difference(data, k))
    return column_index, _middle(data.design.matrix[:, column_index])


def _subject_means(data: Data, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return each subject's mean score over `rows` (0 without one), and 1 for a subject who has one."""
    counts, sums = count_and_sum(data.subjects[rows], data.n_subjects, data.y[rows, None])
    return (sums / np.maximum(counts, 1.0))[:, 0], (counts[:, 0] > 0).astype(np.float64)


def _difference(data: Data, column_index: int) -> float:
    values = data.design.matrix[:, column_index]
    present, side = ~np.isnan(values), values > _middle(values)
    if not (side & present).any() or not (~side & present).any():
        return 0.0
    return abs(float(data.y[side & present].mean() - data.y[~side & present].mean()))


def _middle(values: FloatArray) -> float:
    """Return what splits a column: 0.5 for 0/1, else the median (if that is the maximum: the largest value below)."""
    present = values[~np.isnan(values)]
    if np.isin(present, (0.0, 1.0)).all():
        return 0.5
    middle = float(np.median(present))
    return middle if middle < present.max() else float(present[present < middle].max())


def _gaps(
    table: pd.DataFrame, data: Data, sensitive: Sequence[str], options: ErrorModelOptions, tick: Callable[[], None]
) -> list[dict[str, Any]]:
    """Return the disparity of each sensitive attribute in the score, and in the residuals of the other features."""
    columns = np.flatnonzero([column.feature not in sensitive for column in data.design.columns])
    if not sensitive or not columns.size:
        return []
    residuals = data.y - cross_validate(data, options, tick, columns, shuffled=False).predicted
    largest = float(np.abs(data.y).max() + np.ptp(data.y)) + 1.0
    before, after = (_disparities(table, outcome, sensitive, largest, options) for outcome in (data.y, residuals))
    return [
        {
            "attribute": name,
            "gap": raw.raw,
            "chance": raw.null_mean,
            "p": raw.adjusted_p,
            "left": left.raw,
            "left_chance": left.null_mean,
            "left_p": left.adjusted_p,
            "worst": raw.worst_group,
            "best": raw.best_group,
        }
        for name, raw, left in zip(sensitive, before, after, strict=True)
    ]


def _disparities(
    table: pd.DataFrame, outcome: FloatArray, sensitive: Sequence[str], largest: float, options: ErrorModelOptions
) -> list[Any]:
    """Return the disparity rows of `outcome` by each sensitive attribute, corrected by Holm's method."""
    from fp2.extension import Cut, adjust, disparity, memberships

    scores = table[["image_id", "subject_id"]].assign(value=outcome)
    rows = []
    for name in sensitive:
        merged = memberships(table, Cut(name, (name,))).merge(scores, on=["image_id", "subject_id"])
        rows.append(
            disparity(
                merged["value"],
                merged["group"],
                merged["subject_id"],
                images=merged["image_id"],
                value_range=(-largest, largest),
                n_permutations=10_000,
                n_bootstrap=0,
                seed=options.seed,
                alpha=options.alpha,
                min_subjects=options.min_subjects,
            )
        )
    return list(adjust(rows, "holm", options.alpha))
