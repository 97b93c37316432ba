"""A data set as the rest of the program sees it: a people table, and what its reader had to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fp2.tables import PEOPLE


@dataclass(frozen=True)
class Dataset:
    """People in pictures.

    `people` follows `fp2.tables.PEOPLE` with one `attr_<name>` column per attribute, each cell a list of plain labels
    (empty where the person gave none). `release` is the data set's own version string, if it has one. `notes` are
    single lines for the user: what was unusual, left out or assumed. `settings` is how it was read, where that can be
    chosen (JSON values, no paths); it goes into the results.
    """

    name: str
    release: str | None
    people: pd.DataFrame
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


_DTYPES = {"string": "str", "bool": "bool", "int64": "int64", "float64": "float64"}


def people_table(columns: dict[str, list[object]]) -> pd.DataFrame:
    """Return `columns` as a people table: the schema's columns first, in its order and types, then the attributes.

    Columns of the schema that may be missing (`set_id`, the box) are filled with missing values.

    Raises
    ------
    Fp2Error
        If another column of the schema is absent.
    """
    n_rows = len(columns["image_id"])
    optional = {
        "set_id": None,
        "box_x": float("nan"),
        "box_y": float("nan"),
        "box_w": float("nan"),
        "box_h": float("nan"),
    }
    filled = {**{name: [value] * n_rows for name, value in optional.items()}, **columns}
    attributes = [name for name in filled if name not in PEOPLE.names]
    frame = PEOPLE.check(pd.DataFrame({name: pd.Series(values, dtype="object") for name, values in filled.items()}))
    frame = frame.astype({column.name: _DTYPES[column.type] for column in PEOPLE.columns})
    return frame[[*PEOPLE.names, *attributes]]
