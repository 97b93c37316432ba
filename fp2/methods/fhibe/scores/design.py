"""The design matrix of error models and patterns: numbers, and a 0/1 column per frequent value of an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fp2.extension import ATTRIBUTE_PREFIX, FloatArray

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.intp]
IS = " = "


@dataclass(frozen=True)
class DesignColumn:
    """A column: its feature, and the value of an attribute that it indicates (None: a number)."""

    feature: str
    value: str | None = None

    @property
    def name(self) -> str:
        """`visible_keypoints`, or `hairstyle = None`."""
        return self.feature if self.value is None else f"{self.feature}{IS}{self.value}"


@dataclass(frozen=True)
class FeatureMatrix:
    """A matrix (n, p), NaN for missing numbers, and its columns (p,), grouped by feature."""

    matrix: FloatArray
    columns: tuple[DesignColumn, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The features, each once, in order."""
        return tuple(dict.fromkeys(column.feature for column in self.columns))

    def places(self, feature: str) -> IntArray:
        """Return the columns of a feature."""
        return np.flatnonzero([column.feature == feature for column in self.columns])

    def only(self, features: Sequence[str]) -> FeatureMatrix:
        """Return the design with the columns of `features` alone."""
        chosen = np.flatnonzero([column.feature in features for column in self.columns])
        return FeatureMatrix(self.matrix[:, chosen], tuple(self.columns[int(k)] for k in chosen))


def make_design(
    table: pd.DataFrame, numbers: Sequence[str], attributes: Sequence[str], min_subjects: int
) -> FeatureMatrix:
    """Return the predictors of the rows of `table`.

    Left out are numbers that are missing or constant, values of attributes that fewer than `min_subjects` subjects
    have or lack, and columns that equal an earlier one or its complement (`bald` and `hairstyle = None`).
    """
    subjects = table["subject_id"].to_numpy(dtype=object)
    matrix: list[FloatArray] = []
    columns: list[DesignColumn] = []
    for name in numbers:
        if name not in table.columns:
            continue
        values = table[name].to_numpy(dtype=np.float64)
        present = values[~np.isnan(values)]
        if present.size and np.ptp(present) > 0 and _rarest(values, subjects) >= min_subjects:
            matrix.append(values)
            columns.append(DesignColumn(name))
    for name in attributes:
        cells = table[ATTRIBUTE_PREFIX + name].tolist()
        for value in sorted({value for cell in cells for value in cell}):
            flags = np.array([value in cell for cell in cells], dtype=np.float64)
            if _rarest(flags, subjects) >= min_subjects:
                matrix.append(flags)
                columns.append(DesignColumn(name, value))
    seen: set[bytes] = set()
    distinct = []
    for k, column in enumerate(matrix):
        complement = 1.0 - column if np.isin(column, (0.0, 1.0)).all() else column
        if column.tobytes() not in seen and complement.tobytes() not in seen:
            distinct.append(k)
        seen.add(column.tobytes())
    return FeatureMatrix(
        np.column_stack([matrix[k] for k in distinct]) if distinct else np.empty((len(table), 0)),
        tuple(columns[k] for k in distinct),
    )


def _rarest(values: FloatArray, subjects: NDArray[np.object_]) -> int:
    """Return how many subjects have the rarer value of a 0/1 column; of another column, how many have a value."""
    present = ~np.isnan(values)
    if not np.isin(values[present], (0.0, 1.0)).all():
        return len(set(subjects[present]))
    return min(len(set(subjects[values == side])) for side in (0.0, 1.0))
