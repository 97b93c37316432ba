"""A small decision tree as plain data: which questions lead to which mean score, and for how many people."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.fhibe.scores.design import Design

FloatArray = NDArray[np.float64]


def grow(
    design: Design, y: FloatArray, subjects: NDArray[np.intp], weights: FloatArray, *, depth: int, min_subjects: int
) -> dict[str, Any]:
    """Return scikit-learn's regression tree of `y` (n,) as a list of nodes, the root first.

    Every person weighs 1 in all, and a leaf holds at least `min_subjects` of the weight, so at least that many people.
    A node has `id, depth, mean` (over people's weight), `n_subjects, n_images`, and for a question `feature, column,
    value, threshold, low, high`: rows at or below the threshold go to `low` (without a value: to the side that the
    tree learned). `r2` is the tree's own, in the sample: a description, not a prediction.
    """
    from sklearn.tree import DecisionTreeRegressor

    share = min(0.5, max(0.02, min_subjects / float(weights.sum())))
    tree = DecisionTreeRegressor(max_depth=depth, min_weight_fraction_leaf=share, random_state=0)
    tree.fit(design.matrix, y, sample_weight=weights)
    inner, inside = tree.tree_, tree.decision_path(design.matrix).tocsc()
    nodes, levels = [], {0: 0}
    for node in range(inner.node_count):
        rows = inside.indices[inside.indptr[node] : inside.indptr[node + 1]]
        low, high = int(inner.children_left[node]), int(inner.children_right[node])
        found: dict[str, Any] = {
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
            found |= {
                "feature": column.feature,
                "column": column.name,
                "value": column.value,
                "threshold": float(inner.threshold[node]),
                "low": low,
                "high": high,
            }
        nodes.append(found)
    return {"nodes": nodes, "r2": float(tree.score(design.matrix, y, sample_weight=weights)), "depth": depth}
